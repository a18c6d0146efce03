"""The changes of idempotent writers (H19); see `changes` for how they stand in the log.

    ["writer", name, epoch, run, [earlier runs], lasting, expired, ms]        opened by a run, or expired
    ["writer-", name]                                                         forgotten
    ["chunk", writer, part, topic, queue, generation, sequence, digest, skipped, first offset, count, ms]
                                                                            its messages are the next of their queue
    ["chunk-", writer, part, topic, queue, generation, sequence, kept]      only so many of its messages are there
    ["chunks", writer, part, topic, queue, generation, first sequence, [[digest, messages, [offset, count, ...]], ...]]

A "chunk" stands directly before its messages, in the same batch of appends. So when the log is cut between them, it is
the last of its kind, and the messages that are there are counted by whoever leads next, and written down as "chunk-".
`skipped` messages of a chunk were there already: it continues one that was cut. "chunks" is how a snapshot says it.
"""

import msgspec

__all__ = ["ChunkCut", "ChunkRow", "ChunkStored", "ChunksKept", "Place", "WriterForgotten", "WriterPut"]

Place = tuple[str, int, str, int]
"""(writer, part, topic, queue id): where sequences count."""

ChunkRow = tuple[str, int, list[int]]
"""(digest in hex, messages, [queue offset, count, queue offset, count, ...])"""


class WriterPut(msgspec.Struct, frozen=True, array_like=True, tag="writer"):
    name: str
    epoch: int
    run: str
    earlier_runs: list[str]
    lasting: bool
    expired: bool
    used_ms: int


class WriterForgotten(msgspec.Struct, frozen=True, array_like=True, tag="writer-"):
    name: str


class ChunkStored(msgspec.Struct, frozen=True, array_like=True, tag="chunk"):
    writer: str
    part: int
    topic: str
    queue_id: int
    generation: int
    sequence: int
    digest: str
    skipped: int
    first_offset: int
    count: int
    stored_ms: int

    @property
    def place(self) -> Place:
        return self.writer, self.part, self.topic, self.queue_id


class ChunkCut(msgspec.Struct, frozen=True, array_like=True, tag="chunk-"):
    """`kept` counts from the chunk's first message, so that it includes those that were skipped."""

    writer: str
    part: int
    topic: str
    queue_id: int
    generation: int
    sequence: int
    kept: int

    @property
    def place(self) -> Place:
        return self.writer, self.part, self.topic, self.queue_id


class ChunksKept(msgspec.Struct, frozen=True, array_like=True, tag="chunks"):
    writer: str
    part: int
    topic: str
    queue_id: int
    generation: int
    sequence: int
    rows: list[ChunkRow]

    @property
    def place(self) -> Place:
        return self.writer, self.part, self.topic, self.queue_id
