"""Orders and questions about topics and groups, over a real store."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from logherd.model.topic import GroupConfig, TopicConfig
from logherd.service.admin import slices
from logherd.service.admin.groups import GroupAdmin
from logherd.service.admin.topics import TopicAdmin
from logherd.service.clients.registry import ClientRegistry, Connection, ConsumerProfile, Subscription
from logherd.service.ports import Reply
from logherd.service.routing import Role
from logherd.service.stats import BrokerStats
from logherd.wire.bodies.configs import GroupConfigBody, GroupConfigList, TopicConfigBody, TopicConfigList
from logherd.wire.codes import RequestCode, ResponseCode
from logherd.wire.headers.topics import (
    CreateTopicHeader,
    DeleteGroupHeader,
    GroupHeader,
    TopicConfigHeader,
    TopicHeader,
)
from unit.service.asking import Desk, decoded
from unit.service.client_fakes import FakeSession
from unit.service.small_broker import IDENTITY, SmallBroker


class Admin(SmallBroker):
    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self.registry = ClientRegistry()
        self.stats = BrokerStats(now_ms=0, wall_ms=self.clock.wall)
        self.slices = slices.Slices()
        topics = TopicAdmin(
            self.metadata, self.store, self.registry, self.stats, identity=IDENTITY, slices=self.slices
        )  # fmt: skip
        groups = GroupAdmin(self.metadata, self.stats)
        self.desk = Desk(Role.BROKER, self.clock, topics.handlers(), groups.handlers())

    def create(self, topic: str = "T", **fields: Any) -> Reply:
        told = {"read_queues": 4, "write_queues": 4, "permission": 6} | fields
        header = CreateTopicHeader(topic=topic, default_topic="TBW102", filter_type="SINGLE_TAG", **told)
        return self.desk.ask(RequestCode.UPDATE_AND_CREATE_TOPIC, header)


@pytest.fixture
def admin(tmp_path: Path) -> Iterator[Admin]:
    broker = Admin(tmp_path)
    yield broker
    broker.close()


def test_a_created_topic_is_there_and_its_answer_waits_for_it(admin: Admin) -> None:
    assert admin.create(attributes="+message.type=FIFO", order=True, sys_flag=2).code == 0
    assert admin.desk.waits_for == admin.metadata.position > 0
    assert admin.metadata.topics.get("T") == TopicConfig(
        "T", 4, 4, 6, 2, order=True, attributes={"message.type": "FIFO"}
    )
    reply = admin.desk.ask(RequestCode.GET_TOPIC_CONFIG, TopicConfigHeader(topic="T"))
    assert decoded(reply) == {
        "topicName": "T", "readQueueNums": 4, "writeQueueNums": 4, "perm": 6, "topicFilterType": "SINGLE_TAG",
        "topicSysFlag": 2, "order": True, "attributes": {"message.type": "FIFO"},
    }  # fmt: skip


def test_a_topic_and_its_end_are_shown_only_once_they_are_durable(admin: Admin) -> None:
    def all_wait_for(position: int, known: bool) -> None:
        assert admin.desk.ask(RequestCode.GET_ALL_TOPIC_CONFIG).code == 0
        assert admin.desk.waits_for == position
        found = admin.desk.ask(RequestCode.GET_TOPIC_CONFIG, TopicConfigHeader(topic="T"))
        assert found.code == (0 if known else ResponseCode.TOPIC_NOT_EXIST)
        assert admin.desk.waits_for == position

    admin.create()
    all_wait_for(admin.store.end_position, known=True)
    admin.commit()
    all_wait_for(0, known=True)
    admin.desk.ask(RequestCode.DELETE_TOPIC_IN_BROKER, TopicHeader(topic="T"))
    all_wait_for(admin.store.end_position, known=False)
    admin.commit()
    admin.metadata.groups.put(GroupConfig("G"))
    all_wait_for(0, known=False)


def test_a_group_and_its_end_are_shown_only_once_they_are_durable(admin: Admin) -> None:
    def all_wait_for(position: int, known: bool) -> None:
        assert admin.desk.ask(RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG).code == 0
        assert admin.desk.waits_for == position
        found = admin.desk.ask(RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG, GroupHeader(group="G"))
        assert found.code == (0 if known else ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST)
        assert admin.desk.waits_for == position

    admin.desk.ask(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, body=GroupConfigBody.from_model(GroupConfig("G")))
    all_wait_for(admin.store.end_position, known=True)
    admin.commit()
    all_wait_for(0, known=True)
    admin.desk.ask(RequestCode.DELETE_SUBSCRIPTIONGROUP, DeleteGroupHeader(group="G"))
    all_wait_for(admin.store.end_position, known=False)
    admin.commit()
    admin.create()
    all_wait_for(0, known=False)


def test_an_update_keeps_the_attributes_that_it_does_not_name(admin: Admin) -> None:
    admin.create(attributes="+message.type=FIFO")
    admin.create(read_queues=8)
    found = admin.metadata.topics.get("T")
    assert found is not None
    assert (found.read_queues, found.attributes) == (8, {"message.type": "FIFO"})


@pytest.mark.parametrize(
    ("topic", "fields", "code", "named"),
    [
        ("bad topic", {}, ResponseCode.INVALID_PARAMETER, "bad topic"),
        ("", {}, ResponseCode.INVALID_PARAMETER, "empty"),
        ("SCHEDULE_TOPIC_XXXX", {}, ResponseCode.INVALID_PARAMETER, "conflict with system topic"),
        ("C", {}, ResponseCode.INVALID_PARAMETER, "conflict with system topic"),
        ("C_REPLY_TOPIC", {}, ResponseCode.INVALID_PARAMETER, "conflict with system topic"),
        ("T", {"read_queues": 0}, ResponseCode.INVALID_PARAMETER, "readQueueNums is 0; right is 1 to 16384"),
        ("T", {"write_queues": 16_385}, ResponseCode.INVALID_PARAMETER, "writeQueueNums is 16385"),
        ("T", {"permission": 16}, ResponseCode.INVALID_PARAMETER, "perm is 16"),
        ("T", {"attributes": "+colour=red"}, ResponseCode.SYSTEM_ERROR, "'colour' does not exist"),
        ("T", {"attributes": "colour"}, ResponseCode.SYSTEM_ERROR, "neither"),
    ],
)
def test_a_wrong_topic_is_refused_by_name(
    admin: Admin, topic: str, fields: dict[str, Any], code: int, named: str
) -> None:
    reply = admin.create(topic, **fields)
    assert (reply.code, named in (reply.remark or "")) == (code, True)
    assert admin.metadata.topics.get("T") is None


def test_the_topic_of_traces_can_be_made_changed_and_deleted(admin: Admin) -> None:
    """RocketMQ makes it by its setting traceTopicEnable; clients trace into it, and may not make topics everywhere."""
    name = "RMQ_SYS_TRACE_TOPIC"
    assert admin.create(name).code == 0
    assert admin.create(name, read_queues=8).code == 0
    found = admin.metadata.topics.get(name)
    assert found is not None
    assert found.read_queues == 8
    assert decoded(admin.desk.ask(RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_BROKER))["topicList"] == [name]
    assert admin.desk.ask(RequestCode.DELETE_TOPIC_IN_BROKER, TopicHeader(topic=name)).code == 0
    assert admin.metadata.topics.get(name) is None


def test_a_list_of_topics_is_created_whole_or_not_at_all(admin: Admin) -> None:
    good, bad = TopicConfigBody(name="A", attributes={"+message.type": "FIFO"}), TopicConfigBody(name="bad name")
    create = RequestCode.UPDATE_AND_CREATE_TOPIC_LIST
    assert admin.desk.ask(create, None, TopicConfigList(topics=[good, bad])).code == ResponseCode.INVALID_PARAMETER
    assert admin.metadata.topics.get("A") is None
    assert admin.desk.ask(create, None, TopicConfigList(topics=[good, TopicConfigBody(name="B")])).code == 0
    found = admin.metadata.topics.get("A")
    assert found is not None
    assert found.attributes == {"message.type": "FIFO"}
    assert admin.metadata.topics.get("B") is not None


def test_counters_of_a_topic_go_whoever_deletes_it(admin: Admin) -> None:
    admin.create()
    admin.stats.count_put("T", 1, 5)
    admin.metadata.topics.delete("T")
    assert admin.stats.view("TOPIC_PUT_NUMS", "T", cluster="C") is None


def test_counters_of_a_group_go_whoever_deletes_it(admin: Admin) -> None:
    """Also those of a broker that led before, and hears of it from the log."""
    for name in ("g", "h"):
        admin.metadata.groups.put(GroupConfig(name))
        admin.stats.count_get(name, "T", 1, 5)
    admin.metadata.groups.delete("g", clean_offsets=False)
    assert admin.stats.view("GROUP_GET_NUMS", "T@g", cluster="C") is None
    assert admin.stats.view("GROUP_GET_NUMS", "T@h", cluster="C") is not None


def test_a_list_of_more_topics_or_groups_than_one_request_may_hold_up_all_others_for_is_refused(admin: Admin) -> None:
    topics = [TopicConfigBody(name=f"t{number}") for number in range(10_001)]
    groups = [GroupConfigBody(name=f"g{number}") for number in range(10_001)]
    for code, body in (
        (RequestCode.UPDATE_AND_CREATE_TOPIC_LIST, TopicConfigList(topics=topics)),
        (RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST, GroupConfigList(groups=groups)),
    ):
        reply = admin.desk.ask(code, None, body)
        assert (reply.code, "10000" in (reply.remark or "")) == (ResponseCode.INVALID_PARAMETER, True)
    assert (len(admin.metadata.topics), len(admin.metadata.groups)) == (0, 0)


def test_a_deleted_topic_is_gone_with_its_messages_offsets_and_counters(admin: Admin) -> None:
    admin.create()
    admin.put("T")
    admin.stats.count_put("T", 1, 5)
    admin.metadata.offsets.commit("g", "T", 0, 1)
    assert admin.desk.ask(RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": "T"}).code == 0
    assert admin.desk.waits_for == admin.metadata.position
    assert admin.metadata.topics.get("T") is None
    assert admin.metadata.offsets.get("g", "T", 0) is None
    assert admin.store.find_queue("T", 0) is None
    assert admin.stats.view("TOPIC_PUT_NUMS", "T", cluster="C") is None
    admin.commit()
    assert admin.desk.ask(RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": "T"}).code == 0


@pytest.mark.parametrize("topic", ["", "TBW102", "a", "rmq_sys_LOGHERD_METADATA"])
def test_topics_of_the_broker_cannot_be_deleted(admin: Admin, topic: str) -> None:
    reply = admin.desk.ask(RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": topic})
    assert reply.code == ResponseCode.INVALID_PARAMETER


def test_a_missing_topic_is_17(admin: Admin) -> None:
    for code in (RequestCode.GET_TOPIC_CONFIG, RequestCode.GET_TOPIC_STATS_INFO):
        assert admin.desk.ask(code, {"topic": "T"}).code == ResponseCode.TOPIC_NOT_EXIST


def test_all_topics_are_listed_with_their_version(admin: Admin) -> None:
    admin.create()
    version = admin.metadata.topics.version
    told = decoded(admin.desk.ask(RequestCode.GET_ALL_TOPIC_CONFIG))
    assert isinstance(told, dict)
    assert list(told["topicConfigTable"]) == ["T"]
    assert told["dataVersion"] == {
        "counter": version.counter, "stateVersion": version.state_version, "timestamp": version.timestamp,
    }  # fmt: skip


def test_system_topics_are_those_that_exist(admin: Admin) -> None:
    for name in ("T", "C", "SELF_TEST_TOPIC"):
        admin.metadata.topics.put(TopicConfig(name))
    told = decoded(admin.desk.ask(RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_BROKER))
    assert told == {"topicList": ["C", "SELF_TEST_TOPIC"]}


def test_topic_figures_name_every_queue(admin: Admin) -> None:
    admin.create(read_queues=1, write_queues=2)
    admin.put("T", 1)
    admin.clock.advance(1000)
    admin.put("T", 1)
    told = decoded(admin.desk.ask(RequestCode.GET_TOPIC_STATS_INFO, {"topic": "T"}))
    assert isinstance(told, dict)
    assert told["offsetTable"] == {
        '{"brokerName":"a","queueId":0,"topic":"T"}': {"minOffset": 0, "maxOffset": 0, "lastUpdateTimestamp": 0},
        '{"brokerName":"a","queueId":1,"topic":"T"}': {
            "minOffset": 0, "maxOffset": 2, "lastUpdateTimestamp": admin.clock.wall,
        },
    }  # fmt: skip
    assert told["topicPutTps"] == 0.0


def test_of_a_topic_with_very_many_queues_the_rest_is_looked_up_later(
    admin: Admin, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else nothing else would be done meanwhile, and a leader would lose its lease."""
    admin.create(read_queues=250, write_queues=250)
    whole = admin.desk.ask(RequestCode.GET_TOPIC_STATS_INFO, {"topic": "T"})
    monkeypatch.setattr(slices, "QUEUES_AT_ONCE", 100)
    session = FakeSession()
    assert admin.desk.park(RequestCode.GET_TOPIC_STATS_INFO, {"topic": "T"}, session=session) is None
    admin.slices.tick()
    assert session.replies == []
    admin.slices.tick()
    assert [reply.body for reply in session.replies] == [whole.body]


def test_who_consumes_a_topic_is_known_from_connections_and_offsets(admin: Admin) -> None:
    admin.create()
    link = Connection("c1", FakeSession(), "JAVA", 479, 0, 0)
    admin.registry.join_consumer("online", ConsumerProfile(), link, subscriptions={"T": Subscription("T")})
    admin.metadata.offsets.commit("offline", "T", 0, 3)
    admin.metadata.offsets.commit("online", "T", 0, 3)
    assert decoded(admin.desk.ask(RequestCode.QUERY_TOPIC_CONSUME_BY_WHO, {"topic": "T"})) == {
        "groupList": ["online", "offline"]
    }


# -- groups


def test_a_group_is_created_read_changed_and_deleted(admin: Admin) -> None:
    put = RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP
    assert admin.desk.ask(put, None, GroupConfigBody(name="g", retries_max=3)).code == 0
    assert admin.desk.waits_for == admin.metadata.position
    told = decoded(admin.desk.ask(RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG, GroupHeader(group="g")))
    assert isinstance(told, dict)
    assert (told["groupName"], told["retryMaxTimes"], told["groupRetryPolicy"]) == ("g", 3, {"type": "CUSTOMIZED"})
    admin.metadata.offsets.commit("g", "T", 0, 1)
    gone = DeleteGroupHeader(group="g", clean_offsets=True)
    assert admin.desk.ask(RequestCode.DELETE_SUBSCRIPTIONGROUP, gone).code == 0
    assert admin.metadata.offsets.get("g", "T", 0) is None
    missing = admin.desk.ask(RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG, GroupHeader(group="g"))
    assert (missing.code, missing.remark) == (ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, "No group in this broker")


def test_deleting_a_group_keeps_its_offsets_unless_told_otherwise(admin: Admin) -> None:
    admin.metadata.groups.put(GroupConfig("g"))
    admin.metadata.offsets.commit("g", "T", 0, 1)
    admin.desk.ask(RequestCode.DELETE_SUBSCRIPTIONGROUP, DeleteGroupHeader(group="g"))
    assert admin.metadata.offsets.get("g", "T", 0) == 1


@pytest.mark.parametrize(
    ("body", "named"),
    [
        (GroupConfigBody(name="bad group"), "bad group"),
        (GroupConfigBody(name="g" * 249), "is not 1 to 248 letters"),
        (GroupConfigBody(name="g", retry_queues=-1), "retryQueueNums is -1"),
        (GroupConfigBody(name="g", retries_max=-2), "retryMaxTimes is -2"),
        (GroupConfigBody(name="g", attributes={"a": "\x01" * 6_000}), "attributes"),
    ],
)
def test_a_wrong_group_is_refused_by_name(admin: Admin, body: GroupConfigBody, named: str) -> None:
    for code, told in (
        (RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, body),
        (
            RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST,
            GroupConfigList(groups=[GroupConfigBody(name="ok"), body]),
        ),
    ):
        reply = admin.desk.ask(code, None, told)
        assert (reply.code, named in (reply.remark or "")) == (ResponseCode.INVALID_PARAMETER, True)
    assert len(admin.metadata.groups) == 0


def test_a_group_whose_name_was_taken_before_can_be_changed(admin: Admin) -> None:
    admin.metadata.groups.put(GroupConfig("g" * 255))
    body = GroupConfigBody(name="g" * 255, consume_enabled=False)
    assert admin.desk.ask(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, None, body).code == 0
    assert admin.metadata.groups.get("g" * 255) == GroupConfig("g" * 255, consume_enabled=False)


def test_groups_of_the_broker_cannot_be_deleted(admin: Admin) -> None:
    reply = admin.desk.ask(RequestCode.DELETE_SUBSCRIPTIONGROUP, DeleteGroupHeader(group="TOOLS_CONSUMER"))
    assert reply.code == ResponseCode.INVALID_PARAMETER


def test_all_groups_are_listed_with_their_version(admin: Admin) -> None:
    bodies = GroupConfigList(groups=[GroupConfigBody(name="g"), GroupConfigBody(name="h")])
    assert admin.desk.ask(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST, None, bodies).code == 0
    told = decoded(admin.desk.ask(RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG))
    assert isinstance(told, dict)
    assert list(told["subscriptionGroupTable"]) == ["g", "h"]
    assert told["dataVersion"]["counter"] == admin.metadata.groups.version.counter
