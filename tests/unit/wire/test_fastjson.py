"""Whatever fastjson leaves bare is quoted; the rest stays; the work that a body can cause is bounded."""

import contextlib
import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from logherd.wire.bodies import MessageQueue, decode_body, encode_body, parse_queue_key, queue_key
from logherd.wire.bodies.clients import ClientOffsets, Heartbeat
from logherd.wire.bodies.fastjson import DEPTH_MAX, TOKENS_MAX, normalise
from logherd.wire.bodies.progress import ConsumerOffsets, QueueProgress
from logherd.wire.bodies.routes import BrokerData, ClusterInfo, QueueData, TopicRoute
from logherd.wire.errors import BodyError
from unit.wire.struct_strategies import texts

SCALARS = st.none() | st.booleans() | st.integers(-(10**9), 10**9) | texts()
JSON = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts(), inner, max_size=3), max_leaves=12
)


def without_nulls(value: Any) -> Any:
    match value:
        case dict(members):
            return {key: without_nulls(member) for key, member in members.items() if member is not None}
        case list(items):
            return [without_nulls(item) for item in items]
        case scalar:
            return scalar


@given(JSON, st.sampled_from([None, 1]))
def test_strict_json_only_loses_its_null_members(value: Any, indent: int | None) -> None:
    assert json.loads(normalise(json.dumps(value, indent=indent).encode())) == without_nulls(value)


def fastjson(value: Any) -> str:
    """What fastjson prints for maps with number and object keys (here: tuples of pairs)."""
    match value:
        case dict(members):
            return "{" + ",".join(f"{_key(key)}:{fastjson(member)}" for key, member in members.items()) + "}"
        case list(items):
            return "[" + ",".join(map(fastjson, items)) + "]"
        case scalar:
            return json.dumps(scalar)


def _key(key: Any) -> str:
    return fastjson(dict(key)) if isinstance(key, tuple) else json.dumps(key)


def strict(value: Any) -> Any:
    match value:
        case dict(members):
            return {_strict_key(key): strict(member) for key, member in members.items() if member is not None}
        case list(items):
            return [strict(item) for item in items]
        case scalar:
            return scalar


def _strict_key(key: Any) -> str:
    if isinstance(key, tuple):
        return json.dumps(dict(key), separators=(",", ":"))
    return key if isinstance(key, str) else str(key)


OBJECT_KEYS = st.tuples(
    st.tuples(st.just("brokerName"), st.text('ab\\"{}:,', max_size=5)),
    st.tuples(st.just("queueId"), st.integers(0, 99)),
)
BARE = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(texts() | st.integers(0, 99) | OBJECT_KEYS, inner, max_size=3)
    ),
    max_leaves=12,
)


@given(BARE)
def test_bare_keys_become_texts(value: Any) -> None:
    assert json.loads(normalise(fastjson(value).encode())) == strict(value)


@given(st.binary(max_size=60) | st.text('{}[]:,"\\1nul ', max_size=60).map(str.encode))
def test_any_bytes_give_json_or_a_body_error(data: bytes) -> None:
    with contextlib.suppress(BodyError):
        decode_body(dict[str, Any], data)


def test_queues_are_keys_as_java_prints_them_and_as_we_do() -> None:
    key = queue_key("T", "b", 1)
    assert key == '{"brokerName":"b","queueId":1,"topic":"T"}'
    assert parse_queue_key(key) == MessageQueue(topic="T", broker_name="b", queue_id=1)
    java = (
        b'{"offsetTable":{{"brokerName":"b","queueId":1,"topic":"T"}:5,{"brokerName":"b","queueId":2,"topic":"T"}:6}}'
    )
    offsets = decode_body(ClientOffsets, java).offsets
    assert offsets == {key: 5, queue_key("T", "b", 2): 6}
    ours = encode_body(ClientOffsets(offsets=offsets))
    assert ours.startswith(b'{"offsetTable":{"{\\"brokerName\\":\\"b\\",\\"queueId\\":1,\\"topic\\":\\"T\\"}":5,')
    assert decode_body(ClientOffsets, ours).offsets == offsets


@pytest.mark.parametrize(
    "key", ["", "{}", "5", '{"topic":"T"}', "\ud800", '{"brokerName":"b","queueId":"x","topic":"T"}']
)
def test_a_key_that_names_no_queue_is_refused(key: str) -> None:
    with pytest.raises(BodyError):
        parse_queue_key(key)


def test_numbers_are_keys_in_both_forms() -> None:
    java = b'{"offsetTable":{"t@g":{0:12,1:7}},"dataVersion":{"counter":1,"stateVersion":0,"timestamp":5}}'
    assert decode_body(ConsumerOffsets, java).offsets == {"t@g": {0: 12, 1: 7}}
    table = decode_body(ClusterInfo, b'{"brokerAddrTable":{"b":{"brokerAddrs":{0:"h:1",1:"h:2"},"brokerName":"b"}}}')
    assert table.brokers["b"].addresses == {0: "h:1", 1: "h:2"}


def test_routes_are_compact_and_strict() -> None:
    """The Go client keeps blanks inside addresses; absent texts are left out, empty lists are not."""
    route = TopicRoute(
        queues=[QueueData(broker_name="b", read_queues=4, write_queues=4, permission=6)],
        brokers=[BrokerData(cluster="c", broker_name="b", addresses={0: "h:1"})],
    )
    assert encode_body(route) == (
        b'{"queueDatas":[{"brokerName":"b","readQueueNums":4,"writeQueueNums":4,"perm":6,"topicSysFlag":0}],'
        b'"brokerDatas":[{"cluster":"c","brokerName":"b","brokerAddrs":{"0":"h:1"},"enableActingMaster":false}],'
        b'"filterServerTable":{}}'
    )
    assert decode_body(TopicRoute, encode_body(route)) == route


def test_nulls_of_the_go_client_count_as_absent() -> None:
    heartbeat = decode_body(Heartbeat, b'{"clientID":"c","producerDataSet":null,"consumerDataSet":null}')
    assert (heartbeat.client_id, list(heartbeat.producers), list(heartbeat.consumers)) == ("c", [], [])


def test_the_heartbeat_of_the_cpp_client_is_read() -> None:
    """It sends what Java calls enums as their numbers; Python's and other clients are built on it."""
    heartbeat = decode_body(
        Heartbeat,
        b'{"clientID":"c","consumerDataSet":[{"consumeFromWhere":4,"consumeType":1,"groupName":"g","messageModel":0,'
        b'"subscriptionDataSet":[{"codeSet":[65],"subString":"A","subVersion":"1795237997295","tagsSet":["A"],'
        b'"topic":"T"}]}],"producerDataSet":[{"groupName":"p"}]}\n',
    )
    [consumer] = heartbeat.consumers
    assert (consumer.consume_type, consumer.message_model) == ("CONSUME_PASSIVELY", "BROADCASTING")
    assert consumer.consume_from == "CONSUME_FROM_FIRST_OFFSET"
    [subscription] = consumer.subscriptions
    assert (subscription.version, list(subscription.codes)) == (1795237997295, [65])
    assert b'"consumeType":"CONSUME_PASSIVELY"' in encode_body(heartbeat)


@pytest.mark.parametrize("number", [-1, 3, 1 << 70])
def test_a_number_that_stands_for_no_consume_type_is_refused(number: int) -> None:
    with pytest.raises(BodyError):
        decode_body(Heartbeat, b'{"clientID":"c","consumerDataSet":[{"groupName":"g","consumeType":%d}]}' % number)


def test_defaults_stand_in_for_missing_keys() -> None:
    assert decode_body(QueueProgress, b"{}") == QueueProgress()


def test_the_number_of_list_entries_is_bounded() -> None:
    many = b",".join([b'{"groupName":"g"}'] * 10_001)
    assert decode_body(Heartbeat, b'{"clientID":"c","producerDataSet":[%b]}' % many[: -len(b',{"groupName":"g"}')])
    with pytest.raises(BodyError):
        decode_body(Heartbeat, b'{"clientID":"c","producerDataSet":[%b]}' % many)


def test_the_size_of_a_body_is_bounded() -> None:
    body = b'{"clientID":"%b"}'
    for size in (99, 100):
        assert decode_body(Heartbeat, body % (b"c" * (size - 15)), bytes_max=100)
    with pytest.raises(BodyError, match="101 bytes"):
        decode_body(Heartbeat, body % (b"c" * 86), bytes_max=100)


def test_the_depth_is_bounded() -> None:
    assert normalise(b"[" * DEPTH_MAX + b"]" * DEPTH_MAX)
    with pytest.raises(BodyError, match="deeper"):
        normalise(b"[" * (DEPTH_MAX + 1) + b"]" * (DEPTH_MAX + 1))


def test_the_tokens_are_bounded() -> None:
    tokens = b"[" + b"1," * ((TOKENS_MAX - 3) // 2) + b"1]"
    assert normalise(tokens) == tokens
    with pytest.raises(BodyError, match="tokens"):
        normalise(b"[" + b"1," * (TOKENS_MAX // 2) + b"1]")


@pytest.mark.parametrize("data", [b"{{{}:1}:2}", b"{[1]:2}", b'{{"a":{{"b":1}:2}}:3}'])
def test_keys_that_would_multiply_their_escapes_are_refused(data: bytes) -> None:
    with pytest.raises(BodyError, match="flat object"):
        normalise(data)


def test_a_long_text_is_scanned_once() -> None:
    text = b'"' + b"\\\\" * 500_000
    with pytest.raises(BodyError):
        normalise(b"{" + text)
    assert normalise(b"[" + text + b'"]') == b"[" + text + b'"]'


def test_texts_that_utf8_cannot_carry_are_refused_when_encoding() -> None:
    with pytest.raises(BodyError):
        encode_body({"a": "\ud800"})
    assert msgspec.json.decode(encode_body({"a": "é"})) == {"a": "é"}
