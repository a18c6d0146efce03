"""Both sides of shipping against each other, without any election: the brokers' message log will use it like this."""

from dataclasses import replace
from itertools import pairwise
from zlib import crc32

from hypothesis import given, settings
from hypothesis import strategies as st

from logherd.model.names import Epoch, Position
from logherd.raft.memory import MemoryLog
from logherd.raft.record import Kind
from logherd.replication.durable import DurableEnd
from logherd.replication.epochs import ORIGIN, Point
from logherd.replication.log import Image, Span, UnreadableError
from logherd.replication.messages import (
    Append,
    AppendAck,
    AppendReject,
    CopyAck,
    CopyChunk,
    Heartbeat,
    HeartbeatAck,
    ReplicaId,
)
from logherd.replication.receiver import Flushed, FromLeader, Receiver
from logherd.replication.sender import Mode, ShipOptions
from logherd.replication.shipper import Shipper
from logherd.replication.shipping import (
    Beat,
    Connected,
    FollowersSet,
    FromFollower,
    Grown,
    LostData,
    MutedSet,
    RefusedAck,
    ShipperTick,
)
from unit.replication.logs import even_log

F, G = ReplicaId("f"), ReplicaId("g")
SMALL = ShipOptions(
    message_bytes_max=80, window_messages=2, window_bytes=160, chunk_bytes=16, chunks_ahead=2, small_bytes=0
)  # fmt: skip


def log_of(*epochs: int) -> MemoryLog:
    return even_log(*epochs, segment_bytes=256)


def appends(messages: list[tuple[ReplicaId, object]], peer: ReplicaId) -> list[Append]:
    return [body for to, body in messages if to == peer and isinstance(body, Append)]


def in_step(log: MemoryLog, options: ShipOptions = SMALL) -> Shipper:
    """A shipper whose two followers have everything."""
    ship = Shipper(log, options, commit=Position(0), now=0)
    ship.step(FollowersSet((F, G)), 0)
    for peer in (F, G):
        ship.step(FromFollower(peer, AppendAck(1, log.end, log.end)), 0)
    return ship


def confirmed(generation: int, at: Position) -> FromFollower:
    return FromFollower(F, AppendAck(generation, at, at))


def test_a_slow_follower_fills_its_own_window_and_holds_up_nobody() -> None:
    log = log_of(1)
    ship = in_step(log)
    sent = []
    for _ in range(4):
        log.append(Kind.DATA, Epoch(1), b"more")
        sent += ship.step(Grown(), 1).messages
        ship.step(FromFollower(G, AppendAck(1, log.end, log.end)), 1)
    assert len(appends(sent, G)) == 4
    assert len(appends(sent, F)) == 2
    assert ship.match(G) == log.end


def test_small_records_wait_for_what_is_under_way_and_then_travel_together() -> None:
    log = log_of(1)
    ship = in_step(log, replace(SMALL, small_bytes=70, message_bytes_max=160))
    sizes = []
    for _ in range(2):
        log.append(Kind.DATA, Epoch(1), b"more")
        sizes.append(len(appends(ship.step(Grown(), 1).messages, F)))
    first = log.end
    assert sizes == [1, 0]
    freed = Position(first - 32)
    (together,) = appends(ship.step(FromFollower(F, AppendAck(1, freed, freed)), 1).messages, F)
    assert (together.span.previous.position, together.span.end) == (freed, first)


def test_what_is_not_small_is_sent_ahead_at_once() -> None:
    log = log_of(1)
    ship = in_step(log, replace(SMALL, small_bytes=70, message_bytes_max=160))
    log.append(Kind.DATA, Epoch(1), b"more")
    assert len(appends(ship.step(Grown(), 1).messages, F)) == 1
    for _ in range(2):
        log.append(Kind.DATA, Epoch(1), b"more")
        assert appends(ship.step(Grown(), 1).messages, F) == []
    log.append(Kind.DATA, Epoch(1), b"more")
    (ahead,) = appends(ship.step(Grown(), 1).messages, F)
    assert ahead.span.end == log.end


class Damaged(MemoryLog):
    """Its first record cannot be read."""

    def read(self, after: Position, bytes_max: int) -> Span:
        if after == 0:
            raise UnreadableError("damaged")
        return super().read(after, bytes_max)


def test_a_follower_that_needs_what_is_damaged_gets_nothing_and_holds_up_nobody() -> None:
    log = Damaged(256)
    log.append(Kind.DATA, Epoch(1), b"damaged")
    ship = Shipper(log, SMALL, commit=Position(0), now=0)
    (asked,) = appends(ship.step(FollowersSet((F, G)), 0).messages, F)
    ship.step(FromFollower(G, AppendAck(1, log.end, log.end)), 0)
    lacks_all = AppendReject(asked.generation, log.end, ORIGIN)
    (again,) = appends(ship.step(FromFollower(F, lacks_all), 0).messages, F)
    sent = list(ship.step(FromFollower(F, AppendAck(again.generation, Position(0), Position(0))), 1).messages)
    sender = ship.sender(F)
    assert sender is not None
    assert (sender.mode, sender.next) == (Mode.REPLICATE, Position(0))
    log.append(Kind.DATA, Epoch(1), b"more")
    sent += ship.step(Grown(), 3).messages
    assert len(appends(sent, G)) == 1
    sent += [each for now in range(4, 500) for each in ship.step(ShipperTick(), now).messages]
    assert [each for each in appends(sent, F) if each.span.data] == []
    assert F in [to for to, body in sent if isinstance(body, Heartbeat)]


def test_a_follower_far_behind_is_sent_so_much_a_second_while_one_in_step_is_not_limited() -> None:
    log = log_of(*[1] * 60)
    options = replace(SMALL, message_bytes_max=40, window_messages=100, catch_up_bytes_per_second=400)
    ship = Shipper(log, options, commit=Position(0), now=0)
    ship.step(FollowersSet((F, G)), 0)
    ship.step(FromFollower(G, AppendAck(1, log.end, log.end)), 0)
    ship.step(FromFollower(F, AppendReject(1, log.end, ORIGIN)), 0)
    sender, at, shipped = ship.sender(F), Position(0), list[int]()
    assert sender is not None
    for now in range(0, 5_000, 100):
        answer = AppendAck(sender.generation, at, at)
        sent = ship.step(FromFollower(F, answer), now).messages + ship.step(ShipperTick(), now).messages
        spans = [each.span for each in appends(sent, F) if each.span.data]
        at = max([at, *(span.end for span in spans)])
        shipped.append(sum(len(span.data) for span in spans))
    assert at == log.end, "it gets everything in the end"
    assert sum(shipped[: 1_000 // 100]) <= options.window_bytes + 400 + options.message_bytes_max
    log.append(Kind.DATA, Epoch(1), b"x" * 30)
    assert len(appends(ship.step(Grown(), 5_000).messages, G)) == 1


def test_who_is_in_step_neither_waits_for_the_allowance_of_those_behind_nor_takes_of_it() -> None:
    log = log_of(*[1] * 60)
    options = replace(SMALL, message_bytes_max=40, window_messages=100, window_bytes=400, catch_up_bytes_per_second=1)
    ship = Shipper(log, options, commit=Position(0), now=0)
    (asked,) = appends(ship.step(FollowersSet((F, G)), 0).messages, F)
    ship.step(FromFollower(G, AppendAck(1, log.end, log.end)), 0)
    at = log.end
    for _ in range(20):
        log.append(Kind.DATA, Epoch(1), b"x" * 30)
        assert len(appends(ship.step(Grown(), 1).messages, G)) == 1
        ship.step(FromFollower(G, AppendAck(1, log.end, log.end)), 1)
    (again,) = appends(ship.step(FromFollower(F, AppendReject(asked.generation, at, ORIGIN)), 2).messages, F)
    taken, at = 0, Position(0)
    for now in (2, 3):
        spans = [each.span for each in appends(ship.step(confirmed(again.generation, at), now).messages, F)]
        taken, at = taken + sum(len(span.data) for span in spans), spans[-1].end
    assert taken >= options.window_bytes
    assert appends(ship.step(confirmed(again.generation, at), 3).messages, F) == []
    log.append(Kind.DATA, Epoch(1), b"x" * 30)
    assert len(appends(ship.step(Grown(), 3).messages, G)) == 1


def test_who_lacks_a_record_gets_it_while_another_takes_all_that_those_behind_may() -> None:
    """As a member that was silent for a moment, while a new replica begins with nothing."""
    log = log_of(*[1] * 60)
    options = replace(SMALL, message_bytes_max=40, window_messages=100, catch_up_bytes_per_second=400)
    ship = Shipper(log, options, commit=Position(0), now=0)
    ship.step(FollowersSet((F, G)), 0)
    nearly = log.records(Position(0), log.end)[-2].end
    ship.step(FromFollower(F, AppendReject(1, log.end, ORIGIN)), 0)
    far, near, at, sent = ship.sender(F), ship.sender(G), Position(0), list[Append]()
    assert far is not None
    assert near is not None
    for now in range(0, 1_000, 50):
        out = ship.step(FromFollower(F, AppendAck(far.generation, at, at)), now).messages
        if now == 400:
            out += ship.step(FromFollower(G, AppendReject(1, log.end, log.epochs.point_at(nearly))), now).messages
            out += ship.step(FromFollower(G, AppendAck(near.generation, nearly, nearly)), now).messages
        out += ship.step(ShipperTick(), now).messages
        at = max([at, *(each.span.end for each in appends(out, F) if each.span.data)])
        sent += [each for each in appends(out, G) if each.span.data]
        assert at < log.end, "the other one is not done"
    assert [each.span.end for each in sent] == [log.end]


def test_followers_behind_catch_up_with_a_log_that_grows_faster_than_their_allowance() -> None:
    log = log_of(*[1] * 20)
    options = replace(SMALL, message_bytes_max=40, window_messages=100, window_bytes=400, catch_up_bytes_per_second=400)
    ship = Shipper(log, options, commit=Position(0), now=0)
    ship.step(FollowersSet((F, G)), 0)
    at, caught_up_at = dict.fromkeys((F, G), Position(0)), dict[ReplicaId, int]()
    for peer in (F, G):
        ship.step(FromFollower(peer, AppendReject(1, log.end, ORIGIN)), 0)
    for now in range(0, 10_000, 50):
        log.append(Kind.DATA, Epoch(1), b"x" * 30)
        out = ship.step(ShipperTick(), now).messages
        for peer in (F, G):
            sender = ship.sender(peer)
            assert sender is not None
            out += ship.step(FromFollower(peer, AppendAck(sender.generation, at[peer], at[peer])), now).messages
            at[peer] = max([at[peer], *(each.span.end for each in appends(out, peer) if each.span.data)])
            if not sender.behind:
                caught_up_at.setdefault(peer, now)
    assert set(caught_up_at) == {F, G}


def test_what_is_appended_meanwhile_may_be_taken_once_by_each_that_is_behind() -> None:
    log = log_of(*[1] * 60)
    options = replace(SMALL, message_bytes_max=40, window_messages=100, window_bytes=400, catch_up_bytes_per_second=1)
    ship = Shipper(log, options, commit=Position(0), now=0)
    ship.step(FollowersSet((F, G)), 0)
    at = dict.fromkeys((F, G), Position(0))
    for peer in (F, G):
        ship.step(FromFollower(peer, AppendReject(1, log.end, ORIGIN)), 0)

    def taken() -> int:
        """Bytes that the two get until they get no more."""
        taken, more = 0, 1
        for _ in range(100):
            if more == 0:
                return taken
            out, more = ship.step(ShipperTick(), 0).messages, 0
            for peer in (F, G):
                out += ship.step(FromFollower(peer, AppendAck(2, at[peer], at[peer])), 0).messages
                spans = [each.span for each in appends(out, peer) if each.span.data]
                at[peer] = max([at[peer], *(span.end for span in spans)])
                more += sum(len(span.data) for span in spans)
            taken += more
        raise AssertionError("there is no limit")

    assert options.window_bytes <= taken() <= options.window_bytes + 40
    before = log.end
    for _ in range(3):
        log.append(Kind.DATA, Epoch(1), b"x" * 30)
    assert abs(taken() - 2 * (log.end - before)) <= 40
    assert max(at.values()) < before, "both are still behind"


def test_a_message_is_no_larger_than_is_set_and_a_larger_record_travels_alone() -> None:
    log = log_of(1)
    ship = in_step(log, replace(SMALL, window_messages=10))
    for size in (1, 1, 1, 1, 110, 200):
        log.append(Kind.DATA, Epoch(1), b"x" * size)
    out, sizes = ship.step(Grown(), 1), list[list[int]]()
    while spans := [each.span for each in appends(out.messages, F)]:
        sizes.append([len(span.data) for span in spans])
        out = ship.step(FromFollower(F, AppendAck(1, spans[-1].end, spans[-1].end)), 1)
    head = 28
    assert sizes == [[2 * (head + 1)] * 2, [head + 110], [head + 200]]
    assert SMALL.window_bytes < head + 200


def test_a_copy_takes_no_more_a_second_than_followers_behind_may() -> None:
    log, state = log_of(1, 1, 1, 1), b"s" * 2_000
    ends = [record.end for record in log.records(Position(0), log.end)]
    image = Image("i", log.epochs.point_at(ends[2]), log.seal_at(ends[2]), crc32(state), len(state), b"")
    log.keep_image(image, state)
    log.compact(ends[1])
    ship = Shipper(log, replace(SMALL, chunks_ahead=100, catch_up_bytes_per_second=400), commit=Position(0), now=0)
    ship.step(FollowersSet((F,)), 0)
    ship.step(FromFollower(F, AppendReject(1, log.end, ORIGIN)), 0)
    sender, have, copied = ship.sender(F), 0, list[int]()
    assert sender is not None
    for now in range(0, 6_000, 100):
        answer = CopyAck(sender.generation, image.identity, have)
        sent = ship.step(FromFollower(F, answer), now).messages + ship.step(ShipperTick(), now).messages
        chunks = [body for _, body in sent if isinstance(body, CopyChunk)]
        have = max([have, *(chunk.offset + len(chunk.data) for chunk in chunks)])
        copied.append(have)
    assert have == len(state)
    assert copied[9] <= SMALL.window_bytes + 400 + SMALL.chunk_bytes


def test_heartbeats_pass_a_full_window() -> None:
    log = log_of(1)
    ship = in_step(log)
    for _ in range(4):
        log.append(Kind.DATA, Epoch(1), b"more")
        ship.step(Grown(), 1)
    beats = ship.step(ShipperTick(), 150).messages
    assert [to for to, body in beats if isinstance(body, Heartbeat)] == [F, G]


def test_silence_is_asked_again_with_growing_gaps() -> None:
    ship = Shipper(log_of(1), SMALL, commit=Position(0), now=0)
    ship.step(FollowersSet((F,)), 0)
    asked = [now for now in range(1, 12_000) if appends(ship.step(ShipperTick(), now).messages, F)]
    gaps = [after - before for before, after in pairwise(asked)]
    assert asked[0] == 500
    assert gaps[:3] == [1_000, 2_000, 4_000]
    assert max(gaps) <= SMALL.backoff_ms_max


def test_a_lost_message_is_found_without_an_answer() -> None:
    log = log_of(1)
    ship = in_step(log)
    log.append(Kind.DATA, Epoch(1), b"lost")
    ship.step(Grown(), 10)
    again = [m for now in range(11, 600) for m in appends(ship.step(ShipperTick(), now).messages, F)]
    assert len(again) == 1
    assert again[0].span.data == b""
    assert again[0].generation == 2


def test_a_refusal_of_an_old_generation_or_below_what_is_confirmed_moves_nothing() -> None:
    log = log_of(1, 1, 1)
    ship = in_step(log)
    sender = ship.sender(F)
    assert sender is not None
    for refusal in (AppendReject(0, log.end, ORIGIN), AppendReject(1, log.end, ORIGIN)):
        ship.step(FromFollower(F, refusal), 1)
        assert (sender.mode, sender.next, sender.generation) == (Mode.REPLICATE, log.end, 1)


def test_a_follower_that_confirms_what_it_was_never_sent_is_not_believed() -> None:
    log = log_of(1)
    ship = in_step(log)
    out = ship.step(FromFollower(F, AppendAck(1, Position(10_000), Position(10_000))), 1)
    assert out.events == [RefusedAck(F, Position(10_000), log.end)]
    assert ship.match(F) == log.end


def test_a_follower_that_lost_flushed_data_is_noticed_and_asked_again() -> None:
    log = log_of(1, 1)
    ship = in_step(log)
    ship.step(Beat(), 10)
    out = ship.step(FromFollower(F, HeartbeatAck(ship.rounds.last, Position(0))), 20)
    assert out.events == [LostData(F, log.end, Position(0))]
    assert ship.match(F) == 0
    assert len(appends(out.messages, F)) == 1


def test_a_follower_that_lost_more_than_the_leader_still_keeps_is_sent_an_image() -> None:
    log = log_of(1, 1, 1, 1)
    ship = in_step(log)
    ends = [record.end for record in log.records(Position(0), log.end)]
    log.keep_image(Image("i", log.epochs.point_at(ends[2]), log.seal_at(ends[2]), crc32(b"state"), 5, b""), b"state")
    log.compact(ends[1])
    ship.step(Beat(), 10)
    out = ship.step(FromFollower(F, HeartbeatAck(ship.rounds.last, ends[0])), 20)
    assert out.events == [LostData(F, log.end, ends[0])]
    assert ship.match(F) == 0
    assert [body for to, body in out.messages if to == F and isinstance(body, CopyChunk)]


def test_a_late_answer_to_an_older_round_is_not_taken_for_lost_data() -> None:
    log = log_of(1)
    ship = Shipper(log, SMALL, commit=Position(0), now=0)
    ship.step(FollowersSet((F,)), 0)
    ship.step(Beat(), 0)
    old = ship.rounds.last
    ship.step(FromFollower(F, AppendAck(1, log.end, log.end)), 1)
    assert ship.step(FromFollower(F, HeartbeatAck(old, Position(0))), 2).events == []


def test_a_muted_leader_sends_no_heartbeat() -> None:
    ship = in_step(log_of(1))
    ship.step(MutedSet(muted=True), 0)
    assert ship.step(ShipperTick(), 1_000).messages == []
    ship.step(MutedSet(muted=False), 1_000)
    assert len(ship.step(ShipperTick(), 1_001).messages) == 2


def test_a_follower_taken_away_and_added_again_goes_on_counting_generations() -> None:
    ship = in_step(log_of(1))
    ship.step(Connected(F), 1)
    ship.step(FollowersSet((G,)), 2)
    out = ship.step(FollowersSet((F, G)), 3)
    assert appends(out.messages, F)[0].generation == 3


def test_no_follower_that_went_is_remembered_by_name() -> None:
    """With each of its starts a broker follows under another name, for as long as one leadership lasts."""
    ship = in_step(log_of(1))
    for number in range(50):
        name = ReplicaId(f"f.{number}")
        ship.step(FollowersSet((G, name)), number)
        ship.step(Connected(name), number)
    known = [each for each in vars(ship).values() if isinstance(each, dict)]
    assert {name for each in known for name in each} == {G, name}
    first = ship.step(FollowersSet((G, ReplicaId("f.0"))), 50)
    assert appends(first.messages, ReplicaId("f.0"))[0].generation > 2, "what it was told before is older"


def test_a_straggler_of_an_old_connection_is_dropped() -> None:
    log = log_of(1)
    receiver = Receiver(log, DurableEnd(log.end), Position(0))
    here = Span(log.epochs.point_at(log.end), log.end, (), b"")
    assert receiver.step(FromLeader(Append(2, here, Position(0))), 0).answers
    assert receiver.step(FromLeader(Append(1, here, Position(0))), 0).answers == ()


def test_nothing_is_acknowledged_as_durable_before_its_flush() -> None:
    leader, mine = log_of(1, 1, 1), log_of()
    durable = DurableEnd(mine.end)
    receiver = Receiver(mine, durable, Position(0))
    out = receiver.step(FromLeader(Append(1, leader.read(Position(0), 10_000), Position(0))), 0)
    assert (out.answers, out.wrote) == ((), True)
    token = durable.wrote(mine.end, 0)
    probe = Append(1, Span(leader.epochs.point_at(leader.end), leader.end, (), b""), Position(0))
    assert receiver.step(FromLeader(probe), 0).answers == (AppendAck(1, leader.end, Position(0)),)
    durable.flushed(token)
    assert receiver.step(Flushed(), 0).answers == (AppendAck(1, leader.end, leader.end),)


def test_an_image_of_no_bytes_is_a_place_to_begin_ranges_from() -> None:
    """How a message log is copied in full: its kept part is sent as ordinary ranges, from where it begins."""
    leader = log_of(1, 1, 2, 2)
    cut = leader.records(Position(0), leader.end)[1].end
    image = Image("kept", leader.epochs.point_at(cut), leader.seal_at(cut), 0, 0, b"")
    leader.keep_image(image, b"")
    leader.compact(cut)
    mine = log_of(1)
    converse(leader, mine, drops=[])
    assert mine.epochs.base == Point(Epoch(1), cut)
    assert mine.end == leader.end


def converse(leader: MemoryLog, mine: MemoryLog, drops: list[int]) -> None:
    """Let the two sides talk until they agree; the numbered messages are lost, every third flush is late."""
    durable = DurableEnd(mine.end)
    receiver = Receiver(mine, durable, mine.epochs.base.position)
    ship = Shipper(leader, SMALL, commit=Position(0), now=0)
    wire = list(ship.step(FollowersSet((F,)), 0).messages)
    count = 0
    for now in range(0, 200_000, 50):
        wire += ship.step(ShipperTick(), now).messages
        while wire:
            (_, body), count = wire.pop(0), count + 1
            if count in drops:
                continue
            out = receiver.step(FromLeader(body), now)
            answers = list(out.answers)
            if out.wrote:
                durable.wrote(mine.end, now)
            if count % 3:
                durable.flushed(durable.token)
                answers += receiver.step(Flushed(), now).answers
            for answer in answers:
                count += 1
                if count not in drops:
                    wire += ship.step(FromFollower(F, answer), now).messages
        if ship.match(F) == leader.end:
            return
    raise AssertionError("they never agreed")


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.integers(1, 5), max_size=8).map(sorted),
    st.lists(st.integers(1, 5), max_size=8).map(sorted),
    st.lists(st.integers(1, 60), max_size=25),
    st.integers(0, 8),
)
def test_any_two_logs_become_one_whatever_is_lost(a: list[int], b: list[int], drops: list[int], kept: int) -> None:
    """The two logs part where their epochs do; a leader of a newer epoch makes the follower's log its own."""
    common = 0
    while common < min(len(a), len(b)) and a[common] == b[common]:
        common += 1
    # After the logs part, one leader an epoch means that they share no epoch any more.
    leader, mine = log_of(*a, 11), log_of(*a[:common], *(epoch + 5 for epoch in b[common:]))
    if kept < len(a):
        cut = leader.records(Position(0), leader.end)[kept].end
        data = bytes(40)

        leader.keep_image(Image("i", leader.epochs.point_at(cut), leader.seal_at(cut), crc32(data), 40, b""), data)
        leader.compact(cut)
    converse(leader, mine, drops)
    assert mine.end == leader.end
    assert mine.seal_at(mine.end) == leader.seal_at(leader.end)


def test_a_copy_answer_for_another_image_is_ignored() -> None:
    ship = in_step(log_of(1))
    sender = ship.sender(F)
    ship.step(FromFollower(F, CopyAck(1, "another", 50)), 1)
    assert sender is not None
    assert sender.mode is Mode.REPLICATE


def test_a_follower_far_away_is_heard_while_reads_begin_one_round_behind_the_other() -> None:
    ship = in_step(log_of(1))
    first, rounds_a_second, distance_ms = ship.rounds.last, 4_000, 300
    for number in range(rounds_a_second * distance_ms // 1_000):
        ship.step(Beat(), 1_000 + number * 1_000 // rounds_a_second)
        ship.step(FromFollower(F, HeartbeatAck(ship.rounds.last, Position(0))), 1_001)
    assert ship.step(FromFollower(G, HeartbeatAck(first + 1, Position(0), busy=True)), 1_000 + distance_ms).moved
    assert ship.rounds.heard_at(G) == 1_000
