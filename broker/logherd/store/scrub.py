"""Looking for damage in what is rarely read: the log of an open store is read through, piece by piece."""

from logherd.store.errors import StoreDamaged
from logherd.store.files import Files
from logherd.store.mending import replica_checkpoint
from logherd.store.scan import Scanned, scan_records
from logherd.store.verify import open_segments

__all__ = ["Scrub"]


class Scrub:
    """One walk over the committed log. Each step opens what it needs, so retention may delete meanwhile."""

    def __init__(self, files: Files, root: str) -> None:
        self._files = files
        self._root = root
        self.position = 0
        """How far it is."""

    def step(self, start: int, end: int, bytes_max: int) -> StoreDamaged | None:
        """Verify about so many bytes of [start, end), which is committed, where the step before stopped; whole records.
        What is found damaged; the walk goes on behind the segment. Blocks for the read. Raises: OSError."""
        self.position = max(self.position, start)
        bare_end = replica_checkpoint(self._files, self._root).bare_end
        segments = open_segments(self._files, self._root)
        try:
            segment = next((each for each in segments if each.start <= self.position < each.end), None)
            if segment is None:
                self.position = end
                return None
            stop = min(self.position + bytes_max, end)
            for found in scan_records(segment.view, segment.start, self.position - segment.start, bare_end):
                if isinstance(found, Scanned):
                    self.position = found.position + found.size
                    if self.position >= stop:
                        return None
                    continue
                self.position = segment.end
                at = segment.start + found.offset
                if found.reason is not None and at < end:
                    return StoreDamaged(
                        segment.path, found.offset, found.reason or "zeros where a record should be", self._root
                    )
            return None
        finally:
            for segment in segments:
                segment.close()
