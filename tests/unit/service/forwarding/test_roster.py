"""What a new leader is told of this broker's clients."""

from logherd.service.clients.heartbeats import GROUPS_MAX, decode_heartbeat
from logherd.service.forwarding.roster import Roster
from logherd.wire.bodies import decode_body, encode_body
from logherd.wire.bodies.clients import ConsumerData, Heartbeat, ProducerData, Subscription
from logherd.wire.codes import RequestCode
from logherd.wire.frame import Flag, Frame
from logherd.wire.headers import encode_header
from logherd.wire.headers.clients import UnregisterClientHeader
from unit.service.client_fakes import FakeSession
from unit.service.fixed_clock import FixedClock


def heartbeat(
    client: str = "c", *, producers: tuple[str, ...] = (), consumers: tuple[str, ...] = (), short: bool = False,
    fingerprint: int = 0,
) -> Frame:  # fmt: skip
    subscriptions = [] if short else [Subscription(topic="t", expression="a || b")]
    body = Heartbeat(
        client_id=client, producers=[ProducerData(group=group) for group in producers],
        consumers=[ConsumerData(group=group, subscriptions=subscriptions) for group in consumers],
        fingerprint=fingerprint, without_subscriptions=short,
    )  # fmt: skip
    return Frame(RequestCode.HEART_BEAT, 3, body=encode_body(body), language="GO", version=317)


def unregister(client: str = "c", *, producer: str | None = None, consumer: str | None = None) -> Frame:
    header = UnregisterClientHeader(client_id=client, producer_group=producer, consumer_group=consumer)
    return Frame(RequestCode.UNREGISTER_CLIENT, 4, ext=encode_header(header))


def told(roster: Roster) -> list[tuple[int, Heartbeat]]:
    return [(session.id, decode_body(Heartbeat, frame.body)) for session, frame in roster.heartbeats()]


def test_each_client_of_each_connection_is_named_oldest_connection_first_and_wants_no_answer() -> None:
    roster = Roster(FixedClock())
    first, second = FakeSession(id=1), FakeSession(id=2)
    roster.note(second, heartbeat("x", producers=("p",)))
    roster.note(first, heartbeat("y", consumers=("g",)))
    roster.note(second, heartbeat("z", consumers=("g",)))
    assert [(number, said.client_id) for number, said in told(roster)] == [(2, "x"), (2, "z"), (1, "y")]
    frames = [frame for _, frame in roster.heartbeats()]
    assert {(frame.flag, frame.language, frame.version) for frame in frames} == {(Flag.ONEWAY, "GO", 317)}


def test_the_newest_full_heartbeat_counts() -> None:
    roster, session = Roster(FixedClock()), FakeSession()
    roster.note(session, heartbeat(consumers=("g",), fingerprint=5))
    roster.note(session, heartbeat(consumers=("g", "h"), fingerprint=6))
    roster.note(session, heartbeat(consumers=("g", "h"), fingerprint=6, short=True))
    ((_, said),) = told(roster)
    assert [consumer.group for consumer in said.consumers] == ["g", "h"]
    assert said.consumers[0].subscriptions[0].expression == "a || b"


def test_a_short_heartbeat_is_told_when_nothing_better_is_known() -> None:
    roster = Roster(FixedClock())
    roster.note(FakeSession(), heartbeat(consumers=("g",), fingerprint=6, short=True))
    assert [said.without_subscriptions for _, said in told(roster)] == [True]


def test_of_a_heartbeat_too_large_to_be_remembered_the_members_are() -> None:
    roster, session = Roster(FixedClock()), FakeSession()
    roster.note(session, heartbeat(consumers=("g",), fingerprint=5))
    subscriptions = [Subscription(topic=f"t{number}", expression="x" * 100) for number in range(2000)]
    consumers = [ConsumerData(group=group, subscriptions=subscriptions[:1000]) for group in ("g", "h")]
    body = encode_body(Heartbeat(client_id="c", consumers=consumers, fingerprint=6))
    assert len(body) > 256 * 1024
    roster.note(session, Frame(RequestCode.HEART_BEAT, 3, body=body))
    ((_, said),) = told(roster)
    assert [(consumer.group, consumer.subscriptions) for consumer in said.consumers] == [("g", []), ("h", [])]
    assert (said.without_subscriptions, said.fingerprint) == (True, 6)


def test_a_group_that_was_left_is_not_named_and_a_client_without_groups_neither() -> None:
    roster, session = Roster(FixedClock()), FakeSession()
    roster.note(session, heartbeat(producers=("p",), consumers=("g",)))
    roster.note(session, unregister(consumer="g"))
    ((_, said),) = told(roster)
    assert [producer.group for producer in said.producers] == ["p"]
    assert said.consumers == []
    roster.note(session, unregister("other", producer="p"))
    assert len(roster) == 1
    roster.note(session, unregister(producer="p"))
    assert len(roster) == 0


def test_a_client_that_left_its_producers_is_named_with_its_consumers() -> None:
    roster, session = Roster(FixedClock()), FakeSession()
    roster.note(session, heartbeat(producers=("p",), consumers=("g",)))
    roster.note(session, unregister(producer="p"))
    ((_, said),) = told(roster)
    assert (said.producers, [consumer.group for consumer in said.consumers]) == ([], ["g"])


def test_a_client_that_left_takes_no_other_of_its_connection_along() -> None:
    roster, session = Roster(FixedClock()), FakeSession()
    for client in ("c", "d"):
        roster.note(session, heartbeat(client, producers=("p",)))
    roster.note(session, unregister("c", producer="p"))
    assert [said.client_id for _, said in told(roster)] == ["d"]


def test_a_closed_connection_is_forgotten() -> None:
    roster = Roster(FixedClock())
    roster.note(FakeSession(id=1), heartbeat(producers=("p",)))
    roster.closed(1)
    roster.closed(1)
    assert told(roster) == []


def names(count: int) -> tuple[str, ...]:
    """Groups whose names are as long as any may be, 255 characters."""
    return tuple(f"{number:0255}" for number in range(count))


def test_what_one_connection_can_have_remembered_is_bounded() -> None:
    roster, session = Roster(FixedClock()), FakeSession()
    for number in range(100):
        roster.note(session, heartbeat(f"c{number}", producers=("p",)))
    assert len(told(roster)) == 64
    roster.note(session, heartbeat("c7", producers=("q",)))
    assert told(roster)[7][1].producers[0].group == "q", "who is remembered may say something else"
    large = heartbeat("large", producers=names(GROUPS_MAX))
    assert len(encode_body(decode_heartbeat(large.body))) > 256 * 1024, "which the leader takes"
    roster.note(FakeSession(id=2), large)
    assert len(roster) == 1


def test_what_all_connections_can_have_remembered_is_bounded() -> None:
    """Whoever goes, says less or falls silent makes room for others."""
    clock = FixedClock()
    roster = Roster(clock)
    large, small = names(900), ("p",)
    for number in range(200):
        roster.note(FakeSession(id=number), heartbeat(f"c{number}", producers=large))
    kept = len(roster)
    assert kept == len(told(roster)) == 32 * 1024 * 1024 // len(heartbeat("c100", producers=large).body)

    def one_more() -> bool:
        before = len(roster)
        roster.note(FakeSession(id=1000 + clock.monotonic_ms()), heartbeat("d", producers=large))
        clock.advance(1)
        return len(roster) > before

    assert not one_more()
    roster.closed(0)
    assert one_more()
    roster.note(FakeSession(id=1), heartbeat("c1", producers=small))
    assert one_more()
    for name in large:
        roster.note(FakeSession(id=2), unregister("c2", producer=name))
    assert one_more()
    assert not one_more()
    clock.advance(120_001)
    assert told(roster) == []
    assert one_more()


def test_a_client_that_fell_silent_while_its_connection_lives_is_not_named_and_takes_no_place() -> None:
    """The leader has forgotten it, and the next one would wait for it as long again."""
    clock, session = FixedClock(), FakeSession()
    roster = Roster(clock)
    for number in range(64):
        roster.note(session, heartbeat(f"c{number}", consumers=("g",), fingerprint=6))
    clock.advance(60_000)
    roster.note(session, heartbeat("c7", consumers=("g",), fingerprint=6, short=True))
    clock.advance(60_000)
    assert len(told(roster)) == 64
    clock.advance(1)
    roster.note(session, heartbeat("new", consumers=("g",)))
    assert [said.client_id for _, said in told(roster)] == ["c7", "new"]
    clock.advance(60_000)
    assert [said.client_id for _, said in told(roster)] == ["new"]


def test_nonsense_is_left_for_the_leader_to_refuse() -> None:
    roster, session = Roster(FixedClock()), FakeSession()
    roster.note(session, Frame(RequestCode.HEART_BEAT, 1, body=b"{"))
    roster.note(session, Frame(RequestCode.UNREGISTER_CLIENT, 1))
    roster.note(session, unregister())
    assert len(roster) == 0
