"""The way in. `logherd broker` and `logherd controller` go straight to the process; all else through the umbrella.

A broker is started often, in small memory, and its start is part of every outage; so is a controller's. So their plain
form is recognised here by hand and never imports the command-line library; any other form of it (`--help`, a mistake)
takes the long way.
"""

import gc
import io
import os
import sys
from collections.abc import Sequence

from logherd.cli import exits

__all__ = ["main"]

_ALLOCATIONS = 50_000
"""Between two looks for garbage in a command for people: it mostly imports, and looking took a fifth of its time."""


def main() -> None:
    """Entry point of the `logherd` command and of `python -m logherd`. Ends the process."""
    try:
        _stand_in_for_closed()
        _show_all_letters()
        code = run(sys.argv[1:])
    except KeyboardInterrupt:  # while what hears Ctrl-C is being imported; so what takes long is imported in here
        code = exits.INTERRUPTED
    sys.exit(code)


def _stand_in_for_closed() -> None:
    """Have all three standard streams, where whoever started us has closed one: a file of the store would get its
    number, and with it what others write there, and Python has nothing to write to."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # it gets the lowest number that is free, which is this one
            os.set_inheritable(number, True)  # noqa: FBT003 -- has no name
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode))  # noqa: SIM115, PTH123 -- as long as the process


def _show_all_letters() -> None:
    """Write what the encoding of standard output lacks as its number, as Python does on standard error: a message is
    not to end whoever shows it."""
    if isinstance(sys.stdout, io.TextIOWrapper) and sys.stdout.errors == "strict":
        sys.stdout.reconfigure(errors="backslashreplace")


def run(arguments: Sequence[str]) -> int:
    """Run one command line; the result is the exit code (see `logherd.cli.exits`)."""
    plain = plain_process_arguments(arguments)
    if plain is not None:
        from logherd.cli.processes import start_process

        return start_process(arguments[0], *plain)
    gc.set_threshold(_ALLOCATIONS)
    import signal

    # Nothing is there yet that would have to be put away: Ctrl-C simply ends us, without a word.
    heard = signal.getsignal(signal.SIGINT)
    if heard is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    import logging

    from logherd.cli.umbrella import run_umbrella
    from logherd.telemetry.log import configure

    configure(sys.stderr, level=logging.WARNING)  # what a client goes on after, with all that it knows of it
    signal.signal(signal.SIGINT, heard)
    return run_umbrella(arguments)


def plain_process_arguments(arguments: Sequence[str]) -> tuple[str, list[str], str | None, bool] | None:
    """(file, overrides, ready file, whether guarded) of `broker|controller [--guarded] --config FILE
    [--set KEY=VALUE ...] [--ready-file FILE]`; `--guarded` stands first.

    None if the arguments are anything else.
    """
    if not arguments or arguments[0] not in {"broker", "controller"}:
        return None
    guarded = arguments[1:2] == ["--guarded"]
    options = arguments[2 if guarded else 1 :]
    if len(options) % 2:
        return None
    config: str | None = None
    ready_file: str | None = None
    overrides: list[str] = []
    for option, value in zip(options[::2], options[1::2], strict=True):
        if option == "--set":
            overrides.append(value)
        elif option == "--config" and config is None:
            config = value
        elif option == "--ready-file" and ready_file is None:
            ready_file = value
        else:
            return None
    return None if config is None else (config, overrides, ready_file, guarded)
