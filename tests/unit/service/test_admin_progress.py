"""How far groups have come, over a real store."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from logherd.model.topic import GroupConfig, TopicConfig
from logherd.service.admin import progress, slices
from logherd.service.admin.progress import ProgressAdmin
from logherd.service.admin.queue_figures import QueueFigures, Range
from logherd.service.clients.registry import ClientRegistry, Connection, ConsumerProfile, Subscription
from logherd.service.routing import Role
from logherd.service.stats import BrokerStats
from logherd.store import MessageStore, StoreDamaged
from logherd.wire.bodies.base import encode_body, queue_key
from logherd.wire.bodies.progress import ConsumeStats, QueueProgress
from logherd.wire.codes import RequestCode, ResponseCode
from logherd.wire.headers.admin import CloneOffsetsHeader, ConsumeStatsHeader, CorrectionOffsetHeader
from logherd.wire.headers.topics import GroupTopicHeader
from logherd.wire.limits import DEFAULT_LIMITS
from unit.service.asking import Desk, decoded
from unit.service.client_fakes import FakeSession
from unit.service.small_broker import IDENTITY, SmallBroker

Q0 = '{"brokerName":"a","queueId":0,"topic":"T"}'
Q1 = '{"brokerName":"a","queueId":1,"topic":"T"}'
START = 1_700_000_000_000


class Admin(SmallBroker):
    """Topic T: queue 0 has three messages a second apart, of which group g consumed two; queue 1 has none."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self.registry = ClientRegistry()
        self.stats = BrokerStats(now_ms=0, wall_ms=self.clock.wall)
        self.slices = slices.Slices()
        admin = ProgressAdmin(
            self.metadata, self.store, self.registry, self.stats, identity=IDENTITY, clock=self.clock,
            slices=self.slices,
        )  # fmt: skip
        self.desk = Desk(Role.BROKER, self.clock, admin.handlers())
        self.metadata.topics.put(TopicConfig("T", 2, 1))
        self.metadata.groups.put(GroupConfig("g"))
        for _ in range(3):
            self.put("T")
            self.clock.advance(1000)
        self.metadata.offsets.commit("g", "T", 0, 2)

    def subscribe(self, group: str, *topics: str) -> None:
        link = Connection("c1", FakeSession(), "JAVA", 479, 0, 0)
        subscriptions = {topic: Subscription(topic, version=9) for topic in topics}
        self.registry.join_consumer(group, ConsumerProfile(), link, subscriptions=subscriptions)

    def progress(self, group: str = "g", *, topic: str | None = None, topics: str | None = None) -> object:
        header = ConsumeStatsHeader(consumer_group=group, topic=topic, topics=topics)
        return decoded(self.desk.ask(RequestCode.GET_CONSUME_STATS, header))


@pytest.fixture
def admin(tmp_path: Path) -> Iterator[Admin]:
    broker = Admin(tmp_path)
    yield broker
    broker.close()


def test_progress_names_ends_offsets_and_the_time_of_what_was_consumed(admin: Admin) -> None:
    assert admin.progress() == {
        "offsetTable": {
            Q0: {"brokerOffset": 3, "consumerOffset": 2, "pullOffset": 2, "lastTimestamp": START + 1000},
            Q1: {"brokerOffset": 0, "consumerOffset": 0, "pullOffset": 0, "lastTimestamp": 0},
        },
        "consumeTps": 0.0,
    }


def test_progress_of_a_group_without_offsets_is_empty(admin: Admin) -> None:
    assert admin.progress("unknown") == {"offsetTable": {}, "consumeTps": 0.0}


def test_topics_that_a_connected_group_left_are_not_told_unless_named(admin: Admin) -> None:
    admin.subscribe("g", "Other")
    assert admin.progress() == {"offsetTable": {}, "consumeTps": 0.0}
    assert admin.progress(topic="T") == {"offsetTable": {}, "consumeTps": 0.0}
    named = admin.progress(topics="T;missing")
    assert isinstance(named, dict)
    assert list(named["offsetTable"]) == [Q0, Q1]


def test_progress_has_the_rate_of_the_last_minute(admin: Admin) -> None:
    admin.stats.count_get("g", "T", 30, 300)
    admin.stats.tick(10_000, admin.clock.wall)
    told = admin.progress()
    assert isinstance(told, dict)
    assert told["consumeTps"] == 3.0


def test_a_topic_that_is_named_often_is_told_once(admin: Admin) -> None:
    """So one request costs no more than all topics do, and no rate counts twice."""
    admin.stats.count_get("g", "T", 30, 300)
    admin.stats.tick(10_000, admin.clock.wall)
    assert admin.progress(topics=";".join(["T"] * 1000)) == admin.progress(topics="T")


def test_progress_of_all_groups_sums_the_lag(admin: Admin) -> None:
    told = decoded(admin.desk.ask(RequestCode.GET_BROKER_CONSUME_STATS, {"isOrder": "false"}))
    assert isinstance(told, dict)
    assert (told["brokerAddr"], told["totalDiff"]) == ("127.0.0.1:10911", 1)
    (groups,) = told["consumeStatsList"]
    assert list(groups["g"][0]["offsetTable"]) == [Q0]
    ordered = decoded(admin.desk.ask(RequestCode.GET_BROKER_CONSUME_STATS, {"isOrder": "true"}))
    assert isinstance(ordered, dict)
    assert ordered["consumeStatsList"] == [{"g": []}]


def test_progress_of_very_many_queues_is_looked_up_bit_by_bit(
    admin: Admin, monkeypatch: pytest.MonkeyPatch
) -> None:  # fmt: skip
    """Else nothing else would be done for seconds, and a leader would lose its lease."""
    for group in "hi":
        admin.metadata.groups.put(GroupConfig(group))
        admin.metadata.offsets.commit(group, "T", 0, 1)
    whole = admin.desk.ask(RequestCode.GET_BROKER_CONSUME_STATS, {"isOrder": "false"})
    monkeypatch.setattr(slices, "QUEUES_AT_ONCE", 1)
    first, gone, last = FakeSession(1), FakeSession(2), FakeSession(3)
    for session in (first, gone, last):
        assert admin.desk.park(RequestCode.GET_BROKER_CONSUME_STATS, {"isOrder": "false"}, session=session) is None
    gone.closed = True
    for _ in range(2):
        admin.slices.tick()
        assert first.replies == []
    for _ in range(4):
        assert last.replies == []
        admin.slices.tick()
    admin.slices.tick()
    admin.slices.tick()
    assert [[reply.body for reply in session.replies] for session in (first, gone, last)] == [
        [whole.body], [b""], [whole.body],
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("code", "header"),
    [
        (RequestCode.GET_BROKER_CONSUME_STATS, {"isOrder": "false"}),
        (RequestCode.GET_CONSUME_STATS, ConsumeStatsHeader(consumer_group="g", topics="T;U")),
    ],
)  # fmt: skip
def test_more_queues_than_an_answer_can_hold_are_not_all_looked_up(
    admin: Admin, monkeypatch: pytest.MonkeyPatch, code: RequestCode, header: Any
) -> None:
    """Millions of them would fill the memory, before it is found that the frame is too large."""
    admin.metadata.topics.put(TopicConfig("U", 200, 200))
    admin.metadata.offsets.commit("g", "U", 0, 0)
    monkeypatch.setattr(progress, "QUEUES_MAX", 203)
    assert admin.desk.ask(code, header).code == 0
    monkeypatch.setattr(progress, "QUEUES_MAX", 100)
    looked = []
    monkeypatch.setattr(MessageStore, "find_queue", lambda *place: looked.append(place))
    refused = admin.desk.ask(code, header)
    assert refused.code == ResponseCode.SYSTEM_ERROR
    assert "more than 100 queues" in (refused.remark or "")
    assert len({place[1:] for place in looked}) <= 101


def test_of_one_group_in_very_many_queues_the_rest_is_looked_up_later_too(
    admin: Admin, monkeypatch: pytest.MonkeyPatch
) -> None:  # fmt: skip
    """A request may name all topics that there are."""
    for name in "UV":
        admin.metadata.topics.put(TopicConfig(name, 1, 1))
    header = ConsumeStatsHeader(consumer_group="g", topics="T;U;V")
    whole = admin.desk.ask(RequestCode.GET_CONSUME_STATS, header)
    monkeypatch.setattr(slices, "QUEUES_AT_ONCE", 1)
    session = FakeSession()
    assert admin.desk.park(RequestCode.GET_CONSUME_STATS, header, session=session) is None
    for _ in range(3):
        assert session.replies == []
        admin.slices.tick()
    admin.slices.tick()
    assert [reply.body for reply in session.replies] == [whole.body]


@pytest.mark.parametrize(
    ("code", "header"),
    [
        (RequestCode.GET_CONSUME_STATS, ConsumeStatsHeader(consumer_group="g", topics="U")),
        (RequestCode.QUERY_CONSUME_TIME_SPAN, GroupTopicHeader(group="g", topic="U")),
    ],
)
def test_of_one_topic_with_very_many_queues_the_rest_is_looked_up_later(
    admin: Admin, monkeypatch: pytest.MonkeyPatch, code: RequestCode, header: ConsumeStatsHeader | GroupTopicHeader
) -> None:
    admin.metadata.topics.put(TopicConfig("U", 250, 250))
    whole = admin.desk.ask(code, header)
    monkeypatch.setattr(slices, "QUEUES_AT_ONCE", 100)
    session = FakeSession()
    assert admin.desk.park(code, header, session=session) is None
    admin.slices.tick()
    assert session.replies == []
    admin.slices.tick()
    assert [reply.body for reply in session.replies] == [whole.body]


def test_so_many_may_wait_for_the_progress_of_very_many_queues_and_hear_what_failed(
    admin: Admin, monkeypatch: pytest.MonkeyPatch
) -> None:  # fmt: skip
    monkeypatch.setattr(slices, "QUEUES_AT_ONCE", 1)
    admin.metadata.groups.put(GroupConfig("h"))
    admin.metadata.offsets.commit("h", "T", 0, 1)
    session = FakeSession()
    for _ in range(slices.WAITING_MAX):
        assert admin.desk.park(RequestCode.GET_BROKER_CONSUME_STATS, {"isOrder": "false"}, session=session) is None
    refused = admin.desk.ask(RequestCode.GET_BROKER_CONSUME_STATS, {"isOrder": "false"})
    assert refused.code == ResponseCode.SYSTEM_BUSY

    def unreadable(*_: object) -> int:
        raise OSError("no descriptor is left")

    monkeypatch.setattr(MessageStore, "store_timestamp", unreadable)
    admin.slices.tick()
    told = [(reply.code, reply.remark) for reply in session.replies]
    assert told == [(ResponseCode.SYSTEM_ERROR, "no descriptor is left")]


def test_damage_that_is_met_while_the_rest_is_looked_up_is_told(
    admin: Admin, monkeypatch: pytest.MonkeyPatch
) -> None:  # fmt: skip
    """So that a replica heals, as where the first queues of a request meet it."""
    monkeypatch.setattr(slices, "QUEUES_AT_ONCE", 1)
    admin.metadata.topics.put(TopicConfig("T", 2, 2))
    damage, told, session = StoreDamaged("file", 20, "it is not whole", "here"), list[StoreDamaged](), FakeSession()
    admin.slices.on_damage = told.append
    assert admin.desk.park(RequestCode.GET_BROKER_CONSUME_STATS, {"isOrder": "false"}, session=session) is None

    def damaged(*_: object) -> int:
        raise damage

    monkeypatch.setattr(MessageStore, "find_queue", damaged)
    admin.slices.tick()
    assert ([(reply.code, reply.remark) for reply in session.replies], told) == (
        [(ResponseCode.SYSTEM_ERROR, str(damage))], [damage],
    )  # fmt: skip


def test_time_spans_tell_how_long_the_next_message_waits(admin: Admin) -> None:
    told = decoded(admin.desk.ask(RequestCode.QUERY_CONSUME_TIME_SPAN, GroupTopicHeader(group="g", topic="T")))
    assert told == {
        "consumeTimeSpanSet": [
            {
                "messageQueue": {"brokerName": "a", "queueId": 0, "topic": "T"},
                "minTimeStamp": START, "maxTimeStamp": START + 2000, "consumeTimeStamp": START + 1000,
                "delayTime": 1000,
            }
        ]
    }  # fmt: skip
    missing = admin.desk.ask(RequestCode.QUERY_CONSUME_TIME_SPAN, GroupTopicHeader(group="g", topic="X"))
    assert missing.code == ResponseCode.TOPIC_NOT_EXIST


def test_time_spans_of_a_group_that_has_not_begun_start_at_the_oldest_message(admin: Admin) -> None:
    told = decoded(admin.desk.ask(RequestCode.QUERY_CONSUME_TIME_SPAN, GroupTopicHeader(group="new", topic="T")))
    assert isinstance(told, dict)
    (span,) = told["consumeTimeSpanSet"]
    assert (span["consumeTimeStamp"], span["delayTime"]) == (START, 3000)


def test_a_group_behind_what_is_kept_waits_for_the_oldest_message(
    admin: Admin, monkeypatch: pytest.MonkeyPatch
) -> None:  # fmt: skip
    """What it has missed is there no more, and nobody knows its time."""
    monkeypatch.setattr(QueueFigures, "range", lambda *_: Range(1, 3))
    told = decoded(admin.desk.ask(RequestCode.QUERY_CONSUME_TIME_SPAN, GroupTopicHeader(group="new", topic="T")))
    assert isinstance(told, dict)
    (span,) = told["consumeTimeSpanSet"]
    assert (span["minTimeStamp"], span["delayTime"]) == (START + 1000, 2000)


def test_topics_and_subscription_of_a_group(admin: Admin) -> None:
    assert decoded(admin.desk.ask(RequestCode.QUERY_TOPICS_BY_CONSUMER, {"group": "g"})) == {
        "topicList": ["T"], "brokerAddr": "127.0.0.1:10911",
    }  # fmt: skip
    header = GroupTopicHeader(group="g", topic="T")
    offline = decoded(admin.desk.ask(RequestCode.QUERY_SUBSCRIPTION_BY_CONSUMER, header))
    assert offline == {"group": "g", "topic": "T", "subscriptionData": None}
    admin.subscribe("g", "T")
    online = decoded(admin.desk.ask(RequestCode.QUERY_SUBSCRIPTION_BY_CONSUMER, header))
    assert isinstance(online, dict)
    assert online["subscriptionData"]["subVersion"] == 9


def test_correction_offsets_are_the_least_of_all_groups(admin: Admin) -> None:
    offsets = admin.metadata.offsets
    offsets.commit("h", "T", 0, 1)
    offsets.commit("h", "T", 1, 7)
    ask = RequestCode.QUERY_CORRECTION_OFFSET
    header = CorrectionOffsetHeader(compare_group="g", topic="T")
    assert decoded(admin.desk.ask(ask, header)) == {"correctionOffsets": {"0": 1, "1": 7}}
    header = CorrectionOffsetHeader(compare_group="g", topic="T", filter_groups="g,x")
    assert decoded(admin.desk.ask(ask, header)) == {"correctionOffsets": {"0": 1, "1": 7}}
    header = CorrectionOffsetHeader(compare_group="h", topic="T")
    assert decoded(admin.desk.ask(ask, header)) == {"correctionOffsets": {"0": 1, "1": 7}}, "it is the least itself"
    header = CorrectionOffsetHeader(compare_group="h", topic="T", filter_groups="h")
    assert decoded(admin.desk.ask(ask, header)) == {"correctionOffsets": {"0": (1 << 63) - 1, "1": (1 << 63) - 1}}


def test_a_cloned_group_stands_where_its_source_stands(admin: Admin) -> None:
    header = CloneOffsetsHeader(source_group="g", destination_group="copy", topic="T", offline=True)
    assert admin.desk.ask(RequestCode.CLONE_GROUP_OFFSET, header).code == 0
    assert admin.desk.waits_for == admin.metadata.position
    assert admin.metadata.offsets.get("copy", "T", 0) == 2


def test_a_group_from_before_names_were_shorter_can_be_a_clone(admin: Admin) -> None:
    header = CloneOffsetsHeader(source_group="g", destination_group="g" * 249, topic="T", offline=True)
    assert admin.desk.ask(RequestCode.CLONE_GROUP_OFFSET, header).code == 29
    admin.metadata.groups.put(GroupConfig("g" * 249))
    assert admin.desk.ask(RequestCode.CLONE_GROUP_OFFSET, header).code == 0


def test_what_is_cloned_takes_the_place_of_a_reset_that_the_group_was_not_told_of(admin: Admin) -> None:
    offsets = admin.metadata.offsets
    offsets.reset("copy", "T", {0: 1, 1: 0})
    header = CloneOffsetsHeader(source_group="g", destination_group="copy", topic="T", offline=True)
    assert admin.desk.ask(RequestCode.CLONE_GROUP_OFFSET, header).code == 0
    assert (offsets.get("copy", "T", 0), offsets.pending_reset("copy", "T", 0)) == (2, None)
    assert offsets.pending_reset("copy", "T", 1) == 0, "the source has no offset there"
    header = CloneOffsetsHeader(source_group="copy", destination_group="copy", topic="T", offline=True)
    assert admin.desk.ask(RequestCode.CLONE_GROUP_OFFSET, header).code == 0
    assert offsets.pending_reset("copy", "T", 1) == 0, "of a group as its own copy nothing changes"


def test_a_topic_that_the_source_left_is_not_cloned_while_it_is_online(admin: Admin) -> None:
    admin.subscribe("g", "Other")
    header = CloneOffsetsHeader(source_group="g", destination_group="copy")
    assert admin.desk.ask(RequestCode.CLONE_GROUP_OFFSET, header).code == 0
    assert admin.metadata.offsets.get("copy", "T", 0) is None
    header = CloneOffsetsHeader(source_group="g", destination_group="copy", offline=True)
    assert admin.desk.ask(RequestCode.CLONE_GROUP_OFFSET, header).code == 0
    assert admin.metadata.offsets.get("copy", "T", 0) == 2


@pytest.mark.parametrize("name", ["", "a b", "../x", "x" * 249])
def test_nothing_is_cloned_for_a_name_that_no_group_can_have(admin: Admin, name: str) -> None:
    header = CloneOffsetsHeader(source_group="g", destination_group=name, topic="T", offline=True)
    answer = admin.desk.ask(RequestCode.CLONE_GROUP_OFFSET, header)
    assert (answer.code, "the group's name" in (answer.remark or "")) == (29, True)
    assert admin.metadata.offsets.get(name, "T", 0) is None


def test_nothing_is_refused_for_its_length_that_a_frame_holds() -> None:
    """The shortest row: names of one letter, and nothing consumed."""
    one, two = (
        len(encode_body(ConsumeStats(queues={queue_key("t", "b", number): QueueProgress() for number in range(count)})))
        for count in (1, 2)
    )
    assert (progress.QUEUES_MAX + 1) * (two - one) > DEFAULT_LIMITS.frame_bytes_max
