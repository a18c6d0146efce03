"""`store.json`: says that a directory is a LogHerd store, of which format, and of what geometry its files are.

    {"product":"logherd","format":1,"segmentBytes":[1073741824],"queueFileUnits":300000,"indexSlots":5000000,
     "indexEntries":20000000,"adoptedEnd":0}

`segmentBytes` lists every length that segments of this store were created with; `adoptedEnd` is where the log ended
when the store was taken over from RocketMQ, whose records may lack a checksum of the whole.
"""

from enum import Enum

import msgspec
from msgspec.structs import replace

from logherd.store.files import Files
from logherd.store.options import StoreOptions
from logherd.store.readable import read_or_empty
from logherd.store.segment import segment_name, segment_start
from logherd.store.whole_file import replace_file

__all__ = [
    "FORMAT", "FORMAT_BYTES_MAX", "FormatFile", "FormatState", "decode_format", "format_path", "newest_segment_size",
    "wanted_format", "write_format",
]  # fmt: skip

FORMAT = 1
FORMAT_BYTES_MAX = 1 << 16
"""More of the file is not read."""
_PRODUCT = "logherd"
_NAME = "store.json"


class FormatState(Enum):
    """What was found of the file."""

    ABSENT = "absent"
    GARBAGE = "not a store's format file"
    UNKNOWN = "of an unknown format"
    KNOWN = "known"


class FormatFile(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """The file's content."""

    product: str
    format: int
    segment_bytes: tuple[int, ...] = ()
    queue_file_units: int = 0
    index_slots: int = 0
    index_entries: int = 0
    adopted_end: int = 0

    def same_geometry(self, other: "FormatFile") -> bool:
        """Whether derived files made for the one fit the other."""
        return (self.queue_file_units, self.index_slots, self.index_entries) == (
            other.queue_file_units, other.index_slots, other.index_entries,
        )  # fmt: skip

    def with_geometry(self, other: "FormatFile") -> "FormatFile":
        """The same with derived files as the other one says."""
        return replace(
            self, queue_file_units=other.queue_file_units, index_slots=other.index_slots,
            index_entries=other.index_entries,
        )  # fmt: skip


def format_path(root: str) -> str:
    return f"{root}/{_NAME}"


def decode_format(data: bytes | None) -> tuple[FormatState, FormatFile | None]:
    """The file's state, and its content unless absent or garbage."""
    if data is None:
        return FormatState.ABSENT, None
    try:
        found = msgspec.json.decode(data, type=FormatFile)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return FormatState.GARBAGE, None
    if found.product != _PRODUCT:
        return FormatState.GARBAGE, None
    return (FormatState.KNOWN if found.format == FORMAT else FormatState.UNKNOWN), found


def wanted_format(options: StoreOptions, segment_bytes: tuple[int, ...], *, adopted_end: int) -> FormatFile:
    """What the file should say under these options, for a store with segments of these lengths."""
    sizes = sorted({*segment_bytes, options.log.segment_bytes})
    derived = options.derived
    return FormatFile(
        product=_PRODUCT, format=FORMAT, segment_bytes=tuple(sizes), queue_file_units=derived.queue_file_units,
        index_slots=derived.index_slots, index_entries=derived.index_entries, adopted_end=adopted_end,
    )  # fmt: skip


def write_format(files: Files, root: str, value: FormatFile) -> None:
    """Replace the file, durably and whole."""
    replace_file(files, root, _NAME, (msgspec.json.encode(value),))


def newest_segment_size(files: Files, root: str) -> int | None:
    """The length of the newest file of this store's log, in bytes; None without one, or without the format file. A file
    whose making a crash has interrupted is passed over. Raises: OSError."""
    _, found = decode_format(read_or_empty(files, format_path(root), FORMAT_BYTES_MAX))
    known = found.segment_bytes if found is not None else ()
    starts = sorted(start for name in files.list(f"{root}/commitlog") if (start := segment_start(name)) is not None)
    sizes = (files.size(f"{root}/commitlog/{segment_name(start)}") for start in reversed(starts))
    return next((size for size in sizes if size in known), None)
