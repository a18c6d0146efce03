"""`logherd broker` and `logherd controller`: one process in the foreground, until a signal.

Each checks its configuration while the rest of it is being imported, then runs. The result is the exit code. When it
serves, it writes `ready_file` at once and whole: JSON with the addresses ("host:port", with the ports that it really
took) and `pid`. Guarded, the command becomes the guardian, whose pid is its own, and the process is the guardian's
child: the file then names `guardian`, too, and is written again in each of the child's lives.
"""

import gc
import os
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from logherd.cli import exits
from logherd.settings.aside import CheckAside

__all__ = ["guardian_command", "import_processes", "plain_command", "start_process"]

_INIT = 1


@contextmanager
def _not_collecting() -> Iterator[None]:
    """Nothing that is imported inside becomes garbage, and looking for some takes a fifth of the time."""
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()


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


@contextmanager
def _importing() -> Iterator[None]:
    """Import inside what a process is made of."""
    with _not_collecting():
        with _without("typing_extensions"):
            import msgspec  # noqa: F401 -- asks for it first and makes do with typing; it takes a tenth of the whole start
        yield


def start_process(kind: str, config: str, overrides: list[str], ready_file: str | None, guarded: bool) -> int:
    """Run a `broker` or a `controller`; guarded, this does not return unless the configuration is wrong."""
    if guarded:
        return _become_guardian(kind, config, overrides, ready_file)
    run = _run_controller if kind == "controller" else _run_broker
    return run(config, overrides, ready_file)


def _run_broker(config: str, overrides: list[str], ready_file: str | None) -> int:
    """Run a broker. Its addresses are `address`, `admin` and `nameServer`."""
    check = CheckAside("broker", Path(config), overrides)
    with _importing():
        from logherd.app.process import run
        from logherd.settings.errors import SettingsError
        from logherd.settings.options import BrokerOptions

    try:
        options = check.result(BrokerOptions)
    except SettingsError as error:
        return _wrong("broker", error)
    return run(options, ready_file=None if ready_file is None else Path(ready_file))


def _run_controller(config: str, overrides: list[str], ready_file: str | None) -> int:
    """Run a controller. Its addresses are `address`, `peer`, `admin` and `nameServer`; `node` is its name."""
    check = CheckAside("controller", Path(config), overrides)
    with _importing():
        from logherd.app.controllers.process import run
        from logherd.settings.errors import SettingsError
        from logherd.settings.options import ControllerOptions

    try:
        options = check.result(ControllerOptions)
    except SettingsError as error:
        return _wrong("controller", error)
    return run(options, ready_file=None if ready_file is None else Path(ready_file))


def import_processes() -> None:
    """Import now what both kinds of processes are made of, for whoever forks them (`nursery`)."""
    with _importing():
        import logherd.app.controllers.process
        import logherd.app.process  # noqa: F401


def plain_command(kind: str, config: str, overrides: Sequence[str], ready_file: str | None) -> list[str]:
    """The command line of such a process without a guardian."""
    command = [sys.executable, "-P", "-m", "logherd", kind, "--config", config]
    for override in overrides:
        command += ["--set", override]
    if ready_file is not None:
        command += ["--ready-file", ready_file]
    return command


def guardian_command(
    kind: str, config: str, overrides: Sequence[str], ready_file: str | None, *, waiting: str | None = None
) -> list[str]:
    """The command line of its guardian; `waiting`: who waits to be the first life, as the guardian's option says it.

    The configuration is checked here, too: what is wrong with it must be told at once, not by a child, for ever.
    Raises: SettingsError.
    """
    from logherd.app.guarded.command import broker_guardian, controller_guardian

    if kind == "controller":
        arguments = controller_guardian(CheckAside("controller", Path(config), overrides).values())
    else:
        values = CheckAside("broker", Path(config), overrides).values()
        if values["replication"]["classic_ha"]["master"] is not None:
            from logherd.settings.errors import SettingsError

            raise SettingsError(
                f"{config}: replication.classicHa.master is not right with --guarded: a broker that follows a RocketMQ "
                "master takes no clients, whose connections a guardian could keep; start it without"
            )
        arguments = broker_guardian(values)
    if waiting is not None:
        arguments += ["--waiting", waiting]
    command = plain_command(kind, config, overrides, ready_file)
    return [sys.executable, "-P", "-m", "logherd_guardian", *arguments, "--", *command]


def _become_guardian(kind: str, config: str, overrides: list[str], ready_file: str | None) -> int:
    from logherd.settings.errors import SettingsError

    _hold_stops()
    try:
        command = guardian_command(kind, config, overrides, ready_file)
    except SettingsError as error:
        return _wrong(kind, error)
    return os.execv(command[0], command)  # noqa: S606


def _hold_stops() -> None:
    """As the first process of a container: the kernel drops a signal that it does not handle, and nobody tells it again
    before the pod's time is over. What is held back waits, also over `exec`, for the guardian, which hears it."""
    if os.getpid() == _INIT:
        signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGTERM, signal.SIGINT, signal.SIGQUIT))


def _wrong(command: str, error: Exception) -> int:
    from logherd.settings.errors import SettingsUncheckedError

    sys.stderr.write(f"logherd {command}: {error}\n")
    return exits.FAILED if isinstance(error, SettingsUncheckedError) else exits.USAGE
