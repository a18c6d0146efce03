"""What signals mean to a keeper: SIGTERM and a terminal that is closed are a person's Ctrl-C, and SIGUSR1 says that
`logherd down` takes over.
"""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

__all__ = ["LetGo", "finishing", "stopping_signals"]


class LetGo(BaseException):  # like KeyboardInterrupt, which nothing on the way may take for an error
    """Leave the group to whoever asked for it, and end."""


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def _let_go(_number: int, _frame: FrameType | None) -> None:
    raise LetGo


@contextmanager
def stopping_signals() -> Iterator[None]:
    """While inside, the signals raise KeyboardInterrupt and LetGo. What is ignored, as by nohup, stays so."""
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
    numbers = (signal.SIGINT, *_HANDLERS)
    before = [(number, signal.signal(number, signal.SIG_IGN)) for number in numbers]
    try:
        yield
    finally:
        for number, handler in before:
            signal.signal(number, handler)


_HANDLERS = {signal.SIGTERM: _interrupt, signal.SIGHUP: _interrupt, signal.SIGUSR1: _let_go}
