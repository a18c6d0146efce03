"""Which answers of a follower its leader believes, and what it takes from them."""

from zlib import crc32

from logherd.model.names import Epoch, Position
from logherd.raft.memory import MemoryLog
from logherd.raft.record import Kind
from logherd.replication.epochs import ORIGIN, Point
from logherd.replication.log import Image, Span
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
from logherd.replication.sender import Mode, Sender, ShipOptions
from logherd.replication.shipper import Shipper
from logherd.replication.shipping import (
    Beat,
    Connected,
    FollowersSet,
    FromFollower,
    Grown,
    RefusedAck,
    ShipOutput,
    ShipperTick,
)
from unit.replication.logs import SIZE, even_log

F, G = ReplicaId("f"), ReplicaId("g")


class Led:
    """A leader's shipper with one follower, that has been asked about the end of the log."""

    def __init__(self, log: MemoryLog) -> None:
        self.log = log
        self.ship = Shipper(log, ShipOptions(small_bytes=0), commit=Position(0), now=0)
        self.ship.step(FollowersSet((F,)), 0)

    @property
    def sender(self) -> Sender:
        sender = self.ship.sender(F)
        assert sender is not None
        return sender

    def hear(self, body: object) -> ShipOutput:
        return self.ship.step(FromFollower(F, body), 0)  # type: ignore[arg-type]

    def beat(self) -> int:
        """Begin a round; its number."""
        (beat,) = [body for _, body in self.ship.step(Beat(), 0).messages if isinstance(body, Heartbeat)]
        return beat.round


def asked(out: ShipOutput) -> bool:
    return any(isinstance(body, Append) for _, body in out.messages)


def test_a_probe_is_answered_only_by_who_has_compared_what_was_asked() -> None:
    led = Led(even_log(1, 1, 1))
    led.hear(AppendAck(1, Position(SIZE), Position(SIZE)))
    assert led.sender.mode is Mode.PROBE
    assert led.ship.match(F) == SIZE
    led.hear(AppendAck(1, led.log.end, Position(SIZE)))
    assert led.sender.mode is Mode.REPLICATE


def test_who_flushed_more_than_it_compared_is_not_believed() -> None:
    led = Led(even_log(1, 1, 1))
    for ack in (AppendAck(1, Position(SIZE), led.log.end), AppendAck(1, Position(9 * SIZE), Position(SIZE))):
        out = led.hear(ack)
        assert out.events == [RefusedAck(F, max(ack.verified, ack.durable), led.log.end)]
        assert led.ship.match(F) == 0


def test_an_acknowledgement_of_an_earlier_exchange_counts_but_moves_nothing_in_this_one() -> None:
    led = Led(even_log(1, 1, 1))
    led.ship.step(Connected(F), 0)
    led.hear(AppendAck(1, led.log.end, Position(SIZE)))
    assert led.ship.match(F) == SIZE
    assert led.sender.mode is Mode.PROBE


def test_only_the_refusal_of_the_question_that_is_out_is_honoured() -> None:
    led = Led(even_log(1, 1, 1, 1))
    hint = Point(Epoch(1), Position(SIZE))
    for refusal in (AppendReject(0, led.log.end, hint), AppendReject(1, Position(2 * SIZE), hint)):
        led.hear(refusal)
        assert (led.sender.next, led.sender.generation) == (led.log.end, 1)
    led.hear(AppendReject(1, led.log.end, hint))
    assert (led.sender.next, led.sender.generation) == (SIZE, 2)


def test_a_refusal_of_what_came_too_early_is_honoured_while_more_is_under_way() -> None:
    """What came before it was lost."""
    led = Led(even_log(1))
    led.hear(AppendAck(1, led.log.end, led.log.end))
    for _ in range(3):
        led.log.append(Kind.DATA, Epoch(1), b"0 of 1")
        led.ship.step(Grown(), 0)
    assert led.sender.next == 4 * SIZE
    (question,) = led.hear(AppendReject(1, Position(2 * SIZE), Point(Epoch(1), Position(SIZE)))).messages
    assert question == (F, Append(2, Span(Point(Epoch(1), Position(SIZE)), Position(SIZE), (), b""), Position(0)))


def test_who_answers_at_last_is_not_asked_with_the_gaps_of_its_silence() -> None:
    led = Led(even_log(1, 1))
    for now in (500, 1_500, 3_500):
        assert led.ship.step(ShipperTick(), now).messages
    led.ship.step(FromFollower(F, AppendReject(1, led.log.end, ORIGIN)), 4_000)
    assert not asked(led.ship.step(ShipperTick(), 4_499))
    assert asked(led.ship.step(ShipperTick(), 4_500))


def test_a_refusal_whose_hint_does_not_lead_down_is_not_believed() -> None:
    led = Led(even_log(1, 1, 1))
    led.hear(AppendReject(1, led.log.end, Point(Epoch(1), led.log.end)))
    assert (led.sender.next, led.sender.generation) == (led.log.end, 1)


def test_nobody_is_asked_below_what_it_has_confirmed() -> None:
    led = Led(even_log(1, 1, 1))
    led.hear(AppendAck(1, led.log.end, Position(2 * SIZE)))
    led.sender.become_probe(Position(SIZE))
    assert led.sender.next == 2 * SIZE
    led.sender.become_replicate(Position(SIZE))
    assert led.sender.next == 2 * SIZE


def test_nobody_is_caught_up_before_a_round_begins_that_it_can_answer() -> None:
    """Who has just come follows from an empty log on at once, and lacks everything."""
    led = Led(even_log(1, 1, 1))
    led.hear(HeartbeatAck(led.beat(), led.log.end))
    newcomer = ReplicaId("newcomer")
    led.ship.step(FollowersSet((F, newcomer)), 0)
    led.ship.step(FromFollower(newcomer, AppendAck(led.ship.sender(newcomer).generation, Position(0), Position(0))), 0)
    led.ship.sender(newcomer).become_replicate(Position(0))
    assert not led.ship.caught_up(newcomer)


def test_caught_up_is_who_had_everything_when_a_round_began_that_it_has_answered() -> None:
    led = Led(even_log(1, 1))
    assert not led.ship.caught_up(F)
    led.hear(AppendAck(1, led.log.end, led.log.end))
    assert not led.ship.caught_up(F), "no round has begun"
    number = led.beat()
    assert not led.ship.caught_up(F), "it has not answered"
    led.hear(HeartbeatAck(number, led.log.end))
    assert led.ship.caught_up(F)
    led.log.append(Kind.DATA, Epoch(1), b"more")
    led.ship.step(Grown(), 0)
    number = led.beat()
    led.hear(HeartbeatAck(number, Position(2 * SIZE)))
    assert not led.ship.caught_up(F), "it lacks what was here when the round began"
    led.hear(AppendAck(1, led.log.end, led.log.end))
    assert led.ship.caught_up(F)
    assert not led.ship.caught_up(G)


def test_a_follower_that_was_taken_away_has_answered_no_round_when_it_comes_back() -> None:
    led = Led(even_log(1))
    led.hear(HeartbeatAck(led.beat(), led.log.end))
    assert led.ship.rounds.round_of(F) == 1
    led.ship.step(FollowersSet(()), 0)
    led.ship.step(FollowersSet((F,)), 0)
    assert led.ship.rounds.round_of(F) == 0
    assert led.ship.match(F) == 0


def copying() -> tuple[Led, Image]:
    """A leader that has dropped what its follower lacks, with an image of 4 bytes."""
    log = even_log(1, 1, 1)
    at = Position(2 * SIZE)
    image = Image("i", log.epochs.point_at(at), log.seal_at(at), crc32(b"data"), 4, b"")
    log.keep_image(image, b"data")
    log.compact(at)
    led = Led(log)
    led.hear(AppendReject(1, log.end, ORIGIN))
    assert led.sender.mode is Mode.COPY
    return led, image


def test_a_copy_goes_on_only_by_answers_about_this_image_in_this_exchange() -> None:
    led, image = copying()
    generation = led.sender.generation
    for ack in (CopyAck(generation - 1, image.identity, 0), CopyAck(generation, "another", 0)):
        assert led.hear(ack).messages == []
    sent = led.hear(CopyAck(generation, image.identity, 0)).messages
    assert [body.data for _, body in sent if isinstance(body, CopyChunk)] == [b"data"]


def test_a_refusal_that_comes_once_more_begins_no_second_copy() -> None:
    led, image = copying()
    led.hear(CopyAck(led.sender.generation, image.identity, 2))
    begun = led.sender.copy
    led.hear(AppendReject(led.sender.generation, led.log.end, ORIGIN))
    assert led.sender.copy is begun


def test_records_follow_a_copy_only_once_it_is_flushed() -> None:
    led, image = copying()
    generation, at = led.sender.generation, image.point.position
    led.hear(CopyAck(generation, image.identity, 4))
    out = led.hear(AppendAck(generation, at, Position(0)))
    assert [body for _, body in out.messages if isinstance(body, Append)] == []
    assert led.sender.mode is Mode.COPY
    assert led.sender.copy is not None
    assert led.sender.copy.confirmed == 4, "it does not begin again"
    out = led.hear(AppendAck(generation, at, at))
    assert led.sender.mode is Mode.REPLICATE
    assert [body.span.previous for _, body in out.messages if isinstance(body, Append)] == [image.point]
