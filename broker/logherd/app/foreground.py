"""One process from start to exit code: signals, the ready file, failures. The same for brokers and controllers."""

import asyncio
import faulthandler
import gc
import json
import logging
import os
import signal
import sys
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Protocol

import uvloop

from logherd.app.guarded.lent import Lent, inherit
from logherd.kit.errors import LogHerdError
from logherd.settings.options import LogOptions
from logherd.store.files import NO_SPACE
from logherd.telemetry.log import Log, configure

__all__ = ["Server", "ServerFailed", "run_server"]

EXIT_OK = 0
EXIT_CANNOT_START = 3
EXIT_STORE_FAILED = 4
EXIT_STARTS_AGAIN = 5
_EXEC = -1
_SWITCH_INTERVAL_SECONDS = 0.0005

_log = Log("logherd.app")


class ServerFailed(LogHerdError):
    """What keeps the process right has failed while it ran: it must end without writing."""

    starts_again = False
    """Whether the cause is dealt with once the server was abandoned, so that another process may carry on."""


class Server(Protocol):
    """What a process runs. `stop` and `check` raise ServerFailed."""

    def addresses(self) -> dict[str, str]:
        """What was bound, each "host:port", and names that go with it; empty if nobody is to come here."""

    def check(self) -> None:
        """Raises: ServerFailed if it has failed."""

    def fail(self, error: BaseException) -> None:
        """Something broke that keeps it right; it must not go on."""

    async def stop(self) -> None:
        """Stop in order."""

    async def abandon(self) -> None:
        """Let go of everything without writing."""


Start = Callable[[Lent, Callable[[], None]], Awaitable[Server]]
"""Starts a server that accepts when this returns; it is given what a guardian has lent to this process, and what to
call once when the server fails."""


def run_server(kind: str, start: Start, log: LogOptions, *, ready_file: Path | None) -> int:
    """Run until SIGTERM or SIGINT. Blocks. `kind` is the process' name in what it says.

    A guardian, if there is one, hears when the server accepts connections and when it is about to stop.
    Returns 0 after an orderly stop, 3 if it cannot start (one line says why), 4 if the store failed while it ran, 5
    if it only has to be started again: its guardian does so; without one this process becomes the next by `exec`, if
    nobody has told it to stop.
    """
    configure(sys.stderr, style=log.format, level=logging.getLevelNamesMapping()[log.level.upper()])
    faulthandler.enable()  # SIGBUS, SIGSEGV and the like: where each thread was, to stderr; costs nothing until then
    # The writer thread needs the interpreter for a moment after each flush; the default of 5 ms would be the latency.
    sys.setswitchinterval(_SWITCH_INTERVAL_SECONDS)
    code = uvloop.run(_main(kind, start, ready_file))
    if code == _EXEC:
        os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])  # noqa: S606 -- this very command again
    return code


async def _main(kind: str, start: Start, ready_file: Path | None) -> int:
    loop = asyncio.get_running_loop()
    stop, signalled = asyncio.Event(), asyncio.Event()

    def end() -> None:
        signalled.set()
        stop.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, end)
    try:
        lent = inherit()
        if lent.keeper.guardian is not None:
            _outlast_what_is_forwarded(loop)
        server = await start(lent, stop.set)
    except (LogHerdError, OSError) as error:
        # Log lines cut long values, and what to do about it stands at the end of the reason.
        sys.stderr.write(f"logherd {kind}: {error}\n")
        _log.error("process cannot start", process=kind, kind=type(error).__name__)
        return EXIT_CANNOT_START
    # What was imported and built stays for good: a full collection (15 to 50 ms of silence) need not look at it.
    gc.freeze()
    loop.set_exception_handler(lambda _loop, context: _unhandled(server, context))
    told = _tell(kind, server.addresses(), lent, ready_file)
    try:
        if told:
            await stop.wait()
        lent.keeper.ready(accepting=False)
        server.check()
        _log.info("process stops", process=kind, cause="signal" if told else "no ready file")
        await server.stop()
    except ServerFailed as error:
        if error.starts_again:
            _log.warning("process ends, to be started again", process=kind, reason=error)
        else:
            _log.error("process stops, its store failed", process=kind, reason=error)
        await server.abandon()
        if error.starts_again:
            ends = signalled.is_set() or lent.keeper.guardian is not None
            return EXIT_STARTS_AGAIN if ends else _EXEC
        return EXIT_STORE_FAILED
    return EXIT_OK if told else EXIT_CANNOT_START


def _outlast_what_is_forwarded(loop: asyncio.AbstractEventLoop) -> None:
    """A guardian forwards these; whoever means a reload by one would have a failover."""
    for number in (signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2):
        loop.add_signal_handler(number, _ignored, number)


def _ignored(number: signal.Signals) -> None:
    _log.warning("signal ignored: a stop is SIGTERM, and the next process reads the settings again", signal=number.name)


def _tell(kind: str, addresses: dict[str, str], lent: Lent, ready_file: Path | None) -> bool:
    """Say that the process serves, unless nobody is to come. False: who waits for the ready file would wait for ever;
    one line has said why."""
    if not addresses:
        return True
    if ready_file is not None:
        try:
            _write_whole(ready_file, json.dumps(addresses | _process_ids(lent)))
        except (OSError, ValueError) as error:  # a path without a name is a wrong value
            reason = error.strerror if isinstance(error, OSError) else "it names no file"
            sys.stderr.write(f"logherd {kind}: --ready-file {ready_file}: cannot be written: {reason}\n")
            return False
    lent.keeper.ready()
    _log.info("process serves", process=kind, **addresses)
    return True


def _process_ids(lent: Lent) -> dict[str, int]:
    """`pid` serves and changes with each death; `guardian` is whom to ask for a stop, if there is one."""
    guardian = lent.keeper.guardian
    return {"pid": os.getpid()} if guardian is None else {"pid": os.getpid(), "guardian": guardian}


def _unhandled(server: Server, context: dict[str, object]) -> None:
    """An exception that nobody caught. Trouble of one socket is that socket's; anything else may have left answers
    hanging or the log wrong, so the process ends and recovery decides."""
    error = context.get("exception")
    if isinstance(error, BaseException):
        _log.error("unhandled error", cause=error, where=str(context.get("message")))
        if not isinstance(error, OSError):
            server.fail(error)
    else:
        _log.warning("event loop complains", message_text=str(context.get("message")))


def _write_whole(path: Path, text: str) -> None:
    """Whoever waits for the file must never read half of it. Raises: OSError, ValueError."""
    part = path.with_name(path.name + ".part")
    try:
        part.write_text(text)
    except OSError as error:
        with suppress(OSError):  # a full disk lets it be made
            part.unlink()
        if error.errno not in NO_SPACE:
            raise
        _write_over(path, text, error)
    else:
        part.replace(path)


def _write_over(path: Path, text: str, error: OSError) -> None:
    """On a full disk: into the block of what the life before wrote, with one write; spaces behind take what was longer.

    Raises: OSError, `error` if there is no such file.
    """
    try:
        file = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        raise error from None
    try:
        os.pwrite(file, text.encode().ljust(os.fstat(file).st_size), 0)
    finally:
        os.close(file)
