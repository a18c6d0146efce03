"""`logherd broker`: one broker process in the foreground, until a signal."""

import sys
from importlib import import_module
from pathlib import Path

from logherd.cli import exits
from logherd.settings.errors import SettingsError
from logherd.settings.load import Check

__all__ = ["run_broker"]


def run_broker(config: str, overrides: list[str]) -> int:
    """Check the configuration while the broker is being imported, then run it. Returns the exit code."""
    check = Check(Path(config), overrides)
    process = import_module("logherd.app.process")
    try:
        options = check.result()
    except SettingsError as error:
        sys.stderr.write(f"logherd broker: {error}\n")
        return exits.USAGE
    code: int = process.run(options)
    return code
