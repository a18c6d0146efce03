"""What a command says on standard error when it takes long: that it goes on, and how far it is if that is known."""

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

__all__ = ["progress"]

_FIRST_SECONDS = 2.0
_TERMINAL_SECONDS, _LINE_SECONDS = 0.5, 10.0
_MIB = 1 << 20
_ERASE = "\r\x1b[K"


@contextmanager
def progress(doing: str) -> Iterator[Callable[[int, int], None]]:
    """Whoever waits longer than two seconds is told that we are `doing` it: on a terminal in one line that goes again,
    else a line each ten seconds. What it gives takes how many bytes are done, and of how many; calling it is cheap."""
    ended, seen = threading.Event(), [0, 0]

    def see(done: int, of: int) -> None:
        seen[0], seen[1] = done, of

    teller = threading.Thread(target=_tell, args=(doing, seen, ended), name="progress", daemon=True)
    teller.start()
    try:
        yield see
    finally:
        ended.set()
        teller.join()


def _tell(doing: str, seen: list[int], ended: threading.Event) -> None:
    """`seen` is written by another thread: bytes done, and of how many."""
    began, live = time.monotonic(), sys.stderr.isatty()
    if ended.wait(_FIRST_SECONDS):
        return
    with suppress(OSError):  # nobody reads it
        while True:
            line = _line(doing, seen[0], seen[1], time.monotonic() - began)
            sys.stderr.write(_ERASE + line if live else line + "\n")
            sys.stderr.flush()
            if ended.wait(_TERMINAL_SECONDS if live else _LINE_SECONDS):
                break
        if live:
            sys.stderr.write(_ERASE)
            sys.stderr.flush()


def _line(doing: str, done: int, of: int, seconds: float) -> str:
    far = f"{done / _MIB:,.0f} of {of / _MIB:,.0f} MiB, " if of else ""
    return f"logherd: {doing}: {far}{seconds:.0f} s"
