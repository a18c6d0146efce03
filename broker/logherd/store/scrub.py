"""Looking for damage in what is rarely read: the log of an open store is read through, piece by piece."""

from logherd.store.errors import StoreDamaged
from logherd.store.files import Files
from logherd.store.mending import replica_checkpoint
from logherd.store.scan import Scanned, scan_records
from logherd.store.segment import Segment
from logherd.store.verify import open_segments

__all__ = ["Scrub"]


class Scrub:
    """One walk over the committed log. One file is open at a time; retention may delete it meanwhile."""

    def __init__(self, files: Files, root: str) -> None:
        self._files = files
        self._root = root
        self._segment: Segment | None = None
        self._bare_end = 0
        self.position = 0
        """How far it is."""

    def step(self, start: int, end: int, bytes_max: int) -> StoreDamaged | None:
        """Verify about so many bytes of [start, end), which is committed, where the step before stopped; whole records.
        What is found damaged; the walk goes on behind the segment. Blocks for the read. Raises: StoreDamaged without a
        checkpoint, OSError."""
        self.position = max(self.position, start)
        segment = self._segment_at(self.position)
        if segment is None:
            return self._missing(end)
        stop = min(self.position + bytes_max, end)
        at = self.position - segment.start
        for found in scan_records(segment.view, segment.start, at, self._bare_end, segment.readable):
            if isinstance(found, Scanned):
                self.position = found.position + found.size
                if self.position >= stop:
                    return None
                continue
            self.position = segment.end
            if found.reason is not None and segment.start + found.offset < end:
                what = found.reason or "zeros where a record should be"
                return StoreDamaged(segment.path, found.offset, what, self._root)
        return None

    def _missing(self, end: int) -> StoreDamaged | None:
        """No file holds the position: retention has deleted it meanwhile, or the file before is short. The walk goes on
        with the next one that is there."""
        at, known = self.position, open_segments(self._files, self._root)
        self.position = min([each.start for each in known if each.start > at], default=end)
        before = next((each for each in reversed(known) if each.end <= at), None)
        if before is None or before.size >= max(each.size for each in known):
            return None
        return StoreDamaged(before.path, before.size, "the file ends here, others are longer", self._root)

    def _segment_at(self, position: int) -> Segment | None:
        segment = self._segment
        if segment is not None and segment.start <= position < segment.end:
            return segment
        self.close()
        self._bare_end = replica_checkpoint(self._files, self._root).bare_end
        known = open_segments(self._files, self._root)
        self._segment = next((each for each in known if each.start <= position < each.end), None)
        return self._segment

    def close(self) -> None:
        """Let go of the file. Idempotent."""
        if self._segment is not None:
            self._segment.close()
            self._segment = None
