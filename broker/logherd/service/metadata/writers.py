"""Idempotent writers in memory: who may write, which chunks the log has; every change goes to the journal first.

Invariants:
  1. A chunk that is known here has its messages in the log, or they were appended in the same pass.
  2. Of each place only the newest generation is known: an older one is over, and what it repeats is refused.
  3. In a generation the known chunks are those of sequences 0, 1, 2, ... without a gap.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from logherd.service.metadata.changes import WriterChange
from logherd.service.metadata.journal import Journal
from logherd.service.metadata.writer_changes import (
    ChunkCut,
    ChunkRow,
    ChunksKept,
    ChunkStored,
    Place,
    WriterForgotten,
    WriterPut,
)

__all__ = ["Chunk", "Stream", "Writer", "Writers"]

_ROWS_PER_CHANGE = 200

QueueEnd = Callable[[str, int], int]
"""(topic, queue id) -> the queue offset that the next message would get."""


@dataclass(slots=True)
class Chunk:
    """A chunk of `total` messages. `runs` are the queue offsets of those in the log: first, count, first, count, ...

    They are all, except for the last chunk of its stream, in which the log may have been cut. `end` is the position
    that makes it durable, 0 if it is known from the log itself.
    """

    digest: str
    total: int
    runs: tuple[int, ...]
    end: int

    @property
    def present(self) -> int:
        """How many of its messages, from the first on, are in the log."""
        return sum(self.runs[1::2])


@dataclass(slots=True)
class Stream:
    """The newest generation of one place."""

    generation: int
    chunks: list[Chunk] = field(default_factory=list)


@dataclass(slots=True)
class Writer:
    """`used_ms` is when it last opened or stored something, ms since 1970 UTC."""

    epoch: int
    run: str
    earlier_runs: tuple[str, ...]
    lasting: bool
    expired: bool
    used_ms: int
    streams: dict[tuple[int, str, int], Stream] = field(default_factory=dict)


class Writers:
    """Writers by name. The returned positions are those to wait for before a change is answered."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._table: dict[str, Writer] = {}
        self._newest: ChunkStored | None = None
        self.chunk_count = 0
        self.floor = 0
        """The position that makes every chunk durable that was in the log when this leadership began."""
        self.get = self._table.get

    def __iter__(self) -> Iterator[tuple[str, Writer]]:
        return iter(tuple(self._table.items()))

    def __len__(self) -> int:
        return len(self._table)

    # ---- changes of the leader; all raise MetadataRefusedError, and then nothing changed

    def put(self, change: WriterPut) -> int:
        """A run opens the writer, or it expires."""
        position = self._journal.append(change)
        self._put(change)
        return position

    def forget(self, name: str) -> int:
        """Nothing of it is remembered any more."""
        change = WriterForgotten(name)
        position = self._journal.append(change)
        self._forget(change)
        return position

    def announce(self, change: ChunkStored) -> None:
        """Write down that the chunk's messages follow. The caller appends them at once, and then says `stored`."""
        self._journal.append(change)

    def stored(self, change: ChunkStored, end: int) -> Chunk:
        """The messages of the announced chunk were appended; `end` is where the log ends now."""
        return self._store(change, end)

    def withdraw(self, change: ChunkStored) -> None:
        """The messages of the announced chunk could not be appended, none of them."""
        self._store(change, 0)
        cut = ChunkCut(*change.place, change.generation, change.sequence, change.skipped)
        self._journal.append(cut)
        self._cut(cut)

    def become(self, other: "Writers") -> None:
        """Hold what another holds."""
        self._table.clear()  # the dict stays: see `get`
        self._table.update(other)
        self._newest, self.chunk_count = other.newest, other.chunk_count

    @property
    def newest(self) -> ChunkStored | None:
        """The last chunk in the log, in which it may have been cut."""
        return self._newest

    def begin_epoch(self, queue_end: QueueEnd) -> None:
        """A leadership begins, and its barrier was appended: see whether the log was cut inside its last chunk."""
        newest = self._newest
        if newest is not None:
            present = queue_end(newest.topic, newest.queue_id) - newest.first_offset
            if present < newest.count:
                kept = newest.skipped + max(present, 0)
                cut = ChunkCut(*newest.place, newest.generation, newest.sequence, kept)
                self._journal.append(cut)
                self._cut(cut)
        self.floor = self._journal.position

    def forget_topic(self, topic: str) -> None:
        """The topic is deleted: its queues begin again, and so nothing can be continued in them."""
        for writer in self._table.values():
            for key in [key for key in writer.streams if key[1] == topic]:
                self.chunk_count -= len(writer.streams.pop(key).chunks)
        if self._newest is not None and self._newest.topic == topic:
            self._newest = None

    # ---- from the log

    def apply(self, change: WriterChange) -> None:
        """Take a change that is in the log already."""
        match change:
            case ChunkStored():
                self._store(change, 0)
            case ChunkCut():
                self._cut(change)
            case ChunksKept():
                self._keep(change)
            case WriterPut():
                self._put(change)
            case WriterForgotten():
                self._forget(change)

    def as_changes(self) -> Iterator[WriterChange]:
        """The whole state for a snapshot; it may change between two values."""
        for name, writer in self:
            yield _put_of(name, writer)
            for (part, topic, queue_id), stream in tuple(writer.streams.items()):
                chunks = tuple(stream.chunks)
                for at in range(0, len(chunks), _ROWS_PER_CHANGE):
                    rows: list[ChunkRow] = [
                        (chunk.digest, chunk.total, list(chunk.runs)) for chunk in chunks[at : at + _ROWS_PER_CHANGE]
                    ]
                    yield ChunksKept(name, part, topic, queue_id, stream.generation, at, rows)

    def _put(self, change: WriterPut) -> None:
        writer = self._table.get(change.name)
        if writer is None:
            writer = self._table[change.name] = Writer(0, "", (), lasting=True, expired=False, used_ms=0)
        writer.epoch, writer.run, writer.earlier_runs = change.epoch, change.run, tuple(change.earlier_runs)
        writer.lasting, writer.expired, writer.used_ms = change.lasting, change.expired, change.used_ms
        if change.expired:
            self._drop_chunks(writer)

    def _forget(self, change: WriterForgotten) -> None:
        writer = self._table.pop(change.name, None)
        if writer is not None:
            self._drop_chunks(writer)

    def _drop_chunks(self, writer: Writer) -> None:
        self.chunk_count -= sum(len(stream.chunks) for stream in writer.streams.values())
        writer.streams.clear()

    def _stream(self, place: Place, generation: int) -> Stream | None:
        """The stream at this place in this generation; None if it is over, or nobody knows the writer any more."""
        writer = self._table.get(place[0])
        if writer is None:
            return None
        stream = writer.streams.get(place[1:])
        if stream is not None and stream.generation >= generation:
            return stream if stream.generation == generation else None
        if stream is not None:
            self.chunk_count -= len(stream.chunks)
        stream = writer.streams[place[1:]] = Stream(generation)
        return stream

    def _store(self, change: ChunkStored, end: int) -> Chunk:
        self._newest = change
        runs = (change.first_offset, change.count)
        chunk = Chunk(change.digest, change.skipped + change.count, runs, end)
        stream = self._stream(change.place, change.generation)
        if stream is None:
            return chunk
        self._table[change.writer].used_ms = change.stored_ms
        if change.sequence < len(stream.chunks):
            chunk.runs = _first(stream.chunks[change.sequence].runs, change.skipped) + runs
            stream.chunks[change.sequence] = chunk
        else:
            stream.chunks.append(chunk)
            self.chunk_count += 1
        return chunk

    def _cut(self, change: ChunkCut) -> None:
        stream = self._stream(change.place, change.generation)
        if stream is not None and change.sequence == len(stream.chunks) - 1:
            chunk = stream.chunks[-1]
            chunk.runs = _first(chunk.runs, change.kept)
            chunk.end = 0  # where it ended no longer says anything of this log, which may never go so far

    def _keep(self, change: ChunksKept) -> None:
        stream = self._stream(change.place, change.generation)
        if stream is None:
            return
        for sequence, (digest, total, runs) in enumerate(change.rows, change.sequence):
            if sequence == len(stream.chunks):
                stream.chunks.append(Chunk(digest, total, tuple(runs), 0))
                self.chunk_count += 1


def _first(runs: tuple[int, ...], count: int) -> tuple[int, ...]:
    """The runs of the first `count` messages."""
    found: list[int] = []
    for first, length in zip(runs[::2], runs[1::2], strict=True):
        taken = min(length, count)
        if taken > 0:
            found += (first, taken)
        count -= taken
    return tuple(found)


def _put_of(name: str, writer: Writer) -> WriterPut:
    return WriterPut(
        name, writer.epoch, writer.run, list(writer.earlier_runs), writer.lasting, writer.expired, writer.used_ms
    )
