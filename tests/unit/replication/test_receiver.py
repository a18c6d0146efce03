"""What a follower acknowledges, cuts and keeps, whatever its leader sends and however late."""

from zlib import crc32

import pytest

from logherd.kit.errors import InvariantError
from logherd.model.names import Epoch, Position
from logherd.raft.memory import MemoryLog
from logherd.replication.durable import DurableEnd
from logherd.replication.epochs import ORIGIN, Point
from logherd.replication.log import Image, Span, SpanDamagedError
from logherd.replication.messages import Append, AppendAck, AppendReject, CopyAck, CopyChunk, Heartbeat, HeartbeatAck
from logherd.replication.receiver import Flushed, FromLeader, Receiver
from unit.replication.logs import SIZE, even_log


class Follower:
    """A receiver over `log`, of which everything is flushed."""

    def __init__(self, log: MemoryLog, *, commit: int = 0) -> None:
        self.log = log
        self.durable = DurableEnd(log.end)
        self.receiver = Receiver(log, self.durable, Position(commit))

    def take(self, body: Append | Heartbeat | CopyChunk) -> list[object]:
        """Its answers; what was written is not flushed yet."""
        out = self.receiver.step(FromLeader(body), 0)
        if out.wrote:
            self.durable.wrote(self.log.end, 0)
        self.commit = out.commit
        return list(out.answers)

    def flush(self) -> list[object]:
        self.durable.flushed(self.durable.token)
        return list(self.receiver.step(Flushed(), 0).answers)


def append(log: MemoryLog, after: int, *, commit: int = 0, generation: int = 1, size: int = 1 << 20) -> Append:
    """What the leader with this log sends."""
    return Append(generation, log.read(Position(after), size), Position(commit))


def test_what_replaces_a_cut_is_not_durable_because_what_was_cut_had_been() -> None:
    mine, theirs = Follower(even_log(1, 1, 1)), even_log(1, 2, 2)
    assert mine.take(append(theirs, SIZE)) == []
    assert mine.durable.position == SIZE
    assert mine.take(append(theirs, 0)) == [AppendAck(1, theirs.end, Position(SIZE))]
    assert mine.flush() == [AppendAck(1, theirs.end, theirs.end)]


def test_who_takes_a_copy_has_not_lost_what_it_acknowledged_while_the_copy_is_not_flushed() -> None:
    """Until it is, the log that was here before is on the disk, as far as it was flushed."""
    theirs = even_log(1, 1, 1, 1)
    mine = Follower(even_log(1, 1), commit=SIZE)
    assert mine.take(append(theirs, SIZE, size=SIZE)) == [AppendAck(1, Position(2 * SIZE), Position(2 * SIZE))]
    mine.take(CopyChunk(2, image(theirs, 4 * SIZE), 0, b""))
    assert mine.durable.position == SIZE, "for an acknowledgement, and for who applies"
    assert mine.take(Heartbeat(1, Position(0))) == [HeartbeatAck(1, Position(2 * SIZE))]
    mine.flush()
    assert mine.take(Heartbeat(2, Position(0))) == [HeartbeatAck(2, Position(4 * SIZE))]


def test_what_is_committed_is_never_cut() -> None:
    mine, theirs = Follower(even_log(1, 1), commit=2 * SIZE), even_log(1, 2, 2)
    with pytest.raises(SpanDamagedError):
        mine.take(append(theirs, SIZE))
    assert mine.log.records(Position(0), mine.log.end) == even_log(1, 1).records(Position(0), mine.log.end)


def test_what_is_committed_here_is_not_compared_again() -> None:
    mine = Follower(even_log(1, 1), commit=2 * SIZE)
    mine.log.keep_image(Image("i", Point(Epoch(1), Position(SIZE)), mine.log.seal_at(Position(SIZE)), 0, 0, b""), b"")
    mine.log.compact(Position(SIZE))
    theirs = even_log(1, 1, 1)
    assert mine.take(append(theirs, 0)) == []
    assert mine.flush() == [AppendAck(1, theirs.end, theirs.end)]


def test_what_an_earlier_receiver_wrote_is_acknowledged_once_it_is_flushed_and_only_then() -> None:
    """A new connection finds it here: the leader asks, and nothing more need come to it."""
    theirs = even_log(1, 1)
    mine = Follower(MemoryLog())
    mine.take(append(theirs, 0))
    mine.receiver = Receiver(mine.log, mine.durable, Position(0), generation=1)
    question = Append(2, Span(theirs.epochs.point_at(theirs.end), theirs.end, (), b""), Position(0))
    assert mine.take(question) == [AppendAck(2, theirs.end, Position(0))]
    assert mine.take(append(theirs, 0, generation=2)) == [AppendAck(2, theirs.end, Position(0))]
    assert list(mine.receiver.step(Flushed(), 0).answers) == [AppendAck(2, theirs.end, Position(0))]
    assert mine.flush() == [AppendAck(2, theirs.end, theirs.end)]
    assert mine.flush() == [], "all of it was said"


def test_what_is_flushed_before_it_is_asked_for_is_not_owed() -> None:
    theirs = even_log(1, 1)
    mine = Follower(even_log(1, 1))
    assert mine.take(append(theirs, 0)) == [AppendAck(1, theirs.end, theirs.end)]
    assert mine.flush() == []


def test_what_overlaps_and_goes_on_cuts_nothing() -> None:
    mine, theirs = Follower(even_log(1, 1)), even_log(1, 1, 1)
    out = mine.receiver.step(FromLeader(append(theirs, SIZE)), 0)
    assert (out.cut, out.grown) == (None, 2 * SIZE)


@pytest.mark.parametrize("asked", [1, 2, 3])
def test_a_leader_that_lacks_what_is_committed_here_is_none(asked: int) -> None:
    """At the commit, above the begin of what is kept, and there."""
    mine = Follower(even_log(1, 1, 1), commit=3 * SIZE)
    mine.log.keep_image(Image("i", Point(Epoch(1), Position(SIZE)), mine.log.seal_at(Position(SIZE)), 0, 0, b""), b"")
    mine.log.compact(Position(SIZE))
    place = Position(asked * SIZE)
    with pytest.raises(InvariantError, match="receiver 3: a leader holds what is committed"):
        mine.take(Append(1, Span(Point(Epoch(2), place), place, (), b""), Position(0)))


def test_nothing_is_taken_for_compared_that_is_not_here() -> None:
    with pytest.raises(InvariantError, match="receiver 1"):
        Receiver(even_log(1), DurableEnd(SIZE), Position(0), verified=Position(SIZE + 1))


def test_a_commit_position_is_believed_up_to_what_is_compared_and_never_falls() -> None:
    mine, theirs = Follower(even_log(1, 1, 1)), even_log(1, 1, 2)
    mine.take(Heartbeat(1, Position(3 * SIZE)))
    assert mine.commit == 0
    mine.take(append(theirs, SIZE, size=SIZE, commit=3 * SIZE))
    assert mine.commit == 2 * SIZE
    mine.take(Heartbeat(2, Position(SIZE)))
    assert mine.commit == 2 * SIZE


def test_a_heartbeat_tells_who_hears_nothing_else_what_is_committed() -> None:
    mine, theirs = Follower(MemoryLog()), even_log(1, 1)
    mine.take(append(theirs, 0))
    mine.take(Heartbeat(1, Position(SIZE)))
    assert mine.commit == SIZE


def test_what_is_compared_stays_so_when_less_of_it_comes_again() -> None:
    mine, theirs = Follower(MemoryLog()), even_log(1, 1)
    mine.take(append(theirs, 0))
    mine.flush()
    assert mine.take(append(theirs, 0, size=SIZE)) == [AppendAck(1, theirs.end, theirs.end)]


def test_what_an_earlier_receiver_of_this_leader_has_compared_need_not_be_compared_again() -> None:
    mine = Follower(even_log(1, 1))
    mine.receiver = Receiver(mine.log, mine.durable, Position(0), generation=1, verified=Position(SIZE))
    mine.take(Heartbeat(1, Position(2 * SIZE)))
    assert mine.commit == SIZE


def test_where_a_log_is_cut_is_told_together_with_what_is_new() -> None:
    """Whoever has derived something from what was cut must know."""
    mine, theirs = Follower(even_log(1, 1, 1)), even_log(1, 2)
    out = mine.receiver.step(FromLeader(append(theirs, 0)), 0)
    assert (out.cut, out.grown, out.wrote) == (SIZE, SIZE, True)


def test_a_restarted_exchange_knows_that_what_is_committed_is_the_leaders() -> None:
    mine = Follower(even_log(1, 1), commit=2 * SIZE)
    assert mine.receiver.verified == 2 * SIZE


def test_a_place_that_is_not_here_is_refused_with_a_hint() -> None:
    mine, theirs = Follower(even_log(1, 1), commit=SIZE), even_log(1, 1, 1, 1)
    question = Append(1, Span(theirs.epochs.point_at(theirs.end), theirs.end, (), b""), Position(0))
    assert mine.take(question) == [AppendReject(1, theirs.end, Point(Epoch(1), Position(2 * SIZE)))]


def image(log: MemoryLog, at: int, data: bytes = b"") -> Image:
    point = log.epochs.point_at(Position(at))
    return Image(f"at {at}", point, log.seal_at(Position(at)), crc32(data), len(data), b"")


def test_an_image_of_what_is_committed_here_is_not_taken_in() -> None:
    mine = Follower(even_log(1, 1), commit=2 * SIZE)
    assert mine.take(CopyChunk(1, image(mine.log, 2 * SIZE), 0, b"")) == [
        AppendAck(1, Position(2 * SIZE), Position(2 * SIZE))
    ]
    assert mine.log.epochs.base == ORIGIN


def test_after_an_image_only_what_was_committed_before_is_durable_until_it_is_flushed() -> None:
    theirs = even_log(2, 2, 2)
    mine = Follower(even_log(1, 1, 1))
    mine.take(CopyChunk(1, image(theirs, 2 * SIZE), 0, b""))
    assert (mine.log.end, mine.durable.position) == (2 * SIZE, 0)
    assert mine.flush() == [AppendAck(1, Position(2 * SIZE), Position(2 * SIZE))]


@pytest.mark.parametrize(("compared", "flushed"), [(2, 1), (0, 3)])
def test_who_takes_a_copy_tells_of_what_was_flushed_and_no_more(compared: int, flushed: int) -> None:
    """What was not compared in this life may have been acknowledged in the one before a loss of power."""
    theirs = even_log(1, 1, 1, 1)
    mine = Follower(even_log(*[1] * flushed))
    if compared:
        mine.take(append(theirs, 0, size=compared * SIZE))
    mine.take(CopyChunk(1, image(theirs, 4 * SIZE), 0, b""))
    assert mine.take(Heartbeat(1, Position(0))) == [HeartbeatAck(1, Position(flushed * SIZE))]


def test_one_copy_after_the_other_takes_nothing_back_that_was_acknowledged() -> None:
    theirs = even_log(1, 1, 1, 1)
    mine = Follower(even_log(1))
    mine.take(append(theirs, 0, size=SIZE))
    for at in (3 * SIZE, 4 * SIZE):
        mine.take(CopyChunk(1, image(theirs, at), 0, b""))
        assert mine.take(Heartbeat(1, Position(0))) == [HeartbeatAck(1, Position(SIZE))]


def test_a_log_of_another_history_that_an_image_replaces_counts_only_before_it() -> None:
    """It reached beyond the image, but not with what this leader has there."""
    mine = Follower(even_log(1, 1, 1, 1))
    mine.take(CopyChunk(1, image(even_log(2, 2), 2 * SIZE), 0, b""))
    assert mine.take(Heartbeat(1, Position(0))) == [HeartbeatAck(1, Position(2 * SIZE - 1))]


def test_a_receiver_made_anew_while_a_copy_is_not_flushed_takes_nothing_back_either() -> None:
    """A pre-vote that was lost ends one receiver and begins the next, over the same log."""
    theirs = even_log(1, 1, 1, 1)
    mine = Follower(even_log(1, 1))
    mine.take(CopyChunk(1, image(theirs, 4 * SIZE), 0, b""))
    mine.receiver = Receiver(mine.log, mine.durable, Position(4 * SIZE), generation=1)
    assert mine.take(Heartbeat(1, Position(0))) == [HeartbeatAck(1, Position(2 * SIZE))]
    mine.flush()
    assert mine.take(Heartbeat(2, Position(0))) == [HeartbeatAck(2, Position(4 * SIZE))]


def test_what_an_image_covers_is_committed_from_then_on() -> None:
    mine = Follower(even_log(1))
    mine.take(CopyChunk(1, image(even_log(2, 2), 2 * SIZE), 0, b""))
    mine.take(Heartbeat(1, Position(0)))
    assert mine.commit == 2 * SIZE


def test_a_chunk_of_an_earlier_exchange_is_dropped() -> None:
    mine = Follower(even_log(1))
    wanted = image(even_log(2, 2), 2 * SIZE)
    mine.take(append(even_log(1), 0, generation=2))
    assert mine.take(CopyChunk(1, wanted, 0, b"")) == []
    assert mine.log.epochs.base == ORIGIN


def test_an_image_that_the_log_continues_leaves_durable_what_was() -> None:
    mine = Follower(even_log(1, 1, 1))
    mine.take(append(even_log(1, 1, 1), 0))
    mine.take(CopyChunk(1, image(mine.log, 2 * SIZE), 0, b""))
    assert (mine.log.end, mine.durable.position, mine.receiver.verified) == (3 * SIZE, 3 * SIZE, 3 * SIZE)


def test_a_chunk_is_taken_at_its_place_only() -> None:
    data = b"0123456789"
    mine, wanted = Follower(even_log(1)), image(even_log(2, 2), 2 * SIZE, data)
    assert not mine.receiver.step(FromLeader(CopyChunk(1, wanted, 0, b"")), 0).wrote, "a question"
    assert mine.take(CopyChunk(1, wanted, 4, data[4:])) == [CopyAck(1, wanted.identity, 0)]
    assert mine.receiver.step(FromLeader(CopyChunk(1, wanted, 0, data[:4])), 0).wrote, "so it will be flushed"
    assert mine.take(CopyChunk(1, wanted, 0, data[:4])) == [CopyAck(1, wanted.identity, 4)]
    assert mine.take(CopyChunk(1, wanted, 4, data[4:9])) == [CopyAck(1, wanted.identity, 9)]
    assert mine.take(CopyChunk(1, wanted, 9, data[9:])) == [CopyAck(1, wanted.identity, 10)]
    assert mine.log.epochs.base == wanted.point
