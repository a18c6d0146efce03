"""Following a master that sends as RocketMQ's does: from where it is told, cut anywhere, whatever its log is."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from logherd.classic.frames import encode_head, encode_report
from logherd.classic.master_feed import FollowOptions, FollowOutput, MasterFeed
from logherd.classic.runs import Run
from logherd.model.record import encode_blank
from unit.classic.logs import SEGMENT, MemoryLog, record

OPTIONS = FollowOptions(
    segment_bytes=SEGMENT, overlap_bytes=1500, record_bytes_max=SEGMENT // 2, report_ms=50, silence_ms=200
)


def sent(log: MemoryLog, position: int, chunk: int = 700) -> bytes:
    """What a master sends to who reports `position`, up to its end."""
    data = b""
    while position < log.end:
        part = bytes(log.committed_bytes(position, chunk))
        data += encode_head(position, len(part)) + part
        position += len(part)
    return data


def asked(output: FollowOutput) -> int:
    return int.from_bytes(output.report)


def take(own: MemoryLog, runs: tuple[Run, ...]) -> None:
    """Append as the store does: of a blank record the head, then zeros."""
    for run in runs:
        assert run.after == own.end
        own.data += run.data.ljust(run.end - run.after, b"\0")
        assert own.end == run.end
    own.committed_position = own.end


def follow(own: MemoryLog, master: MemoryLog, *, cuts: tuple[int, ...] = ()) -> MasterFeed:
    """One connection, until everything has arrived or something is wrong."""
    feed = MasterFeed(own, OPTIONS, 0)
    data, at = sent(master, asked(feed.begin(0))), 0
    for size in [*cuts, len(data)]:
        take(own, feed.step(data[at : at + size], 1).runs)
        at += size
    return feed


@settings(deadline=None)
@given(cuts=st.lists(st.integers(1, 3000), max_size=20).map(tuple), size=st.integers(1, 900))
def test_an_empty_log_becomes_the_masters_from_its_first_byte_on(cuts: tuple[int, ...], size: int) -> None:
    master, own = MemoryLog().fill(40, size=size), MemoryLog()
    feed = follow(own, master, cuts=cuts)
    assert (feed.fault, feed.compared) == ("", True)
    assert own.data == master.data


@pytest.mark.parametrize("cut", [1, 4096])
def test_an_empty_log_that_begins_later_becomes_the_masters_from_there_on(cut: int) -> None:
    master, own = MemoryLog(SEGMENT).fill(40), MemoryLog(SEGMENT)
    feed = follow(own, master, cuts=(cut,))
    assert (feed.fault, feed.compared) == ("", True)
    assert own.data == master.data


def test_the_first_report_is_never_zero_which_would_mean_the_masters_last_file() -> None:
    assert asked(MasterFeed(MemoryLog(), OPTIONS, 0).begin(0)) == 1
    assert asked(MasterFeed(MemoryLog().fill(3), OPTIONS, 0).begin(0)) == 1
    assert asked(MasterFeed(MemoryLog(SEGMENT), OPTIONS, 0).begin(0)) == SEGMENT


@pytest.mark.parametrize("begin", [0, 2 * SEGMENT])
@pytest.mark.parametrize("records", [1, 7, 25, 59])
def test_a_log_goes_on_where_it_ends_after_an_overlap(begin: int, records: int) -> None:
    master = MemoryLog(begin).fill(60)
    own = master.cut(master.bounds[-1 - records])
    end = own.end
    feed = MasterFeed(own, OPTIONS, 0)
    position = asked(feed.begin(0))
    assert position == max(end - OPTIONS.overlap_bytes, begin, 1)
    overlap = sent(master, position)[: end - position + 12]
    assert feed.step(overlap[:-200], 1).runs == ()
    assert not feed.compared
    own = master.cut(end)
    assert follow(own, master).compared
    assert own.data == master.data


def test_a_master_is_asked_for_nothing_that_it_has_deleted() -> None:
    """Below its begin it would be silent for ever."""
    master = MemoryLog().fill(60)
    behind = next(bound for bound in master.bounds[1:] if bound % SEGMENT == 0)
    own = master.cut(next(bound for bound in master.bounds if bound > behind))
    assert own.end - OPTIONS.overlap_bytes < behind
    feed = MasterFeed(own, OPTIONS, 0, master_begin=behind)
    assert asked(feed.begin(0)) == behind
    assert not feed.compared
    take(own, feed.step(sent(master, behind), 1).runs)
    assert feed.compared
    assert own.data == master.data


def test_nothing_is_appended_to_a_log_that_is_another() -> None:
    master, own = MemoryLog().fill(60), MemoryLog().fill(20, seed=1)
    before = bytes(own.data)
    feed = MasterFeed(own, OPTIONS, 0)
    output = feed.step(sent(master, asked(feed.begin(0))), 1)
    assert output.diverged
    assert output.runs == ()
    assert "differs at position" in output.fault
    assert feed.step(sent(master, 1), 2) == FollowOutput()
    assert own.data == before


def test_one_byte_in_the_overlap_is_enough() -> None:
    master = MemoryLog().fill(60)
    own = master.cut(master.bounds[-10])
    own.data[own.end - 700] ^= 1
    feed = MasterFeed(own, OPTIONS, 0)
    output = feed.step(sent(master, asked(feed.begin(0))), 1)
    assert output.diverged
    assert f"at position {own.end - 700} " in output.fault


def test_what_retention_deletes_during_the_comparison_is_asked_for_no_more() -> None:
    """The next connection begins where the log does by then."""
    master = MemoryLog().fill(60)
    behind = next(bound for bound in master.bounds[1:] if bound % SEGMENT == 0)
    own = master.cut(next(bound for bound in master.bounds if bound > behind))
    feed = MasterFeed(own, OPTIONS, 0)
    data = sent(master, asked(feed.begin(0)))
    feed.step(data[:300], 1)
    own.data, own.min_position = own.data[behind:], behind
    output = feed.step(data[300:], 2)
    assert "was deleted here before it was compared" in output.fault
    assert (output.runs, output.diverged) == ((), False)
    assert asked(MasterFeed(own, OPTIONS, 3).begin(3)) == behind


def test_what_lies_behind_a_blank_record_is_not_compared_and_not_taken() -> None:
    master = MemoryLog(padding=b"\x07").fill(70, size=333)
    own = MemoryLog()
    follow(own, master)
    clean = MemoryLog().fill(70, size=333)
    assert own.data == clean.data != master.data
    # The overlap now begins or ends in every place there is around the end of a file.
    behind = next(bound for bound in clean.bounds[1:] if bound % SEGMENT == 0)
    for more in range(8):
        part = clean.cut(clean.bounds[clean.bounds.index(behind) + more])
        feed = follow(part, master)
        assert not feed.fault
        assert part.data == clean.data


@pytest.mark.parametrize("spoiled", [0, 1, 50])
def test_what_follows_the_end_of_a_file_in_one_piece_is_compared(spoiled: int) -> None:
    """The piece begins before the end of a file that has something else behind its blank record."""
    master = MemoryLog(padding=b"\x07").fill(70, size=333)
    clean = MemoryLog().fill(70, size=333)
    behind = next(bound for bound in clean.bounds[1:] if bound % SEGMENT == 0)
    own = clean.cut(clean.bounds[clean.bounds.index(behind) + 2])
    for differs in (False, True):
        own.data[behind + spoiled] ^= differs
        feed = MasterFeed(own, OPTIONS, 0)
        position = asked(feed.begin(0))
        assert position < behind - 8
        data = bytes(master.data[position : own.end])
        output = feed.step(encode_head(position, len(data)) + data, 1)
        assert (output.diverged, feed.compared) == (differs, not differs)


@pytest.mark.parametrize(("size", "behind", "is_padding"), [(1096, 0, True), (1000, 0, False), (1096, 1, False)])
def test_padding_is_only_what_a_blank_record_that_fits_leaves_and_is_zeros_here(
    size: int, behind: int, is_padding: bool
) -> None:
    own = MemoryLog()
    own.data = bytearray(SEGMENT)
    own.data[3000:3008] = encode_blank(size)
    own.data[-1] = behind
    own.committed_position = SEGMENT
    feed = MasterFeed(own, OPTIONS, 0)
    position = asked(feed.begin(0))
    data = bytes(own.data[position:3500]) + b"\x07" * (SEGMENT - 3500)
    output = feed.step(encode_head(position, len(data)) + data, 1)
    assert (output.diverged, feed.compared) == (not is_padding, is_padding)


def test_garbage_in_place_of_records_is_a_difference_though_our_bytes_are_zeros() -> None:
    master = MemoryLog().fill(10)
    own = MemoryLog()
    own.data = bytearray(SEGMENT)
    own.committed_position = SEGMENT
    feed = MasterFeed(own, OPTIONS, 0)
    position = asked(feed.begin(0))
    assert feed.step(encode_head(position, 50) + b"\x01" * 50, 1).diverged
    assert master.end < SEGMENT


@pytest.mark.parametrize(
    ("data", "told"),
    [
        (encode_head(5000, 3) + b"abc", "sends position 5000, expected was 1"),
        (encode_head(1, -1), "sends -1 bytes"),
        (encode_head(1, 20) + b"\0" * 20, "no record at position 0"),
        (encode_head(1, 7) + b"\0\0\0\xcb\xd4\x31\x94", "no record at position 0"),
        (encode_head(1, 7) + b"\0\x10\0\xda\xa3\x20\xa7", "record of 4096 bytes"),
        (encode_head(1, 7) + (0x0800).to_bytes(4)[1:] + b"\xcb\xd4\x31\x94", "mappedFileSizeCommitLog"),
    ],
)
def test_what_no_master_sends_ends_the_connection(data: bytes, told: str) -> None:
    feed = MasterFeed(MemoryLog(), OPTIONS, 0)
    feed.begin(0)
    output = feed.step(data, 1)
    assert told in output.fault
    assert not output.diverged
    assert feed.step(b"x", 2) == FollowOutput()


@pytest.mark.parametrize("stage", ["comparing", "following"])
@pytest.mark.parametrize(
    ("by", "size"),
    [(-1, 10), (1, 10), (-1, 0), (1, 0), (0, -1), (0, -(1 << 31)), (0, (64 << 20) + 1), (0, (1 << 31) - 1)],
)
def test_a_master_that_goes_back_or_on_by_itself_is_left(stage: str, by: int, size: int) -> None:
    master = MemoryLog().fill(60)
    own = master.cut(master.bounds[-20])
    feed = MasterFeed(own, OPTIONS, 0)
    data = sent(master, asked(feed.begin(0)))
    take(own, feed.step(data[: 400 if stage == "comparing" else 3_200], 1).runs)
    assert feed.compared == (stage == "following")
    cut, feed = own.end, MasterFeed(own, OPTIONS, 0)
    position = asked(feed.begin(0))
    if stage == "following":
        part = bytes(own.data[position:])
        feed.step(encode_head(position, len(part)) + part, 1)
        position += len(part)
    output = feed.step((position + by).to_bytes(8, signed=True) + size.to_bytes(4, signed=True) + b"\0" * 10, 2)
    assert output.fault
    assert (output.runs, output.diverged, own.end) == ((), False, cut)


@pytest.mark.parametrize("position", [-1, -(1 << 63), (1 << 63) - 1])
def test_positions_that_no_log_has_end_the_connection(position: int) -> None:
    feed = MasterFeed(MemoryLog(), OPTIONS, 0)
    feed.begin(0)
    for data in (position.to_bytes(8, signed=True), (0).to_bytes(4)):
        output = feed.step(data, 1)
    assert output.fault


def test_a_record_that_would_cross_the_end_of_a_file_names_the_setting() -> None:
    own = MemoryLog().fill(1, size=1500).fill(1, size=1500)
    one = record(own.end, b"b" * 1000)
    feed = MasterFeed(own, OPTIONS, 0)
    data = bytes(own.data[asked(feed.begin(0)) :]) + one
    output = feed.step(encode_head(feed.asked, len(data)) + data, 1)
    assert "set store.segmentSize to the master's mappedFileSizeCommitLog" in output.fault


def test_reports_name_what_is_on_the_disk_and_come_in_time() -> None:
    master, own = MemoryLog().fill(10), MemoryLog()
    feed = MasterFeed(own, OPTIONS, 0)
    data = sent(master, asked(feed.begin(0)))
    output = feed.step(data, 1)
    assert output.report == b""
    take(own, output.runs)
    assert feed.step(b"", 2).report == encode_report(master.end)
    assert feed.step(b"", 3).report == b""
    assert feed.step(b"", 60).report == encode_report(master.end)
    assert "said nothing" in feed.step(b"", 300).fault


def test_a_master_that_never_says_anything_is_left() -> None:
    feed = MasterFeed(MemoryLog(), OPTIONS, 1000)
    feed.begin(1000)
    assert feed.step(b"", 1200).fault == ""
    assert feed.step(b"", 1201).fault == "the master said nothing for 201 ms"


def test_the_time_of_silence_begins_anew_with_whatever_a_master_says() -> None:
    feed = MasterFeed(MemoryLog(), OPTIONS, 0)
    feed.begin(0)
    feed.step(encode_head(1, 0), 150)
    assert feed.step(b"", 350).fault == ""
    assert "said nothing for 201 ms" in feed.step(b"", 351).fault


def test_what_reaches_the_disk_is_reported_at_once_unless_the_master_is_left() -> None:
    master, own = MemoryLog().fill(10), MemoryLog()
    feed = MasterFeed(own, OPTIONS, 0)
    data = sent(master, asked(feed.begin(0)))
    take(own, feed.step(data, 1).runs)
    assert feed.written(2) == encode_report(master.end)
    assert feed.written(3) == b""
    master.fill(1)
    take(own, feed.step(sent(master, feed.asked) + encode_head(0, 0), 4).runs)
    assert (own.end, bool(feed.fault)) == (master.end, True)
    own.committed_position += 1
    assert feed.written(100) == b""


def test_a_log_is_compared_once_its_last_byte_is() -> None:
    master = MemoryLog().fill(60)
    own = master.cut(master.bounds[-10])
    feed = MasterFeed(own, OPTIONS, 0)
    position = asked(feed.begin(0))
    overlap = bytes(own.data[position:])
    feed.step(encode_head(position, len(overlap)) + overlap[:-1], 1)
    assert not feed.compared
    feed.step(overlap[-1:], 2)
    assert feed.compared


def test_before_the_comparison_a_report_claims_nothing() -> None:
    master = MemoryLog().fill(60)
    own = master.cut(master.bounds[-5])
    feed = MasterFeed(own, OPTIONS, 0)
    position = asked(feed.begin(0))
    data = sent(master, position)
    assert feed.step(data[:100], 1).report == b""
    assert asked(feed.step(b"", 60)) == position + 88
    assert feed.step(b"", 61).report == b""
