"""One broker process from start to exit code."""

import asyncio
import gc
import json
import logging
import os
import signal
import sys
from pathlib import Path

import uvloop

from logherd.app.broker import Broker, BrokerFailed
from logherd.kit.errors import LogHerdError
from logherd.settings.options import BrokerOptions
from logherd.telemetry.log import Log, configure

__all__ = ["run"]

EXIT_OK = 0
EXIT_CANNOT_START = 3
EXIT_STORE_FAILED = 4
_SWITCH_INTERVAL_SECONDS = 0.0005

_log = Log("logherd.app")


def run(options: BrokerOptions, *, ready_file: Path | None) -> int:
    """Run a broker until SIGTERM or SIGINT. Blocks.

    Returns 0 after an orderly stop, 3 if it cannot start (one line says why), 4 if the store failed while it ran.
    """
    configure(sys.stderr, style=options.log.format, level=logging.getLevelNamesMapping()[options.log.level.upper()])
    # The writer thread needs the interpreter for a moment after each flush; the default of 5 ms would be the latency.
    sys.setswitchinterval(_SWITCH_INTERVAL_SECONDS)
    return uvloop.run(_main(options, ready_file))


async def _main(options: BrokerOptions, ready_file: Path | None) -> int:
    loop = asyncio.get_running_loop()
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    try:
        broker = await Broker.start(options, on_failure=stop.set)
    except (LogHerdError, OSError) as error:
        # Log lines cut long values, and what to do about it stands at the end of the reason.
        sys.stderr.write(f"logherd broker: {error}\n")
        _log.error("the broker cannot start", kind=type(error).__name__)
        return EXIT_CANNOT_START
    # What was imported and built stays for good: a full collection (15 to 50 ms of silence) need not look at it.
    gc.freeze()
    loop.set_exception_handler(lambda _loop, context: _unhandled(broker, context))
    if ready_file is not None:
        _write_whole(ready_file, json.dumps(broker.addresses() | {"pid": os.getpid()}))
    _log.info("the broker serves", **broker.addresses())
    try:
        await stop.wait()
        broker.check()
        _log.info("the broker stops", cause="signal")
        await broker.stop()
    except BrokerFailed as error:
        _log.error("the broker stops, its store failed", reason=error)
        await broker.abandon()
        return EXIT_STORE_FAILED
    return EXIT_OK


def _unhandled(broker: Broker, context: dict[str, object]) -> None:
    """An exception that nobody caught. Trouble of one socket is that socket's; anything else may have left answers
    hanging or the log wrong, so the process ends and recovery decides."""
    error = context.get("exception")
    if isinstance(error, BaseException):
        _log.error("unhandled error", cause=error, where=str(context.get("message")))
        if not isinstance(error, OSError):
            broker.fail(error)
    else:
        _log.warning("event loop complains", message_text=str(context.get("message")))


def _write_whole(path: Path, text: str) -> None:
    """Whoever waits for the file must never read half of it."""
    part = path.with_name(path.name + ".part")
    part.write_text(text)
    part.replace(path)
