"""Consumer offsets, ends of queues and resets: every code of the sheet, durability, and rule H11."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from logherd.model.topic import GroupConfig, TopicConfig
from logherd.service.clients.heartbeats import Heartbeats, HeartbeatsOptions
from logherd.service.clients.registry import Connection
from logherd.service.metadata import MetadataRefusedError
from logherd.service.offsets import YOUNG_BYTES
from logherd.service.ports import Answer, ReplyAfter, Request
from logherd.wire.bodies import encode_body
from logherd.wire.bodies.clients import Heartbeat, ProducerData
from logherd.wire.codes import RequestCode
from logherd.wire.frame import Flag, Frame
from unit.service.client_fakes import FakeSession
from unit.service.rig import BROKER, Rig, frame_of, short_header

QUERY, UPDATE, SEARCH, MAX, MIN, EARLIEST, ALL, RESET = 14, 15, 29, 30, 31, 32, 43, 222
PULL = 11


@pytest.fixture
def rig(tmp_path: Path) -> Rig:
    return prepared(Rig(tmp_path))


def prepared(rig: Rig) -> Rig:
    rig.metadata.topics.put(TopicConfig("orders", 4, 4))
    rig.metadata.groups.put(GroupConfig("billing"))
    return rig


def send(rig: Rig, count: int = 1, queue: int = 0, step_ms: int = 0) -> None:
    for _ in range(count):
        rig.request(310, short_header(e=queue), b"x")
        rig.clock.advance(step_ms)
    rig.end_pass()


def at(queue: int = 0, **fields: object) -> dict[str, object]:
    return {"consumerGroup": "billing", "topic": "orders", "queueId": queue, **fields}


def update(rig: Rig, offset: int, queue: int = 0, **options: object) -> Answer | None:
    return rig.request(UPDATE, at(queue, commitOffset=offset), **options)  # type: ignore[arg-type]


def stored(rig: Rig, queue: int = 0) -> int | None:
    return rig.metadata.offsets.get("billing", "orders", queue)


def query(rig: Rig, queue: int = 0, **fields: object) -> tuple[int, str | None]:
    answer = rig.ask(QUERY, at(queue, **fields))
    return answer.code, answer.ext.get("offset")


@pytest.mark.parametrize(("code", "told"), [(MAX, "5"), (MIN, "0"), (SEARCH, "5")])
def test_the_ends_of_a_queue_are_told_also_when_the_topic_has_fewer_queues_since(
    rig: Rig, code: int, told: str
) -> None:
    """Who has read of it can know whether all of it was read. A queue that was never there has no end."""
    send(rig, 5, queue=3)
    rig.metadata.topics.put(TopicConfig("orders", 2, 2))
    rig.end_pass()
    asked = {"timestamp": 1 << 62} if code == SEARCH else {}
    for each in (rig, rig.restart()):
        answer = each.ask(code, at(3, **asked))
        assert (answer.code, answer.ext.get("offset")) == (0, told), answer.remark
        for queue in (2, -1):
            refused = each.ask(code, at(queue, **asked))
            assert (refused.code, refused.remark) == (29, f"queueId is {queue}, topic orders has queues 0 to 1")


# ---- commits


def test_a_commit_is_told_back_and_survives_a_restart(rig: Rig) -> None:
    send(rig, 5)
    assert rig.ask(UPDATE, at(commitOffset=3)).code == 0
    assert query(rig) == (0, "3")
    assert query(rig.restart()) == (0, "3")


def test_an_answered_commit_waits_for_its_record(rig: Rig) -> None:
    send(rig, 5)
    answer = update(rig, 3)
    assert isinstance(answer, ReplyAfter)
    assert answer.position == rig.store.end_position > rig.store.committed_position


def test_oneway_commits_of_a_pass_become_one_record(rig: Rig) -> None:
    send(rig, 5)
    send(rig, 5, queue=1)
    before = rig.store.queue("rmq_sys_LOGHERD_METADATA", 0).next_offset
    for offset in range(1, 6):
        assert update(rig, offset, oneway=True) is None
        assert update(rig, offset, queue=1, oneway=True) is None
    rig.end_pass()
    assert rig.store.queue("rmq_sys_LOGHERD_METADATA", 0).next_offset == before + 1
    again = rig.restart()
    assert (stored(again, 0), stored(again, 1)) == (5, 5)


def test_an_offset_is_told_only_once_it_is_durable(rig: Rig) -> None:
    send(rig, 5)
    update(rig, 3, oneway=True)
    answer = rig.request(QUERY, at())
    assert isinstance(answer, ReplyAfter)
    assert answer.position > rig.store.committed_position
    rig.end_pass()
    assert not isinstance(rig.request(QUERY, at()), ReplyAfter)


def test_while_no_offset_can_be_logged_the_newest_that_was_is_told(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    """Clients for C++ and Node take an error for "nowhere" and begin at the queue's end."""
    send(rig, 5)
    send(rig, 5, queue=1)
    send(rig, 5, queue=2)
    for queue in (0, 1):
        assert rig.ask(UPDATE, at(queue, commitOffset=2)).code == 0

    def refuse(*_: object) -> None:
        raise MetadataRefusedError("no room")

    with monkeypatch.context() as full:
        full.setattr("logherd.service.metadata.journal.Journal.append", refuse)
        for queue, offset in ((0, 3), (0, 4), (2, 3)):
            assert update(rig, offset, queue, oneway=True) is None
        assert (query(rig), query(rig, 1), query(rig, 2)) == ((0, "2"), (0, "2"), (14, None))
        assert stored(rig) == 4
    rig.end_pass()
    assert (query(rig), query(rig, 2)) == ((0, "4"), (0, "3"))
    with monkeypatch.context() as full:
        full.setattr("logherd.service.metadata.journal.Journal.append", refuse)
        update(rig, 5, oneway=True)
        assert query(rig) == (0, "4")
        update(rig, 4, oneway=True)
        rig.metadata.offsets.forget_group("billing")
        update(rig, 5, oneway=True)
        assert query(rig) == (14, None), "what was logged of a group that is gone is nobody's"


@pytest.mark.parametrize("young", [True, False])
def test_that_a_group_has_no_offset_is_told_only_once_what_took_it_is_durable(rig: Rig, *, young: bool) -> None:
    send(rig, 5)
    rig.ask(UPDATE, at(commitOffset=3))
    rig.metadata.groups.delete("billing", clean_offsets=True)
    asked = at(setZeroIfNotFound=young)
    answer = rig.request(QUERY, asked)
    assert isinstance(answer, ReplyAfter), "a leader that is replaced before the commit would bring the offset back"
    assert answer.position == rig.store.end_position > rig.store.committed_position
    assert (frame_of(answer).code, frame_of(answer).ext.get("offset")) == ((0, "0") if young else (22, None))
    rig.end_pass()
    assert not isinstance(rig.request(QUERY, asked), ReplyAfter)


@pytest.mark.parametrize(
    ("fields", "code", "remark"),
    [
        ({"consumerGroup": "nobody"}, 26, "group 'nobody' does not exist"),
        ({"topic": "nothing"}, 17, "topic 'nothing' does not exist"),
        ({"queueId": 4}, 29, "queueId is 4, topic orders has queues 0 to 3"),
        ({"queueId": -1}, 29, "queueId is -1"),
        ({"commitOffset": 6}, 29, "commitOffset is 6, queue 0 of topic orders ends at 5"),
        ({"commitOffset": -1}, 29, "commitOffset is -1"),
        ({"commitOffset": "x"}, 29, "field commitOffset is 'x'"),
    ],
)
def test_a_wrong_commit_is_refused_and_changes_nothing(
    rig: Rig, fields: dict[str, object], code: int, remark: str
) -> None:
    send(rig, 5)
    answer = rig.ask(UPDATE, at(**{"commitOffset": 5, **fields}))
    assert (answer.code, remark in (answer.remark or "")) == (code, True), answer.remark
    assert stored(rig) is None


def test_an_offset_of_messages_that_are_not_committed_is_refused(rig: Rig) -> None:
    rig.request(310, short_header(), b"x")
    answer = update(rig, 1)
    assert frame_of(answer).code == 29
    rig.end_pass()
    assert frame_of(update(rig, 1)).code == 0


def join(rig: Rig, session: FakeSession, client: str = "client") -> None:
    rig.registry.join_producer("any", Connection(client, session, "JAVA", 477, 0, 0))


def test_a_smaller_offset_counts_only_from_the_newest_session_of_its_client(rig: Rig) -> None:
    send(rig, 9)
    old, new, other = FakeSession(id=1), FakeSession(id=2), FakeSession(id=3)
    join(rig, old)
    join(rig, other, "another")
    update(rig, 8, session=old)
    update(rig, 6, session=old)
    assert stored(rig) == 6
    join(rig, new)
    answer = update(rig, 4, session=old)
    assert frame_of(answer).code == 604
    assert "newer connection" in (frame_of(answer).remark or "")
    update(rig, 3, session=old, oneway=True)
    assert stored(rig) == 6
    update(rig, 7, session=old)
    assert stored(rig) == 7
    update(rig, 5, session=new)
    assert stored(rig) == 5
    update(rig, 4, session=other)
    assert stored(rig) == 4


def test_a_client_that_stands_on_several_brokers_may_go_back_over_the_one_it_commits_at(rig: Rig) -> None:
    """Where routes tell of followers, a stock consumer has a connection to each broker and a heartbeat on all of them,
    the leader's first; it commits at the leader only, and seeks back there."""
    send(rig, 9)
    at_leader, by_follower = FakeSession(id=1), FakeSession(id=-1)
    for _ in range(2):
        join(rig, at_leader)
        join(rig, by_follower)
    update(rig, 8, session=at_leader)
    assert frame_of(update(rig, 3, session=at_leader)).code == 0
    assert stored(rig) == 3


def test_a_client_that_has_committed_over_a_newer_connection_goes_not_back_over_the_old_one(rig: Rig) -> None:
    """Whatever the old one was still used for before: it is what a broker that hung, or the network, has held back."""
    send(rig, 9)
    old, new = FakeSession(id=1), FakeSession(id=2)
    join(rig, old)
    join(rig, new)
    update(rig, 8, session=new)
    join(rig, old)
    assert frame_of(update(rig, 3, session=old)).code == 604
    rig.registry.session_closed(new.id)
    assert frame_of(update(rig, 4, session=old)).code == 0, "the client has no other connection"


def beat(rig: Rig, session: FakeSession, *, named: bool) -> None:
    """A client's heartbeat; `named`: as brokers repeat it to a leader that has just begun, oneway."""
    body = encode_body(Heartbeat(client_id="client", producers=[ProducerData(group="any"), ProducerData(group="too")]))
    frame = Frame(RequestCode.HEART_BEAT, 1, flag=Flag.ONEWAY if named else 0, body=body)
    heartbeats = Heartbeats(rig.registry, rig.metadata, rig.clock, options=HeartbeatsOptions())
    heartbeats.heartbeat(Request(frame, None, 0), session)


def test_which_connection_is_older_is_not_taken_from_the_order_in_which_brokers_name_them(rig: Rig) -> None:
    """The client has moved from the one broker to the other; the first names it last to the next leader, and then what
    the network has held back arrives there."""
    send(rig, 9)
    used, left = FakeSession(id=1), FakeSession(id=-1)
    beat(rig, used, named=True)
    beat(rig, left, named=True)
    update(rig, 8, session=used)
    assert frame_of(update(rig, 3, session=left)).code == 604
    beat(rig, left, named=False)
    assert frame_of(update(rig, 3, session=left)).code == 604, "also if its heartbeat was held back with it"
    assert frame_of(update(rig, 4, session=used)).code == 604, "only a heartbeat says that it is the one"
    beat(rig, used, named=False)
    assert frame_of(update(rig, 4, session=used)).code == 0
    assert stored(rig) == 4


def test_a_connection_that_is_new_after_a_change_of_leader_is_newer_than_those_that_were_named(rig: Rig) -> None:
    send(rig, 9)
    named, new = FakeSession(id=-1), FakeSession(id=2)
    beat(rig, named, named=True)
    assert frame_of(update(rig, 8, session=named)).code == 0
    assert frame_of(update(rig, 7, session=named)).code == 0, "its client has no other"
    beat(rig, new, named=False)
    assert frame_of(update(rig, 6, session=named)).code == 604
    assert frame_of(update(rig, 5, session=new)).code == 0
    beat(rig, named, named=False)
    assert frame_of(update(rig, 4, session=named)).code == 604
    rig.registry.session_closed(named.id)
    assert frame_of(update(rig, 3, session=new)).code == 0


# ---- queries


def test_an_unknown_offset_is_22_on_an_empty_or_old_queue(rig: Rig) -> None:
    assert query(rig) == (22, None)
    send(rig, 3)
    rig.store.queue("orders", 0)._min_offset = 1
    assert query(rig) == (22, None)


def test_a_new_group_starts_at_the_first_message_of_a_young_queue(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    send(rig, 3)
    assert query(rig) == (0, "0")
    assert query(rig, setZeroIfNotFound="false") == (22, None)
    assert query(rig, setZeroIfNotFound="true") == (0, "0")
    monkeypatch.setattr("logherd.service.offsets.YOUNG_BYTES", 100)
    assert query(rig) == (22, None)
    assert YOUNG_BYTES == 4 << 30


def test_all_offsets_are_one_table(rig: Rig) -> None:
    send(rig, 3)
    update(rig, 2)
    update(rig, 0, queue=3)
    answer = rig.ask(ALL, {})
    table = json.loads(answer.body)
    assert table["offsetTable"] == {"orders@billing": {"0": 2, "3": 0}}
    assert table["dataVersion"]["counter"] == rig.metadata.version.counter


def test_the_table_of_all_offsets_waits_for_the_newest_of_them(rig: Rig) -> None:
    """A slave of RocketMQ keeps it in its own file: what this broker might yet lose must not stand there."""
    send(rig, 3)
    rig.end_pass()
    update(rig, 2, oneway=True)
    answer = rig.request(ALL, {})
    assert isinstance(answer, ReplyAfter)
    assert answer.position == rig.store.end_position > rig.store.committed_position


# ---- ends of queues


def test_the_ends_of_a_queue(rig: Rig) -> None:
    started = rig.clock.now_ms()
    send(rig, 3, step_ms=10)
    rig.request(310, short_header(), b"not committed")
    place = {"topic": "orders", "queueId": 0}
    for ext in (place, {**place, "committed": "false"}):
        assert frame_of(rig.request(MAX, ext)).ext["offset"] == "3"
    assert rig.ask(MIN, place).ext["offset"] == "0"
    assert rig.ask(EARLIEST, place).ext["timestamp"] == str(started)
    empty = {"topic": "orders", "queueId": 1}
    assert rig.ask(MAX, empty).ext["offset"] == "0"
    assert rig.ask(MIN, empty).ext["offset"] == "0"
    assert rig.ask(EARLIEST, empty).ext["timestamp"] == "-1"
    assert rig.ask(SEARCH, {**empty, "timestamp": 5}).ext["offset"] == "0"


@pytest.mark.parametrize(
    ("at_ms", "boundary", "offset"),
    [
        (-5, None, 0), (0, "LOWER", 0), (5, "LOWER", 1), (10, None, 1), (10, "UPPER", 1), (15, "UPPER", 1),
        (25, "UPPER", 2), (25, "LOWER", 3), (10, "lower", 1),
    ],
)  # fmt: skip
def test_a_queue_is_searched_by_time(rig: Rig, at_ms: int, boundary: str | None, offset: int) -> None:
    started = rig.clock.now_ms()
    send(rig, 3, step_ms=10)
    answer = rig.ask(SEARCH, {"topic": "orders", "queueId": 0, "timestamp": started + at_ms, "boundaryType": boundary})
    assert answer.ext["offset"] == str(offset)


@pytest.mark.parametrize("code", [SEARCH, MAX, MIN, EARLIEST])
def test_the_ends_of_a_topic_that_was_made_again_are_told_once_its_deletion_is_durable(rig: Rig, code: int) -> None:
    send(rig, 3)
    rig.metadata.topics.delete("orders")
    rig.store.delete_topic("orders")
    end = rig.store.end_position
    rig.metadata.topics.put(TopicConfig("orders", 4, 4))
    place = {"topic": "orders", "queueId": 0, "timestamp": 0}
    answer = rig.request(code, place)
    assert isinstance(answer, ReplyAfter)
    assert answer.position == end > rig.store.committed_position
    rig.end_pass()
    assert not isinstance(rig.request(code, place), ReplyAfter)


@pytest.mark.parametrize("code", [SEARCH, MAX, MIN, EARLIEST])
def test_a_queue_that_is_not_there_is_17_or_29(rig: Rig, code: int) -> None:
    assert rig.ask(code, {"topic": "nothing", "queueId": 0, "timestamp": 0}).code == 17
    assert rig.ask(code, {"topic": "orders", "queueId": 4, "timestamp": 0}).code == 29


def test_an_unknown_boundary_is_29(rig: Rig) -> None:
    answer = rig.ask(SEARCH, {"topic": "orders", "queueId": 0, "timestamp": 0, "boundaryType": "MIDDLE"})
    assert answer.code == 29
    assert "must be LOWER or UPPER" in (answer.remark or "")


# ---- reset


def reset(rig: Rig, timestamp: int = 0, **fields: object) -> tuple[int, dict[int, int]]:
    ext = {"group": "billing", "topic": "orders", "timestamp": timestamp, "isForce": "true", "queueId": -1, **fields}
    answer = rig.ask(RESET, ext)
    if answer.code:
        return answer.code, {}
    table = json.loads(answer.body)["offsetTable"]
    keys = [json.loads(key) for key in table]
    assert all((key["brokerName"], key["topic"]) == (BROKER, "orders") for key in keys)
    return answer.code, dict(zip((key["queueId"] for key in keys), table.values(), strict=True))


def test_a_reset_by_time_sets_every_queue_and_the_consumer_hears_of_it(rig: Rig) -> None:
    started = rig.clock.now_ms()
    send(rig, 5, step_ms=10)
    send(rig, 2, queue=1)
    update(rig, 5)
    assert reset(rig, started + 15) == (0, {0: 2, 1: 0, 2: 0, 3: 0})
    assert query(rig) == (0, "2")
    update(rig, 5)
    assert query(rig) == (0, "2")
    pull = {
        "consumerGroup": "billing", "topic": "orders", "queueId": 0, "queueOffset": 5, "maxMsgNums": 32, "sysFlag": 4,
        "commitOffset": 0, "suspendTimeoutMillis": 0, "subVersion": 0, "subscription": "*",
    }  # fmt: skip
    for _ in range(2):  # the first answer may have been lost, and the consumer go on from where it was
        moved = rig.ask(PULL, pull)
        assert (moved.code, moved.ext["nextBeginOffset"]) == (21, "2")
        update(rig, 5)
        assert query(rig) == (0, "2")
    assert rig.ask(PULL, {**pull, "queueOffset": 2}).code == 0
    update(rig, 3)
    assert query(rig) == (0, "3")
    again = rig.restart()
    assert query(again) == (0, "3")
    assert again.ask(PULL, {**pull, "queueOffset": 5}).code == 19


def test_a_reader_that_does_not_go_by_its_groups_offsets_is_told_of_a_reset_three_times(rig: Rig) -> None:
    send(rig, 5)
    pull = at(0, queueOffset=5, maxMsgNums=1, sysFlag=4, commitOffset=0, suspendTimeoutMillis=0, subVersion=0,
              subscription="*")  # fmt: skip
    for offset in (2, 1):
        assert reset(rig, queueId=0, offset=offset) == (0, {0: offset})
        assert [rig.ask(PULL, pull).code for _ in range(2)] == [21, 21]
    assert rig.ask(PULL, pull).code == 21
    assert rig.ask(PULL, pull).code == 19
    assert rig.metadata.offsets.pending_reset("billing", "orders", 0) is None


@pytest.mark.parametrize("goes", [True, False])
def test_a_reset_stops_no_reader_while_nothing_can_be_logged(
    rig: Rig, monkeypatch: pytest.MonkeyPatch, *, goes: bool
) -> None:
    send(rig, 5)
    send(rig, 5, queue=1)
    pull = at(0, queueOffset=4, maxMsgNums=1, sysFlag=4, commitOffset=0, suspendTimeoutMillis=0, subVersion=0,
              subscription="*")  # fmt: skip
    there = {**pull, "queueOffset": 2} if goes else pull
    assert reset(rig, queueId=0, offset=2) == (0, {0: 2})
    update(rig, 3, queue=1, oneway=True)

    def refuse(*_: object) -> None:
        raise MetadataRefusedError("no room")

    with monkeypatch.context() as full:
        full.setattr("logherd.service.metadata.journal.Journal.append", refuse)
        told = [rig.ask(PULL, pull).code for _ in range(1 if goes else 3)]
        assert set(told) == {21}
        assert [rig.ask(PULL, there).code for _ in range(2)] == [0, 0]
        assert rig.metadata.offsets.pending_reset("billing", "orders", 0) == 2, "the log knows of nothing else"
    assert rig.ask(PULL, there).code == 0
    assert rig.metadata.offsets.pending_reset("billing", "orders", 0) is None


def test_a_reset_survives_a_restart_until_it_was_told(rig: Rig) -> None:
    send(rig, 5)
    assert reset(rig, -1, queueId=0) == (0, {0: 5})
    assert reset(rig, 0, queueId=0, offset=2) == (0, {0: 2})
    again = rig.restart()
    assert again.metadata.offsets.pending_reset("billing", "orders", 0) == 2
    assert query(again) == (0, "2")


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"group": "nobody"}, 26), ({"topic": "nothing"}, 17), ({"queueId": 4}, 29),
        ({"queueId": 0, "offset": 6}, 1), ({"queueId": 0, "offset": 5}, 0), ({"timestamp": None}, 29),
    ],
)  # fmt: skip
def test_a_wrong_reset_is_refused(rig: Rig, fields: dict[str, object], code: int) -> None:
    send(rig, 5)
    assert reset(rig, **fields)[0] == code  # type: ignore[arg-type]


def test_a_reset_is_answered_when_it_is_durable(rig: Rig) -> None:
    answer = rig.request(RESET, {"group": "billing", "topic": "orders", "timestamp": 0, "isForce": "true"})
    assert isinstance(answer, ReplyAfter)
    assert answer.position == rig.store.end_position > rig.store.committed_position


MANY = 600


def reset_of_many(rig: Rig, timestamp: int) -> FakeSession:
    """A reset by time of more queues than are searched at once; the answer appears in the session's replies."""
    rig.metadata.topics.put(TopicConfig("orders", MANY, MANY))
    session = FakeSession(id=9)
    ext = {"group": "billing", "topic": "orders", "timestamp": timestamp, "isForce": "true", "queueId": -1}
    assert rig.request(RESET, ext, session=session) is None
    assert session.replies == []
    assert rig.metadata.offsets.pending_reset("billing", "orders", 0) is None
    return session


def test_a_reset_of_very_many_queues_searches_the_rest_later_and_sets_all_at_once(rig: Rig) -> None:
    """Else nothing else would be done meanwhile, and a leader would lose its lease."""
    started = rig.clock.now_ms()
    send(rig, 5, step_ms=10)
    session = reset_of_many(rig, started + 15)
    rig.slices.tick()
    assert rig.metadata.offsets.pending_reset("billing", "orders", 0) == 2
    assert session.replies == [], "it is not durable yet"
    rig.slices.tick()
    assert session.replies == []
    rig.end_pass()
    rig.slices.tick()
    [reply] = session.replies
    assert reply.code == 0
    assert len(json.loads(frame_of(reply).body)["offsetTable"]) == MANY
    assert query(rig) == (0, "2")


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (lambda rig: rig.metadata.topics.delete("orders"), 17),
        (lambda rig: rig.metadata.groups.delete("billing", clean_offsets=True), 26),
        (lambda rig: rig.metadata.demote(), 14),
    ],
)
def test_what_changes_while_many_queues_are_searched_is_met_before_they_are_set(
    rig: Rig, change: Callable[[Rig], object], code: int
) -> None:
    session = reset_of_many(rig, 0)
    rig.end_pass()
    change(rig)
    rig.slices.tick()
    assert [reply.code for reply in session.replies] == [code]
    assert rig.metadata.offsets.pending_reset("billing", "orders", 0) is None


def test_a_reset_whose_leader_is_replaced_before_it_is_durable_is_unknown(rig: Rig) -> None:
    session = reset_of_many(rig, 0)
    rig.slices.tick()
    rig.metadata.demote()
    rig.slices.tick()
    [reply] = session.replies
    assert (reply.code, "unknown" in (reply.remark or "")) == (1, True)


# ---- against a model

STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("commit"), st.integers(0, 2), st.integers(-1, 12)),
        st.tuples(st.just("old"), st.integers(0, 2), st.integers(0, 12)),
        st.tuples(st.just("reset"), st.integers(0, 2), st.integers(0, 12)),
        st.tuples(st.just("pull"), st.integers(0, 2), st.just(0)),
        st.tuples(st.just("pass"), st.just(0), st.just(0)),
        st.tuples(st.just("restart"), st.just(0), st.just(0)),
    ),
    max_size=25,
)
END = 10


class Model:
    """What rule H11 says about one group's offsets in three queues of ten messages."""

    def __init__(self) -> None:
        self.offsets: dict[int, int] = {}
        self.pending: dict[int, int] = {}
        self.told: dict[int, int] = {}

    def commit(self, queue: int, offset: int, *, old: bool) -> None:
        smaller = offset < self.offsets.get(queue, 0)
        if 0 <= offset <= END and not (old and smaller) and queue not in self.pending:
            self.offsets[queue] = offset

    def reset(self, queue: int, offset: int) -> None:
        if offset <= END:
            self.offsets[queue] = self.pending[queue] = offset
            self.told[queue] = 0

    def pull(self, queue: int, offset: int) -> bool:
        """Whether it is moved."""
        told = self.told.get(queue, 0)
        heard = told > 0 and self.pending.get(queue) == offset
        moved = queue in self.pending and not heard
        self.told[queue] = told + 1
        if heard or told == 2:
            self.pending.pop(queue, None)
        return moved


@settings(max_examples=40, deadline=None)
@given(steps=STEPS)
def test_offsets_follow_the_model_through_restarts(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[str, int, int]]
) -> None:
    rig = prepared(Rig(tmp_path_factory.mktemp("offsets")))
    for queue in range(3):
        send(rig, END, queue=queue)
    model = Model()
    old, new = FakeSession(id=1), FakeSession(id=2)
    join(rig, old)
    join(rig, new)
    for action, queue, offset in steps:
        if action in ("commit", "old"):
            update(rig, offset, queue=queue, session=old if action == "old" else new, oneway=True)
            model.commit(queue, offset, old=action == "old")
        elif action == "reset":
            reset(rig, queueId=queue, offset=offset)
            model.reset(queue, offset)
        elif action == "pull":
            moved = rig.ask(PULL, at(queue, queueOffset=END, maxMsgNums=1, sysFlag=4, commitOffset=0,
                                     suspendTimeoutMillis=0, subVersion=0, subscription="*"))  # fmt: skip
            assert (moved.code == 21) == model.pull(queue, END)
        elif action == "pass":
            rig.end_pass()
        else:
            rig.end_pass()
            rig = rig.restart()
            model.told.clear()
            join(rig, old)
            join(rig, new)
        assert dict(rig.metadata.offsets.queues("billing", "orders")) == model.offsets
    rig.end_pass()
    rebuilt = rig.restart()
    assert dict(rebuilt.metadata.offsets.queues("billing", "orders")) == model.offsets
    assert {q: o for _, _, queues in rebuilt.metadata.offsets.resets() for q, o in queues.items()} == model.pending
