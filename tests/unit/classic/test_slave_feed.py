"""What a Java slave is sent, by a slave that takes it as RocketMQ's does."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from logherd.classic.frames import TransferReader, encode_report
from logherd.classic.slave_feed import SlaveFeed, SlaveOptions, SlaveOutput
from unit.classic.logs import SEGMENT, MemoryLog

OPTIONS = SlaveOptions(chunk_bytes=300, window_bytes=1000, heartbeat_ms=50, silence_ms=200)


class Slave:
    """Takes bytes that begin where its log ends, any if it is empty, and acknowledges."""

    def __init__(self, feed: SlaveFeed, data: bytes = b"", begin: int = 0) -> None:
        self.feed = feed
        self.begin, self.data = begin, bytearray(data)
        self.reader = TransferReader()
        self.heartbeats = 0
        self.refusal = ""
        self.outputs: list[SlaveOutput] = []

    @property
    def end(self) -> int:
        return self.begin + len(self.data) if self.data else 0

    def report(self, now: int = 0) -> SlaveOutput:
        return self.take(self.feed.step(encode_report(self.end), now))

    def take(self, output: SlaveOutput) -> SlaveOutput:
        self.outputs.append(output)
        self.refusal = self.refusal or output.refusal
        for piece in self.reader.feed(b"".join(output.data)):
            if not piece.data:
                self.heartbeats += 1
                continue
            if not self.data:
                self.begin = piece.position
            assert piece.position == self.begin + len(self.data)
            self.data += piece.data
        return output


def pair(log: MemoryLog, *, admitted: bool = True, data: bytes = b"", begin: int = 0) -> Slave:
    feed = SlaveFeed(log, OPTIONS, 0)
    if admitted:
        feed.admit()
    return Slave(feed, data, begin)


def follow(slave: Slave, log: MemoryLog, rounds: int = 200) -> None:
    for _ in range(rounds):
        if slave.end == log.committed_position or slave.refusal:
            return
        slave.report()
    raise AssertionError(f"the slave stands at {slave.end} of {log.committed_position}")


def test_an_empty_slave_gets_the_log_from_its_beginning_not_from_its_last_file() -> None:
    log = MemoryLog().fill(60)
    slave = pair(log)
    follow(slave, log)
    assert (slave.begin, slave.data) == (0, log.data)
    assert len(log.data) > 2 * SEGMENT


def test_a_log_that_begins_later_is_given_from_there() -> None:
    log = MemoryLog(2 * SEGMENT).fill(60)
    slave = pair(log)
    follow(slave, log)
    assert (slave.begin, slave.data) == (2 * SEGMENT, log.data)


def test_only_committed_bytes_are_given() -> None:
    log = MemoryLog().fill(20)
    log.committed_position = log.bounds[7]
    slave = pair(log)
    follow(slave, log)
    assert slave.data == log.data[: log.bounds[7]]
    log.committed_position = log.end
    slave.take(slave.feed.step(b"", 1))
    follow(slave, log)
    assert slave.data == log.data


def test_what_a_crash_here_would_take_is_not_given_and_who_has_it_is_not_refused() -> None:
    """As after a promotion without loss: the slave has it from the former leader, whose disk was quicker."""
    log = MemoryLog().fill(20)
    log.flushed_position = log.bounds[4]
    slave, ahead = pair(log), pair(log, data=bytes(log.data))
    slave.report()
    assert slave.end == log.bounds[4] < OPTIONS.window_bytes
    assert ahead.report() == SlaveOutput()
    log.flushed_position = log.end
    follow(slave, log)
    assert slave.data == log.data
    log.fill(2)
    log.flushed_position = log.end
    ahead.take(ahead.feed.step(b"", 1))
    assert ahead.data == log.data


def test_nothing_is_given_before_the_slave_is_admitted_and_has_reported() -> None:
    log = MemoryLog().fill(5)
    slave = pair(log, admitted=False)
    assert slave.report() == SlaveOutput()
    slave.feed.admit()
    assert slave.take(slave.feed.step(b"", 1)).data
    other = pair(log)
    assert other.feed.step(b"", 100) == SlaveOutput()


def test_no_more_than_a_window_is_on_its_way() -> None:
    log = MemoryLog().fill(60)
    feed = SlaveFeed(log, OPTIONS, 0)
    feed.admit()
    feed.step(encode_report(0), 0)
    assert feed.sent == 1000
    assert feed.step(b"", 1).data == ()
    feed.step(encode_report(400), 2)
    assert (feed.sent, feed.acknowledged) == (1400, 400)


@pytest.mark.parametrize("admitted", [False, True])
@pytest.mark.parametrize("end", ["ahead", "gone"])
def test_a_slave_whose_log_cannot_go_on_is_told_why(end: str, *, admitted: bool) -> None:
    """At once: while it waits to be admitted it counts as a slave, and others wait until it is known."""
    log = MemoryLog(SEGMENT).fill(10)
    position = log.end + 1 if end == "ahead" else SEGMENT - 1
    output = pair(log, admitted=admitted).feed.step(encode_report(position), 0)
    assert output.data == ()
    assert str(position) in output.refusal
    assert "empty store" in output.refusal


def test_a_slave_that_reports_what_it_was_not_sent_is_sent_away() -> None:
    log = MemoryLog().fill(60)
    slave = pair(log)
    slave.report()
    assert "was sent what lies before" in slave.feed.step(encode_report(5000), 1).refusal
    assert slave.feed.step(b"", 2) == SlaveOutput()


@pytest.mark.parametrize(
    "reports", [(-1,), (-(1 << 63),), (0, -1), ((1 << 63) - 1,), (0, (1 << 63) - 1), (0, 5), (5, 0, 6), (-1, 0)]
)
def test_positions_that_no_slave_can_have_end_the_connection_and_bring_nothing(reports: tuple[int, ...]) -> None:
    """However many come in one read: the first says where it stands, and nothing was sent yet."""
    feed = pair(MemoryLog().fill(60)).feed
    output = feed.step(b"".join(each.to_bytes(8, signed=True) for each in reports), 0)
    assert output.data == ()
    assert output.refusal
    assert feed.step(encode_report(0), 1) == SlaveOutput()


def test_a_slave_that_speaks_is_not_silent() -> None:
    slave = pair(MemoryLog())
    for now in range(0, 1_000, 200):
        assert not slave.report(now).refusal
        assert not slave.feed.step(b"", now + 200).refusal
    assert "said nothing for 201 ms" in slave.feed.step(b"", now + 201).refusal


def test_a_slave_that_goes_back_is_given_nothing_twice() -> None:
    log = MemoryLog().fill(60)
    slave = pair(log)
    follow(slave, log)
    slave.report()
    sent = slave.feed.sent
    assert slave.feed.step(encode_report(100), 1) == SlaveOutput()
    assert (slave.feed.sent, slave.feed.acknowledged) == (sent, sent)


def test_nothing_is_given_while_the_connection_takes_no_more_and_all_of_it_later() -> None:
    log = MemoryLog().fill(60)
    slave = pair(log)
    slave.report()
    held = slave.feed.sent
    assert slave.feed.step(encode_report(slave.end), 1, room=False) == SlaveOutput()
    assert (slave.feed.sent, slave.feed.acknowledged) == (held, held)
    slave.take(slave.feed.step(b"", 2))
    follow(slave, log)
    assert slave.data == log.data


def test_a_silent_slave_is_sent_away_and_an_idle_one_hears_heartbeats() -> None:
    log = MemoryLog().fill(3)
    slave = pair(log)
    follow(slave, log)
    for now in range(0, 200, 40):
        slave.report(now)
    assert slave.heartbeats >= 2
    assert not slave.refusal
    assert "said nothing" in slave.feed.step(b"", 400).refusal


@given(cuts=st.lists(st.integers(1, 20), max_size=30), count=st.integers(0, 60))
def test_reports_are_understood_however_they_are_cut(cuts: list[int], count: int) -> None:
    log = MemoryLog().fill(60)
    feed = SlaveFeed(log, OPTIONS, 0)
    feed.admit()
    data = b"".join(encode_report(position) for position in range(count))
    reader, at = Slave(feed), 0
    reader.report()  # else it would report what it was not sent
    for size in [*cuts, len(data)]:
        reader.take(feed.step(data[at : at + size], 1))
        at += size
    assert not reader.refusal
    if count:
        assert feed.acknowledged == count - 1
    assert reader.data == log.data[: len(reader.data)]
