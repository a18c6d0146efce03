"""What a name service answers to brokers and clients."""

import zlib
from collections.abc import Mapping
from struct import pack

import msgspec
import pytest

from logherd.model.topic import TopicConfig
from logherd.service.errors import RequestError
from logherd.service.identity import BrokerIdentity
from logherd.service.metadata import Metadata
from logherd.service.names import registration
from logherd.service.names.epochs import Expected
from logherd.service.names.handlers import BrokerNames, TopicNames
from logherd.service.names.keyvalues import KeyValues
from logherd.service.names.registration import LocalRegistration, Registrar
from logherd.service.names.routes import RouteTable
from logherd.service.names.value_handlers import ValueNames
from logherd.service.ports import Reply
from logherd.service.routing import Role
from logherd.service.settings_table import Setting, SettingsTable, one_of
from logherd.wire.bodies.configs import DataVersion, RegisterBroker, TopicConfigBody, TopicConfigTable
from logherd.wire.codes import RequestCode, ResponseCode
from logherd.wire.headers import encode_header
from logherd.wire.headers.names import (
    BrokerHeartbeatHeader,
    BrokerNameHeader,
    ClusterHeader,
    DataVersionHeader,
    DeleteNamesTopicHeader,
    MemberGroupHeader,
    PutKVHeader,
    RegisterBrokerHeader,
    UnregisterBrokerHeader,
)  # fmt: skip
from unit.service.asking import Desk, decoded
from unit.service.client_fakes import FakeClock, FakeSession
from unit.service.memory_log import MemoryLog

TOPICS = (TopicConfig("T"), TopicConfig("U"))


class Names:
    def __init__(self, *, expected: tuple[str, ...] = (), grace_ms: int = 0) -> None:
        self.clock = FakeClock()
        self.routes = RouteTable(started_ms=self.clock.monotonic, grace_ms=grace_ms, groups=Expected(expected))
        self.saved: list[Mapping[str, Mapping[str, str]]] = []
        self.values = KeyValues(save=self.saved.append)
        self.expiry = 120
        settings = SettingsTable(
            [
                Setting(
                    "expirySeconds",
                    lambda: self.expiry,
                    one_of("60", "120"),
                    lambda v: setattr(self, "expiry", int(str(v))),
                ),
            ]
        )
        self.desk = Desk(
            Role.NAMES, self.clock,
            TopicNames(self.routes, self.clock).handlers(),
            BrokerNames(self.routes, self.values, self.clock).handlers(),
            ValueNames(self.values, settings).handlers(),
        )  # fmt: skip

    def register(
        self, name: str = "a", broker_id: int = 0, *, topics: tuple[TopicConfig, ...] = TOPICS,
        body: bytes | None = None, session: FakeSession | None = None, version: int = 479, cluster: str = "C",
        **header: object,
    ) -> Reply:  # fmt: skip
        table = TopicConfigTable(
            version=DataVersion(counter=1, state_version=0, timestamp=5),
            topics={topic.name: TopicConfigBody.from_model(topic) for topic in topics},
        )
        data = msgspec.json.encode(RegisterBroker(topics=table)) if body is None else body
        fields = {
            "broker_name": name, "broker_address": f"{name}{broker_id}:10911", "cluster_name": cluster,
            "ha_address": f"{name}{broker_id}:10912", "broker_id": broker_id,
        } | header  # fmt: skip
        return self.desk.ask(
            RequestCode.REGISTER_BROKER, RegisterBrokerHeader(**fields), data,  # type: ignore[arg-type]
            session=session, version=version,
        )  # fmt: skip

    def route(self, topic: str, **ext: str) -> Reply:
        return self.desk.ask(RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": topic, **ext})

    def topics(self, code: RequestCode = RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER) -> list[str]:
        body = decoded(self.desk.ask(code))
        assert isinstance(body, dict)
        return list(body["topicList"])


def test_a_route_is_exactly_what_stock_clients_read() -> None:
    names = Names()
    names.register(topics=(TopicConfig("T", 4, 8, 6, 1), TopicConfig("U")))
    names.register(broker_id=1, topics=())
    reply = names.route("T")
    assert reply.body == (
        b'{"queueDatas":[{"brokerName":"a","readQueueNums":4,"writeQueueNums":8,"perm":6,"topicSysFlag":1}],'
        b'"brokerDatas":[{"cluster":"C","brokerName":"a","brokerAddrs":{"0":"a0:10911","1":"a1:10911"},'
        b'"enableActingMaster":false}],"filterServerTable":{}}'
    )


def test_a_route_changes_when_its_brokers_do() -> None:
    names = Names()
    names.register()
    first = names.route("T").body
    assert names.route("T").body is first
    names.register("b", topics=(TopicConfig("T", 1, 1), TopicConfig("V")))
    assert names.route("T").body != first


def test_an_unknown_topic_is_17_and_just_after_the_start_try_again() -> None:
    names = Names(grace_ms=3000)
    reply = names.route("T")
    assert (reply.code, "try again" in (reply.remark or "")) == (ResponseCode.SYSTEM_ERROR, True)
    names.clock.advance(3000)
    assert names.route("T").code == ResponseCode.TOPIC_NOT_EXIST


def test_an_unknown_topic_is_17_once_the_expected_leader_has_registered() -> None:
    names = Names(grace_ms=3000, expected=("a",))
    names.register()
    assert names.route("T").code == 0
    assert names.route("missing").code == ResponseCode.TOPIC_NOT_EXIST


def test_a_client_in_a_zone_gets_the_brokers_of_its_zone() -> None:
    names = Names()
    for name, zone in (("a", "east"), ("b", "west")):
        table = TopicConfigTable(topics={n: TopicConfigBody(name=n) for n in ("T", "U")})
        header = RegisterBrokerHeader(
            broker_name=name, broker_address=f"{name}:1", cluster_name="C", ha_address="", broker_id=0
        )
        ext = encode_header(header) | {"__ZONE_NAME": zone}
        names.desk.ask(RequestCode.REGISTER_BROKER, ext, RegisterBroker(topics=table))
    for _ in range(2):
        zoned = decoded(names.route("T", __ZONE_MODE="true", __ZONE_NAME="west"))
        assert isinstance(zoned, dict)
        assert [b["brokerName"] for b in zoned["brokerDatas"]] == ["b"]
        assert [q["brokerName"] for q in zoned["queueDatas"]] == ["b"]
        for mode in ("TRUE", "tRuE"):
            zoned = decoded(names.route("T", __ZONE_MODE=mode, __ZONE_NAME="west"))
            assert isinstance(zoned, dict)
            assert [b["brokerName"] for b in zoned["brokerDatas"]] == ["b"]
        no_modes = [{"__ZONE_NAME": "west", "__ZONE_MODE": text} for text in ("false", "", "1", "yes")]
        for others in ({}, {"__ZONE_NAME": "west"}, *no_modes):
            everything = decoded(names.route("T", **others))
            assert isinstance(everything, dict)
            assert len(everything["brokerDatas"]) == 2


def test_a_registration_with_a_wrong_checksum_changes_nothing() -> None:
    names = Names()
    reply = names.register(body_crc=5)
    assert (reply.code, (reply.remark or "")[:15]) == (ResponseCode.SYSTEM_ERROR, "crc32 not match")
    assert names.topics() == []


def test_a_registration_with_the_right_checksum_is_taken() -> None:
    names = Names()
    body = msgspec.json.encode(
        RegisterBroker(topics=TopicConfigTable(topics={"T": TopicConfigBody(name="T"), "U": TopicConfigBody(name="U")}))
    )
    assert names.register(body=body, body_crc=zlib.crc32(body) & 0x7FFFFFFF).code == 0
    assert names.topics() == ["T", "U"]


def test_a_body_as_fastjson_writes_it_is_read() -> None:
    names = Names()
    body = (
        b'{"filterServerList":[],"topicConfigSerializeWrapper":{"dataVersion":{"counter":2,"stateVersion":0,"timestamp":9},'
        b'"topicConfigTable":{"T":{"order":false,"perm":6,"readQueueNums":3,"topicFilterType":"SINGLE_TAG",'
        b'"topicName":"T","topicSysFlag":0,"writeQueueNums":3},"U":{"topicName":"U"}},'
        b'"topicQueueMappingDetailMap":{"x":{0:"y"}}}}'
    )
    assert names.register(body=body).code == 0
    assert names.topics() == ["T", "U"]


@pytest.mark.parametrize(("read", "write"), [(65_537, 1), (1, 0x7FFFFFFF)])
def test_a_topic_of_more_queues_than_a_client_can_list_gets_into_no_route(read: int, write: int) -> None:
    """Every client of the topic makes a list of as many, whoever said so."""
    names = Names()
    names.register()
    before = names.topics()
    text = f"V {read} {write} 6 SINGLE_TAG".encode()
    told = pack(">i", 13) + b'{"counter":1}' + pack(">i", 1) + pack(">i", len(text)) + text + pack(">i", 2) + b"[]"
    for version in (36, 479):
        table = TopicConfigTable(topics={"V": TopicConfigBody(name="V", read_queues=read, write_queues=write)})
        body = msgspec.json.encode(table if version == 36 else RegisterBroker(topics=table))
        assert names.register(body=body, version=version).code == ResponseCode.INVALID_PARAMETER
    compressed = names.register(body=zlib.compress(told), compressed=True, version=373)
    assert compressed.code == ResponseCode.INVALID_PARAMETER
    route = msgspec.json.encode({"queueDatas": [{"brokerName": "a", "readQueueNums": read, "writeQueueNums": write}]})
    by_hand = names.desk.ask(RequestCode.REGISTER_TOPIC_IN_NAMESRV, {"topic": "V"}, route)
    assert by_hand.code == ResponseCode.INVALID_PARAMETER
    assert names.topics() == before
    assert names.register(topics=(TopicConfig("V", 65_536, 65_536),), complete=True).code == 0


def test_compressed_and_very_old_bodies_are_read() -> None:
    names = Names()

    def piece(data: bytes) -> bytes:
        return pack(">i", len(data)) + data

    topics = b"".join(piece(f"{name} 4 4 6 SINGLE_TAG".encode()) for name in ("T", "U"))
    compressed = zlib.compress(piece(b'{"counter":1}') + pack(">i", 2) + topics + piece(b"[]"))
    assert names.register(body=compressed, compressed=True, version=373).code == 0
    old = msgspec.json.encode(TopicConfigTable(topics={n: TopicConfigBody(name=n) for n in ("V", "W")}))
    assert names.register("b", body=old, version=30).code == 0
    assert sorted(names.topics()) == ["T", "U", "V", "W"]


@pytest.mark.parametrize(
    ("body", "compressed"), [(b"\x00", True), (b"{", False), (b'{"topicConfigSerializeWrapper":3}', False)]
)
def test_a_damaged_body_is_an_invalid_parameter(body: bytes, compressed: bool) -> None:
    assert Names().register(body=body, compressed=compressed).code == ResponseCode.INVALID_PARAMETER


def test_a_follower_hears_where_its_leader_is() -> None:
    names = Names()
    for broker_id, told in ((0, {}), (1, {"haServerAddr": "a0:10912", "masterAddr": "a0:10911"})):
        header = names.register(broker_id=broker_id).header
        assert isinstance(header, msgspec.Struct)
        assert encode_header(header) == told


def test_a_broker_that_may_not_register_hears_why() -> None:
    names = Names()
    names.register()
    reply = names.register(cluster="D")
    assert (reply.code, reply.remark) == (
        ResponseCode.SYSTEM_ERROR, "broker name a belongs to cluster C, not to D",
    )  # fmt: skip


def test_brokers_get_the_order_configuration_with_their_registration() -> None:
    names = Names()
    names.desk.ask(RequestCode.PUT_KV_CONFIG, PutKVHeader(namespace="ORDER_TOPIC_CONFIG", key="T", value="a:4"))
    assert decoded(names.register()) == {"table": {"T": "a:4"}}


def test_a_closed_connection_takes_its_broker_away_at_once() -> None:
    names = Names()
    names.register(session=FakeSession(9))
    names.routes.session_closed(9, names.clock.monotonic)
    assert names.route("T").code == ResponseCode.TOPIC_NOT_EXIST


def test_a_heartbeat_keeps_a_broker_alive() -> None:
    names = Names()
    names.register(heartbeat_timeout_ms=10_000)
    names.clock.advance(9_000)
    beat = BrokerHeartbeatHeader(cluster_name="C", broker_address="a0:10911", broker_name="a")
    names.desk.ask(RequestCode.BROKER_HEARTBEAT, beat)
    names.clock.advance(9_000)
    assert names.routes.expire(names.clock.monotonic) == []
    names.clock.advance(2_000)
    assert len(names.routes.expire(names.clock.monotonic)) == 1


def test_unregistering_removes_one_address() -> None:
    names = Names()
    names.register()
    names.register(broker_id=1)
    gone = UnregisterBrokerHeader(broker_name="a", broker_address="a0:10911", cluster_name="C", broker_id=0)
    assert names.desk.ask(RequestCode.UNREGISTER_BROKER, gone).code == 0
    info = decoded(names.desk.ask(RequestCode.GET_BROKER_CLUSTER_INFO))
    assert info == {
        "brokerAddrTable": {
            "a": {"cluster": "C", "brokerName": "a", "brokerAddrs": {"1": "a1:10911"}, "enableActingMaster": False}
        },
        "clusterAddrTable": {"C": ["a"]},
    }


def test_the_data_version_tells_whether_to_register_again() -> None:
    names = Names()
    names.register()
    header = DataVersionHeader(broker_name="a", broker_address="a0:10911", cluster_name="C", broker_id=0)
    same = names.desk.ask(RequestCode.QUERY_DATA_VERSION, header, DataVersion(counter=1, state_version=0, timestamp=5))
    assert isinstance(same.header, msgspec.Struct)
    assert encode_header(same.header) == {"changed": "false"}
    assert decoded(same) == {"counter": 1, "stateVersion": 0, "timestamp": 5}
    other = names.desk.ask(RequestCode.QUERY_DATA_VERSION, header, DataVersion(counter=2))
    assert isinstance(other.header, msgspec.Struct)
    assert encode_header(other.header) == {"changed": "true"}


def test_to_ask_for_the_data_version_is_a_sign_of_life() -> None:
    names = Names()
    names.register(heartbeat_timeout_ms=10_000)
    names.clock.advance(9_000)
    header = DataVersionHeader(broker_name="a", broker_address="a0:10911", cluster_name="C", broker_id=0)
    names.desk.ask(RequestCode.QUERY_DATA_VERSION, header, DataVersion(counter=1))
    names.clock.advance(9_000)
    assert names.routes.expire(names.clock.monotonic) == []


def test_members_of_a_broker_name_are_listed() -> None:
    names = Names()
    names.register()
    ask = RequestCode.GET_BROKER_MEMBER_GROUP
    assert decoded(names.desk.ask(ask, MemberGroupHeader(cluster_name="C", broker_name="a"))) == {
        "brokerMemberGroup": {"cluster": "C", "brokerName": "a", "brokerAddrs": {"0": "a0:10911"}}
    }
    for cluster, name in (("C", "x"), ("D", "a")):
        assert decoded(names.desk.ask(ask, MemberGroupHeader(cluster_name=cluster, broker_name=name))) == {
            "brokerMemberGroup": {"cluster": cluster, "brokerName": name, "brokerAddrs": {}}
        }


def test_topic_lists_by_cluster_unit_and_system() -> None:
    names = Names()
    names.register(
        topics=(
            TopicConfig("T"),
            TopicConfig("unit", system_flag=1),
            TopicConfig("both", system_flag=3),
            TopicConfig("sub", system_flag=2),
        )
    )
    names.register(broker_id=1)
    names.register("b", cluster="D", topics=(TopicConfig("V"), TopicConfig("W")))
    by_cluster = decoded(names.desk.ask(RequestCode.GET_TOPICS_BY_CLUSTER, ClusterHeader(cluster="D")))
    assert by_cluster == {"topicList": ["V", "W"]}
    assert decoded(names.desk.ask(RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_NS)) == {
        "topicList": ["C", "a", "D", "b"], "brokerAddr": "a0:10911",
    }  # fmt: skip
    assert names.topics(RequestCode.GET_UNIT_TOPIC_LIST) == ["unit", "both"]
    assert names.topics(RequestCode.GET_HAS_UNIT_SUB_TOPIC_LIST) == ["both", "sub"]
    assert names.topics(RequestCode.GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST) == ["sub"]


def test_write_permission_is_wiped_and_added() -> None:
    names = Names()
    names.register()
    header = BrokerNameHeader(broker_name="a")
    wiped = names.desk.ask(RequestCode.WIPE_WRITE_PERM_OF_BROKER, header).header
    assert isinstance(wiped, msgspec.Struct)
    assert encode_header(wiped) == {"wipeTopicCount": "2"}
    assert b'"perm":4' in bytes(names.route("T").body)  # type: ignore[arg-type]
    added = names.desk.ask(RequestCode.ADD_WRITE_PERM_OF_BROKER, header).header
    assert isinstance(added, msgspec.Struct)
    assert encode_header(added) == {"addTopicCount": "2"}
    assert b'"perm":6' in bytes(names.route("T").body)  # type: ignore[arg-type]


def test_topics_are_set_and_deleted_by_hand() -> None:
    names = Names()
    names.register()
    body = {"queueDatas": [{"brokerName": "a", "readQueueNums": 2, "writeQueueNums": 2, "perm": 6}], "brokerDatas": []}
    assert names.desk.ask(RequestCode.REGISTER_TOPIC_IN_NAMESRV, {"topic": "X"}, body).code == 0
    assert names.route("X").code == 0
    unknown = {"queueDatas": [{"brokerName": "z"}]}
    assert names.desk.ask(RequestCode.REGISTER_TOPIC_IN_NAMESRV, {"topic": "Y"}, unknown).code == 1
    wrong = names.desk.ask(RequestCode.REGISTER_TOPIC_IN_NAMESRV, {"topic": "a b"}, body)
    assert (wrong.code, "'a b' has characters other than" in (wrong.remark or "")) == (29, True)
    nothing = {"queueDatas": [], "brokerDatas": []}
    assert names.desk.ask(RequestCode.REGISTER_TOPIC_IN_NAMESRV, {"topic": "Y"}, nothing).code == 0
    assert names.route("Y").code == ResponseCode.TOPIC_NOT_EXIST
    names.desk.ask(RequestCode.DELETE_TOPIC_IN_NAMESRV, DeleteNamesTopicHeader(topic="X", cluster_name="D"))
    assert names.route("X").code == 0
    names.desk.ask(RequestCode.DELETE_TOPIC_IN_NAMESRV, DeleteNamesTopicHeader(topic="X", cluster_name="C"))
    assert names.route("X").code == ResponseCode.TOPIC_NOT_EXIST
    for everywhere in ({"topic": "T"}, {"topic": "U", "clusterName": ""}):
        assert names.desk.ask(RequestCode.DELETE_TOPIC_IN_NAMESRV, everywhere).code == 0
    assert names.topics() == []


def test_key_values_have_room_for_four_mebibytes_and_no_more() -> None:
    """All of them are written with each change, while the loop waits."""
    names = Names()
    ask, value = names.desk.ask, "v" * 100_000
    codes = [
        ask(RequestCode.PUT_KV_CONFIG, PutKVHeader(namespace=f"n{at % 2}", key=str(at), value=value)).code
        for at in range(42)
    ]
    assert codes == [0] * 41 + [ResponseCode.INVALID_PARAMETER]
    assert len(names.saved) == 41
    assert ask(RequestCode.PUT_KV_CONFIG, PutKVHeader(namespace="n1", key="1", value="")).code == 0
    assert ask(RequestCode.PUT_KV_CONFIG, PutKVHeader(namespace="n2", key="41", value=value[:-3])).code == 0
    assert ask(RequestCode.DELETE_KV_CONFIG, {"namespace": "n1", "key": "1"}).code == 0


def test_more_key_values_than_there_is_room_for_are_kept_where_they_stand() -> None:
    """As of a release that bounded them not: they may become fewer."""
    saved: list[object] = []
    values = KeyValues({"n": {"k": "v" * (5 << 20), "l": "v"}}, save=saved.append)
    with pytest.raises(RequestError, match="at most"):
        values.put("n", "l", "vv")
    values.put("n", "k", "v" * (4 << 20 | 1))
    values.delete("n", "k")
    assert len(saved) == 2


def test_key_values_are_kept_by_namespace() -> None:
    names = Names()
    ask = names.desk.ask
    put = PutKVHeader(namespace="n", key="k", value="v")
    assert ask(RequestCode.PUT_KV_CONFIG, put).code == 0
    found = ask(RequestCode.GET_KV_CONFIG, {"namespace": "n", "key": "k"}).header
    assert isinstance(found, msgspec.Struct)
    assert encode_header(found) == {"value": "v"}
    assert decoded(ask(RequestCode.GET_KVLIST_BY_NAMESPACE, {"namespace": "n"})) == {"table": {"k": "v"}}
    ask(RequestCode.DELETE_KV_CONFIG, {"namespace": "n", "key": "k"})
    assert ask(RequestCode.GET_KV_CONFIG, {"namespace": "n", "key": "k"}).code == ResponseCode.QUERY_NOT_FOUND
    assert ask(RequestCode.GET_KVLIST_BY_NAMESPACE, {"namespace": "n"}).code == ResponseCode.QUERY_NOT_FOUND
    assert len(names.saved) == 2


def test_settings_are_read_and_changed_as_text() -> None:
    names = Names()
    assert names.desk.ask(RequestCode.GET_NAMESRV_CONFIG).body == b"expirySeconds=120\n"
    assert names.desk.ask(RequestCode.UPDATE_NAMESRV_CONFIG, None, b"expirySeconds=60\n").code == 0
    assert names.expiry == 60
    wrong = names.desk.ask(RequestCode.UPDATE_NAMESRV_CONFIG, None, b"expirySeconds=0")
    assert wrong.code == ResponseCode.INVALID_PARAMETER
    assert wrong.remark == "expirySeconds is '0'; right is 60 or 120"


# -- the broker's side


def metadata(clock: FakeClock) -> Metadata:
    opened = Metadata.open(MemoryLog(), clock)
    opened.topics.put(TopicConfig("T", 4, 4))
    return opened


IDENTITY = BrokerIdentity("C", "a", 0, "127.0.0.1:10911")


def test_a_broker_of_this_process_keeps_routes_in_step_with_its_metadata() -> None:
    names = Names(grace_ms=3000, expected=("a",))
    data = metadata(names.clock)
    local = LocalRegistration(names.routes, IDENTITY, data, names.clock)
    data.topics.put(TopicConfig("early"))
    assert names.topics() == []
    local.register()
    assert names.topics() == ["T", "early"]
    data.topics.put(TopicConfig("later"))
    data.topics.delete("T")
    assert sorted(names.topics()) == ["early", "later"]
    assert names.route("T").code == ResponseCode.TOPIC_NOT_EXIST
    local.unregister()
    assert names.topics() == []


def test_the_broker_permission_limits_routes() -> None:
    names = Names()
    data = metadata(names.clock)
    local = LocalRegistration(names.routes, IDENTITY, data, names.clock)
    local.register()
    local.set_permission(4)
    data.topics.put(TopicConfig("later"))
    for topic in ("T", "later"):
        assert b'"perm":4' in bytes(names.route(topic).body)  # type: ignore[arg-type]
    local.set_permission(6)
    assert b'"perm":6' in bytes(names.route("later").body)  # type: ignore[arg-type]


def test_a_broker_of_another_process_registers_changes_and_deletes_by_requests() -> None:
    names = Names()
    data = metadata(names.clock)
    data.topics.put(TopicConfig("U", 1, 1))
    registrar = Registrar(IDENTITY, data, ha_address="127.0.0.1:10912")
    first = registrar.register()
    assert first is not None
    assert names.desk.ask(first.code, first.header, first.body).code == 0
    assert sorted(names.topics()) == ["T", "U"]
    data.topics.delete("U")
    second = registrar.register()
    assert second is not None
    assert names.desk.ask(second.code, second.header, second.body).code == 0
    assert names.topics() == ["T"]
    last = registrar.unregister()
    assert names.desk.ask(last.code, last.header, last.body).code == 0
    assert names.topics() == []


@pytest.mark.parametrize("bytes_less", [1, 10_000])
def test_a_broker_with_more_topics_than_a_frame_holds_plainly_registers_all(
    bytes_less: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = Names()
    data = metadata(names.clock)
    data.topics.put(TopicConfig("U", 1, 3, 4, attributes={"message.type": "FIFO"}))
    registrar = Registrar(IDENTITY, data, ha_address="127.0.0.1:10912")
    plain = registrar.register()
    assert plain is not None
    assert names.desk.ask(plain.code, plain.header, plain.body).code == 0
    routes = [bytes(names.route(topic).body) for topic in ("T", "U")]  # type: ignore[arg-type]
    monkeypatch.setattr(registration, "_PLAIN_BYTES_MAX", len(plain.body) - bytes_less)
    for topic in ("U", "T"):
        names.routes.drop_topic(topic, IDENTITY.name)
    packed = registrar.register()
    assert packed is not None
    assert len(packed.body) < len(plain.body)
    assert names.desk.ask(packed.code, packed.header, packed.body).code == 0
    assert [bytes(names.route(topic).body) for topic in ("T", "U")] == routes  # type: ignore[arg-type]
