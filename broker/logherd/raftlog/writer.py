"""The writer thread's side of a member's log: changes become durable in their order.

    promises          two slots: term and vote, the log's base, how far it was flushed (kept.py)
    log/<position>    segments of records (raft/record.py)
    images/<place>    the newest image and the one before it (image_file.py)

Term and vote are written last in a batch: a member whose founding was cut short has promised nothing. But that the
cluster is another one, since an operator has replaced the quorum, is written first: a crash must not leave the record
with the new voters in the log of a member that still answers those who were given up. A failed write or flush is final,
because the system may have thrown the pages away and would answer a second flush with success.
"""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from msgspec.structs import replace

from logherd.kit.errors import ensure
from logherd.model.names import Position
from logherd.raft.record import HEADER_SIZE, Record
from logherd.raft.store import HardState
from logherd.raftlog.changes import Change, Compacted, Cut, ImageKept, Restarted
from logherd.raftlog.image_file import encode_image_head, image_name, image_place
from logherd.raftlog.kept import Kept, encode_kept
from logherd.raftlog.options import RaftLogOptions
from logherd.store.errors import StoreFull, StoreStopped
from logherd.store.files import Files
from logherd.store.journal import Journal
from logherd.store.slots import SlotPair
from logherd.store.whole_file import replace_file
from logherd.store.writer import NO_DESCRIPTOR

__all__ = ["IMAGES_KEPT", "LogFiles", "image_directory", "log_directory", "promises_path"]

IMAGES_KEPT = 2

_TENDS_FOR_MARK = 10
"""While records keep coming the mark is noted at each tenth end of `tend` (each second), not at each: it is a flush of
its own, for which one put in a hundred had to wait."""
_ZERO_STEP = 256 << 10
"""Zeroed at a time; a batch that comes meanwhile waits for it, 1 or 2 ms."""
_ZEROS_PAY_BELOW = 48 << 10
"""Mean bytes of a flush. A place that holds zeros saves 0.05 to 0.2 ms at each flush into it, and zeroing costs some ms
for each MiB: of three writers, those of 24 KB were a tenth faster with zeros, those of 150 KB a third slower."""


def log_directory(root: str) -> str:
    """Where the segments are."""
    return f"{root}/log"


def image_directory(root: str) -> str:
    """Where the images are."""
    return f"{root}/images"


def promises_path(root: str) -> str:
    """The file of the slots."""
    return f"{root}/promises"


@dataclass(slots=True)
class _Known:
    """What need not be found out anew for every batch: the promise that is on the disk, the segment behind which there
    are spare ones (its number), the mean length of a flush, how often all was tended to, and up to where."""

    promised: HardState | None = None
    reserved_in: int = -1
    flush_bytes_mean: int = 0
    tends: int = 0
    tended_at: int = -1


class LogFiles:
    """Invariants: (1) changes are made in the order of the calls; (2) `flushed` is never above what was flushed without
    an error; (3) after a failure nothing is ever called durable again. `lack` may be read by the owner's thread.

    A descriptor that the process does not get is as space that the disk does not have: each change opens a file before
    it does anything that cannot be repeated, so it waits, and whatever needs none goes on.
    """

    def __init__(
        self, files: Files, root: str, options: RaftLogOptions, *, journal: Journal, slots: SlotPair, kept: Kept,
        imaged: Position | None,
    ) -> None:  # fmt: skip
        """Go on from `kept`, which is durable as is all of the log up to its mark; the newest image is at `imaged`."""
        self._files = files
        self._root = root
        self._options = options
        self._journal = journal
        self._slots = slots
        self._kept = kept
        self._imaged = imaged
        self._flushed = self._written = (kept.mark_position, kept.mark_seal)
        self._known = _Known()
        self.failure: BaseException | None = None
        self.lack = ""

    def run(self, changes: deque[Change], hard: HardState | None) -> None:
        """Make the changes durable, taking each from the deque once it is under way, then `hard`.

        Raises: StoreFull: there is no space or descriptor yet, what is left in `changes` is to be tried again;
        StoreStopped.
        """
        self._guarded(lambda: self._run(changes, hard))

    def tend(self) -> bool:
        """A short piece of what can be done ahead, when no batch waits: spare segments, zeros, the mark.

        Blocks for some ms. True if there is more. Raises: StoreStopped.
        """
        try:
            return self._guarded(self._tend)
        except StoreFull as error:
            self.lack = str(error)
            return False

    @property
    def full(self) -> bool:
        """Whether space or descriptors are lacking: `lack` says which."""
        return bool(self.lack)

    def close(self) -> None:
        """Note how far the log is flushed, and close the files. Raises StoreStopped if that fails, nothing after a
        failure."""
        try:
            if self.failure is None:
                self._guarded(self._note_mark)
        finally:
            self._journal.close()
            self._slots.close()

    def _guarded(self, action: "Callable[[], bool | None]") -> bool:
        if self.failure is not None:
            raise StoreStopped(f"{self._root}: stopped by an earlier failure: {self.failure}") from self.failure
        try:
            return bool(action())
        except OSError as error:
            if error.errno in NO_DESCRIPTOR:
                raise StoreFull(f"{self._root}: no descriptor is left: {error.strerror}") from error
            self.failure = error
            raise StoreStopped(f"{self._root}: {error}; restart to recover") from error

    def _run(self, changes: deque[Change], hard: HardState | None) -> None:
        if hard is not None and self._kept.owner and hard.cluster.reset != self._kept.reset:
            self._promise(hard)
        while changes:
            change = changes[0]
            if isinstance(change, Record):
                self._write_some(changes)
                continue
            self._flush_log()
            match change:
                case Cut():
                    self._cut(change)
                case ImageKept():
                    self._keep_image(change)
                case Compacted():
                    self._compact(change)
                case Restarted():
                    self._restart(change)
            changes.popleft()
        self._flush_log()
        if hard is not None and hard is not self._known.promised:
            self._promise(hard)
        elif self._flushed[0] - self._kept.mark_position >= self._options.mark_bytes:
            self._note_mark()
        if self.full or self._written[0] // self._journal.segment_bytes != self._known.reserved_in:
            self._reserve()

    def _promise(self, hard: HardState) -> None:
        if hard != self._kept.hard_state:
            self._put(self._kept.with_hard_state(hard))
        self._known.promised = hard

    # ---- records -----------------------------------------------------------------------------------------------

    def _write_some(self, changes: deque[Change]) -> None:
        """One write of records that lie one behind the other, at most a window of them. Raises: StoreFull."""
        first = changes[0]
        frames: list[bytes] = []
        size, end, seal = 0, self._written[0], 0
        for change in changes:
            if not isinstance(change, Record) or (frames and change.start != end):
                break
            size += len(change.frame)
            if frames and size > self._options.window_bytes:
                break
            frames.append(change.frame)
            end, seal = change.end, change.checksum
        start = end - sum(map(len, frames))
        ensure(start >= self._written[0], "records continue the log", first, self._written)
        if end - self._flushed[0] > self._options.window_bytes:
            self._flush_log()
        self._journal.write(start, frames)
        for _ in frames:
            changes.popleft()
        self._written = (end, seal)

    def _flush_log(self) -> None:
        self._journal.flush()
        self._known.flush_bytes_mean += (self._written[0] - self._flushed[0] - self._known.flush_bytes_mean) // 16
        self._flushed = self._written

    def _cut(self, cut: Cut) -> None:
        """First the mark goes down, then the first record's header becomes zero, which is the cut; then the rest.

        Each is durable before the next begins. Whatever is written afterwards, no record of the cut part can continue
        the log again: the next one may begin in another place and would leave an old header as it is.
        """
        self._flushed = self._written = (cut.at, cut.seal)
        self._put(replace(self._kept, loose=max(self._kept.loose, cut.end)))
        clear(self._journal, cut.at, cut.first, cut.end)
        self._kept = replace(self._kept, loose=0)

    def _put(self, kept: Kept) -> None:
        position, seal = self._flushed
        self._kept = replace(kept, mark_position=position, mark_seal=seal)
        self._slots.put(encode_kept(self._kept))

    def _note_mark(self) -> None:
        if self._kept.owner and self._flushed[0] != self._kept.mark_position:
            self._put(self._kept)

    # ---- images ------------------------------------------------------------------------------------------------

    def _keep_image(self, change: ImageKept) -> None:
        """An own image that finds no space is left out: the log below it then stays as well."""
        self._note_mark()
        try:
            self._replace_image(change)
        except (StoreFull, OSError) as error:
            if change.needed or (isinstance(error, OSError) and error.errno not in NO_DESCRIPTOR):
                raise
            self.lack = str(error)

    def _replace_image(self, change: ImageKept) -> None:
        directory, name = image_directory(self._root), image_name(change.image.point)
        replace_file(self._files, directory, name, (encode_image_head(change.image), change.data))
        self._imaged = change.image.point.position
        for other in self._files.list(directory):
            if other != name and not self._is_wanted(other):
                self._files.unlink(f"{directory}/{other}")

    def _is_wanted(self, name: str) -> bool:
        """Whether an image besides the newest is the one before it."""
        names = [other for other in self._files.list(image_directory(self._root)) if image_place(other) is not None]
        return name in names[-IMAGES_KEPT:]

    def _compact(self, change: Compacted) -> None:
        if self._imaged is None or self._imaged < change.base.position:
            return
        base = change.base
        self._put(replace(self._kept, base_epoch=base.epoch, base_position=base.position, base_seal=change.seal))
        self._journal.drop_below(base.position)

    def _restart(self, change: Restarted) -> None:
        """The image is durable: from here on the log begins at it. Before that the old log was whole."""
        base = change.base
        self._flushed = self._written = (base.position, change.seal)
        self._put(
            replace(self._kept, base_epoch=base.epoch, base_position=base.position, base_seal=change.seal,
                    loose=max(self._kept.loose, change.end))
        )  # fmt: skip
        self._journal.drop_all()
        self._known.reserved_in = -1
        self._kept = replace(self._kept, loose=0)

    # ---- space -------------------------------------------------------------------------------------------------

    def _reserve(self) -> None:
        """Spare segments, once for each that is begun and again while there is no space; `tend` looks at the rest."""
        try:
            self._journal.reserve(self._written[0], self._options.spare_segments)
        except StoreFull as error:
            self.lack = str(error)
            return
        self._known.reserved_in = self._written[0] // self._journal.segment_bytes
        free, reserve = self._files.free_bytes(self._root), self._options.reserve_bytes
        self.lack = f"{self._root}: {free} bytes are free, {reserve} are kept free" if free < reserve else ""

    def _tend(self) -> bool:
        self._reserve()
        if self._known.flush_bytes_mean < _ZEROS_PAY_BELOW and self._journal.zero_ahead(self._written[0], _ZERO_STEP):
            return True
        known, flushed = self._known, self._flushed[0]
        if flushed == known.tended_at or known.tends % _TENDS_FOR_MARK == 0:
            self._note_mark()
        known.tends += 1
        known.tended_at = flushed
        return False


def clear(journal: Journal, at: int, first: int, end: int) -> None:
    """Make the log end at `at`, durably, when an old record may begin at `first`, and some may reach to `end`."""
    journal.zero(first, first + HEADER_SIZE)
    journal.flush()
    journal.zero(at, end)
    journal.flush()
