"""Heartbeats: who becomes a member, what is created, and who is told."""

from dataclasses import dataclass, field

import msgspec
import pytest

from logherd.model.topic import GroupConfig, TopicConfig
from logherd.service.clients.connections import Connections
from logherd.service.clients.heartbeats import CALM_MS, LED_MS, Heartbeats, HeartbeatsOptions
from logherd.service.clients.registry import CONNECTION_EXPIRY_MS, PLACES_MAX, ClientRegistry
from logherd.service.metadata import Metadata
from logherd.service.ports import Reply
from logherd.service.routing import Role
from logherd.wire.bodies.clients import ClientConfig, ConsumerData, Heartbeat, ProducerData, Subscription
from logherd.wire.codes import RequestCode, ResponseCode
from logherd.wire.headers import encode_header
from logherd.wire.headers.clients import ConsumerGroupHeader, UnregisterClientHeader
from unit.service.asking import Desk, decoded
from unit.service.client_fakes import FakeClock, FakeSession
from unit.service.memory_log import MemoryLog

TAGS = Subscription(topic="T", expression="a || b", tags=["a", "b"], codes=[97, 98], version=5)


@dataclass
class Broker:
    auto_create_groups: bool = True
    clock: FakeClock = field(default_factory=FakeClock)
    registry: ClientRegistry = field(default_factory=ClientRegistry)
    log: MemoryLog = field(default_factory=MemoryLog)

    def __post_init__(self) -> None:
        self.metadata = Metadata.open(self.log, self.clock)
        options = HeartbeatsOptions(auto_create_groups=self.auto_create_groups)
        self.heartbeats = Heartbeats(self.registry, self.metadata, self.clock, options=options)
        self.desk = Desk(
            Role.BROKER, self.clock, self.heartbeats.handlers(), Connections(self.registry).handlers()
        )  # fmt: skip

    def beat(
        self, client: str = "c1", *groups: str, session: FakeSession | None = None, fingerprint: int = 0,
        short: bool = False, model: str = "CLUSTERING", producers: tuple[str, ...] = (),
        topics: tuple[str, ...] = ("T",),
    ) -> Reply:  # fmt: skip
        subscriptions = [] if short else [Subscription(topic=topic, version=1) for topic in topics]
        body = Heartbeat(
            client_id=client,
            producers=[ProducerData(group=group) for group in producers],
            consumers=[ConsumerData(group=group, message_model=model, subscriptions=subscriptions) for group in groups],
            fingerprint=fingerprint,
            without_subscriptions=short,
        )
        return self.desk.ask(RequestCode.HEART_BEAT, None, body, session=session)

    def members(self, group: str) -> Reply:
        return self.desk.ask(RequestCode.GET_CONSUMER_LIST_BY_GROUP, ConsumerGroupHeader(consumer_group=group))

    def calm_down(self) -> None:
        """Let the time pass in which a group is not told twice."""
        self.heartbeats.tell_again()
        self.heartbeats.tell_again()


def ext(reply: Reply) -> dict[str, str]:
    assert reply.code == 0, reply.remark
    assert isinstance(reply.header, msgspec.Struct)
    return encode_header(reply.header)


def test_a_heartbeat_makes_a_member_and_answers_with_both_fields() -> None:
    broker = Broker()
    assert ext(broker.beat("c1", "g")) == {"IS_SUPPORT_HEART_BEAT_V2": "true", "IS_SUB_CHANGE": "true"}
    assert decoded(broker.members("g")) == {"consumerIdList": ["c1"]}


def test_a_heartbeat_of_the_go_client_is_enough() -> None:
    broker = Broker()
    body = (
        b'{"clientID":"c1","producerDataSet":[{"groupName":"p"}],"consumerDataSet":[{"groupName":"g","consumeType":'
        b'"CONSUME_PASSIVELY","messageModel":"CLUSTERING","consumeFromWhere":"CONSUME_FROM_FIRST_OFFSET",'
        b'"subscriptionDataSet":[{"classFilterMode":false,"topic":"T","subString":"*","tagsSet":[],"codeSet":[],'
        b'"subVersion":1700000000000000000,"expressionType":"TAG"}],"unitMode":false}]}'
    )
    assert broker.desk.ask(RequestCode.HEART_BEAT, None, body).code == 0
    found = broker.registry.find("g", "T")
    assert found is not None
    assert found.tag_codes is None


def test_a_group_without_members_is_an_error() -> None:
    reply = Broker().members("g")
    assert (reply.code, reply.remark) == (ResponseCode.SYSTEM_ERROR, "no consumer for this group, g")


def test_a_first_heartbeat_creates_group_and_retry_topic_and_waits_for_them() -> None:
    broker = Broker()
    broker.beat("c1", "g")
    assert broker.metadata.groups.get("g") == GroupConfig("g")
    assert broker.metadata.topics.get("%RETRY%g") == TopicConfig("%RETRY%g", 1, 1, 6)
    assert broker.desk.waits_for == broker.metadata.position
    before = broker.metadata.position
    broker.beat("c1", "g")
    assert broker.metadata.position == before


def test_no_retry_topic_without_retry_queues() -> None:
    broker = Broker()
    broker.metadata.groups.put(GroupConfig("g", retry_queues=0))
    broker.beat("c1", "g")
    assert broker.metadata.topics.get("%RETRY%g") is None


def test_groups_are_not_created_when_that_is_off() -> None:
    broker = Broker(auto_create_groups=False)
    broker.metadata.groups.put(GroupConfig("known"))
    reply = broker.beat("c1", "new", "known")
    assert reply.code == ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST
    assert broker.members("new").code == ResponseCode.SYSTEM_ERROR
    assert decoded(broker.members("known")) == {"consumerIdList": ["c1"]}


def test_a_wrong_group_name_is_refused_and_the_others_join() -> None:
    broker = Broker()
    assert broker.beat("c1", "bad name", "good").code == ResponseCode.INVALID_PARAMETER
    assert broker.beat("c1", "g" * 249, "good").code == ResponseCode.INVALID_PARAMETER
    assert decoded(broker.members("good")) == {"consumerIdList": ["c1"]}
    assert [topic.name for topic in broker.metadata.topics] == ["%RETRY%good"]


def test_while_nothing_can_be_logged_the_groups_that_exist_keep_their_members() -> None:
    """Reads go on with a full disk: who is no member gets no queue."""
    broker = Broker()
    for known in ("good", "bare"):
        broker.metadata.groups.put(GroupConfig(known))
    broker.beat("c1", "good")
    broker.log.full = True
    assert broker.beat("c2", "new", "bare", "good").code == ResponseCode.SERVICE_NOT_AVAILABLE
    assert decoded(broker.members("good")) == {"consumerIdList": ["c1", "c2"]}
    assert decoded(broker.members("bare")) == {"consumerIdList": ["c2"]}, "its retry topic can wait"
    assert broker.members("new").code == ResponseCode.SYSTEM_ERROR
    broker.log.full = False
    assert broker.beat("c2", "new", "bare", "good").code == 0
    assert {"%RETRY%new", "%RETRY%bare"} <= {topic.name for topic in broker.metadata.topics}


def test_a_group_whose_name_was_taken_before_goes_on() -> None:
    broker = Broker()
    broker.metadata.groups.put(GroupConfig("g" * 255, retry_queues=0))
    assert broker.beat("c1", "g" * 255).code == 0
    assert decoded(broker.members("g" * 255)) == {"consumerIdList": ["c1"]}


def test_members_are_told_when_one_joins_leaves_or_subscribes_differently() -> None:
    broker = Broker()
    one, two = FakeSession(1), FakeSession(2)
    broker.beat("c1", "g", session=one)
    assert len(one.notified) == 1
    broker.calm_down()
    broker.beat("c2", "g", session=two)
    assert (len(one.notified), len(two.notified)) == (2, 1)
    broker.calm_down()
    broker.beat("c2", "g", session=two)
    assert (len(one.notified), len(two.notified)) == (2, 1)
    broker.beat("c2", "g", session=two, topics=("T", "U"))
    assert (len(one.notified), len(two.notified)) == (3, 2)
    broker.calm_down()
    broker.heartbeats.session_closed(two)
    assert (len(one.notified), len(two.notified)) == (4, 2)
    code, header = one.notified[-1]
    assert code == RequestCode.NOTIFY_CONSUMER_IDS_CHANGED
    assert header == ConsumerGroupHeader(consumer_group="g")


def test_many_members_that_come_and_go_at_once_are_told_of_it_a_few_times() -> None:
    broker = Broker()
    sessions = [FakeSession(number) for number in range(1, 1001)]
    for session in sessions:
        broker.beat(f"c{session.id}", "g", session=session)
    assert sum(len(session.notified) for session in sessions) == 1, "the first one is told at once"
    broker.heartbeats.tell_again()
    assert [len(session.notified) for session in sessions] == [2] + [1] * 999
    for session in sessions[1::2]:
        broker.heartbeats.session_closed(session)
    assert [len(session.notified) for session in sessions[::2]] == [2] + [1] * 499, "told within this time already"
    broker.heartbeats.tell_again()
    assert [len(session.notified) for session in sessions[::2]] == [3] + [2] * 499


def test_the_last_change_is_told_and_no_other_group_waits_for_it() -> None:
    broker = Broker()
    one, two = FakeSession(1), FakeSession(2)
    broker.beat("c1", "g", session=one)
    broker.beat("c2", "g", session=two)
    broker.beat("c1", "h", session=one)
    assert [header for _, header in one.notified] == [
        ConsumerGroupHeader(consumer_group="g"), ConsumerGroupHeader(consumer_group="h"),
    ]  # fmt: skip
    assert two.notified == []
    broker.heartbeats.tell_again()
    assert (len(one.notified), len(two.notified)) == (3, 1)
    broker.heartbeats.tell_again()
    assert (len(one.notified), len(two.notified)) == (3, 1), "what has not changed is not told again"
    broker.beat("c3", "g", session=FakeSession(3))
    assert (len(one.notified), len(two.notified)) == (4, 2), "and after that time a change is told at once"


def test_a_new_leader_tells_groups_only_when_all_brokers_have_had_time_to_name_their_clients() -> None:
    broker = Broker()
    one, two = FakeSession(1), FakeSession(-1)
    broker.heartbeats.step_down()
    broker.clock.advance(100_000)
    broker.beat("c1", "g", session=one)
    broker.clock.advance(CALM_MS - 1)
    broker.beat("c2", "g", session=two)
    broker.heartbeats.tell_again()
    assert (one.notified, two.notified) == ([], [])
    broker.clock.advance(1)
    broker.heartbeats.tell_again()
    assert (len(one.notified), len(two.notified)) == (1, 1)
    broker.calm_down()
    broker.beat("c3", "g", session=FakeSession(3))
    assert (len(one.notified), len(two.notified)) == (2, 2), "from then on at once"


def test_who_asks_a_new_leader_for_members_hears_of_those_of_all_brokers() -> None:
    """In a list without some of them he would find their queues to be his."""
    broker = Broker()
    tool = FakeSession(3)
    broker.heartbeats.step_down()
    broker.clock.advance(100_000)
    broker.beat("c1", "g", session=FakeSession(1))
    for group in ("g", "unknown"):
        header = ConsumerGroupHeader(consumer_group=group)
        assert broker.desk.park(RequestCode.GET_CONSUMER_LIST_BY_GROUP, header, session=tool) is None
    broker.clock.advance(CALM_MS - 1)
    broker.beat("c2", "g", session=FakeSession(2))
    broker.heartbeats.tell_again()
    assert tool.replies == []
    broker.clock.advance(1)
    broker.heartbeats.tell_again()
    known, unknown = tool.replies
    assert decoded(known) == {"consumerIdList": ["c1", "c2"]}
    assert unknown.code == ResponseCode.SYSTEM_ERROR
    assert decoded(broker.members("g")) == {"consumerIdList": ["c1", "c2"]}
    broker.heartbeats.tell_again()
    assert len(tool.replies) == 2


def test_who_asks_for_members_when_the_leader_changes_again_hears_of_no_list() -> None:
    broker = Broker()
    tool, header = FakeSession(3), ConsumerGroupHeader(consumer_group="g")
    broker.heartbeats.step_down()
    assert broker.desk.park(RequestCode.GET_CONSUMER_LIST_BY_GROUP, header, session=tool) is None
    broker.heartbeats.step_down()
    assert [reply.code for reply in tool.replies] == [ResponseCode.SYSTEM_ERROR]


def test_a_leader_that_had_no_client_for_long_has_not_just_begun() -> None:
    broker = Broker()
    one = FakeSession(1)
    broker.heartbeats.step_down()
    broker.clock.advance(LED_MS - 1)
    broker.heartbeats.tell_again()
    broker.clock.advance(1)
    assert broker.heartbeats._begins
    broker.heartbeats.tell_again()
    broker.beat("c1", "g", session=one)
    assert decoded(broker.members("g")) == {"consumerIdList": ["c1"]}
    assert len(one.notified) == 1


def test_a_follower_is_no_leader_without_clients() -> None:
    broker = Broker()
    broker.heartbeats.step_down()
    broker.metadata.demote()
    broker.clock.advance(10 * LED_MS)
    broker.heartbeats.tell_again()
    broker.metadata.promote(2)
    broker.heartbeats.tell_again()
    one = FakeSession(1)
    broker.beat("c1", "g", session=one)
    assert one.notified == []


def test_what_happens_while_another_leads_is_not_taken_for_the_beginning() -> None:
    broker = Broker()
    broker.heartbeats.step_down()
    broker.heartbeats.tick()
    broker.heartbeats.session_closed(FakeSession(2))
    broker.clock.advance(100_000)
    one = FakeSession(1)
    broker.beat("c1", "g", session=one)
    assert one.notified == []
    broker.clock.advance(CALM_MS)
    broker.heartbeats.tell_again()
    assert len(one.notified) == 1


def test_who_leads_no_more_tells_nobody_what_was_still_to_be_told() -> None:
    broker = Broker()
    one = FakeSession(1)
    broker.beat("c1", "g", session=one)
    broker.beat("c2", "g", session=FakeSession(2))
    assert len(one.notified) == 1
    broker.heartbeats.step_down()
    broker.heartbeats.tell_again()
    assert len(one.notified) == 1


def test_unregistering_leaves_at_once() -> None:
    broker = Broker()
    one, two = FakeSession(1), FakeSession(2)
    broker.beat("c1", "g", session=one, producers=("p",))
    broker.beat("c2", "g", session=two)
    header = UnregisterClientHeader(client_id="c2", consumer_group="g")
    broker.calm_down()
    before = len(one.notified)
    assert broker.desk.ask(RequestCode.UNREGISTER_CLIENT, header, session=two).code == 0
    assert decoded(broker.members("g")) == {"consumerIdList": ["c1"]}
    assert len(one.notified) == before + 1
    broker.desk.ask(
        RequestCode.UNREGISTER_CLIENT, UnregisterClientHeader(client_id="c1", producer_group="p"), session=one
    )
    assert broker.registry.producers("p") == []


def test_silent_clients_leave_and_the_others_hear_of_it() -> None:
    broker = Broker()
    one, two = FakeSession(1), FakeSession(2)
    broker.beat("c2", "g", session=two)
    broker.clock.advance(CONNECTION_EXPIRY_MS)
    broker.beat("c1", "g", session=one)
    broker.clock.advance(1)
    broker.calm_down()
    before = len(one.notified)
    broker.heartbeats.tick()
    assert decoded(broker.members("g")) == {"consumerIdList": ["c1"]}
    assert len(one.notified) == before + 1


@pytest.mark.parametrize("quiet", ["broadcasting", "configured"])
def test_some_groups_are_not_told(quiet: str) -> None:
    broker = Broker()
    if quiet == "configured":
        broker.metadata.groups.put(GroupConfig("g", notify_members=False))
    model = "BROADCASTING" if quiet == "broadcasting" else "CLUSTERING"
    one = FakeSession(1)
    broker.beat("c1", "g", session=one, model=model)
    broker.beat("c2", "g", session=FakeSession(2), model=model)
    assert one.notified == []


def test_a_client_of_version_2_leaves_its_subscriptions_out_once_the_broker_has_them() -> None:
    broker = Broker()
    session = FakeSession(1)
    assert ext(broker.beat("c1", "g", session=session, fingerprint=7))["IS_SUB_CHANGE"] == "false"
    assert ext(broker.beat("c1", "g", session=session, fingerprint=7, short=True))["IS_SUB_CHANGE"] == "false"
    assert broker.registry.find("g", "T") is not None


@pytest.mark.parametrize("known", [None, 6])
def test_a_broker_that_lacks_the_subscriptions_asks_for_them(known: int | None) -> None:
    broker = Broker()
    session = FakeSession(1)
    if known is not None:
        broker.beat("c1", "g", session=session, fingerprint=known)
    assert ext(broker.beat("c1", "g", session=session, fingerprint=7, short=True))["IS_SUB_CHANGE"] == "true"
    assert decoded(broker.members("g")) == {"consumerIdList": ["c1"]}


@pytest.mark.parametrize("many", ["producers", "consumers", "subscriptions"])
def test_a_heartbeat_with_more_than_any_client_has_is_refused_whole(many: str) -> None:
    broker = Broker()
    topics = [Subscription(topic=f"T{number}") for number in range(5_000 if many == "subscriptions" else 1)]
    body = Heartbeat(
        client_id="c1",
        producers=[ProducerData(group=f"p{number}") for number in range(999 if many == "producers" else 1)],
        consumers=[
            ConsumerData(group=f"g{number}", subscriptions=topics)
            for number in range(1_000 if many == "consumers" else 2)
        ],
    )
    session = FakeSession(1)
    assert broker.desk.ask(RequestCode.HEART_BEAT, None, body, session=session).code == (
        0 if many == "subscriptions" else ResponseCode.INVALID_PARAMETER
    )
    if many == "subscriptions":
        one = ConsumerData(group="h", subscriptions=topics[:1])
        body = msgspec.structs.replace(body, consumers=[*body.consumers, one])
        assert broker.desk.ask(RequestCode.HEART_BEAT, None, body, session=session).code == (
            ResponseCode.INVALID_PARAMETER
        )
        assert broker.metadata.groups.get("h") is None
    else:
        assert list(broker.registry.consumer_groups()) == []
        assert len(broker.metadata.groups) == 0


def test_one_connection_names_no_end_of_clients_and_groups() -> None:
    broker = Broker()
    session = FakeSession(1)
    for client in range(PLACES_MAX // 1_000):
        for part in range(2):
            names = tuple(f"p{number}" for number in range(500 * part, 500 * part + 500))
            assert broker.beat(f"c{client}", session=session, producers=names).code == 0
    assert broker.beat("c1", "g", session=session).code == ResponseCode.INVALID_PARAMETER
    assert broker.metadata.groups.get("g") is None
    assert broker.beat("c1", session=session, producers=("p1",)).code == 0, "what is known is not new"
    assert broker.beat("c1", "g", session=FakeSession(2)).code == 0, "another connection has room of its own"
    broker.heartbeats.session_closed(session)
    assert broker.beat("c1", "g", session=session).code == 0


def test_names_that_no_client_has_are_not_kept() -> None:
    broker = Broker()
    assert broker.beat("c" * 1024, producers=("p" * 255,)).code == 0
    assert broker.beat("c" * 1025, producers=("p",)).code == ResponseCode.INVALID_PARAMETER
    assert broker.beat("c", producers=("p" * 256,)).code == ResponseCode.INVALID_PARAMETER


def test_a_heartbeat_without_a_client_id_is_refused() -> None:
    assert Broker().beat("", "g").code == ResponseCode.INVALID_PARAMETER
    assert Broker().desk.ask(RequestCode.HEART_BEAT, None, b"{}").code == ResponseCode.INVALID_PARAMETER


def test_a_filter_that_is_no_tag_is_refused_before_the_consumer_starts() -> None:
    broker = Broker()
    check = RequestCode.CHECK_CLIENT_CONFIG
    sql = Subscription(topic="T", expression="a > 1", expression_type="SQL92")
    reply = broker.desk.ask(check, None, ClientConfig(client_id="c1", group="g", subscription=sql))
    assert (reply.code, reply.remark) == (
        ResponseCode.SYSTEM_ERROR, "The broker does not support consumer to filter message by SQL92",
    )  # fmt: skip
    assert broker.desk.ask(check, None, ClientConfig(client_id="c1", group="g", subscription=TAGS)).code == 0


# -- what operators see


def test_consumer_connections_are_listed() -> None:
    broker = Broker()
    body = Heartbeat(client_id="c1", consumers=[ConsumerData(group="g", subscriptions=[TAGS])])
    broker.desk.ask(RequestCode.HEART_BEAT, None, body, session=FakeSession(1, "10.0.0.9", 5555))
    header = ConsumerGroupHeader(consumer_group="g")
    assert decoded(broker.desk.ask(RequestCode.GET_CONSUMER_CONNECTION_LIST, header)) == {
        "connectionSet": [{"clientId": "c1", "clientAddr": "10.0.0.9:5555", "language": "JAVA", "version": 479}],
        "subscriptionTable": {
            "T": {
                "classFilterMode": False, "topic": "T", "subString": "a || b", "tagsSet": ["a", "b"],
                "codeSet": [97, 98], "subVersion": 5, "expressionType": "TAG",
            }
        },
        "consumeType": "CONSUME_PASSIVELY",
        "messageModel": "CLUSTERING",
        "consumeFromWhere": "CONSUME_FROM_LAST_OFFSET",
    }  # fmt: skip
    missing = broker.desk.ask(RequestCode.GET_CONSUMER_CONNECTION_LIST, ConsumerGroupHeader(consumer_group="x"))
    assert (missing.code, missing.remark) == (ResponseCode.CONSUMER_NOT_ONLINE, "the consumer group[x] not online")


def test_producer_connections_are_listed() -> None:
    broker = Broker()
    broker.beat("c1", producers=("p",), session=FakeSession(1, "10.0.0.9", 5555))
    one = broker.desk.ask(RequestCode.GET_PRODUCER_CONNECTION_LIST, {"producerGroup": "p"})
    assert decoded(one) == {
        "connectionSet": [{"clientId": "c1", "clientAddr": "10.0.0.9:5555", "language": "JAVA", "version": 479}]
    }
    every = decoded(broker.desk.ask(RequestCode.GET_ALL_PRODUCER_INFO))
    assert every == {
        "data": {
            "p": [
                {
                    "clientId": "c1", "remoteIP": "10.0.0.9:5555", "language": "JAVA", "version": 479,
                    "lastUpdateTimestamp": broker.clock.wall,
                }
            ]
        }
    }  # fmt: skip
    missing = broker.desk.ask(RequestCode.GET_PRODUCER_CONNECTION_LIST, {"producerGroup": "x"})
    assert (missing.code, missing.remark) == (ResponseCode.SYSTEM_ERROR, "the producer group[x] not exist")
