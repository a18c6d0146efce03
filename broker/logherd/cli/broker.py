"""`logherd broker`: one broker process in the foreground, until a signal."""

import sys
from pathlib import Path

from logherd.cli import exits
from logherd.settings.errors import SettingsError
from logherd.settings.load import Check

__all__ = ["run_broker"]


def run_broker(config: str, overrides: list[str], ready_file: str | None) -> int:
    """Check the configuration while the broker is being imported, then run it. Returns the exit code.

    When it serves, the broker writes `ready_file` at once and whole: JSON with `address`, `admin`, `nameServer` (each
    "host:port", with the ports it really took) and `pid`.
    """
    check = Check(Path(config), overrides)
    from logherd.app.process import run

    try:
        options = check.result()
    except SettingsError as error:
        sys.stderr.write(f"logherd broker: {error}\n")
        return exits.USAGE
    return run(options, ready_file=None if ready_file is None else Path(ready_file))
