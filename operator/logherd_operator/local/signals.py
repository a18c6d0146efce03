"""What signals mean to a keeper: SIGTERM is a person's Ctrl-C, and SIGUSR1 says that `logherd down` takes over."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

__all__ = ["LetGo", "stopping_signals"]


class LetGo(BaseException):  # like KeyboardInterrupt, which nothing on the way may take for an error
    """Leave the group to whoever asked for it, and end."""


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def _let_go(_number: int, _frame: FrameType | None) -> None:
    raise LetGo


@contextmanager
def stopping_signals() -> Iterator[None]:
    """While inside, the signals raise KeyboardInterrupt and LetGo."""
    before = [(number, signal.signal(number, handler)) for number, handler in _HANDLERS.items()]
    try:
        yield
    finally:
        for number, handler in before:
            signal.signal(number, handler)


_HANDLERS = {signal.SIGTERM: _interrupt, signal.SIGUSR1: _let_go}
