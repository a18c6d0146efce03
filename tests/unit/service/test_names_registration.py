"""What brokers say of themselves to name services, ours and RocketMQ's, and what a name service makes of it."""

import zlib

import msgspec
import pytest

from logherd.model.topic import TopicConfig
from logherd.service.identity import BrokerIdentity
from logherd.service.metadata import Metadata
from logherd.service.names.compressed import TOPICS_MAX
from logherd.service.names.registration import LocalRegistration, OutgoingRequest, Registrar
from logherd.service.names.routes import EXPIRY_MS, SUCCESSION_MS
from logherd.wire.bodies import decode_body
from logherd.wire.bodies.configs import RegisterBroker, TopicConfigBody, TopicConfigTable
from logherd.wire.codes import RequestCode, ResponseCode
from logherd.wire.headers.names import RegisterBrokerHeader, UnregisterBrokerHeader
from unit.service.asking import decoded
from unit.service.client_fakes import FakeClock
from unit.service.memory_log import MemoryLog
from unit.service.test_names_handlers import Names

ME = BrokerIdentity("C", "a", 3, "10.0.0.3:10911")
LEADER = ME._replace(broker_id=0)
TEMPLATE = TopicConfig("TBW102", 8, 8, permission=7)


def metadata(clock: FakeClock) -> Metadata:
    opened = Metadata.open(MemoryLog(), clock)
    opened.topics.put(TopicConfig("T", 4, 4))
    opened.topics.put(TEMPLATE)
    return opened


def permissions(names: Names, topic: str) -> list[int]:
    route = decoded(names.route(topic))
    assert isinstance(route, dict)
    return [queue["perm"] for queue in route["queueDatas"]]


# -- what comes in


def test_a_broker_that_names_no_time_may_be_silent_for_two_minutes() -> None:
    names = Names()
    names.register()
    names.clock.advance(EXPIRY_MS)
    assert names.routes.expire(names.clock.monotonic) == []
    assert len(names.routes.expire(names.clock.monotonic + 1)) == 1


def test_a_single_topic_of_a_rocketmq_broker_takes_none_of_its_others_away() -> None:
    names = Names()
    names.register()
    assert names.register(topics=(TopicConfig("V"),)).code == 0
    assert names.topics() == ["T", "U", "V"]


def test_clients_hear_whether_a_follower_acts_for_the_leader() -> None:
    names = Names()
    names.register(acting_master=True)
    assert b'"enableActingMaster":true' in bytes(names.route("T").body)  # type: ignore[arg-type]


def test_a_broker_that_says_nothing_of_topics_is_known() -> None:
    names = Names()
    assert names.register(body=b"").code == 0
    assert names.routes.brokers()["a"].addresses == {0: "a0:10911"}


def test_more_topics_than_one_registration_may_have_are_refused() -> None:
    names = Names()
    topics = ",".join(f'"{n:x}":{{"topicName":"{n:x}"}}' for n in range(TOPICS_MAX + 1))
    answer = names.register(body=f'{{"topicConfigSerializeWrapper":{{"topicConfigTable":{{{topics}}}}}}}'.encode())
    assert answer.code == ResponseCode.INVALID_PARAMETER
    assert answer.remark == "the registration has 300001 topics, at most 300000 are taken"
    assert not names.routes.brokers()


@pytest.mark.parametrize(("version", "wrapped"), [(36, False), (37, True)])
def test_the_body_is_the_table_alone_before_release_3_0_11(version: int, wrapped: bool) -> None:
    names = Names()
    table = TopicConfigTable(topics={n: TopicConfigBody(name=n) for n in ("V", "W")})
    body = msgspec.json.encode(RegisterBroker(topics=table) if wrapped else table)
    names.register(body=body, version=version)
    assert names.topics() == ["V", "W"]


def test_a_broker_whose_leader_is_gone_is_there_for_clients_of_all_zones() -> None:
    names = Names()
    names.register()
    names.register(broker_id=1)
    names.register("b")
    gone = {"brokerName": "a", "brokerAddr": "a0:10911", "clusterName": "C", "brokerId": "0"}
    names.desk.ask(RequestCode.UNREGISTER_BROKER, gone)
    zoned = decoded(names.route("T", __ZONE_MODE="true", __ZONE_NAME="west"))
    assert isinstance(zoned, dict)
    assert [broker["brokerAddrs"] for broker in zoned["brokerDatas"]] == [{"1": "a1:10911"}]


# -- of a broker in this process


def test_a_permission_puts_no_broker_into_routes_before_it_is_ready() -> None:
    names = Names()
    local = LocalRegistration(names.routes, LEADER, metadata(names.clock), names.clock)
    local.set_permission(4)
    assert names.topics() == []
    local.register()
    assert permissions(names, "T") == [4]


def test_a_broker_that_is_out_of_routes_stays_out_whatever_its_topics_do() -> None:
    names = Names()
    names.register("b")
    data = metadata(names.clock)
    local = LocalRegistration(names.routes, LEADER, data, names.clock)
    local.register()
    local.unregister()
    local.register()
    data.topics.put(TopicConfig("later"))
    assert names.topics() == ["T", "U"]


def test_a_leader_that_stops_stays_in_routes_for_the_time_of_a_succession() -> None:
    names = Names()
    local = LocalRegistration(names.routes, ME, metadata(names.clock), names.clock, alone=False)
    local.lead(3)
    local.register()
    local.unregister()
    assert names.routes.expire(names.clock.monotonic + SUCCESSION_MS - 1) == []
    assert names.routes.brokers()["a"].addresses == {0: ME.address}
    assert len(names.routes.expire(names.clock.monotonic + SUCCESSION_MS)) == 1


# -- what goes out


def said(request: OutgoingRequest | None) -> tuple[RegisterBrokerHeader, TopicConfigTable]:
    """The two parts of a 103, whose checksum RocketMQ compares."""
    assert request is not None
    header = request.header
    assert isinstance(header, RegisterBrokerHeader)
    assert (request.code, header.body_crc) == (RequestCode.REGISTER_BROKER, zlib.crc32(request.body) & 0x7FFFFFFF)
    assert (header.heartbeat_timeout_ms, header.complete, header.compressed) == (EXPIRY_MS, True, False)
    return header, decode_body(RegisterBroker, request.body).topics


def test_a_broker_that_is_alone_counts_its_starts_so_that_the_latest_wins_its_name() -> None:
    clock, log = FakeClock(), MemoryLog()
    for start in (1, 2):
        data = Metadata.open(log, clock)
        log.commit()
        header, topics = said(Registrar(ME, data, ha_address="").register())
        assert (header.broker_id, topics.version.state_version) == (3, start)


@pytest.mark.parametrize(("permission", "expected"), [(6, (6, 7)), (4, (4, 5)), (2, (2, 3))])
def test_what_the_broker_does_not_permit_no_name_service_offers(permission: int, expected: tuple[int, int]) -> None:
    """What else a topic's permission says stays: TBW102 hands its own down to topics that are made by a send."""
    names = Names()
    data = metadata(names.clock)
    local, registrar = LocalRegistration(names.routes, LEADER, data, names.clock), Registrar(ME, data, ha_address="")
    local.register()
    local.set_permission(permission)
    registrar.set_permission(permission)
    _, topics = said(registrar.register())
    assert (topics.topics["T"].permission, topics.topics["TBW102"].permission) == expected
    assert (permissions(names, "T"), permissions(names, "TBW102")) == ([expected[0]], [expected[1]])


def test_each_change_of_the_permission_is_told_in_a_version_that_no_name_service_knows() -> None:
    """RocketMQ leaves its routes as they are where the version is the one before."""
    data = metadata(FakeClock())
    registrar = Registrar(ME, data, ha_address="")
    told = [said(registrar.register())[1].version]
    for permission in (4, 4, 6):
        registrar.set_permission(permission)
        told.append(said(registrar.register())[1].version)
    data.topics.put(TopicConfig("later"))
    told.append(said(registrar.register())[1].version)
    assert [version.counter - told[0].counter for version in told] == [0, 1, 1, 2, 3]
    assert {version.state_version for version in told} == {data.version.state_version}


def test_a_follower_that_answers_pulls_says_where_it_is_and_nothing_of_topics() -> None:
    names = Names()
    data = metadata(names.clock)
    registrar = Registrar(ME, data, ha_address="10.0.0.3:10912", alone=False)
    request = registrar.attend(ME)
    header, topics = said(request)
    assert (header.broker_id, header.broker_address, header.ha_address, header.epoch) == (3, ME.address, "", None)
    assert (topics.topics, topics.version.counter) == ({}, data.version.counter)
    assert request is not None
    assert names.desk.ask(request.code, request.header, request.body).code == 0
    assert names.routes.brokers()["a"].addresses == {3: ME.address}
    depart = registrar.depart(ME)
    assert names.desk.ask(depart.code, depart.header).code == 0
    assert names.route("T").code == ResponseCode.TOPIC_NOT_EXIST
    assert names.routes.brokers() == {}
    registrar.lead(4)
    assert registrar.attend(ME) is None


def test_a_former_leader_withdraws_no_address_that_is_the_next_ones_too() -> None:
    """RocketMQ removes by address, and its 104 may come behind the next leader's 103."""
    registrar = Registrar(ME, metadata(FakeClock()), ha_address="", routed="leader:1", alone=False)
    registrar.lead(5)
    registrar.follow()
    assert registrar.unregister() is None
    registrar.name(own=True)
    request = registrar.unregister()
    assert request is not None
    assert isinstance(request.header, UnregisterBrokerHeader)
    assert request.header.broker_address == ME.address


def test_another_address_is_another_one_once() -> None:
    registrar = Registrar(ME, metadata(FakeClock()), ha_address="", routed="leader:1", alone=False)
    assert [registrar.name(own=own) for own in (False, True, True, False)] == [False, True, False, True]
    assert registrar.address == "leader:1"
