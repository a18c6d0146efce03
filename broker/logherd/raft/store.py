"""What Raft needs to keep: a log it can also append to, and the hard state. Shells bring the files.

Every change here is visible to the core at once and durable only after a flush. The shell writes and flushes changes
in the order of the calls; the core learns of it by the `Flushed` input, and the outputs say what waits for it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from logherd.kit.errors import LogHerdError
from logherd.model.names import Epoch, Position
from logherd.raft.record import Kind, Record
from logherd.replication.log import Image, ReplicaLog
from logherd.replication.messages import ClusterId, ReplicaId

__all__ = ["HardState", "LogStore", "RaftError", "StoreMismatchError"]


class RaftError(LogHerdError):
    """Base of the errors of this room."""


class StoreMismatchError(RaftError):
    """The data directory belongs to another cluster or another replica. The process must not start with it."""


@dataclass(frozen=True, slots=True)
class HardState:
    """Promises that outlive a crash, written as one record: a term without its vote would allow a second vote.

    The vote is cleared only when the term grows. `doubtful`: damage may have taken newer promises, or records that
    were acknowledged; see doubt.py.
    """

    cluster: ClusterId
    owner: ReplicaId
    term: Epoch = Epoch(0)  # noqa: RUF009
    vote: ReplicaId | None = None
    doubtful: bool = False


class LogStore(ReplicaLog, Protocol):
    """A replica log that also keeps Raft's own records."""

    def hard_state(self) -> HardState | None:
        """The newest hard state; None in an empty directory."""

    def keep_hard_state(self, state: HardState) -> None:
        """Replace the hard state as one record."""

    def append(self, kind: Kind, epoch: Epoch, body: bytes) -> Position:
        """Frame and append one record as the leader of `epoch`; gives its end."""

    def append_all(self, kind: Kind, epoch: Epoch, bodies: Sequence[bytes]) -> list[Position]:
        """Frame and append several records in their order; gives the end of each."""

    def records(self, after: Position, upto: Position) -> list[Record]:
        """The records that end in (after, upto]."""

    def keep_image(self, image: Image, data: bytes) -> None:
        """Keep an image of the own state, to send it to others and to start from."""

    def compact(self, at: Position) -> None:
        """Drop the records up to `at`, which an image covers."""

    def seal_at(self, position: Position) -> int:
        """The running checksum of the record that ends at `position`."""
