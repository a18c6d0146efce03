"""One file of the key index, in RocketMQ's layout, big-endian:

     0 begin ms i64 | 8 end ms i64 | 16 begin position i64 | 24 end position i64 | 32 used slots i32 | 36 next entry i32
    40 slots: i32 each, number of the newest entry with this hash modulo the number of slots, 0 if there is none
       entries, 20 bytes each, number 0 is never used: key hash i32 | position i64 | seconds i32 | previous entry i32

Header and slots are written through a mapping over allocated blocks, entries by plain writes. Entries are durable
before a slot names them, so after a crash every slot names an entry that is there; deriving entry n again follows the
chain of its slot down to the first entry below n, and the file becomes what it would have been.

Source: apache/rocketmq: store/src/main/java/org/apache/rocketmq/store/index/IndexFile.java
"""

import errno
import os
import sys
from array import array
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from struct import Struct

from logherd.store.errors import StoreDamaged
from logherd.store.files import File, Files
from logherd.store.readable import is_unreadable

__all__ = ["ENTRY_SIZE", "HEADER_SIZE", "IndexFile", "index_name", "index_timestamp"]

HEADER_SIZE = 40
ENTRY_SIZE = 20
_HEADER = Struct(">qqqqii")
_ENTRY = Struct(">iqii")
_I32 = Struct(">i")
_pack_entry = _ENTRY.pack
_SECONDS_MAX = 0x7FFFFFFF
_PIECE_ENTRIES = 128
_PIECE_BYTES = 16 << 10
_SWAPPED = sys.byteorder == "little"


def index_name(timestamp: int) -> str:
    """`yyyyMMddHHmmssSSS` in UTC of the store timestamp (ms) of the file's first record."""
    moment = datetime.fromtimestamp(timestamp // 1000, UTC)
    return f"{moment:%Y%m%d%H%M%S}{timestamp % 1000:03d}".rjust(17, "0")


def index_timestamp(name: str) -> int | None:
    """The number that a name says; None if it is no index file's name. Compares as the names do."""
    return int(name) if len(name) == 17 and name.isascii() and name.isdigit() else None


class IndexFile:
    """An open index file; `name` is its name as a number, `count` the number of the next entry.

    Only who writes it has a mapping: what a disk cannot read would end a process there, so he reads it first.
    """

    __slots__ = (
        "_entries_at", "_view", "_words", "begin_position", "begin_timestamp", "count", "end_position",
        "end_timestamp", "file", "name", "path", "used_slots",
    )  # fmt: skip

    def __init__(self, path: str, name: int, file: File, *, slots: int, header: bytes, view: memoryview) -> None:
        self.path = path
        self.name = name
        self.file = file
        self._entries_at = HEADER_SIZE + 4 * slots
        self._view = view
        self._words = view[HEADER_SIZE:].cast("I")
        (
            self.begin_timestamp, self.end_timestamp, self.begin_position, self.end_position, self.used_slots, count
        ) = _HEADER.unpack(header)  # fmt: skip
        self.count = max(count, 1)

    @classmethod
    def open(cls, files: Files, directory: str, name: int, *, slots: int, writable: bool) -> "IndexFile":
        """Open or, if `writable`, make the file with all blocks of its slots.

        Raises: OSError (ENOSPC), and may be tried again: no descriptor is kept.
        """
        path = f"{directory}/{name:017d}"
        file = files.open(path, create=writable)
        size = HEADER_SIZE + 4 * slots
        try:
            if writable and file.size() < size:
                file.allocate(size)
            header = file.read(0, HEADER_SIZE).ljust(HEADER_SIZE, b"\0")
            view = file.map_writable(size) if writable else memoryview(b"")
        except OSError:
            file.close()
            raise
        return cls(path, name, file, slots=slots, header=header, view=view)

    def close(self) -> None:
        """Let go of both descriptors, the file's and the mapping's; what the header said is kept."""
        self.file.close()
        self._words = self._view = memoryview(b"")

    def restart(self, count: int, used_slots: int) -> None:
        """Go back to `count` after a crash: what came later is derived again."""
        self.count = max(count, 1)
        self.used_slots = used_slots

    def ensure_slots(self, waiting: list[tuple[int, int, int]], known: set[int]) -> None:
        """Read what of the mapping is touched for these entries, that none of it ends the process; `known` are the
        pieces that were read before. Raises: OSError for what the disk does not give."""
        if len(known) * _PIECE_BYTES >= self._entries_at:
            return
        count = len(self._words)
        pieces = {(HEADER_SIZE + key_hash % count * 4) // _PIECE_BYTES for key_hash, _, _ in waiting} | {0}
        for piece in pieces - known:
            size = min(_PIECE_BYTES, self._entries_at - piece * _PIECE_BYTES)
            if len(self.file.read(piece * _PIECE_BYTES, size)) < size:
                raise OSError(errno.EIO, os.strerror(errno.EIO), self.path)
        known |= pieces

    def encode(self, waiting: list[tuple[int, int, int]], overlay: dict[int, int]) -> bytes:
        """The entries for (hash, position, store ms), numbered from `count` on; their slots are put in `overlay`.

        Nothing is changed but this object's header values. One step after the other for all entries, because most of
        the steps are then no code of ours: this runs for every message.
        """
        if self.count == 1:
            _, self.begin_position, self.begin_timestamp = waiting[0]
        hashes, positions, timestamps = zip(*waiting, strict=True)
        slot_count, begin = len(self._words), self.begin_timestamp
        slots = [key_hash % slot_count for key_hash in hashes]
        previous = self._newest(slots, overlay)
        seconds = [(timestamp - begin) // 1000 for timestamp in timestamps]
        if min(seconds) < 0 or max(seconds) > _SECONDS_MAX:
            seconds = [0 if value < 0 else min(value, _SECONDS_MAX) for value in seconds]
        self.used_slots += previous.count(0)
        self.count += len(slots)
        self.end_position, self.end_timestamp = positions[-1], timestamps[-1]
        return b"".join(map(_pack_entry, hashes, positions, seconds, previous))

    def _newest(self, slots: list[int], overlay: dict[int, int]) -> list[int]:
        """What the slots of entries from `count` on name before each of them, who then stands in the overlay."""
        number, words = self.count, self._words
        named = array("I", [words[slot] for slot in slots])
        if _SWAPPED:
            named.byteswap()
        if max(named) >= number:
            named = array("I", [self._newest_below(found, number) for found in named])
        previous = named.tolist()
        for at, found in enumerate(map(overlay.get, slots)):
            if found is not None:
                previous[at] = found
        if len(set(slots)) < len(slots):
            last: dict[int, int] = {}
            for at, slot in enumerate(slots):
                if slot in last:
                    previous[at] = last[slot]
                last[slot] = number + at
        overlay.update(zip(slots, range(number, number + len(slots)), strict=True))
        return previous

    def _newest_below(self, found: int, number: int) -> int:
        """Down the chain of entry `found` to the first one below `number`."""
        while found >= number:
            found = self.entry(found)[3]
        return found

    def write_entries(self, number: int, data: bytes) -> None:
        self.file.write(self._entries_at + number * ENTRY_SIZE, (data,))

    def name_entries(self, slots: Iterable[int], numbers: Iterable[int]) -> None:
        """Let slots name new entries, which must be durable; durable itself after a flush of the file."""
        named = array("I", numbers)
        if _SWAPPED:
            named.byteswap()
        words = self._words
        for slot, word in zip(slots, named, strict=True):
            words[slot] = word

    def write_header(self) -> None:
        _HEADER.pack_into(
            self._view, 0, self.begin_timestamp, self.end_timestamp, self.begin_position, self.end_position,
            self.used_slots, self.count,
        )  # fmt: skip

    def entry(self, number: int) -> tuple[int, int, int, int]:
        """(key hash, position, seconds, previous). Zeros if the file ends before it."""
        data = self.file.read(self._entries_at + number * ENTRY_SIZE, ENTRY_SIZE)
        if len(data) < ENTRY_SIZE:
            return 0, 0, 0, 0
        key_hash, position, seconds, previous = _ENTRY.unpack(data)
        return key_hash, position, seconds, previous

    def find(self, key_hash: int, begin: int, end: int) -> Iterator[int | None]:
        """Positions of records whose key has this hash and that may have been stored in [begin, end] (ms), newest
        first; None for every other entry that was looked at. The file knows seconds, and counts none before its begin.

        Raises: StoreDamaged for what the disk does not give; OSError.
        """
        slots = (self._entries_at - HEADER_SIZE) // 4
        number: int = _I32.unpack(self._read(HEADER_SIZE + 4 * (key_hash % slots), 4))[0]
        first, piece = number + 1, b""
        while number > 0:
            if number < first:  # entries of a key that many messages have lie close together
                first = max(1, number + 1 - _PIECE_ENTRIES)
                length = (number + 1 - first) * ENTRY_SIZE
                piece = self._read(self._entries_at + first * ENTRY_SIZE, length)
            found_hash, position, seconds, previous = _ENTRY.unpack_from(piece, (number - first) * ENTRY_SIZE)
            stored = self.begin_timestamp + 1000 * seconds
            early, late = seconds and stored > end, seconds < _SECONDS_MAX and stored + 1000 <= begin
            yield position if found_hash == key_hash and not early and not late else None
            if previous >= number:  # a chain only ever goes back
                return
            number = previous

    def _read(self, at: int, size: int) -> bytes:
        try:
            return self.file.read(at, size).ljust(size, b"\0")
        except OSError as error:
            if not is_unreadable(error):
                raise
            root = self.path.removesuffix(f"/index/{self.name:017d}")
            raise StoreDamaged(self.path, at, f"it cannot be read: {error.strerror}", root) from error

    def size_needed(self, count: int) -> int:
        """Length of a file whose next entry is `count`."""
        return self._entries_at + (count * ENTRY_SIZE if count > 1 else 0)
