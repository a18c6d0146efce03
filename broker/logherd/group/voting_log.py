"""A broker's log as the Raft core wants it: its own records are notes among the broker's, and promises are handed on.

    note = kind u8 | body                       kinds as in raft.record: 1 no-op, 2 members, and members after a reset

The founders of a group stand before its first record, so they are no note: each start is told them. From then on the
members are a note in the kept part of the log; `VotingCore.pinned` says which, and a leader writes a young one in time.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Protocol

from logherd.group.output import Cut, Event, Installed, Promise
from logherd.kit.errors import ensure
from logherd.model.names import Epoch, Position
from logherd.raft.members import Configuration
from logherd.raft.record import HEADER_SIZE, Kind, Record
from logherd.raft.store import HardState
from logherd.replication.epochs import ORIGIN, EpochHistory
from logherd.replication.log import Image, ReplicaLog, Span
from logherd.replication.messages import ReplicaId

__all__ = ["NotedLog", "VotingLog"]

_HEADER = bytes(HEADER_SIZE)


class NotedLog(ReplicaLog, Protocol):
    """A broker's log in which a leadership can leave notes of its own."""

    def append_note(self, epoch: Epoch, note: bytes) -> Position:
        """Append a record that holds the note, in the epoch that has begun; gives its end."""

    def notes(self, after: Position, upto: Position) -> list[tuple[Position, bytes]]:
        """The notes whose records end in (after, upto], each with that end, oldest first. Asked after every write."""


class VotingLog:
    """See raft.store.LogStore. Remembers what the group's shell must be told of: promises, cuts, an installed image."""

    def __init__(self, log: NotedLog, hard: HardState, founders: tuple[ReplicaId, ...]) -> None:
        self._log = log
        self._hard = hard
        self._founding = Image("founding", ORIGIN, 0, 0, 0, Configuration(founders).encode())
        self.keep: Promise | None = None
        self.news: list[Event] = []

    # ---- the broker's log --------------------------------------------------------------------------------------------

    @property
    def end(self) -> Position:
        """See ReplicaLog."""
        return self._log.end

    @property
    def epochs(self) -> EpochHistory:
        """See ReplicaLog."""
        return self._log.epochs

    @property
    def shown(self) -> Position:
        """See ReplicaLog."""
        return self._log.shown

    def read(self, after: Position, bytes_max: int) -> Span:
        """See ReplicaLog."""
        return self._log.read(after, bytes_max)

    def write(self, span: Span, after: Position) -> None:
        """See ReplicaLog."""
        self._log.write(span, after)

    def truncate(self, at: Position) -> None:
        """See ReplicaLog."""
        self._log.truncate(at)
        self.news.append(Cut(at))

    def image(self) -> Image | None:
        """Where the log begins. Only before the first record are the members known from there."""
        image = self._log.image()
        if image is None:
            return self._founding
        return replace(image, note=Configuration().encode())

    def image_chunk(self, image: Image, offset: int, bytes_max: int) -> bytes | None:
        """See ReplicaLog."""
        return self._log.image_chunk(self._bare(image), offset, bytes_max)

    def staged(self, image: Image) -> int:
        """See ReplicaLog."""
        return self._log.staged(self._bare(image))

    def stage(self, image: Image, offset: int, data: bytes | memoryview) -> None:
        """See ReplicaLog."""
        self._log.stage(self._bare(image), offset, data)

    def install(self, image: Image) -> None:
        """See ReplicaLog."""
        self._log.install(self._bare(image))
        self.news.append(Installed(image))

    def _bare(self, image: Image) -> Image:
        """The image as the broker's log gave it."""
        return replace(image, note=b"")

    # ---- Raft's own records ------------------------------------------------------------------------------------------

    def hard_state(self) -> HardState:
        """The newest promise."""
        return self._hard

    def keep_hard_state(self, state: HardState) -> None:
        """Hand it on; whoever flushes the log keeps it first."""
        self._hard = state
        self.keep = Promise(state.term, state.vote, state.doubtful, state.cluster.reset)

    def append(self, kind: Kind, epoch: Epoch, body: bytes) -> Position:
        """Append a note. That of a rebuilt group stands in the last epoch of its log: the next leader's barrier begins
        another one, and nobody who has other records of that epoch is ever linked with again."""
        ensure(kind in (Kind.NOOP, Kind.MEMBERS, Kind.RESET), "only members and no-ops are Raft's own here", kind)
        if kind is Kind.RESET:
            epoch = self._log.epochs.last_epoch
        return self._log.append_note(epoch, bytes((kind,)) + body)

    def append_all(self, kind: Kind, epoch: Epoch, bodies: Sequence[bytes]) -> list[Position]:
        """Append notes."""
        return [self.append(kind, epoch, body) for body in bodies]

    def records(self, after: Position, upto: Position) -> list[Record]:
        """The notes as records, which is all that Raft looks at; of a record only its kind, end and body are true."""
        found = self._log.notes(after, upto)
        return [Record(Kind(note[0]), Epoch(0), end, end, 0, _HEADER + note[1:]) for end, note in found]

    def keep_image(self, image: Image, data: bytes) -> None:
        """The broker's log drops its old records by itself."""
        ensure(False, "a broker makes no images", image, len(data))  # noqa: FBT003

    def compact(self, at: Position) -> None:
        """The same."""
        ensure(False, "a broker's log is not compacted from here", at)  # noqa: FBT003

    def seal_at(self, position: Position) -> int:
        """Broker logs compare epoch and position."""
        del position
        return 0
