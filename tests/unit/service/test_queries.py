"""Messages by key, by position and by queue unit, over a real store."""

from collections.abc import Iterator
from pathlib import Path
from struct import pack

import pytest

from logherd.kit.javahash import java_hash
from logherd.model.record import MAGIC_V1, decode_record, encode_record
from logherd.service import queries
from logherd.service.clients.registry import ClientRegistry, Connection, ConsumerProfile, Subscription
from logherd.service.ports import Reply
from logherd.service.queries import Queries
from logherd.service.routing import Role
from logherd.store import StoreDamaged, reader
from logherd.wire.codes import RequestCode, ResponseCode
from logherd.wire.headers.queries import QueryConsumeQueueHeader, QueryMessageHeader, QueryMessageResponse
from unit.service.asking import Desk, decoded
from unit.service.client_fakes import FakeSession
from unit.service.small_broker import HOST, SmallBroker

ALWAYS = (1 << 62) - 1


class Broker(SmallBroker):
    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self.registry = ClientRegistry()
        self.desk = Desk(Role.BROKER, self.clock, Queries(self.store, self.registry).handlers())

    def by_key(self, key: str, *, unique: bool = False, most: int = 32, begin: int = 0, end: int = ALWAYS) -> Reply:
        header = QueryMessageHeader(
            topic="T", key=key, messages_max=most, begin_timestamp=begin, end_timestamp=end, by_unique_key=unique
        )
        return self.desk.ask(RequestCode.QUERY_MESSAGE, header)


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    opened = Broker(tmp_path)
    yield opened
    opened.close()


def bodies(reply: Reply) -> list[bytes]:
    assert reply.code == 0, reply.remark
    return [bytes(decode_record(record).body) for record in reply.body]  # type: ignore[arg-type]


def test_messages_are_found_by_key_and_by_unique_key(broker: Broker) -> None:
    broker.put("T", body=b"one", properties=b"KEYS\x01k1 shared\x02UNIQ_KEY\x01U1\x02")
    broker.put("T", body=b"two", properties=b"KEYS\x01shared\x02UNIQ_KEY\x01U2\x02")
    assert bodies(broker.by_key("k1")) == [b"one"]
    assert sorted(bodies(broker.by_key("shared"))) == [b"one", b"two"]
    assert bodies(broker.by_key("U2", unique=True)) == [b"two"]


def test_a_query_is_limited_in_number_and_time(broker: Broker) -> None:
    for number in range(5):
        broker.put("T", body=b"%d" % number, properties=b"KEYS\x01k\x02")
        broker.clock.advance(10_000)
    start = broker.clock.wall - 50_000
    assert len(bodies(broker.by_key("k", most=2))) == 2
    assert bodies(broker.by_key("k", begin=start + 20_000, end=start + 20_000)) == [b"2"]


def test_no_match_is_22(broker: Broker) -> None:
    broker.put("T", properties=b"KEYS\x01k\x02")
    for reply in (broker.by_key("nothing"), broker.by_key("k", most=0), broker.by_key("k", most=-1)):
        assert reply.code == ResponseCode.QUERY_NOT_FOUND


def test_the_newest_messages_of_a_key_come_in_the_order_of_the_log(broker: Broker) -> None:
    """However many are asked for; of a unique key, which only repeated sends share, the client asks for too few."""
    for number in range(70):
        broker.put("T", body=b"%d" % number, properties=b"KEYS\x01k\x02UNIQ_KEY\x01U\x02")
    newest = [b"%d" % number for number in range(70)]
    assert bodies(broker.by_key("k", most=3)) == newest[-3:]
    assert bodies(broker.by_key("k", most=1_000)) == newest[-64:]
    assert bodies(broker.by_key("U", unique=True, most=1)) == newest[-32:]
    told = broker.by_key("k", end=1 << 50).header
    assert isinstance(told, QueryMessageResponse)
    assert (told.index_timestamp, told.index_position) == (1 << 50, broker.store.committed_position)


def test_an_answer_with_messages_of_a_key_is_bounded_in_bytes_and_has_at_least_one(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    for size in (3000, 600, 600, 600):
        broker.put("T", body=b"x" * size, properties=b"KEYS\x01k\x02")
    monkeypatch.setattr(queries, "BODY_BYTES_MAX", 2000)
    assert [len(body) for body in bodies(broker.by_key("k"))] == [3000]
    assert [len(body) for body in bodies(broker.by_key("k", most=3))] == [600, 600]


def test_a_message_is_found_by_its_position_only(broker: Broker) -> None:
    position = broker.put("T", body=b"one")
    view = RequestCode.VIEW_MESSAGE_BY_ID
    assert bodies(broker.desk.ask(view, {"offset": str(position)})) == [b"one"]
    for wrong in (position + 1, broker.store.end_position, 1 << 40, -1):
        reply = broker.desk.ask(view, {"offset": str(wrong)})
        assert (reply.code, reply.remark) == (
            ResponseCode.SYSTEM_ERROR, f"can not find message by the offset, {wrong}",
        )  # fmt: skip


def test_a_message_that_looks_like_a_record_of_its_place_is_no_damage(tmp_path: Path) -> None:
    """Anybody can send it, who knows where the log ends; a replica that met damage would leave its group to mend it."""
    broker = Broker(tmp_path)
    position = broker.store.end_position + 88 + 9
    forged = bytearray(encode_record(
        b"T", b"x", b"", queue_id=0, queue_offset=0, position=position, store_timestamp=0, store_host=HOST,
        born_timestamp=0, born_host=HOST,
    ))  # fmt: skip
    forged[-3] ^= 1
    broker.put("T", body=b"something" + forged)
    broker.close()
    broker = Broker(tmp_path)  # from now on the disk may have given it
    met: list[StoreDamaged] = []
    broker.desk.dispatcher.on_damage = met.append
    reply = broker.desk.ask(RequestCode.VIEW_MESSAGE_BY_ID, {"offset": str(position)})
    broker.close()
    assert (reply.code, met) == (ResponseCode.SYSTEM_ERROR, [])
    assert "checksum" in (reply.remark or "")


@pytest.mark.parametrize(("size", "found"), [(-5, False), (0, False), (90, False), (119, True), (120, False)])
def test_what_says_to_be_longer_or_shorter_than_any_record_is_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int, found: bool
) -> None:  # fmt: skip
    """It is not read: a file may have a gigabyte behind it, and the loop waits."""
    monkeypatch.setattr(reader, "RECORD_BYTES_MAX", 119)
    broker = Broker(tmp_path)
    position = broker.store.end_position + 88
    broker.put("T", body=pack(">iI20xq", size, MAGIC_V1, position) + bytes(200))
    broker.close()
    broker = Broker(tmp_path)
    reply = broker.desk.ask(RequestCode.VIEW_MESSAGE_BY_ID, {"offset": str(position)})
    broker.close()
    assert reply.code == ResponseCode.SYSTEM_ERROR
    assert (reply.remark == f"can not find message by the offset, {position}") is not found


def test_units_of_a_queue_are_listed_with_what_a_group_would_get(broker: Broker) -> None:
    first = broker.put("T", properties=b"TAGS\x01a\x02")
    second = broker.put("T", properties=b"TAGS\x01b\x02")
    link = Connection("c1", FakeSession(), "JAVA", 479, 0, 0)
    wanted = {"T": Subscription("T", "a", tags=("a",), codes=(java_hash("a"),))}
    broker.registry.join_consumer("g", ConsumerProfile(), link, subscriptions=wanted)
    header = QueryConsumeQueueHeader(topic="T", queue_id=0, index=0, count=10, consumer_group="g")
    told = decoded(broker.desk.ask(RequestCode.QUERY_CONSUME_QUEUE, header))
    assert isinstance(told, dict)
    assert (told["minQueueIndex"], told["maxQueueIndex"]) == (0, 2)
    assert [(u["physicOffset"], u["tagsCode"], u["eval"]) for u in told["queueData"]] == [
        (first, java_hash("a"), True), (second, java_hash("b"), False),
    ]  # fmt: skip
    assert told["subscriptionData"]["subString"] == "a"


def test_units_for_a_group_that_is_not_online_say_so(broker: Broker) -> None:
    broker.put("T")
    header = QueryConsumeQueueHeader(topic="T", queue_id=0, index=5, count=10, consumer_group="g")
    told = decoded(broker.desk.ask(RequestCode.QUERY_CONSUME_QUEUE, header))
    assert isinstance(told, dict)
    assert (told["queueData"], told["filterData"]) == ([], "g@T is not online!")


def test_units_are_listed_from_where_it_was_asked_and_no_more_than_asked(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    positions = [broker.put("T") for _ in range(5)]
    broker.store.queue("T", 0)._min_offset = 1  # as retention leaves it

    def listed(index: int, count: int) -> list[int]:
        header = QueryConsumeQueueHeader(topic="T", queue_id=0, index=index, count=count)
        told = decoded(broker.desk.ask(RequestCode.QUERY_CONSUME_QUEUE, header))
        assert isinstance(told, dict)
        assert not told.keys() & {"filterData", "subscriptionData"}
        assert all(unit["eval"] for unit in told["queueData"])
        return [positions.index(unit["physicOffset"]) for unit in told["queueData"]]

    assert (listed(2, 2), listed(0, 2), listed(3, 100)) == ([2, 3], [1], [3, 4])
    monkeypatch.setattr(queries, "UNITS_MAX", 3)
    assert listed(1, 100) == [1, 2, 3]
    assert listed(-(2**63), 2**31 - 1) == listed(2**63 - 1, 2**31 - 1) == listed(2, -1) == []


def test_units_of_a_missing_queue_are_an_error(broker: Broker) -> None:
    header = QueryConsumeQueueHeader(topic="T", queue_id=0, index=0, count=1)
    reply = broker.desk.ask(RequestCode.QUERY_CONSUME_QUEUE, header)
    assert (reply.code, reply.remark) == (ResponseCode.SYSTEM_ERROR, "0@T is not exist!")
