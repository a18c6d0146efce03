"""What signals mean to a keeper: SIGTERM and a terminal that is closed are a person's Ctrl-C, and SIGUSR1 says that
`logherd down` takes over.
"""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

__all__ = ["LetGo", "finishing", "stopping_signals", "undivided"]


class LetGo(BaseException):  # like KeyboardInterrupt, which nothing on the way may take for an error
    """Leave the group to whoever asked for it, and end."""


class _Held:
    """What came while nothing might come in between."""

    def __init__(self) -> None:
        self.holding = False
        self.heard: list[int] = []

    def keep(self, number: int) -> bool:
        if self.holding:
            self.heard.append(number)
        return self.holding


_HELD = _Held()


def _interrupt(number: int, _frame: FrameType | None) -> None:
    if not _HELD.keep(number):
        raise KeyboardInterrupt


def _let_go(number: int, _frame: FrameType | None) -> None:
    if not _HELD.keep(number):
        raise LetGo


@contextmanager
def undivided() -> Iterator[None]:
    """While inside, what the signals would raise waits: who is started here is also written down here. What is started
    hears them as ever, unlike with a mask, which children inherit."""
    _HELD.holding = True
    try:
        yield
    finally:
        _HELD.holding = False
        heard, _HELD.heard = _HELD.heard, []
        if heard:
            signal.raise_signal(heard[0])


@contextmanager
def stopping_signals() -> Iterator[None]:
    """While inside, the signals raise KeyboardInterrupt and LetGo, after what is `undivided`. What is ignored, as by
    nohup, stays so."""
    heard = [number for number in _HANDLERS if signal.getsignal(number) is not signal.SIG_IGN]
    before = [(number, signal.signal(number, _HANDLERS[number])) for number in heard]
    try:
        yield
    finally:
        for number, handler in before:
            signal.signal(number, handler)


@contextmanager
def finishing() -> Iterator[None]:
    """While inside, no signal stops us half-way: what is being stopped takes its time, and a second Ctrl-C no less."""
    before = [(number, signal.signal(number, signal.SIG_IGN)) for number in _HANDLERS]
    try:
        yield
    finally:
        for number, handler in before:
            signal.signal(number, handler)


_HANDLERS = {
    signal.SIGINT: _interrupt, signal.SIGTERM: _interrupt, signal.SIGHUP: _interrupt, signal.SIGUSR1: _let_go,
}  # fmt: skip
