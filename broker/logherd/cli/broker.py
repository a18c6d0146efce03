"""`logherd broker`: one broker process in the foreground, until a signal."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from logherd.cli import exits
from logherd.settings.aside import CheckAside

__all__ = ["run_broker"]


@contextmanager
def _without(module: str) -> Iterator[None]:
    """Let imports inside find no `module`, unless it is loaded already."""
    if module in sys.modules:
        yield
        return
    sys.modules[module] = None  # type: ignore[assignment]
    try:
        yield
    finally:
        del sys.modules[module]


def run_broker(config: str, overrides: list[str], ready_file: str | None) -> int:
    """Check the configuration while the broker is being imported, then run it. Returns the exit code.

    When it serves, the broker writes `ready_file` at once and whole: JSON with `address`, `admin`, `nameServer` (each
    "host:port", with the ports it really took) and `pid`.
    """
    check = CheckAside(Path(config), overrides)
    with _without("typing_extensions"):
        import msgspec  # noqa: F401 -- asks for it first and makes do with typing; it takes a tenth of the whole start
    from logherd.app.process import run
    from logherd.settings.errors import SettingsError

    try:
        options = check.result()
    except SettingsError as error:
        sys.stderr.write(f"logherd broker: {error}\n")
        return exits.USAGE
    return run(options, ready_file=None if ready_file is None else Path(ready_file))
