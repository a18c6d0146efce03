"""The bytes of the classic HA protocol.

    slave to master:  0 position i64                                   the end of the slave's log
    master to slave:  0 position i64 | 8 size i32 | 12 bytes of the log  size 0: the master lives

Big-endian. The first report says where the master begins; 0 means its last file. What a master sends is cut anywhere,
not where a record ends, and covers the whole file: what follows the blank record at its end, too.

Source: apache/rocketmq: store/src/main/java/org/apache/rocketmq/store/ha/DefaultHAConnection.java
Source: apache/rocketmq: store/src/main/java/org/apache/rocketmq/store/ha/DefaultHAClient.java
"""

from dataclasses import dataclass
from struct import Struct

from logherd.kit.errors import LogHerdError

__all__ = ["HEAD_SIZE", "ClassicError", "Piece", "ReportReader", "TransferReader", "encode_head", "encode_report"]

_REPORT = Struct(">q")
_HEAD = Struct(">qi")
HEAD_SIZE = _HEAD.size
_SIZE_MAX = 64 << 20
"""Most bytes behind one head; RocketMQ sends 32 KiB unless it is set otherwise."""


class ClassicError(LogHerdError):
    """The other side said what no RocketMQ says."""


def encode_report(position: int) -> bytes:
    """What a slave says of itself."""
    return _REPORT.pack(position)


def encode_head(position: int, size: int) -> bytes:
    """What stands before `size` bytes of the log that begin at `position`; with size 0 a heartbeat."""
    return _HEAD.pack(position, size)


class ReportReader:
    """Reports of one connection, cut anywhere."""

    __slots__ = ("_rest",)

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, data: bytes) -> list[int]:
        """The positions that are complete now, in order. Raises: ClassicError for a negative one."""
        data = self._rest + data
        whole = len(data) - len(data) % _REPORT.size
        self._rest = data[whole:]
        found = [position for (position,) in _REPORT.iter_unpack(data[:whole])]
        if found and min(found) < 0:
            raise ClassicError(f"a slave reports position {min(found)}")
        return found


@dataclass(frozen=True, slots=True)
class Piece:
    """Bytes of the master's log from `position` on, as many as have arrived; none: a heartbeat."""

    position: int
    data: bytes


class TransferReader:
    """What a master sends, cut anywhere. Keeps no more than a head."""

    __slots__ = ("_head", "_left", "_position")

    def __init__(self) -> None:
        self._head = b""
        self._left = 0
        self._position = 0

    def feed(self, data: bytes) -> list[Piece]:
        """What has arrived, in order. Raises: ClassicError for a position or size that cannot be."""
        pieces, at = list[Piece](), 0
        while at < len(data):
            if self._left:
                part = data[at : at + self._left]
                pieces.append(Piece(self._position, part))
                self._position += len(part)
                self._left -= len(part)
                at += len(part)
                continue
            part = data[at : at + HEAD_SIZE - len(self._head)]
            self._head += part
            at += len(part)
            if len(self._head) == HEAD_SIZE:
                self._begin()
                if not self._left:
                    pieces.append(Piece(self._position, b""))
        return pieces

    def _begin(self) -> None:
        self._position, self._left = _HEAD.unpack(self._head)
        self._head = b""
        if self._position < 0 or not 0 <= self._left <= _SIZE_MAX:
            raise ClassicError(f"a master sends {self._left} bytes from position {self._position} on")
