"""Whole records out of a log's bytes, however those are cut."""

import pytest

from logherd.classic.runs import RunReader
from logherd.model.record import encode_blank
from unit.classic.logs import SEGMENT, MemoryLog, record


@pytest.mark.parametrize("size", [1, 91, SEGMENT - 1, SEGMENT, SEGMENT + 1, 4 * SEGMENT])
def test_records_come_out_at_any_cut_also_behind_the_end_of_a_file(size: int) -> None:
    log = MemoryLog(SEGMENT).fill(60)
    reader = RunReader(SEGMENT, SEGMENT, 1 << 20)
    runs = [run for at in range(0, len(log.data), size) for run in reader.feed(bytes(log.data[at : at + size]))]
    ends = [SEGMENT, *(run.end for run in runs)]
    assert ends[-1] == log.end > 3 * SEGMENT
    assert [run.after for run in runs] == ends[:-1]
    assert set(ends) <= set(log.bounds)
    for run in runs:
        here = log.data[run.after - SEGMENT : run.end - SEGMENT]
        assert run.data == bytes(here).rstrip(b"\0") or run.data == here


def test_a_file_may_leave_room_for_no_more_than_the_head_of_its_last_record() -> None:
    first = record(0, bytes(SEGMENT - 8 - len(record(0, b""))))
    second = record(SEGMENT)
    runs = RunReader(0, SEGMENT, 1 << 20).feed(first + encode_blank(8) + second)
    assert [(run.after, run.end, run.data) for run in runs] == [
        (0, SEGMENT, first + encode_blank(8)),
        (SEGMENT, SEGMENT + len(second), second),
    ]
