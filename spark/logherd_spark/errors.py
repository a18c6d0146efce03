"""Everything that can end a job or a task, each as one sentence for the person who started it."""

from logherd.kit.errors import LogHerdError
from logherd.wire.codes import response_name

__all__ = [
    "BrokerRefused", "DataLost", "OptionRefused", "RowRefused", "SourceError", "TopicMissing", "Unanswered",
    "WriterFenced",
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
