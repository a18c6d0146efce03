"""Where a bench works, and how it ends before its time: signals unwind it, nothing of it runs on, its folder goes.

Every bench that starts processes or writes files is run by `run_bench` and works in a `bench_place`.
"""

import asyncio
import contextlib
import ctypes
import os
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn, TypeVar

import uvloop

__all__ = ["bench_place", "run_bench", "run_loop"]

_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
_PR_SET_CHILD_SUBREAPER = 36
_GONE_SECONDS = 60.0
_LOOK_SECONDS = 0.02

ResultT = TypeVar("ResultT")


def run_bench(main: Callable[[], int | None]) -> NoReturn:
    """Run it to its end; the exit code is its own, or 128 and the number of the signal that ended it."""
    for number in _SIGNALS:
        if signal.getsignal(number) is not signal.SIG_IGN:  # as nohup has it
            signal.signal(number, _end)
    # Whoever loses its parent meanwhile becomes ours, and is ended with the others.
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    sys.exit(main())


def _end(number: int, _frame: FrameType | None) -> NoReturn:
    """Unwind as Ctrl-C does. What is being ended takes its time, so a second signal changes nothing."""
    for each in _SIGNALS:
        signal.signal(each, signal.SIG_IGN)
    raise SystemExit(128 + number)


def run_loop(work: Coroutine[Any, Any, ResultT]) -> ResultT:
    """`uvloop.run` of a bench: the same signals cancel the work, then unwind. Raised in the midst of a protocol's
    callback their exit would be taken for that callback's error, and the bench would go on."""
    ending: list[int] = []

    async def cancellable() -> ResultT:
        loop, task = asyncio.get_running_loop(), asyncio.current_task()
        assert task is not None

        def end(number: int) -> None:
            if not ending:
                ending.append(number)
                task.cancel()

        taken = [number for number in _SIGNALS if signal.getsignal(number) is _end]
        for number in taken:
            loop.add_signal_handler(number, end, number)
        try:
            return await work
        finally:
            for number in taken:
                loop.remove_signal_handler(number)
                signal.signal(number, signal.SIG_IGN if ending else _end)

    try:
        return uvloop.run(cancellable())
    finally:
        if ending:
            raise SystemExit(128 + ending[0])


@contextmanager
def bench_place() -> Iterator[Path]:
    """An empty folder. Behind the block no process that was started here lives, and the folder is gone."""
    folder = Path(tempfile.mkdtemp(prefix="logherd-bench-"))
    try:
        yield folder
    finally:
        _end_children()
        shutil.rmtree(folder)


def _end_children() -> None:
    """Kill what was not ended in order, guardians before those whom they would start again. Raises: RuntimeError."""
    deadline = time.monotonic() + _GONE_SECONDS
    while living := _children():
        for pid in living:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        if time.monotonic() > deadline:
            raise RuntimeError(f"processes that cannot be killed: {living}")
        time.sleep(_LOOK_SECONDS)


def _children() -> list[int]:
    """Those that live. What has ended is collected, so that its children become ours."""
    living = []
    for listed in Path("/proc/self/task").glob("*/children"):
        with contextlib.suppress(FileNotFoundError):
            for pid in map(int, listed.read_text().split()):
                with contextlib.suppress(ChildProcessError):
                    if os.waitpid(pid, os.WNOHANG) == (0, 0):
                        living.append(pid)
    return living
