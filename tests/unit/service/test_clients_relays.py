"""Questions to clients: what the client is asked, and that its answer comes back as it is."""

import pytest

from logherd.model.host import encode_host, format_offset_message_id
from logherd.model.topic import GroupConfig, TopicConfig
from logherd.service.clients.registry import ClientRegistry, Connection, ConsumerProfile
from logherd.service.clients.relays import Relays
from logherd.service.metadata import Metadata
from logherd.service.ports import Reply
from logherd.service.routing import Role
from logherd.store import StoreDamaged
from logherd.wire.codes import RequestCode, ResponseCode
from logherd.wire.frame import Flag, Frame
from logherd.wire.headers import encode_header
from logherd.wire.headers.admin import ConsumerStatusHeader
from logherd.wire.headers.clients import ClientStatusHeader, ConsumeDirectlyHeader, RunningInfoHeader
from logherd.wire.headers.forwarding import ForwardingRefusal, Refused
from unit.service.asking import Desk, decoded
from unit.service.client_fakes import FakeClock, FakeSession
from unit.service.memory_log import MemoryLog

HOST = encode_host("127.0.0.1", 10911)
MESSAGE_ID = format_offset_message_id(HOST, 4096)
RUNNING = RunningInfoHeader(consumer_group="g", client_id="c1", stacks=True)


class Broker:
    def __init__(self) -> None:
        self.clock = FakeClock()
        self.registry = ClientRegistry()
        self.metadata = Metadata.open(MemoryLog(), self.clock)
        relays = Relays(self.registry, self.metadata, broker_name="a", record_at=self.record_at)
        self.desk = Desk(Role.BROKER, self.clock, relays.handlers())
        self.operator = FakeSession(99)

    def record_at(self, position: int) -> memoryview | None:
        if position == 8192:
            raise StoreDamaged("commitlog/0", 8192, "the record checksum differs", ".")
        return memoryview(b"a stored message") if position == 4096 else None

    def join(self, client: str = "c1", *, session_id: int = 1, version: int = 479) -> FakeSession:
        session = FakeSession(session_id)
        link = Connection(client, session, "JAVA", version, 0, 0)
        self.registry.join_consumer("g", ConsumerProfile(), link, subscriptions={})
        return session


def answer(code: int = 0, ext: dict[str, str] | None = None, body: bytes = b"") -> Frame:
    return Frame(code, 1, flag=Flag.RESPONSE, ext=ext, body=body, remark="said so")


def test_running_info_is_relayed_to_the_client_and_back_verbatim() -> None:
    broker = Broker()
    client = broker.join()
    assert broker.desk.park(RequestCode.GET_CONSUMER_RUNNING_INFO, RUNNING, session=broker.operator) is None
    (call,) = client.calls
    assert (call.code, call.header, call.timeout_ms) == (RequestCode.GET_CONSUMER_RUNNING_INFO, RUNNING, 10_000)
    body = b'{mqTable:{{"brokerName":"a","queueId":0,"topic":"T"}:{}}}'
    call.on_answer(answer(0, {"x": "y"}, body))
    (reply,) = broker.operator.replies
    assert (reply.code, reply.header, reply.body, reply.remark) == (0, {"x": "y"}, body, "said so")


def test_a_message_that_is_not_whole_at_the_place_that_an_id_names_is_no_damage() -> None:
    broker = Broker()
    broker.join()
    met: list[StoreDamaged] = []
    broker.desk.dispatcher.on_damage = met.append
    header = ConsumeDirectlyHeader(consumer_group="g", client_id="c1", message_id=format_offset_message_id(HOST, 8192))
    reply = broker.desk.ask(RequestCode.CONSUME_MESSAGE_DIRECTLY, header)
    assert (reply.code, met) == (ResponseCode.SYSTEM_ERROR, [])
    assert "the record checksum differs" in (reply.remark or "")


def test_a_client_error_is_relayed_too() -> None:
    broker = Broker()
    client = broker.join()
    broker.desk.park(RequestCode.GET_CONSUMER_RUNNING_INFO, RUNNING, session=broker.operator)
    client.calls[0].on_answer(answer(1))
    assert broker.operator.replies[0].code == ResponseCode.SYSTEM_ERROR


def test_no_client_speaks_for_a_leader_to_the_broker_that_has_passed_a_question_on() -> None:
    """That broker would take its leader for a former one, and a leader of the epoch that is named for the next."""
    broker = Broker()
    client = broker.join()
    broker.desk.park(RequestCode.GET_CONSUMER_RUNNING_INFO, RUNNING, session=broker.operator)
    refusal = ForwardingRefusal(reason=Refused.NOT_LEADER, epoch=1 << 40, leader="127.0.0.1:1")
    client.calls[0].on_answer(answer(ResponseCode.FORWARDING_REFUSED, encode_header(refusal)))
    (reply,) = broker.operator.replies
    assert (reply.code, reply.header) == (ResponseCode.SYSTEM_ERROR, None)
    assert str(int(ResponseCode.FORWARDING_REFUSED)) in (reply.remark or "")


@pytest.mark.parametrize(
    ("left", "code"), [(False, ResponseCode.CONSUME_MSG_TIMEOUT), (True, ResponseCode.SYSTEM_ERROR)]
)
def test_a_client_that_does_not_answer_is_told_apart_from_one_that_left(left: bool, code: int) -> None:
    broker = Broker()
    client = broker.join()
    broker.desk.park(RequestCode.GET_CONSUMER_RUNNING_INFO, RUNNING, session=broker.operator)
    client.closed = left
    client.calls[0].on_answer(None)
    assert broker.operator.replies[0].code == code


def test_an_unknown_or_very_old_client_is_an_error() -> None:
    broker = Broker()
    reply = broker.desk.ask(RequestCode.GET_CONSUMER_RUNNING_INFO, RUNNING)
    assert (reply.code, reply.remark) == (ResponseCode.SYSTEM_ERROR, "The Consumer <g> <c1> not online")
    client = broker.join(version=61)
    old = broker.desk.ask(RequestCode.GET_CONSUMER_RUNNING_INFO, RUNNING)
    assert old.code == ResponseCode.SYSTEM_ERROR
    assert client.calls == []


def test_a_message_to_consume_at_once_is_sent_with_what_the_broker_knows() -> None:
    broker = Broker()
    broker.metadata.topics.put(TopicConfig("T", system_flag=3))
    broker.metadata.groups.put(GroupConfig("g", system_flag=1))
    client = broker.join()
    header = ConsumeDirectlyHeader(consumer_group="g", client_id="c1", message_id=MESSAGE_ID, topic="T")
    assert broker.desk.park(RequestCode.CONSUME_MESSAGE_DIRECTLY, header, session=broker.operator) is None
    (call,) = client.calls
    assert call.body == b"a stored message"
    assert call.header is not None
    assert encode_header(call.header) == {
        "consumerGroup": "g", "clientId": "c1", "msgId": MESSAGE_ID, "brokerName": "a", "topic": "T",
        "topicSysFlag": "3", "groupSysFlag": "1",
    }  # fmt: skip
    call.on_answer(answer(0, None, b'{"consumeResult":"CR_SUCCESS"}'))
    assert broker.operator.replies[0].body == b'{"consumeResult":"CR_SUCCESS"}'


@pytest.mark.parametrize(
    ("message_id", "code"),
    [
        ("zz", ResponseCode.INVALID_PARAMETER), ("", ResponseCode.INVALID_PARAMETER),
        (format_offset_message_id(HOST, 1), ResponseCode.SYSTEM_ERROR),
    ],
)  # fmt: skip
def test_a_message_that_is_not_there_is_an_error(message_id: str, code: int) -> None:
    broker = Broker()
    broker.join()
    header = ConsumeDirectlyHeader(consumer_group="g", client_id="c1", message_id=message_id)
    assert broker.desk.ask(RequestCode.CONSUME_MESSAGE_DIRECTLY, header).code == code


def status(broker: Broker, client: str | None = None) -> Reply | None:
    header = ConsumerStatusHeader(topic="T", group="g", client_address=client)
    return broker.desk.park(RequestCode.INVOKE_BROKER_TO_GET_CONSUMER_STATUS, header, session=broker.operator)


def test_the_status_of_a_group_gathers_what_its_clients_say() -> None:
    broker = Broker()
    one, two, three = broker.join("c1"), broker.join("c2", session_id=2), broker.join("c3", session_id=3)
    assert status(broker) is None
    assert one.calls[0].header == ClientStatusHeader(topic="T", group="g")
    one.calls[0].on_answer(answer(body=b'{"messageQueueTable":{{"brokerName":"a","queueId":0,"topic":"T"}:5}}'))
    two.calls[0].on_answer(None)
    assert broker.operator.replies == []
    three.calls[0].on_answer(answer(body=b"nonsense"))
    (reply,) = broker.operator.replies
    told = decoded(reply)
    assert isinstance(told, dict)
    assert told["consumerTable"] == {"c1": {'{"brokerName":"a","queueId":0,"topic":"T"}': 5}}


def test_the_status_of_one_client_asks_only_that_client() -> None:
    broker = Broker()
    one, two = broker.join("c1"), broker.join("c2", session_id=2)
    status(broker, "c2")
    assert (len(one.calls), len(two.calls)) == (0, 1)


def test_the_status_of_a_group_that_is_not_online_is_206() -> None:
    broker = Broker()
    reply = status(broker)
    assert reply is not None
    assert reply.code == ResponseCode.CONSUMER_NOT_ONLINE


def test_a_client_too_old_for_its_status_is_an_error() -> None:
    broker = Broker()
    broker.join(version=27)
    reply = status(broker)
    assert reply is not None
    assert reply.code == ResponseCode.SYSTEM_ERROR
