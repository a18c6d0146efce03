"""Two slots written in turn: a small value that is replaced whole, whatever moment the power goes.

    slot A at 0, slot B at 4096, each:
        0 magic "LHSLOT\\0\\0" | 8 version u16 | 10 length u16 | 12 counter u64 | 20 crc32 | 24 value      big-endian

The checksum covers the bytes before it and the value. Every write is flushed before the next one begins, and goes to
the slot that is not the newest: a torn write costs a value that was never called durable.
"""

from dataclasses import dataclass
from struct import Struct

from logherd.kit.checksum import crc32
from logherd.kit.errors import ensure
from logherd.store.errors import ReplicaDamaged, StoreVersionError
from logherd.store.files import File, Files
from logherd.store.readable import read_unless_lost

__all__ = ["SLOT_BYTES", "VALUE_BYTES_MAX", "SlotPair", "encode_value_slot"]

SLOT_BYTES = 4096
_MAGIC = b"LHSLOT\0\0"
_VERSION = 1
_HEAD = Struct(">8sHHQ")
_CRC = Struct(">I")
_VALUE_AT = _HEAD.size + _CRC.size
VALUE_BYTES_MAX = SLOT_BYTES - _VALUE_AT


@dataclass(frozen=True, slots=True)
class _Slot:
    counter: int
    value: bytes


def encode_value_slot(counter: int, value: bytes) -> bytes:
    """One slot up to the end of its value."""
    ensure(len(value) <= VALUE_BYTES_MAX, "a value fits its slot", len(value))
    head = _HEAD.pack(_MAGIC, _VERSION, len(value), counter)
    return b"".join((head, _CRC.pack(crc32(value, crc32(head))), value))


def _decode(data: bytes, path: str) -> _Slot | None:
    if len(data) < _VALUE_AT:
        return None
    magic, version, length, counter = _HEAD.unpack_from(data)
    value = data[_VALUE_AT : _VALUE_AT + length]
    if magic != _MAGIC or len(value) != length:
        return None
    if crc32(value, crc32(data[: _HEAD.size])) != _CRC.unpack_from(data, _HEAD.size)[0]:
        return None
    if version != _VERSION:
        raise StoreVersionError(f"{path}: a slot of version {version}; this release knows version {_VERSION}")
    return _Slot(counter, value)


class SlotPair:
    """The open file and the newest value. One thread at a time; every call blocks on the disk."""

    __slots__ = ("_file", "_newest", "damaged")

    def __init__(self, file: File, newest: _Slot, *, damaged: bool = False) -> None:
        """`damaged`: the other slot was not whole. Its value was torn, or was promised and is lost."""
        self._file = file
        self._newest = newest
        self.damaged = damaged

    @staticmethod
    def create(files: Files, path: str, value: bytes) -> None:
        """Make the file anew with `value` in both slots; the name is durable after a sync of the directory."""
        files.unlink(path)
        file = files.open(path, create=True)
        file.allocate(2 * SLOT_BYTES)
        for counter in (1, 2):
            file.write(_place(counter), (encode_value_slot(counter, value),))
        file.flush()
        file.close()

    @classmethod
    def open(cls, files: Files, path: str) -> "SlotPair":
        """Read the newest whole slot.

        Raises: ReplicaDamaged if the file is missing or neither slot is whole, StoreVersionError, OSError.
        """
        if files.size(path) is None:
            raise ReplicaDamaged(path, 0, "the file with term and vote is missing")
        file = files.open(path)
        try:
            found = [_decode(read_unless_lost(file, at, SLOT_BYTES) or b"", path) for at in (0, SLOT_BYTES)]
        except (StoreVersionError, OSError):
            file.close()
            raise
        newest = max((slot for slot in found if slot is not None), key=lambda slot: slot.counter, default=None)
        if newest is None:
            file.close()
            raise ReplicaDamaged(path, 0, "neither slot is whole, so what this replica has promised is not known")
        return cls(file, newest, damaged=None in found)

    @property
    def value(self) -> bytes:
        """The newest value."""
        return self._newest.value

    def secure(self) -> None:
        """Write the newest slot again in its place and flush it.

        The process before may have ended at a failed flush: its bytes are then read from the cache, count as clean
        there, and are not on the disk. The same bytes over the same bytes cannot be torn. Raises OSError.
        """
        self._write(self._newest)

    def put(self, value: bytes) -> None:
        """Replace the value, durably. Raises OSError; then nothing may be relied on."""
        self._newest = _Slot(self._newest.counter + 1, value)
        self._write(self._newest)

    def _write(self, slot: _Slot) -> None:
        data = encode_value_slot(slot.counter, slot.value)
        if self.damaged:  # of a block that the disk has lost no part can be written, only all of it
            data = data.ljust(SLOT_BYTES, b"\0")
        self._file.write(_place(slot.counter), (data,))
        self._file.flush()

    def close(self) -> None:
        """Close the file; nothing is pending."""
        self._file.close()


def _place(counter: int) -> int:
    return counter % 2 * SLOT_BYTES
