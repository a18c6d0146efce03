"""Opening a member's log: gather facts, let the tables (rows.py) decide, make good what they allow.

Nothing is changed before the last decision. What is given out is durable: everything above the mark is written once
more and flushed, since the process before may have ended at a failed flush, whose bytes the cache calls clean.
"""

from dataclasses import dataclass

import msgspec
from msgspec.structs import replace

from logherd.model.names import Position
from logherd.raft.record import HEADER_SIZE, Record
from logherd.raftlog.image_file import decode_image, image_name, image_place
from logherd.raftlog.kept import Kept, decode_kept, encode_kept
from logherd.raftlog.options import RaftLogOptions
from logherd.raftlog.rows import (
    DIRECTORY_ROWS,
    IMAGE_ROWS,
    TAIL_ROWS,
    Behind,
    DirectoryAction,
    ImageAction,
    Newest,
    Promise,
    TailAction,
)
from logherd.raftlog.scan import next_start, read_records, whole_records_in
from logherd.raftlog.writer import LogFiles, clear, image_directory, log_directory, promises_path
from logherd.replication.log import Image
from logherd.store.errors import ReplicaDamaged, StoreVersionError
from logherd.store.files import Files
from logherd.store.format_file import FORMAT, FORMAT_BYTES_MAX, FormatState
from logherd.store.journal import Journal
from logherd.store.readable import read_or_empty, read_unless_lost
from logherd.store.recovery_rows import choose
from logherd.store.slots import SlotPair
from logherd.store.whole_file import replace_file

__all__ = ["Found", "Recovered", "recover"]

_PRODUCT = "logherd-raft"
_FORMAT_NAME = "raftlog.json"


class _FormatFile(msgspec.Struct, frozen=True, rename="camel"):
    """`raftlog.json`: {"product":"logherd-raft","format":1,"segmentBytes":8388608}. Made last, never changed."""

    product: str
    format: int
    segment_bytes: int = 0


@dataclass(frozen=True, slots=True)
class Recovered:
    """What opening did, for the log line and for the shell. `rows` are the labels of the rows that decided."""

    rows: tuple[str, ...]
    cut_bytes: int = 0
    doubtful: bool = False
    """Whole records lie behind the tear, within one window, or the disk does not give what lies there: a torn write, or
    damage to the last flushed records. Or one slot of the promises is not whole: a torn write, or damage to the newest
    promise. The disk alone cannot tell; such a member joins without a vote (raft/doubt.py). Kept in the promises until
    a leader has filled it again."""


@dataclass(frozen=True, slots=True)
class Found:
    """An opened log. `image` comes with its bytes; `records` follow the base."""

    kept: Kept
    segment_bytes: int
    image: tuple[Image, bytes] | None
    records: list[Record]
    files: LogFiles
    recovered: Recovered


@dataclass(frozen=True, slots=True)
class _Tail:
    """Where the records end, how far something lies behind, and how far something may lie on the disk."""

    row: str
    end: Position
    seal: int
    behind: int
    limit: int
    doubtful: bool


def recover(files: Files, root: str, options: RaftLogOptions) -> Found:
    """Open the log in `root`, which is locked.

    Raises: ReplicaDamaged, StoreVersionError, StoreFull, OSError.
    """
    _make_directories(files, root)
    state, format_file = _read_format(files, root)
    promise = _promise(files, root)
    content = bool(files.list(log_directory(root)) or files.list(image_directory(root)))
    row = choose(DIRECTORY_ROWS, {"format": state, "content": content, "promise": promise})
    match row.action:
        case DirectoryAction.REFUSE_VERSION:
            raise StoreVersionError(f"{root}/{_FORMAT_NAME}: {row.label}: {row.reason}")
        case DirectoryAction.REFUSE:
            name = promises_path(root) if state is FormatState.KNOWN else f"{root}/{_FORMAT_NAME}"
            raise ReplicaDamaged(name, 0, f"{row.label}: {row.reason}")
        case DirectoryAction.CREATE:
            format_file = _create(files, root, options)
        case DirectoryAction.CLEAR:
            _clear_directories(files, root)
        case DirectoryAction.OPEN:
            pass
    if format_file is None:
        raise ReplicaDamaged(f"{root}/{_FORMAT_NAME}", 0, row.reason)
    slots = SlotPair.open(files, promises_path(root))
    journal = Journal.open(files, log_directory(root), format_file.segment_bytes)
    try:
        return _Opening(files, root, options, journal, slots).open(row.label)
    except BaseException:
        journal.close()
        slots.close()
        raise


class _Opening:
    """One opening of a directory whose format and promise are known."""

    def __init__(self, files: Files, root: str, options: RaftLogOptions, journal: Journal, slots: SlotPair) -> None:
        self._files = files
        self._root = root
        self._options = options
        self._journal = journal
        self._slots = slots
        self._kept = decode_kept(slots.value)
        self._damaged_images: list[str] = []

    def open(self, label: str) -> Found:
        kept = self._kept
        records = read_records(self._journal, kept.base.position, kept.base_seal)
        tail = self._judge_tail(records)
        image_row, image = self._judge_images()
        rows = [label, image_row, tail.row]
        begins = self._begins_at_image(records, image)
        cut = tail.behind - tail.end
        self._make_good(records, tail)
        if begins and image is not None:
            rows.append("copy finished")
            self._begin_at(image[0], tail)
            records = []
        writer = LogFiles(
            self._files, self._root, self._options, journal=self._journal, slots=self._slots, kept=self._kept,
            imaged=image[0].point.position if image else None,
        )  # fmt: skip
        recovered = Recovered(tuple(rows), cut, self._kept.doubtful)
        return Found(self._kept, self._journal.segment_bytes, image, records, writer, recovered)

    # ---- facts -------------------------------------------------------------------------------------------------

    def _judge_tail(self, records: list[Record]) -> _Tail:
        kept, journal = self._kept, self._journal
        end = records[-1].end if records else kept.base.position
        seal = records[-1].checksum if records else kept.base_seal
        known = {record.end: record.checksum for record in records} | {kept.base.position: kept.base_seal}
        as_marked = known.get(Position(kept.mark_position)) == kept.mark_seal
        last = journal.written_end(end)
        limit = max(end + self._options.torn_bytes_max, kept.loose)
        behind = Behind.NOTHING if last == end else Behind.REMAINS if last <= limit else Behind.BEYOND
        row = choose(TAIL_ROWS, {"promised": not as_marked, "behind": behind})
        if row.action is TailAction.REFUSE:
            path, offset = journal.place(end if end < kept.mark_position or as_marked else kept.mark_position)
            raise ReplicaDamaged(path, offset, f"{row.label}: {row.reason}")
        fresh = max(end, kept.loose)
        doubtful = last > fresh and whole_records_in(journal.read(fresh + 1, last - fresh - 1), fresh + 1)
        # What the disk does not give may have been anything, also what was acknowledged last: on a cut part, too, which
        # records have been written over since.
        doubtful |= journal.lacks(end, limit)
        return _Tail(row.label, end, seal, last, limit, doubtful)

    def _judge_images(self) -> tuple[str, tuple[Image, bytes] | None]:
        kept, directory = self._kept, image_directory(self._root)
        found: list[tuple[str, tuple[Image, bytes] | None]] = []
        for name in self._files.list(directory):
            place = image_place(name)
            if place is not None and place >= kept.base.position:
                found.append((name, self._read_image(f"{directory}/{name}")))
        newest = Newest.NONE if not found else Newest.WHOLE if found[-1][1] else Newest.DAMAGED
        older = next((image for _, image in reversed(found[:-1]) if image is not None), None)
        row = choose(IMAGE_ROWS, {"newest": newest, "older": older is not None, "based": kept.base.position > 0})
        if row.action is ImageAction.REFUSE:
            name = f"{directory}/{found[-1][0]}" if found else directory
            raise ReplicaDamaged(name, 0, f"image {row.label}: {row.reason}")
        self._damaged_images = [name for name, image in found if image is None]
        if row.action is ImageAction.USE:
            return f"image: {row.label}", found[-1][1]
        return f"image: {row.label}", older if row.action is ImageAction.USE_OLDER else None

    def _read_image(self, path: str) -> tuple[Image, bytes] | None:
        file = self._files.open(path)
        try:
            return decode_image(read_unless_lost(file, 0, file.size()) or b"", path)
        finally:
            file.close()

    def _begins_at_image(self, records: list[Record], image: tuple[Image, bytes] | None) -> bool:
        """Whether a copy from the group was kept and the log was not yet begun at it.

        Raises: ReplicaDamaged if log and image name the same record and differ in what lies below it.
        """
        if image is None:
            return False
        point, kept = image[0].point, self._kept
        epochs = {record.end: (record.epoch, record.checksum) for record in records}
        epochs[kept.base.position] = (kept.base.epoch, kept.base_seal)
        epoch, seal = epochs.get(point.position, (None, 0))
        if epoch == point.epoch and seal != image[0].seal:
            path, offset = self._journal.place(point.position)
            raise ReplicaDamaged(path, offset, f"the log up to here is not the one of {image_name(point)}")
        return epoch != point.epoch

    # ---- making good -------------------------------------------------------------------------------------------

    def _make_good(self, records: list[Record], tail: _Tail) -> None:
        """Every step may be repeated after a crash in it, and ends at the same state."""
        self._slots.secure()
        if (tail.doubtful or self._slots.damaged) and not self._kept.doubtful:
            # Before the remains go: after a crash in what follows nothing else would tell of them.
            self._kept = replace(self._kept, doubtful=True)
            self._slots.put(encode_kept(self._kept))
        self._files.sync_dir(log_directory(self._root))  # the process before may have made segments and died
        for record in records:
            if record.end > self._kept.mark_position:
                self._journal.write(record.start, (record.frame,))
        at_next = next_start(tail.end, self._journal.segment_bytes)
        self._journal.zero(at_next, at_next + HEADER_SIZE)
        # Also where zeros are read: they may be in the cache only, of a cut that the process before did not finish.
        clear(self._journal, tail.end, tail.end, tail.limit)
        self._kept = replace(self._kept, mark_position=tail.end, mark_seal=tail.seal, loose=0)
        self._slots.put(encode_kept(self._kept))
        self._journal.drop_below(self._kept.base_position)
        directory = image_directory(self._root)
        for name in self._damaged_images:
            self._files.unlink(f"{directory}/{name}")
        self._files.sync_dir(directory)

    def _begin_at(self, image: Image, tail: _Tail) -> None:
        point = image.point
        self._kept = replace(
            self._kept, base_epoch=point.epoch, base_position=point.position, base_seal=image.seal,
            mark_position=point.position, mark_seal=image.seal, loose=tail.end,
        )  # fmt: skip
        self._slots.put(encode_kept(self._kept))
        self._journal.drop_all()
        self._kept = replace(self._kept, loose=0)


def _make_directories(files: Files, root: str) -> None:
    for path in (root, log_directory(root), image_directory(root)):
        files.make_directory(path)
    files.sync_dir(root)
    files.sync_dir(root.rpartition("/")[0] or "/")


def _read_format(files: Files, root: str) -> tuple[FormatState, _FormatFile | None]:
    path = f"{root}/{_FORMAT_NAME}"
    data = read_or_empty(files, path, FORMAT_BYTES_MAX)
    if data is None:
        return FormatState.ABSENT, None
    try:
        found = msgspec.json.decode(data, type=_FormatFile)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return FormatState.GARBAGE, None
    if found.product != _PRODUCT:
        return FormatState.GARBAGE, None
    return (FormatState.KNOWN if found.format == FORMAT else FormatState.UNKNOWN), found


def _promise(files: Files, root: str) -> Promise:
    try:
        slots = SlotPair.open(files, promises_path(root))
    except ReplicaDamaged:
        return Promise.LOST
    slots.close()
    return Promise.NONE if decode_kept(slots.value).hard_state is None else Promise.GIVEN


def _create(files: Files, root: str, options: RaftLogOptions) -> _FormatFile:
    """The format file comes last: while it is missing nothing was promised."""
    SlotPair.create(files, promises_path(root), encode_kept(Kept()))
    files.sync_dir(root)
    value = _FormatFile(_PRODUCT, FORMAT, options.segment_bytes)
    replace_file(files, root, _FORMAT_NAME, (msgspec.json.encode(value),))
    return value


def _clear_directories(files: Files, root: str) -> None:
    slots = SlotPair.open(files, promises_path(root))
    slots.secure()
    slots.put(encode_kept(Kept()))
    slots.close()
    for directory in (log_directory(root), image_directory(root)):
        for name in files.list(directory):
            files.unlink(f"{directory}/{name}")
        files.sync_dir(directory)
