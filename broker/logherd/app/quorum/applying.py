"""The state machine's side of a member: what has been applied, in pieces that leave others a turn, and the images."""

from collections.abc import Callable
from typing import Generic, TypeVar

from logherd.app.quorum.outcomes import StateMachine
from logherd.kit.checksum import crc32
from logherd.model.names import Position
from logherd.raft.core import RaftCore, make_image
from logherd.raft.record import Kind
from logherd.raftlog.log import RaftLog
from logherd.replication.epochs import NOWHERE
from logherd.replication.log import Image

__all__ = ["Applying", "ImageRule"]

_RECORDS_MAX = 2_000
"""Applied in one go; after that others get a turn."""

ResultT = TypeVar("ResultT")


class ImageRule:
    """An image is due after so many records, or so many bytes of log, whichever comes first."""

    def __init__(self, *, records: int, bytes_: int) -> None:
        self._records = records
        self._bytes = bytes_
        self._count = 0
        self._from: Position = NOWHERE

    def begin(self, at: Position) -> None:
        """Count from here."""
        self._count, self._from = 0, at

    def due(self, records: int, at: Position) -> bool:
        """Count `records` that reach to `at`."""
        self._count += records
        return self._count > 0 and (self._count >= self._records or at - self._from >= self._bytes)


class Applying(Generic[ResultT]):
    """One state machine and how far it is. `position` never falls."""

    def __init__(self, log: RaftLog, machine: StateMachine[ResultT], rule: ImageRule) -> None:
        """Load the newest image of the log. Raises: what `machine.load` does."""
        self._log = log
        self._machine = machine
        self._rule = rule
        self.position: Position = NOWHERE
        self.goal: Position = NOWHERE
        self.results: dict[Position, ResultT] = {}
        """By the end of the record, for whoever proposed it."""
        self.load(log.image())

    @property
    def behind(self) -> bool:
        """Whether there is more to apply."""
        return self.position < self.goal

    def load(self, image: Image | None) -> None:
        """Become what an image says."""
        if image is None:
            return
        self._machine.load(self._log.image_chunk(image, 0, image.size) or b"")
        self.position = image.point.position
        self.goal = max(self.position, self.goal)
        self._rule.begin(self.position)

    def apply_some(self, *, keep_results: bool) -> bool:
        """Apply records towards `goal`; whether an image is due."""
        records = self._log.records(self.position, self.goal)
        for record in records[:_RECORDS_MAX]:
            if record.kind is Kind.DATA:
                result = self._machine.apply(record)
                if keep_results:
                    self.results[record.end] = result
            self.position = record.end
        if len(records) <= _RECORDS_MAX:
            self.position = self.goal
        return self._rule.due(min(len(records), _RECORDS_MAX), self.position)

    def make_image(self, core: RaftCore, kept: Callable[[Image], None]) -> None:
        """Keep an image of the state; the core must know that it is applied up to here."""
        self._rule.begin(self.position)
        data = self._machine.save()
        image = make_image(core, self.position, data, crc32(data))
        self._log.keep_image(image, data)
        kept(image)
