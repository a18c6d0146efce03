"""`logherd broker` and `logherd controller`: one process in the foreground, until a signal.

Each checks its configuration while the rest of it is being imported, then runs. The result is the exit code. When it
serves, it writes `ready_file` at once and whole: JSON with the addresses ("host:port", with the ports that it really
took) and `pid`.
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from logherd.cli import exits
from logherd.settings.aside import CheckAside

__all__ = ["PROCESSES", "run_broker", "run_controller"]


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
    """Run a broker. Its addresses are `address`, `admin` and `nameServer`."""
    check = CheckAside("broker", Path(config), overrides)
    with _without("typing_extensions"):
        import msgspec  # noqa: F401 -- asks for it first and makes do with typing; it takes a tenth of the whole start
    from logherd.app.process import run
    from logherd.settings.errors import SettingsError
    from logherd.settings.options import BrokerOptions

    try:
        options = check.result(BrokerOptions)
    except SettingsError as error:
        return _wrong("broker", error)
    return run(options, ready_file=None if ready_file is None else Path(ready_file))


def run_controller(config: str, overrides: list[str], ready_file: str | None) -> int:
    """Run a controller. Its addresses are `address`, `peer`, `admin` and `nameServer`; `node` is its name."""
    check = CheckAside("controller", Path(config), overrides)
    with _without("typing_extensions"):
        import msgspec  # noqa: F401 -- as above
    from logherd.app.controllers.process import run
    from logherd.settings.errors import SettingsError
    from logherd.settings.options import ControllerOptions

    try:
        options = check.result(ControllerOptions)
    except SettingsError as error:
        return _wrong("controller", error)
    return run(options, ready_file=None if ready_file is None else Path(ready_file))


def _wrong(command: str, error: Exception) -> int:
    sys.stderr.write(f"logherd {command}: {error}\n")
    return exits.USAGE


PROCESSES = {"broker": run_broker, "controller": run_controller}
"""By the name of the command."""
