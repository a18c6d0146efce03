"""One file of the key index, in RocketMQ's layout, big-endian:

     0 begin ms i64 | 8 end ms i64 | 16 begin position i64 | 24 end position i64 | 32 used slots i32 | 36 next entry i32
    40 slots: i32 each, number of the newest entry with this hash modulo the number of slots, 0 if there is none
       entries, 20 bytes each, number 0 is never used: key hash i32 | position i64 | seconds i32 | previous entry i32

Header and slots are written through a mapping over allocated blocks, entries by plain writes. Entries are durable
before a slot names them, so after a crash every slot names an entry that is there; deriving entry n again follows the
chain of its slot down to the first entry below n, and the file becomes what it would have been.

Source: apache/rocketmq: store/src/main/java/org/apache/rocketmq/store/index/IndexFile.java
"""

from collections.abc import Iterator
from datetime import UTC, datetime
from struct import Struct

from logherd.store.files import File, Files

__all__ = ["ENTRY_SIZE", "HEADER_SIZE", "IndexFile", "index_name", "index_timestamp"]

HEADER_SIZE = 40
ENTRY_SIZE = 20
_HEADER = Struct(">qqqqii")
_ENTRY = Struct(">iqii")
_I32 = Struct(">i")
_pack_entry = _ENTRY.pack
_slot_at = _I32.unpack_from
_SECONDS_MAX = 0x7FFFFFFF


def index_name(timestamp: int) -> str:
    """`yyyyMMddHHmmssSSS` in UTC of the store timestamp (ms) of the file's first record."""
    moment = datetime.fromtimestamp(timestamp // 1000, UTC)
    return f"{moment:%Y%m%d%H%M%S}{timestamp % 1000:03d}".rjust(17, "0")


def index_timestamp(name: str) -> int | None:
    """The number that a name says; None if it is no index file's name. Compares as the names do."""
    return int(name) if len(name) == 17 and name.isascii() and name.isdigit() else None


class IndexFile:
    """An open index file; `name` is its name as a number, `count` the number of the next entry."""

    __slots__ = ("_entries_at", "_slots", "_view", "begin_position", "begin_timestamp", "count", "end_position",
                 "end_timestamp", "file", "name", "path", "used_slots")  # fmt: skip

    def __init__(self, path: str, name: int, file: File, *, slots: int, view: memoryview) -> None:
        self.path = path
        self.name = name
        self.file = file
        self._slots = slots
        self._entries_at = HEADER_SIZE + 4 * slots
        self._view = view
        (
            self.begin_timestamp, self.end_timestamp, self.begin_position, self.end_position, self.used_slots, count
        ) = _HEADER.unpack_from(view)  # fmt: skip
        self.count = max(count, 1)

    @classmethod
    def open(cls, files: Files, directory: str, name: int, *, slots: int, writable: bool) -> "IndexFile":
        """Open or, if `writable`, make the file with all blocks of its slots. Raises OSError (ENOSPC)."""
        path = f"{directory}/{name:017d}"
        file = files.open(path, create=writable)
        size = HEADER_SIZE + 4 * slots
        if writable:
            if file.size() < size:
                file.allocate(size)
            return cls(path, name, file, slots=slots, view=file.map_writable(size))
        return cls(path, name, file, slots=slots, view=file.map(size))

    def restart(self, count: int, used_slots: int) -> None:
        """Go back to `count` after a crash: what came later is derived again."""
        self.count = max(count, 1)
        self.used_slots = used_slots

    def encode(self, waiting: list[tuple[int, int, int]], overlay: dict[int, int]) -> bytes:
        """The entries for (hash, position, store ms), numbered from `count` on; their slots are put in `overlay`.

        Nothing is changed but this object's header values.
        """
        if self.count == 1:
            _, self.begin_position, self.begin_timestamp = waiting[0]
        # Plain names instead of attributes and calls: this runs for every message.
        parts, view, slots, begin = list[bytes](), self._view, self._slots, self.begin_timestamp
        used, number = self.used_slots, self.count
        for key_hash, position, timestamp in waiting:
            slot = key_hash % slots
            previous = overlay.get(slot)
            if previous is None:
                previous = _slot_at(view, HEADER_SIZE + 4 * slot)[0]
                if previous >= number:
                    previous = self._newest_below(previous, number)
            if previous == 0:
                used += 1
            seconds = (timestamp - begin) // 1000
            if not 0 <= seconds <= _SECONDS_MAX:
                seconds = 0 if seconds < 0 else _SECONDS_MAX
            parts.append(_pack_entry(key_hash, position, seconds, previous))
            overlay[slot] = number
            number += 1
        self.used_slots, self.count = used, number
        _, self.end_position, self.end_timestamp = waiting[-1]
        return b"".join(parts)

    def _newest_below(self, found: int, number: int) -> int:
        """Down the chain of entry `found` to the first one below `number`."""
        while found >= number:
            found = self.entry(found)[3]
        return found

    def write_entries(self, number: int, data: bytes) -> None:
        self.file.write(self._entries_at + number * ENTRY_SIZE, (data,))

    def name_entries(self, slots: list[tuple[int, int]]) -> None:
        """Let slots name new entries, which must be durable; durable itself after `flush_slots`."""
        view, name = self._view, _I32.pack_into
        for slot, number in slots:
            name(view, HEADER_SIZE + 4 * slot, number)

    def write_header(self) -> None:
        _HEADER.pack_into(
            self._view, 0, self.begin_timestamp, self.end_timestamp, self.begin_position, self.end_position,
            self.used_slots, self.count,
        )  # fmt: skip

    def flush_slots(self, step_bytes: int) -> Iterator[None]:
        """Make header and slots durable, a part each step."""
        for at in range(0, self._entries_at, step_bytes):
            self.file.flush(at, min(step_bytes, self._entries_at - at))
            yield None

    def entry(self, number: int) -> tuple[int, int, int, int]:
        """(key hash, position, seconds, previous). Zeros if the file ends before it."""
        data = self.file.read(self._entries_at + number * ENTRY_SIZE, ENTRY_SIZE)
        if len(data) < ENTRY_SIZE:
            return 0, 0, 0, 0
        key_hash, position, seconds, previous = _ENTRY.unpack(data)
        return key_hash, position, seconds, previous

    def positions(self, key_hash: int) -> Iterator[int]:
        """Positions of records whose key has this hash, newest first."""
        number: int = _I32.unpack_from(self._view, HEADER_SIZE + 4 * (key_hash % self._slots))[0]
        while number > 0:
            found_hash, position, _, previous = self.entry(number)
            if found_hash == key_hash:
                yield position
            if previous >= number:  # a chain only ever goes back
                return
            number = previous

    def size_needed(self, count: int) -> int:
        """Length of a file whose next entry is `count`."""
        return self._entries_at + (count * ENTRY_SIZE if count > 1 else 0)

