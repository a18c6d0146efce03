"""Who is a leader's follower, what stays known of it, and when it is asked and told something."""

from dataclasses import replace
from zlib import crc32

from logherd.model.names import Epoch, Position
from logherd.raft.record import Kind
from logherd.replication.epochs import ORIGIN
from logherd.replication.log import Image
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
from logherd.replication.sender import Mode, ShipOptions
from logherd.replication.shipper import Shipper
from logherd.replication.shipping import (
    Beat,
    Committed,
    Connected,
    FollowersSet,
    FromFollower,
    Grown,
    LostData,
    ShipOutput,
    ShipperTick,
)
from unit.replication.logs import SIZE, even_log

F, G = ReplicaId("f"), ReplicaId("g")
OPTIONS = ShipOptions(small_bytes=0)


def in_step(log_end: Position, ship: Shipper, *peers: ReplicaId) -> None:
    """These become followers, and have everything."""
    ship.step(FollowersSet(peers), 0)
    for peer in peers:
        ship.step(FromFollower(peer, AppendAck(1, log_end, log_end)), 0)


def questions(out: ShipOutput) -> list[tuple[ReplicaId, int, Position]]:
    """Who is asked, in which exchange, about which place."""
    return [(to, body.generation, body.span.previous.position) for to, body in out.messages if isinstance(body, Append)]


def beats(out: ShipOutput) -> list[ReplicaId]:
    return [to for to, body in out.messages if isinstance(body, Heartbeat)]


def test_who_stays_a_follower_keeps_what_is_known_of_it_and_who_does_not_hears_nothing_more() -> None:
    log = even_log(1, 1)
    ship = Shipper(log, OPTIONS, commit=Position(0), now=0)
    in_step(log.end, ship, F, G)
    assert questions(ship.step(FollowersSet((G,)), 1)) == []
    assert (ship.match(F), ship.match(G), ship.sender(F)) == (0, log.end, None)
    assert beats(ship.step(Beat(), 1)) == [G]
    assert questions(ship.step(FollowersSet((G, F)), 2)) == [(F, 2, log.end)]
    assert ship.match(G) == log.end


def test_who_is_no_follower_is_asked_nothing_and_believed_nothing() -> None:
    log = even_log(1)
    ship = Shipper(log, OPTIONS, commit=Position(0), now=0)
    in_step(log.end, ship, F)
    assert ship.step(Connected(G), 1) == ShipOutput()
    assert ship.step(FromFollower(G, AppendAck(1, log.end, log.end)), 1) == ShipOutput()
    assert ship.match(G) == 0


def test_a_new_connection_is_asked_at_once_from_what_is_confirmed_or_else_about_the_end() -> None:
    log = even_log(1, 1)
    ship = Shipper(log, OPTIONS, commit=Position(0), now=0)
    ship.step(FollowersSet((F,)), 0)
    assert questions(ship.step(Connected(F), 1)) == [(F, 2, log.end)]
    ship.step(FromFollower(F, AppendAck(2, log.end, Position(1))), 2)
    assert questions(ship.step(Connected(F), 3)) == [(F, 3, Position(1))]


def test_a_new_connection_is_not_made_to_wait_for_the_silence_of_the_one_before() -> None:
    log = even_log(1)
    ship = Shipper(log, OPTIONS, commit=Position(0), now=0)
    ship.step(FollowersSet((F,)), 0)
    for now in (500, 1_500, 3_500):
        assert questions(ship.step(ShipperTick(), now)) == [(F, 1, log.end)]
    ship.step(Connected(F), 4_000)
    assert questions(ship.step(ShipperTick(), 4_499)) == []
    assert questions(ship.step(ShipperTick(), 4_500)) == [(F, 2, log.end)]


def test_who_must_be_asked_again_is_not_caught_up_meanwhile() -> None:
    log = even_log(1)
    ship = Shipper(log, OPTIONS, commit=Position(0), now=0)
    in_step(log.end, ship, F)
    ship.step(Beat(), 1)
    ship.step(FromFollower(F, HeartbeatAck(1, log.end)), 2)
    assert ship.caught_up(F)
    ship.step(Connected(F), 3)
    assert not ship.caught_up(F)
    ship.step(FromFollower(F, AppendAck(2, log.end, log.end)), 4)
    assert ship.caught_up(F)


def test_heartbeats_are_as_far_apart_as_is_set_also_when_it_is_set_anew() -> None:
    log = even_log(1)
    ship = Shipper(log, OPTIONS, commit=Position(0), now=0)
    in_step(log.end, ship, F)
    assert [now for now in range(600) if beats(ship.step(ShipperTick(), now))] == [0, 150, 300, 450]
    ship.retime(replace(OPTIONS, heartbeat_ms=200))
    assert [now for now in range(600, 1_100) if beats(ship.step(ShipperTick(), now))] == [600, 800, 1_000]


def test_a_round_that_was_asked_for_puts_the_next_one_off() -> None:
    log = even_log(1)
    ship = Shipper(log, OPTIONS, commit=Position(0), now=0)
    in_step(log.end, ship, F)
    assert beats(ship.step(Beat(), 100)) == [F]
    assert [now for now in range(101, 300) if beats(ship.step(ShipperTick(), now))] == [250]


def test_what_is_committed_travels_with_what_comes_next() -> None:
    log = even_log(1)
    ship = Shipper(log, OPTIONS, commit=Position(0), now=0)
    in_step(log.end, ship, F)
    assert ship.step(Committed(Position(SIZE)), 1) == ShipOutput()
    assert [body for _, body in ship.step(Beat(), 1).messages] == [Heartbeat(1, Position(SIZE))]
    log.append(Kind.DATA, Epoch(1), b"more")
    ship.step(Committed(log.end), 2)
    sender = ship.sender(F)
    assert sender is not None
    assert sender.mode is Mode.REPLICATE
    assert [body.commit for _, body in ship.step(ShipperTick(), 2).messages if isinstance(body, Append)] == [log.end]


def test_only_news_of_a_follower_is_told() -> None:
    log = even_log(1, 1)
    ship = Shipper(log, OPTIONS, commit=Position(0), now=0)
    ship.step(FollowersSet((F,)), 0)
    ship.step(Beat(), 0)
    answers = AppendAck(1, log.end, Position(SIZE)), AppendAck(1, log.end, log.end), HeartbeatAck(1, log.end)
    said = [answer for answer in answers for _ in range(2)]
    told = [ship.step(FromFollower(F, body), 1).moved for body in said]
    assert told == [True, False, True, False, True, False]


def test_the_time_for_an_answer_begins_anew_with_each_piece_that_is_confirmed() -> None:
    log = even_log(1)
    ship = Shipper(log, replace(OPTIONS, message_bytes_max=SIZE), commit=Position(0), now=0)
    in_step(log.end, ship, F)
    for _ in range(2):
        log.append(Kind.DATA, Epoch(1), b"0 of 1")
    assert len(questions(ship.step(Grown(), 10))) == 2
    ship.step(FromFollower(F, AppendAck(1, Position(2 * SIZE), Position(2 * SIZE))), 400)
    assert questions(ship.step(ShipperTick(), 899)) == []
    assert questions(ship.step(ShipperTick(), 900)) == [(F, 2, Position(2 * SIZE))]


def test_whose_answers_take_longer_than_a_round_is_judged_by_them_all_the_same() -> None:
    """The round that it is judged by stays until that or a later one is answered."""
    log = even_log(1, 1)
    ship = Shipper(log, OPTIONS, commit=Position(0), now=0)
    in_step(log.end, ship, F)
    for now in range(3):
        ship.step(Beat(), now)
    ship.step(FromFollower(F, HeartbeatAck(1, log.end)), 5)
    assert ship.caught_up(F)
    for now in range(6, 9):
        ship.step(Beat(), now)
    assert ship.step(FromFollower(F, HeartbeatAck(4, Position(SIZE))), 9).events == [
        LostData(F, log.end, Position(SIZE))
    ]


def test_an_answer_that_was_overtaken_says_nothing_about_what_was_flushed_since() -> None:
    log = even_log(1)
    ship = Shipper(log, OPTIONS, commit=Position(0), now=0)
    in_step(log.end, ship, F)
    for now in range(2):
        ship.step(Beat(), now)
    ship.step(FromFollower(F, HeartbeatAck(1, Position(SIZE))), 2)
    log.append(Kind.DATA, Epoch(1), b"0 of 1")
    ship.step(Grown(), 3)
    ship.step(FromFollower(F, AppendAck(1, log.end, log.end)), 4)
    ship.step(Beat(), 5)
    assert ship.step(FromFollower(F, HeartbeatAck(2, Position(SIZE))), 6).events == []
    assert ship.match(F) == log.end
    assert ship.step(FromFollower(F, HeartbeatAck(3, Position(SIZE))), 7).events == [
        LostData(F, log.end, Position(SIZE))
    ]


def test_who_is_busy_is_sent_heartbeats_only_until_it_says_otherwise() -> None:
    log = even_log(1)
    ship = Shipper(log, OPTIONS, commit=Position(0), now=0)
    in_step(log.end, ship, F)
    ship.step(Beat(), 0)
    ship.step(FromFollower(F, HeartbeatAck(1, log.end, busy=True)), 1)
    log.append(Kind.DATA, Epoch(1), b"more")
    assert ship.step(Grown(), 2).messages == []
    assert ship.step(Connected(F), 3).messages == []
    assert beats(ship.step(Beat(), 4)) == [F]
    assert questions(ship.step(FromFollower(F, HeartbeatAck(2, Position(SIZE))), 5)) == [(F, 2, Position(SIZE))]


def test_a_copy_for_who_fell_behind_what_is_kept_is_begun_once() -> None:
    log = even_log(1, 1, 1)
    ship = Shipper(log, replace(OPTIONS, chunk_bytes=1, chunks_ahead=2), commit=Position(0), now=0)
    ship.step(FollowersSet((F,)), 0)
    ship.step(FromFollower(F, AppendReject(1, log.end, ORIGIN)), 0)
    at = Position(2 * SIZE)
    log.keep_image(Image("i", log.epochs.point_at(at), log.seal_at(at), crc32(b"state"), 5, b""), b"state")
    log.compact(at)
    ship.step(Grown(), 1)
    ship.step(FromFollower(F, CopyAck(2, "i", 0)), 2)
    ship.step(FromFollower(F, CopyAck(2, "i", 1)), 3)
    sender = ship.sender(F)
    assert sender is not None
    assert sender.copy is not None
    assert (sender.copy.confirmed, sender.copy.sent) == (1, 3)


def test_a_copy_of_an_image_that_is_kept_no_more_begins_again_with_the_one_that_is() -> None:
    log = even_log(1, 1, 1)
    at = Position(2 * SIZE)
    first, second = (Image(name, log.epochs.point_at(at), log.seal_at(at), crc32(b"s"), 1, b"") for name in ("i", "j"))
    log.keep_image(first, b"s")
    log.compact(at)
    ship = Shipper(log, OPTIONS, commit=Position(0), now=0)
    ship.step(FollowersSet((F,)), 0)
    ship.step(FromFollower(F, AppendReject(1, log.end, ORIGIN)), 0)
    log.keep_image(second, b"s")
    assert ship.step(FromFollower(F, CopyAck(1, "i", 0)), 1).messages == []
    out = ship.step(ShipperTick(), 2)
    assert [body for _, body in out.messages if isinstance(body, CopyChunk)] == [CopyChunk(2, second, 0, b"")]
    out = ship.step(FromFollower(F, CopyAck(2, "j", 0)), 3)
    assert [body for _, body in out.messages] == [CopyChunk(2, second, 0, b"s")]


def test_a_copy_of_which_nothing_is_heard_is_asked_about_again_and_goes_on_where_it_is() -> None:
    log = even_log(1, 1, 1)
    at = Position(2 * SIZE)
    image = Image("i", log.epochs.point_at(at), log.seal_at(at), crc32(b"state"), 5, b"")
    log.keep_image(image, b"state")
    log.compact(at)
    ship = Shipper(log, replace(OPTIONS, chunk_bytes=1, chunks_ahead=2), commit=Position(0), now=0)
    ship.step(FollowersSet((F,)), 0)

    def chunks(out: ShipOutput) -> list[tuple[int, bytes]]:
        return [(body.offset, bytes(body.data)) for _, body in out.messages if isinstance(body, CopyChunk)]

    assert chunks(ship.step(FromFollower(F, AppendReject(1, log.end, ORIGIN)), 0)) == [(0, b"")]
    assert chunks(ship.step(FromFollower(F, CopyAck(1, "i", 0)), 10)) == [(0, b"s"), (1, b"t")]
    assert chunks(ship.step(FromFollower(F, CopyAck(1, "i", 1)), 20)) == [(2, b"a")]
    assert chunks(ship.step(ShipperTick(), 519)) == []
    assert chunks(ship.step(ShipperTick(), 520)) == [(0, b"")]
    assert chunks(ship.step(FromFollower(F, CopyAck(1, "i", 1)), 530)) == [(1, b"t"), (2, b"a")]
    assert chunks(ship.step(FromFollower(F, CopyAck(1, "i", 1)), 540)) == []
    assert chunks(ship.step(ShipperTick(), 1_519)) == [], "the same again is no progress, and no reason to wait longer"
    assert chunks(ship.step(ShipperTick(), 1_520)) == [(0, b"")]
    assert chunks(ship.step(FromFollower(F, CopyAck(1, "i", 3)), 1_530)) == [(3, b"t"), (4, b"e")]
    assert chunks(ship.step(ShipperTick(), 2_029)) == []
    assert chunks(ship.step(ShipperTick(), 2_030)) == [(0, b"")]
    assert chunks(ship.step(FromFollower(F, CopyAck(1, "i", 0)), 2_040)) == [(0, b"s"), (1, b"t")], "it began anew"
    assert chunks(ship.step(FromFollower(F, CopyAck(1, "i", 2)), 2_050)) == [(2, b"a"), (3, b"t")]
    assert chunks(ship.step(FromFollower(F, CopyAck(1, "i", 1)), 2_060)) == [(1, b"t"), (2, b"a")], "it has lost some"
