"""The list of queues: which there are and how many units each durably has, so that opening need not read directories.

Text, one line a queue, rewritten in place; the file `queues` in the store's directory:

    logherd queues 1
    <crc32 of the rest, 8 hex digits> <+ or -> <units, 20 digits> <first unit, 20 digits> <queue id> <topic>

`-` marks a queue that was deleted; the next one of its name takes that line, so that a topic which is made again and
again has one for each queue. No line of 512 bytes or less crosses a 512-byte sector (empty lines fill up), so a
torn write leaves the old line or the new one. The last line of a queue counts. A line that is neither whole nor zeros
means that the file is damaged; then it is derived from the log again, as are the queues.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from logherd.kit.checksum import crc32
from logherd.store.files import File, Files
from logherd.store.readable import is_unreadable
from logherd.store.whole_file import replace_file

__all__ = [
    "LISTED_DELETED", "QueueEntry", "QueueList", "QueueListDamaged", "decode_queue_list", "encode_queue_line",
    "read_queue_list",
]  # fmt: skip

HEADER = b"logherd queues 1\n"
_SECTOR = 512
_GONE_MAX = 16_384
"""So many deleted queues give their lines to the next ones of their names: some MB to remember them. What is forgotten
stays in the list until a start after an orderly stop, as does the line of a name that does not come again."""

LISTED_DELETED = -2
"""In place of its byte: the queue's line says that it was deleted, and may be another one's by now."""


class QueueListDamaged(Exception):
    """The list cannot be read; it is derived again."""


@dataclass(frozen=True, slots=True)
class QueueEntry:
    """One line. `at` is its byte in the file, -1 before it has one."""

    topic: str
    queue_id: int
    units: int
    first: int = 0
    live: bool = True
    at: int = -1


def encode_queue_line(entry: QueueEntry) -> bytes:
    """One line with its end."""
    rest = f"{'+' if entry.live else '-'} {entry.units:020d} {entry.first:020d} {entry.queue_id} {entry.topic}".encode()
    return b"%08x %s\n" % (crc32(rest), rest)


def read_queue_list(file: File) -> list[QueueEntry]:
    """All entries in order of the file. Raises QueueListDamaged, also for what the disk does not give; OSError."""
    try:
        data = file.read(0, file.size())
    except OSError as error:
        if not is_unreadable(error):
            raise
        raise QueueListDamaged(f"the list cannot be read: {error.strerror}") from error
    return decode_queue_list(data)


def decode_queue_list(data: bytes) -> list[QueueEntry]:
    """The same of the bytes that the file holds."""
    if not data.startswith(HEADER):
        raise QueueListDamaged(f"it begins with {data[: len(HEADER)]!r}")
    entries = []
    at = 0
    for line in data.split(b"\n"):
        if line and not line.startswith(b"logherd "):
            stripped = line.lstrip(b"\0")
            if stripped:
                entries.append(_decode_line(stripped, at + len(line) - len(stripped)))
        at += len(line) + 1
    return entries


def _decode_line(line: bytes, at: int) -> QueueEntry:
    checksum, _, rest = line.partition(b" ")
    fields = rest.split(b" ", 4)
    if len(fields) != 5 or checksum != b"%08x" % crc32(rest):
        raise QueueListDamaged(f"the line at byte {at} is not whole")
    return QueueEntry(fields[4].decode(), int(fields[3]), int(fields[1]), int(fields[2]), fields[0] == b"+", at)


class QueueList:
    """The open file. Writer thread.

    `gone` are the newest lines of queues that were deleted: (topic, queue id) and the byte. Only the newest line of a
    name is ever written again, and with a line of the same length, so that whenever the power goes the list says what
    it would if the new line stood at its end.
    """

    __slots__ = ("_end", "_file", "_files", "_gone", "_root")

    def __init__(
        self, files: Files, root: str, file: File, *, gone: Mapping[tuple[str, int], int] | None = None
    ) -> None:
        self._files = files
        self._gone = dict(list((gone or {}).items())[-_GONE_MAX:])
        self._root = root
        self._file = file
        self._end = file.size()

    @classmethod
    def create(cls, files: Files, root: str, entries: Iterable[QueueEntry]) -> tuple["QueueList", list[QueueEntry]]:
        """Replace the file by one that holds these live entries; they are returned with their places. Durable.

        Raises: StoreFull, and the file is as before.
        """
        parts, placed, end = [HEADER], [], len(HEADER)
        for entry in entries:
            line = encode_queue_line(entry)
            fill = _fill(end, len(line))
            placed.append(replace(entry, at=end + fill))
            parts += (b"\n" * fill, line)
            end += fill + len(line)
        replace_file(files, root, "queues", (b"".join(parts),))
        return cls(files, root, files.open(f"{root}/queues")), placed

    def put(self, entry: QueueEntry) -> int:
        """Write the entry's line, at its place, that of a deleted queue of its name, or a new one; the place is
        returned, LISTED_DELETED for a queue that is not live. Durable after `flush`. May be repeated if it fails."""
        line = encode_queue_line(entry)
        key = entry.topic, entry.queue_id
        at, fill = entry.at if entry.at >= 0 else self._gone.get(key, -1), 0
        if at < 0:
            fill = _fill(self._end, len(line))
            at = self._end + fill
            line = b"\n" * fill + line
        self._file.write(at - fill, (line,))
        self._end = max(self._end, at - fill + len(line))
        self._gone.pop(key, None)
        if entry.live:
            return at
        self._gone[key] = at
        if len(self._gone) > _GONE_MAX:
            del self._gone[next(iter(self._gone))]
        return LISTED_DELETED

    def flush(self) -> None:
        self._file.flush()

    def close(self) -> None:
        self._file.close()


def _fill(end: int, length: int) -> int:
    """Bytes to skip so that a line of `length` does not cross a sector."""
    left = _SECTOR - end % _SECTOR
    return left if left < length <= _SECTOR else 0
