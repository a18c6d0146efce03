"""What is known of idempotent writers is the same however often the log says it (H19): snapshots rely on it."""

import pytest

from logherd.service.metadata.changes import WriterChange
from logherd.service.metadata.journal import Journal
from logherd.service.metadata.writer_changes import ChunkCut, ChunkStored, WriterForgotten, WriterPut
from logherd.service.metadata.writers import Writers
from unit.service.memory_log import MemoryLog


def opened(epoch: int, *, name: str = "w", expired: bool = False) -> WriterPut:
    earlier = [f"run-{number}" for number in range(1, epoch)]
    return WriterPut(name, epoch, f"run-{epoch}", earlier, lasting=True, expired=expired, used_ms=epoch)


def stored(sequence: int, first: int, count: int, *, generation: int = 0, skipped: int = 0) -> ChunkStored:
    return ChunkStored(
        "w", 0, "t", 0, generation, sequence, f"{generation}.{sequence}", skipped, first, count, 100 + first
    )


HISTORY: list[WriterChange] = [
    opened(1),
    stored(0, 0, 3),
    stored(1, 3, 4),
    ChunkCut("w", 0, "t", 0, 0, 1, 1),
    opened(2),
    stored(1, 9, 3, skipped=1),
    stored(2, 12, 2),
    stored(0, 14, 5, generation=1),
    stored(1, 19, 5, generation=1),
    opened(1, name="v"),
    WriterForgotten("w"),
    opened(1),
    stored(0, 24, 2),
    stored(0, 26, 2, generation=3),
    stored(1, 28, 1, generation=3),
    opened(1, name="v", expired=True),
    stored(2, 29, 2, generation=3),
    ChunkCut("w", 0, "t", 0, 3, 2, 0),
    WriterForgotten("w"),
]


def after(*histories: list[WriterChange]) -> Writers:
    writers = Writers(Journal(MemoryLog()))
    for history in histories:
        for change in history:
            writers.apply(change)
    return writers


@pytest.mark.parametrize("length", range(1, len(HISTORY) + 1))
def test_changes_that_a_snapshot_has_already_leave_what_is_known_as_it_is(length: int) -> None:
    """A snapshot is written while changes go on, all of which since its begin are applied on top of it."""
    history = HISTORY[:length]
    known = after(history)
    in_snapshot = list(known.as_changes())
    for begin in range(length + 1):
        read = after(in_snapshot, history[begin:])
        assert list(read) == list(known), begin
        chunks = [stream.chunks for _, writer in read for stream in writer.streams.values()]
        assert read.chunk_count == sum(map(len, chunks)), begin


def test_a_chunk_that_is_cut_again_and_again_is_known_by_what_is_there_of_each_run() -> None:
    history: list[WriterChange] = [
        opened(1),
        stored(0, 0, 4),
        ChunkCut("w", 0, "t", 0, 0, 0, 2),
        stored(0, 7, 2, skipped=2),
        ChunkCut("w", 0, "t", 0, 0, 0, 3),
        stored(0, 20, 1, skipped=3),
    ]
    runs = [(0, 4), (0, 2), (0, 2, 7, 2), (0, 2, 7, 1), (0, 2, 7, 1, 20, 1)]
    for length, expected in enumerate(runs, 2):
        [(_, writer)] = after(history[:length])
        [known] = writer.streams[0, "t", 0].chunks
        assert (known.total, known.present, known.runs) == (4, sum(expected[1::2]), expected)
