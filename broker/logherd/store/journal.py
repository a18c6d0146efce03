"""A run of bytes by position, kept in segment files of one length; what the bytes mean is not known here.

Files are `DIRECTORY/<20-digit start>`, allocated as zeros before anything is written into them. Bytes that were never
written, and those of files that are not there, read as zeros; so do those that the disk does not give, of which `lacks`
tells. A record may span segments.
"""

from collections.abc import Sequence

from logherd.kit.errors import ensure
from logherd.store.errors import ReplicaDamaged, StoreFull
from logherd.store.files import NO_SPACE, Buffer, Files
from logherd.store.readable import read_or_zeros, read_unless_lost, write_over
from logherd.store.segment import Segment, segment_start
from logherd.store.writer import NO_DESCRIPTOR

__all__ = ["Journal"]

_NOT_NOW = (*NO_SPACE, *NO_DESCRIPTOR)
_ZERO_STEP = 1 << 20


class Journal:
    """The open segments. One thread at a time; calls block on the disk and, unless they say more, raise OSError.

    Invariants: (1) a segment's file and name are durable before a byte of it counts as flushed; (2) `flush` covers
    every write before it.
    """

    __slots__ = ("_directory", "_files", "_segments", "_unflushed", "segment_bytes")

    def __init__(self, files: Files, directory: str, segment_bytes: int) -> None:
        self._files = files
        self._directory = directory
        self._segments: dict[int, Segment] = {}
        self._unflushed: dict[Segment, None] = {}
        self.segment_bytes = segment_bytes

    @classmethod
    def open(cls, files: Files, directory: str, segment_bytes: int) -> "Journal":
        """Take up the files as they are found; one whose allocation was interrupted is completed.

        Raises: ReplicaDamaged for a file that is no segment of this length, StoreFull.
        """
        journal = cls(files, directory, segment_bytes)
        for name in files.list(directory):
            start = segment_start(name)
            size = files.size(f"{directory}/{name}") or 0
            if start is None or start % segment_bytes or size > segment_bytes:
                what = f"no segment of {segment_bytes} bytes has this name or size"
                raise ReplicaDamaged(f"{directory}/{name}", 0, what)
            segment = journal._segments[start] = Segment(files, directory, start, segment_bytes)
            if size < segment_bytes:
                segment.created = False
                _allocate(segment, segment_bytes)
        return journal

    @property
    def end(self) -> int:
        """Where the last file ends."""
        return max((segment.end for segment in self._segments.values()), default=0)

    def place(self, position: int) -> tuple[str, int]:
        """The file and the byte in it, for messages."""
        start = position - position % self.segment_bytes
        return Segment(self._files, self._directory, start, self.segment_bytes).path, position - start

    def read(self, start: int, size: int) -> bytes:
        """Exactly `size` bytes."""
        parts = []
        while size > 0:
            inside = start % self.segment_bytes
            take = min(size, self.segment_bytes - inside)
            segment = self._segments.get(start - inside)
            parts.append(read_or_zeros(segment.file, inside, take) if segment else bytes(take))
            start, size = start + take, size - take
        return b"".join(parts)

    def lacks(self, start: int, end: int) -> bool:
        """Whether the disk does not give all that the files hold of [start, end)."""
        for segment in self._segments.values():
            first, last = max(start, segment.start), min(end, segment.end)
            if first < last and read_unless_lost(segment.file, first - segment.start, last - first) is None:
                return True
        return False

    def written_end(self, position: int) -> int:
        """The position behind the last byte that is not zero, `position` if all from there on are."""
        end = position
        for segment in self._segments.values():
            if segment.end <= end:
                continue
            for first, last in segment.file.written_ranges(max(position - segment.start, 0)):
                used = len(read_or_zeros(segment.file, first, last - first).rstrip(b"\0"))
                if used:
                    end = max(end, segment.start + first + used)
        return end

    def write(self, position: int, parts: Sequence[Buffer]) -> None:
        """Write all parts one after the other; a segment that is needed is made. Raises: StoreFull if it cannot be had
        now."""
        size = sum(map(len, parts))
        inside = position % self.segment_bytes
        if inside + size <= self.segment_bytes:
            self._write_inside(position, parts)
            return
        data = memoryview(b"".join(parts))
        for start in range(position - inside, position + size, self.segment_bytes):
            self._made(start)
        while data:
            take = min(len(data), self.segment_bytes - position % self.segment_bytes)
            self._write_inside(position, (data[:take],))
            position, data = position + take, data[take:]

    def _write_inside(self, position: int, parts: Sequence[Buffer]) -> None:
        inside = position % self.segment_bytes
        segment = self._made(position - inside)
        segment.file.write(inside, parts)
        segment.zeroed = max(segment.zeroed, inside + sum(map(len, parts)))
        self._unflushed[segment] = None

    def zero(self, start: int, end: int) -> None:
        """Write zeros over what files there are from `start` to `end`, also over what the disk does not give."""
        for segment in self._segments.values():
            first, last = max(start, segment.start), min(end, segment.end)
            for at in range(first, last, _ZERO_STEP):
                write_over(segment.file, at - segment.start, bytes(min(_ZERO_STEP, last - at)))
                self._unflushed[segment] = None

    def flush(self) -> None:
        """Make every write so far durable. A failure is final: see Files."""
        for segment in self._unflushed:
            segment.make_durable(self._directory)
            segment.file.flush()
        self._unflushed.clear()

    def reserve(self, position: int, segments: int) -> None:
        """See to it that so many segments exist behind the one of `position`. Raises: StoreFull if they cannot be
        had now."""
        start = position - position % self.segment_bytes
        for number in range(1, segments + 1):
            self._made(start + number * self.segment_bytes).make_durable(self._directory)

    def zero_ahead(self, position: int, bytes_max: int) -> bool:
        """Write zeros over so many bytes that nothing was written to yet, so that later flushes are short.

        False if every segment from `position` on is ready.
        """
        for start, segment in sorted(self._segments.items()):
            at = max(segment.zeroed, position - start)
            if segment.end > position and at < segment.size:
                size = min(bytes_max, segment.size - at)
                segment.file.write(at, (bytes(size),))
                segment.zeroed = at + size
                segment.make_durable(self._directory)
                segment.file.flush()
                return True
        return False

    def drop_below(self, position: int) -> None:
        """Delete the segments that end at or below `position`."""
        self._drop([start for start, segment in sorted(self._segments.items()) if segment.end <= position])

    def drop_all(self) -> None:
        """Delete every segment, the last one first."""
        self._drop(sorted(self._segments, reverse=True))

    def _drop(self, starts: list[int]) -> None:
        """Without a descriptor for the directory nothing is dropped: it could not be made durable."""
        if not starts:
            return
        directory = self._files.open_directory(self._directory)
        try:
            for start in starts:
                segment = self._segments.pop(start)
                self._unflushed.pop(segment, None)
                segment.close()
                self._files.unlink(segment.path)
            directory.sync()
        finally:
            directory.close()

    def _made(self, start: int) -> Segment:
        segment = self._segments.get(start)
        if segment is None:
            try:
                segment = Segment.create(self._files, self._directory, start, self.segment_bytes)
            except OSError as error:
                if error.errno not in _NOT_NOW:
                    raise
                raise StoreFull(f"no segment can be made in {self._directory}: {error.strerror}") from error
            self._segments[start] = segment
        return segment

    def close(self) -> None:
        """Close the files. What was not flushed is not durable."""
        for segment in self._segments.values():
            segment.close()


def _allocate(segment: Segment, size: int) -> None:
    ensure(not segment.created, "only a segment in the making is allocated", segment.path)
    try:
        segment.file.allocate(size)
    except OSError as error:
        if error.errno not in NO_SPACE:
            raise
        raise StoreFull(f"no space for {segment.path}: {error.strerror}") from error
