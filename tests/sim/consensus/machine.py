"""The replicated state of the simulation: a running digest of everything applied, which is enough to compare states."""

from zlib import crc32

from logherd.model.names import Position
from logherd.raft.record import Kind, Record
from logherd.replication.epochs import NOWHERE

__all__ = ["Machine"]


class Machine:
    """State after `position`; two machines at one position must have one digest."""

    def __init__(self) -> None:
        self.position: Position = NOWHERE
        self.digest = 0
        self.count = 0

    def apply(self, record: Record) -> None:
        """Take the next record."""
        if record.kind is Kind.DATA:
            self.digest = crc32(record.body, self.digest)
            self.count += 1
        self.position = record.end

    def save(self, padding: int) -> bytes:
        """An image of the state, some bytes longer than needed so that a copy takes several chunks."""
        return b"%d %d %d " % (self.position, self.digest, self.count) + bytes(padding)

    def load(self, data: bytes, position: Position) -> None:
        """Become what an image says; an image without bytes is the founding one."""
        self.position, self.digest, self.count = position, 0, 0
        if data:
            at, digest, count, _ = data.split(b" ", 3)
            self.digest, self.count = int(digest), int(count)
            if int(at) != position:
                raise AssertionError("C5: an image is not of the position it names")
