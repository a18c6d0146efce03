"""Everything that can end a job or a task, each as one sentence for the person who started it."""

from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

from logherd.kit.errors import LogHerdError
from logherd.wire.codes import response_name

__all__ = [
    "BrokerRefused", "DataLost", "OptionRefused", "RowRefused", "SourceError", "TopicMissing", "Unanswered",
    "WriterFenced", "in_one_sentence",
]  # fmt: skip


class SourceError(LogHerdError):
    """Base of this package's errors."""


class OptionRefused(SourceError):
    """An option is unknown, missing, or has a value that means nothing."""


class RowRefused(SourceError):
    """A row cannot be a message."""


class DataLost(SourceError):
    """Messages between the offsets asked for are not there any more."""


class TopicMissing(SourceError):
    """No broker group has the topic."""


class Unanswered(SourceError):
    """Nobody answered in the time allowed; what was tried last is in the text."""


class BrokerRefused(SourceError):
    """A broker said no, and asking again would not help."""

    def __init__(self, code: int, remark: str | None, address: str) -> None:
        name = response_name(code)
        super().__init__(f"the broker at {address} refused ({code} {name}): {remark or 'no reason given'}")
        self.code = code


class WriterFenced(BrokerRefused):
    """A newer run of the same writer has begun."""


_P = ParamSpec("_P")
_R = TypeVar("_R")


def in_one_sentence(method: Callable[_P, _R]) -> Callable[_P, _R]:
    """For what Spark calls: an error of ours leaves without the way that it took, which Spark would show in full."""

    @wraps(method)
    def call(*args: _P.args, **kwargs: _P.kwargs) -> _R:
        try:
            return method(*args, **kwargs)
        except SourceError as error:
            raise error.with_traceback(None) from None

    return call
