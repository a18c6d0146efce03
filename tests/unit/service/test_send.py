"""Sends: every code of the sheet, in its order, and what is stored."""

from pathlib import Path

import pytest

from logherd.model.host import parse_offset_message_id
from logherd.model.properties import parse_properties
from logherd.model.record import SysFlag
from logherd.model.topic import GroupConfig, TopicConfig
from logherd.service.lock_table import LEASE_MS
from logherd.service.metadata import MetadataRefusedError
from logherd.service.ports import ReplyAfter
from logherd.store import LogOptions, StoreOptions
from logherd.store.errors import StoreFull, StoreStopped
from logherd.wire.batch import BatchMessage, encode_batch
from logherd.wire.bodies import MessageQueue, encode_body
from logherd.wire.bodies.clients import LockQueues
from logherd.wire.codes import RequestCode, ResponseCode
from logherd.wire.compression import compress_body
from logherd.wire.frame import Frame
from unit.service.rig import BROKER, CLUSTER, HOST, Rig, short_header

SEND, SEND_V2, BATCH = 10, 310, 320
LONG = {
    "a": "producerGroup", "b": "topic", "c": "defaultTopic", "d": "defaultTopicQueueNums", "e": "queueId",
    "f": "sysFlag", "g": "bornTimestamp", "h": "flag", "i": "properties", "j": "reconsumeTimes", "k": "unitMode",
    "l": "maxReconsumeTimes", "m": "batch", "n": "bname",
}  # fmt: skip


def sent(rig: Rig, topic: str = "orders", body: bytes = b"hello", **fields: object) -> Frame:
    return rig.ask(SEND_V2, short_header(topic, **fields), body)


def refused(rig: Rig, code: int, remark: str, topic: str = "orders", body: bytes = b"x", **fields: object) -> None:
    """The send is answered with this code and remark, and nothing is stored."""
    before = rig.store.queue(topic, 0).next_offset
    answer = sent(rig, topic, body, **fields)
    assert (answer.code, remark in (answer.remark or "")) == (code, True), (answer.code, answer.remark)
    assert rig.store.queue(topic, 0).next_offset == before


@pytest.fixture
def rig(tmp_path: Path) -> Rig:
    return Rig(tmp_path)


def test_a_send_is_stored_as_it_came_and_answered_with_where_it_is(rig: Rig) -> None:
    answer = sent(rig, body=b"hello", e=2, h=77, j=3, f=1)
    assert answer.code == 0
    [record] = rig.records("orders", 2)
    assert parse_offset_message_id(answer.ext["msgId"]) == ("10.1.2.3", 10911, record.position)
    assert answer.ext["msgId"] == answer.ext["msgId"].upper()
    assert answer.ext["queueId"] == "2"
    assert answer.ext["queueOffset"] == "0"
    assert answer.ext["transactionId"] == "C0A80001123418B4AAC27F0A0B0C0001"
    assert (answer.ext["MSG_REGION"], answer.ext["TRACE_ON"]) == ("DefaultRegion", "true")
    assert bytes(record.body) == b"hello"
    assert (record.flag, record.sys_flag, record.reconsume_times) == (77, 1, 3)
    assert record.born_timestamp == 1_700_000_000_000
    assert record.born_host == rig.session.remote_host
    assert record.store_timestamp == rig.clock.now_ms()


def test_properties_are_stored_once_each_with_the_brokers_own(rig: Rig) -> None:
    sent(rig, i="TAGS\x01A\x02UNIQ_KEY\x01U1\x02KEYS\x01k1 k2\x02own\x01value\x02")
    [record] = rig.records("orders")
    text = record.properties.decode()
    stored = parse_properties(text)
    stored.pop("__CRC32#")
    assert stored == {
        "TAGS": "A", "UNIQ_KEY": "U1", "KEYS": "k1 k2", "own": "value",
        "MSG_REGION": "DefaultRegion", "TRACE_ON": "true", "CLUSTER": CLUSTER,
    }  # fmt: skip


def test_names_the_broker_sets_replace_those_of_a_copied_message(rig: Rig) -> None:
    sent(rig, i="MSG_REGION\x01old\x02POP_CK\x01x\x02__CRC32#\x011234567890\x02CLUSTER\x01c\x02TRACE_ON\x01false\x02"
                "UNIQ_KEY\x01U\x02REAL_TOPIC\x01kept\x02")  # fmt: skip
    [record] = rig.records("orders")
    text = record.properties.decode()
    assert parse_properties(text)["MSG_REGION"] == "DefaultRegion"
    assert parse_properties(text)["REAL_TOPIC"] == "kept"
    assert "POP_CK" not in text
    for name in ("MSG_REGION", "CLUSTER", "TRACE_ON", "__CRC32#", "UNIQ_KEY"):
        assert text.count(name) == 1


@pytest.mark.parametrize(
    ("properties", "key"),
    [
        ("UNIQ_KEY\x01U1", "U1"),
        ("A\x01b\x02UNIQ_KEY\x01U1", "U1"),
        ("A\x01bUNIQ_KEY\x01no\x02UNIQ_KEY\x01U1\x02", "U1"),
        ("XUNIQ_KEY\x01no\x02UNIQ_KEY\x01U1\x02Z\x01z", "U1"),
        ('UNIQ_KEY\x01quo"te\\\x02', 'quo"te\\'),
        ("UNIQ_KEY\x01ключ\x02", "ключ"),
    ],
)
def test_the_unique_key_is_found_wherever_it_stands(rig: Rig, properties: str, key: str) -> None:
    answer = sent(rig, i=properties)
    assert answer.ext["transactionId"] == key
    [record] = rig.records("orders")
    assert parse_properties(record.properties.decode())["UNIQ_KEY"] == key


@pytest.mark.parametrize("properties", [None, "", "TAGS\x01A\x02", "UNIQ_KEY\x01\x02", "XUNIQ_KEY\x01no\x02"])
def test_a_message_without_a_key_gets_one_of_its_own(rig: Rig, properties: str | None) -> None:
    keys = {sent(rig, i=properties).ext["transactionId"] for _ in range(3)}
    stored = [parse_properties(record.properties.decode())["UNIQ_KEY"] for record in rig.records("orders")]
    assert set(stored) == keys
    assert len(keys) == 3
    assert all(len(key) == 32 for key in keys)


def test_long_keys_mean_the_same(rig: Rig) -> None:
    fields = {LONG[key]: value for key, value in short_header(e=1).items()}
    answer = rig.ask(SEND, fields, b"from go")
    assert (answer.code, answer.ext["queueId"]) == (0, "1")
    assert bytes(rig.records("orders", 1)[0].body) == b"from go"


def test_a_negative_queue_id_spreads_over_the_write_queues(rig: Rig) -> None:
    rig.metadata.topics.put(TopicConfig("orders", 6, 3))
    assert sorted(sent(rig, e=-1).ext["queueId"] for _ in range(6)) == ["0", "0", "1", "1", "2", "2"]


def test_a_oneway_send_is_stored_and_never_answered(rig: Rig) -> None:
    assert rig.request(SEND_V2, short_header(), b"x", oneway=True) is None
    assert rig.request(SEND_V2, short_header(e=99), b"x", oneway=True) is None
    rig.end_pass()
    assert len(rig.records("orders")) == 1


def test_an_answer_waits_for_its_own_record_and_for_the_topic_it_made(rig: Rig) -> None:
    answer = rig.request(SEND_V2, short_header("fresh"), b"x")
    assert isinstance(answer, ReplyAfter)
    assert answer.position == rig.store.end_position
    assert rig.store.committed_position < answer.position
    rig.end_pass()
    assert rig.restart().metadata.topics.get("fresh") is not None


def test_the_answer_to_a_batch_waits_for_the_last_of_its_messages(rig: Rig) -> None:
    answer = rig.request(BATCH, short_header(), batch(*((0, b"%d" % number, "") for number in range(3))))
    assert isinstance(answer, ReplyAfter)
    assert rig.store.committed_position < answer.position == rig.store.end_position
    rig.end_pass()
    assert len(rig.records("orders")) == 3
    assert rig.store.committed_position == answer.position


@pytest.mark.parametrize("code", [SEND_V2, BATCH])
def test_h5_who_asks_for_no_waiting_is_answered_when_the_message_is_committed_all_the_same(rig: Rig, code: int) -> None:
    """RocketMQ answers WAIT=false before anything is flushed or copied."""
    body = b"x" if code == SEND_V2 else batch((0, b"x", "WAIT\x01false\x02"))
    answer = rig.request(code, short_header(i="WAIT\x01false\x02"), body)
    assert isinstance(answer, ReplyAfter)
    assert rig.store.committed_position < answer.position == rig.store.end_position


def test_sends_are_counted_by_topic(rig: Rig) -> None:
    sent(rig)
    sent(rig)
    rig.clock.advance(10_000)
    rig.stats.tick(10_000, rig.clock.wall)
    view = rig.stats.view("TOPIC_PUT_NUMS", "orders", cluster=CLUSTER)
    assert view is not None
    assert view.minute.sum == 2


# ---- refusals, in the order of the checks


def test_a_broker_that_is_not_writable_refuses_ordered_topics(rig: Rig) -> None:
    rig.metadata.topics.put(TopicConfig("ordered", order=True))
    rig.metadata.topics.put(TopicConfig("orders"))
    rig.send.permission = 4
    refused(rig, 16, "brokerPermission is 4", "ordered")
    assert sent(rig).code == 0


@pytest.mark.parametrize(
    ("topic", "remark"),
    [
        ("", "is empty"), ("or ders", "characters other than"), ("a.b", "characters other than"),
        ("ä", "characters other than"), ("t\n", "characters other than"), ("t" * 128, "128 characters, at most 127"),
        ("%RETRY%" + "g" * 249, "256 characters, at most 255"),
    ],
)  # fmt: skip
def test_a_wrong_topic_name_is_29(rig: Rig, topic: str, remark: str) -> None:
    answer = sent(rig, topic)
    assert answer.code == 29
    assert remark in (answer.remark or "")


@pytest.mark.parametrize(
    "topic",
    [
        "SCHEDULE_TOPIC_XXXX", "RMQ_SYS_TRANS_HALF_TOPIC", "RMQ_SYS_TRANS_OP_HALF_TOPIC", "TRANS_CHECK_MAX_TIME_TOPIC",
        "SELF_TEST_TOPIC", "OFFSET_MOVED_EVENT", "rmq_sys_LOGHERD_METADATA", "rmq_sys_wheel_timer",
    ],
)  # fmt: skip
def test_a_reserved_topic_is_16(rig: Rig, topic: str) -> None:
    assert sent(rig, topic).code == 16


def test_a_topic_of_127_characters_is_taken(rig: Rig) -> None:
    name = "t" * 127
    assert sent(rig, name).code == 0
    assert rig.records(name)[0].topic == name


@pytest.mark.parametrize(("asked", "made"), [(4, 4), (100, 8), (0, 1), (-3, 1)])
def test_a_missing_topic_is_made_after_its_template(rig: Rig, asked: int, made: int) -> None:
    assert sent(rig, "fresh", d=asked).code == 0
    assert rig.metadata.topics.get("fresh") == TopicConfig("fresh", made, made, 6)


def test_a_missing_topic_is_17_where_it_may_not_be_made(tmp_path: Path) -> None:
    rig = Rig(tmp_path, sends={"auto_create_topics": False})
    refused(rig, 17, "topics.autoCreate is false", "fresh")
    refused(rig, 17, "its template 'nothing' does not exist", "fresh", c="nothing")
    rig.metadata.topics.put(TopicConfig("template", 2, 2, 6))
    refused(rig, 17, "without INHERIT", "fresh", c="template")
    rig.metadata.topics.put(TopicConfig("template", 2, 2, 7))
    assert sent(rig, "fresh", c="template").code == 0


def test_a_unit_topic_keeps_its_flag(rig: Rig) -> None:
    sent(rig, "unit", k="true")
    config = rig.metadata.topics.get("unit")
    assert config is not None
    assert config.system_flag == 1


@pytest.mark.parametrize(("queue", "code"), [(3, 0), (4, 29), (2_000_000, 29)])
def test_a_queue_id_beyond_the_topic_is_29(rig: Rig, queue: int, code: int) -> None:
    assert sent(rig, e=queue).code == code


def test_a_change_of_the_topic_counts_for_the_next_send(rig: Rig) -> None:
    assert sent(rig, e=3).code == 0
    rig.metadata.topics.put(TopicConfig("orders", 2, 2))
    refused(rig, 29, "queues 0 to 1", e=3)
    rig.metadata.topics.put(TopicConfig("orders", 2, 8))
    assert sent(rig, e=7).code == 0


@pytest.mark.parametrize(("size", "code"), [(999, 0), (1000, 0), (1001, 13)])
def test_a_body_over_the_limit_is_13(tmp_path: Path, size: int, code: int) -> None:
    rig = Rig(tmp_path, sends={"body_bytes_max": 1000})
    answer = sent(rig, body=b"b" * size)
    assert answer.code == code
    if code:
        assert answer.remark == "the body has 1001 bytes, at most 1000 are stored (maxMessageSize)"


def test_the_default_limit_of_a_body_is_4_mib(rig: Rig) -> None:
    assert sent(rig, body=b"b" * (4 << 20)).code == 0
    assert sent(rig, body=b"b" * ((4 << 20) + 1)).code == 13


@pytest.mark.parametrize(("spare", "code"), [(0, 0), (-1, 13)])
def test_properties_that_do_not_fit_a_record_are_13(rig: Rig, spare: int, code: int) -> None:
    stamps = f"UNIQ_KEY\x01U\x02MSG_REGION\x01DefaultRegion\x02TRACE_ON\x01true\x02CLUSTER\x01{CLUSTER}\x02"
    room = 32767 - 20 - len(stamps) - len("K\x01\x02") - spare
    answer = sent(rig, i="K\x01" + "v" * room + "\x02UNIQ_KEY\x01U\x02")
    assert answer.code == code
    if not code:
        assert len(rig.records("orders")[0].properties) == 32767


@pytest.mark.parametrize(
    ("properties", "remark"),
    [
        ("DELAY\x013\x02", "delayed delivery"), ("TIMER_DELAY_SEC\x015\x02", "timed delivery"),
        ("TIMER_DELAY_MS\x015\x02", "timed delivery"), ("TIMER_DELIVER_MS\x015\x02", "timed delivery"),
        ("TIMER_DEL_UNIQKEY\x01x\x02", "recall"), ("TRAN_MSG\x01true\x02", "transactions"),
        ("INNER_NUM\x012\x02", "inner batches"), ("INNER_MULTI_DISPATCH\x01%LMQ%a\x02", "LMQ"),
    ],
)  # fmt: skip
def test_what_asks_for_a_missing_feature_is_3_and_never_stored(rig: Rig, properties: str, remark: str) -> None:
    sent(rig)
    refused(rig, 3, remark, i=properties)
    refused(rig, 3, "was not stored", i="A\x01b\x02" + properties)


@pytest.mark.parametrize(
    ("bits", "feature"),
    [
        (0x4, "transactions"),
        (0x8, "transactions"),
        (0xC, "transactions"),
        (0x40, "inner batches"),
        (0x80, "inner batches"),
    ],
)
def test_flags_of_missing_features_are_3(rig: Rig, bits: int, feature: str) -> None:
    sent(rig)
    refused(rig, 3, feature, f=bits)
    refused(rig, 3, feature, f=bits | 1)


@pytest.mark.parametrize(
    "properties", ["DELAY\x010\x02", "DELAY\x01-1\x02", "TRAN_MSG\x01false\x02", "xDELAYx\x013\x02"]
)
def test_properties_that_ask_for_nothing_are_no_obstacle(rig: Rig, properties: str) -> None:
    assert sent(rig, i=properties).code == 0


def test_a_delay_level_that_is_no_number_is_13(rig: Rig) -> None:
    sent(rig)
    refused(rig, 13, "must be a number", i="DELAY\x01soon\x02")


def test_host_bits_of_a_client_do_not_reach_the_record(rig: Rig) -> None:
    assert sent(rig, f=0x30 | 0x301).code == 0
    assert rig.records("orders")[0].sys_flag == 0x301


@pytest.mark.parametrize("field", ["a", "b", "c", "d", "e", "f", "g", "h"])
def test_a_missing_field_is_29_by_name(rig: Rig, field: str) -> None:
    answer = sent(rig, **{field: None})
    assert answer.code == 29
    assert answer.remark == f"field {field} is missing, expected a value"


@pytest.mark.parametrize(
    ("field", "value"), [("e", "one"), ("f", "2147483648"), ("g", "9223372036854775808"), ("h", "")]
)
def test_a_field_that_is_no_such_number_is_29_by_name_and_value(rig: Rig, field: str, value: str) -> None:
    answer = sent(rig, **{field: value})
    assert answer.code == 29
    assert f"field {field} is {value!r}" in (answer.remark or "")


@pytest.mark.parametrize("error", [StoreFull("9 bytes left"), StoreStopped("flush failed")])
def test_a_store_that_takes_nothing_is_14(rig: Rig, monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    sent(rig)

    def refuse(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(type(rig.store), "append_plain", refuse)
    answer = sent(rig)
    assert answer.code == 14
    assert str(error) in (answer.remark or "")


def test_a_topic_that_cannot_be_logged_is_not_made(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise MetadataRefusedError("no room")

    monkeypatch.setattr("logherd.service.metadata.journal.Journal.append", refuse)
    answer = rig.request(SEND_V2, short_header("fresh"), b"x")
    assert answer is not None
    assert getattr(answer, "code", None) == ResponseCode.SERVICE_NOT_AVAILABLE
    assert "fresh" not in rig.metadata.topics


def test_sends_are_2_while_too_much_waits_for_the_disk(tmp_path: Path) -> None:
    rig = Rig(tmp_path, sends={"unwritten_bytes_max": 1000})
    assert isinstance(rig.request(SEND_V2, short_header(), b"b" * 2000), ReplyAfter)
    answer = rig.request(SEND_V2, short_header(), b"b")
    assert answer is not None
    assert getattr(answer, "code", None) == ResponseCode.SYSTEM_BUSY
    rig.end_pass()
    assert sent(rig).code == 0


# ---- retry topics


def test_a_retry_topic_is_made_with_one_queue_for_an_existing_group(rig: Rig) -> None:
    rig.metadata.groups.put(GroupConfig("billing"))
    assert sent(rig, "%RETRY%billing").code == 0
    assert rig.metadata.topics.get("%RETRY%billing") == TopicConfig("%RETRY%billing", 1, 1, 6)


def test_a_send_to_the_retry_topic_of_no_group_is_26_and_makes_no_topic(rig: Rig) -> None:
    assert sent(rig, "%RETRY%nobody").code == 26
    assert "%RETRY%nobody" not in rig.metadata.topics


@pytest.mark.parametrize(("times", "asked_max", "topic"), [
    (16, None, "%RETRY%billing"), (17, None, "%DLQ%billing"), (3, 3, "%RETRY%billing"), (4, 3, "%DLQ%billing"),
])  # fmt: skip
def test_after_its_last_retry_a_message_is_a_dead_letter(
    rig: Rig, times: int, asked_max: int | None, topic: str
) -> None:
    rig.metadata.groups.put(GroupConfig("billing"))
    assert sent(rig, "%RETRY%billing", j=times, l=asked_max).code == 0
    assert len(rig.records(topic)) == 1


def test_a_dead_letter_is_stored_whichever_queue_of_the_retry_topic_was_chosen(rig: Rig) -> None:
    rig.metadata.groups.put(GroupConfig("billing", retry_queues=4))
    rig.metadata.topics.put(TopicConfig("%RETRY%billing", 4, 4))
    answers = [sent(rig, "%RETRY%billing", e=queue, j=17) for queue in (0, 3, -1)]
    assert [(answer.code, answer.ext["queueId"]) for answer in answers] == [(0, "0")] * 3
    assert len(rig.records("%DLQ%billing")) == 3
    assert sent(rig, "%RETRY%billing", e=4, j=1).code == 29


@pytest.mark.parametrize(("code", "fields", "body"), [
    (3, {"f": SysFlag.TRANSACTION_MASK}, b"x"), (3, {"i": "TIMER_DELAY_SEC\x014\x02"}, b"x"), (13, {}, b"x" * 1001),
    (13, {"i": "K\x01" + "v" * 32760}, b"x"),
])  # fmt: skip
def test_a_dead_letter_that_cannot_be_stored_makes_no_topic(
    tmp_path: Path, code: int, fields: dict[str, object], body: bytes
) -> None:
    rig = Rig(tmp_path, sends={"body_bytes_max": 1000})
    rig.metadata.groups.put(GroupConfig("billing"))
    assert sent(rig, "%RETRY%billing", body, j=17, **fields).code == code
    assert "%DLQ%billing" not in rig.metadata.topics


@pytest.mark.parametrize("topic", ["fresh", "%RETRY%billing", "%DLQ%billing"])
def test_a_store_that_takes_no_messages_gets_no_topic_for_one(rig: Rig, topic: str) -> None:
    rig.metadata.groups.put(GroupConfig("billing"))
    if topic == "%DLQ%billing":
        assert sent(rig, "%RETRY%billing", j=1).code == 0
    rig.store.shut("1 of 2 replicas are in sync")
    answer = sent(rig, topic.replace("DLQ", "RETRY"), j=17 if topic == "%DLQ%billing" else 1)
    assert (answer.code, answer.remark) == (14, "the store takes no messages now: 1 of 2 replicas are in sync")
    assert topic not in rig.metadata.topics
    rig.store.shut("")
    rig.store.keep_free(1 << 60)
    assert sent(rig, topic.replace("DLQ", "RETRY"), j=17 if topic == "%DLQ%billing" else 1).code == 14
    assert topic not in rig.metadata.topics


def test_a_delayed_retry_is_refused_and_a_delayed_dead_letter_is_not_delayed(rig: Rig) -> None:
    rig.metadata.groups.put(GroupConfig("billing"))
    refused(rig, 3, "delayed delivery", "%RETRY%billing", i="DELAY\x014\x02", j=1)
    assert sent(rig, "%RETRY%billing", i="DELAY\x0119\x02", j=17).code == 0
    assert "DELAY" not in rig.records("%DLQ%billing")[0].properties.decode()


def test_what_a_stock_consumer_cannot_consume_is_a_dead_letter_after_sixteen_repetitions(rig: Rig) -> None:
    """It tries to have each delayed, and repeats it itself as that is refused: docs/clients.md tells for how long."""
    rig.metadata.groups.put(GroupConfig("billing"))
    for time in range(1, 17):
        refused(rig, 3, "delayed delivery", "%RETRY%billing", i=f"DELAY\x01{2 + time}\x02", j=time, l=16)
    assert sent(rig, "%RETRY%billing", i="DELAY\x0119\x02", j=17, l=16).code == 0
    assert len(rig.records("%DLQ%billing")) == 1


def test_what_an_orderly_consumer_gives_up_is_a_dead_letter_at_once(rig: Rig) -> None:
    """It says how many times it has tried, others which time is next. Its locks tell which of them it is, and who has
    left may be followed by one that is not."""
    rig.metadata.groups.put(GroupConfig("billing"))
    given_up = {"i": "DELAY\x016\x02", "j": 3, "l": 3}
    refused(rig, 3, "delayed delivery", "%RETRY%billing", **given_up)
    queue = MessageQueue(topic="orders", broker_name=BROKER, queue_id=0)
    lock = encode_body(LockQueues(client_id="c1", group="billing", queues=[queue]))
    assert rig.ask(RequestCode.LOCK_BATCH_MQ, {}, lock).code == 0
    refused(rig, 3, "delayed delivery", "%RETRY%billing", i="DELAY\x015\x02", j=2, l=3)
    assert sent(rig, "%RETRY%billing", **given_up).code == 0
    [letter] = rig.records("%DLQ%billing")
    assert (letter.reconsume_times, b"DELAY" in letter.properties) == (3, False)
    rig.clock.monotonic += LEASE_MS
    refused(rig, 3, "delayed delivery", "%RETRY%billing", **given_up)


# ---- batches


def batch(*messages: tuple[int, bytes, str]) -> bytes:
    return encode_batch(BatchMessage(flag, body, properties.encode()) for flag, body, properties in messages)


def test_a_batch_is_stored_as_its_messages(rig: Rig) -> None:
    sent(rig, e=1)
    body = batch((1, b"one", "UNIQ_KEY\x01U1\x02TAGS\x01a\x02"), (2, b"two", "UNIQ_KEY\x01U2"), (3, b"three", ""))
    answer = rig.ask(BATCH, short_header(e=1, m="true", i="UNIQ_KEY\x01BATCH\x02WAIT\x01true\x02"), body)
    assert answer.code == 0
    records = rig.records("orders", 1)[1:]
    stored_as = [(record.flag, bytes(record.body), record.queue_offset) for record in records]
    assert stored_as == [(1, b"one", 1), (2, b"two", 2), (3, b"three", 3)]
    identifiers = answer.ext["msgId"].split(",")
    assert [parse_offset_message_id(text)[2] for text in identifiers] == [record.position for record in records]
    assert answer.ext["queueOffset"] == "1"
    assert answer.ext["transactionId"] == "BATCH"
    stored = [parse_properties(record.properties.decode()) for record in records]
    assert [properties["UNIQ_KEY"] for properties in stored][:2] == ["U1", "U2"]
    assert stored[2]["UNIQ_KEY"] not in ("BATCH", "U1", "U2")
    assert all(properties["WAIT"] == "true" and properties["CLUSTER"] == CLUSTER for properties in stored)
    assert stored[0]["TAGS"] == "a"


def test_a_message_of_a_batch_keeps_its_own_value_of_a_shared_name(rig: Rig) -> None:
    body = batch((0, b"one", "UNIQ_KEY\x01U1\x02WAIT\x01false\x02"))
    rig.ask(BATCH, short_header(i="WAIT\x01true\x02other\x01x"), body)
    text = rig.records("orders")[0].properties.decode()
    assert parse_properties(text)["WAIT"] == "false"
    assert parse_properties(text)["other"] == "x"
    assert text.count("WAIT") == 1


@pytest.mark.parametrize(
    ("body", "properties", "code"),
    [
        (b"", "", 13), (b"garbage", "", 13), (batch((0, b"x", ""))[:-1], "", 13),
        (batch((0, b"ok", ""), (0, b"x", "DELAY\x013\x02")), "", 3), (batch((0, b"ok", "")), "DELAY\x013\x02", 3),
        (batch((0, b"ok", ""), (0, b"x", "K\x01" + "v" * 32760)), "", 13),
        (encode_batch([BatchMessage(0, b"x", b"\xff\x01\xff")]), "", 13),
    ],
)  # fmt: skip
def test_nothing_of_a_wrong_batch_is_stored(rig: Rig, body: bytes, properties: str, code: int) -> None:
    sent(rig)
    assert rig.ask(BATCH, short_header(i=properties), body).code == code
    assert len(rig.records("orders")) == 1


def test_nothing_of_a_batch_is_stored_when_the_store_is_full_before_its_end(tmp_path: Path) -> None:
    sizes = {"segment_bytes": 72 << 10, "record_bytes_max": 4096, "metadata_bytes": 1024}
    log = LogOptions(**sizes, zero_ahead_bytes=0, reserve_bytes=0)
    rig = Rig(tmp_path, store=StoreOptions(store_host=HOST, log=log))
    body = batch(*((0, b"x" * 2000, "") for _ in range(8)))
    rig.store._writer.free_bytes = 0  # no further segment
    accepted = 0
    while (answer := rig.ask(BATCH, short_header(), body)).code == 0:
        accepted += 8
    assert (answer.code, accepted) == (14, 24)
    queue = rig.store.find_queue("orders", 0)
    assert queue is not None
    assert queue.next_offset == accepted


def test_a_batch_counts_as_one_body_for_the_limit(tmp_path: Path) -> None:
    rig = Rig(tmp_path, sends={"body_bytes_max": 1000})
    messages = [(0, b"b" * 300, "")] * 4
    assert rig.ask(BATCH, short_header(), batch(*messages)).code == 13
    assert rig.ask(BATCH, short_header(), batch(*messages[:3])).code == 0


@pytest.mark.parametrize("method", [SysFlag.COMPRESSION_ZLIB, SysFlag.COMPRESSION_LZ4, SysFlag.COMPRESSION_ZSTD])
def test_a_batch_that_is_compressed_as_a_whole_is_stored_as_its_messages(rig: Rig, method: int) -> None:
    body, flags = compress_body(batch((0, b"one" * 2000, ""), (0, b"two", "")), method)
    assert rig.ask(BATCH, short_header(f=flags), body).code == 0
    records = rig.records("orders")
    assert [bytes(record.body) for record in records] == [b"one" * 2000, b"two"]
    assert [record.sys_flag for record in records] == [0, 0], "nobody is to unpack them once more"


def test_nothing_of_a_compressed_batch_is_stored_that_is_damaged_or_grows_too_long(tmp_path: Path) -> None:
    rig = Rig(tmp_path, sends={"body_bytes_max": 1000})
    body, flags = compress_body(batch((0, b"b" * 300, "")))
    for wrong, why in (
        (body[:-1], "cut short"),
        (b"x" + body, "cannot be decompressed"),
        (compress_body(batch(*[(0, b"b" * 300, "")] * 4))[0], "more than 1000 bytes"),
    ):
        answer = rig.ask(BATCH, short_header(f=flags), wrong)
        assert (answer.code, why in (answer.remark or "")) == (13, True), answer
    assert rig.ask(BATCH, short_header(f=flags | SysFlag.COMPRESSION_MASK), body).code == 13
    assert rig.ask(BATCH, short_header(f=SysFlag.COMPRESSED), body).code == 0, "as clients say that know one method"
    assert len(rig.records("orders")) == 1


def test_a_compressed_batch_has_no_more_messages_than_bytes(rig: Rig) -> None:
    body, flags = compress_body(batch(*[(0, b"", "")] * 32_768))
    assert len(body) < 4000
    answer = rig.ask(BATCH, short_header(f=flags), body)
    assert (answer.code, answer.remark) == (13, f"the batch's body: the batch has more than {len(body)} messages")
    assert rig.records("orders") == []


def test_messages_of_a_plain_batch_that_are_compressed_each_are_stored_with_the_flag(rig: Rig) -> None:
    packed, flags = compress_body(b"one" * 2000)
    assert rig.ask(BATCH, short_header(f=flags), batch((0, packed, ""))).code == 0
    [record] = rig.records("orders")
    assert (bytes(record.body), record.sys_flag) == (packed, flags)


def test_a_retry_topic_takes_no_batches(rig: Rig) -> None:
    rig.metadata.groups.put(GroupConfig("billing"))
    assert rig.ask(BATCH, short_header("%RETRY%billing"), batch((0, b"x", ""))).code == 13


def test_the_broker_name_in_a_request_is_not_looked_at(rig: Rig) -> None:
    assert sent(rig, n="another").code == 0
    assert sent(rig, n=None).code == 0
    assert BROKER in rig.metadata.topics
