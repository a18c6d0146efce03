"""A broker and name service in memory behind a real port, as far as the native client needs one.

`faults` are taken one per send, oldest first: a response code, "cut" (close without an answer, message stored), or
"silent" (stored, never answered).
"""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from logherd.model.record import encode_record
from logherd.net.server import Server
from logherd.net.session import NetSession
from logherd.wire.batch import decode_batch
from logherd.wire.bodies import Body, decode_body, encode_body, queue_key
from logherd.wire.bodies.clients import Heartbeat
from logherd.wire.bodies.configs import TopicConfigBody
from logherd.wire.bodies.progress import ConsumeStats, QueueProgress, QueueRange, TopicStats
from logherd.wire.bodies.routes import BrokerData, ClusterInfo, KVTable, QueueData, TopicList, TopicRoute
from logherd.wire.codes import RequestCode as Code
from logherd.wire.codes import ResponseCode
from logherd.wire.frame import Flag, Frame
from logherd.wire.headers import decode_header, encode_header
from logherd.wire.headers.admin import ConsumeStatsHeader
from logherd.wire.headers.offsets import (
    OffsetResponse,
    QueryConsumerOffsetHeader,
    QueueHeader,
    SearchOffsetHeader,
    UpdateConsumerOffsetHeader,
)
from logherd.wire.headers.pull import PullMessageHeader, PullMessageResponse
from logherd.wire.headers.send import SendMessageHeaderV2, SendMessageResponse
from logherd.wire.headers.topics import CreateTopicHeader
from unit.net.fakes import Lines

BROKER = "broker-a"
HOST = bytes((127, 0, 0, 1, 0, 0, 0, 1))


class FakeBroker:
    def __init__(self) -> None:
        self.address = ""
        self.leader: str | None = None
        """Who leads, if it is another one."""
        self.topics: dict[str, int] = {"TBW102": 8}
        self.rules: dict[str, tuple[int, bool]] = {}
        """Permission and order of those that were made or changed."""
        self.log: dict[tuple[str, int], list[bytes]] = {}
        self.offsets: dict[tuple[str, str, int], int] = {}
        self.heartbeats: list[Heartbeat] = []
        self.sends: list[SendMessageHeaderV2] = []
        self.bodies: list[bytes] = []
        self.faults: list[int | str] = []
        self.just_started = 0
        """How many questions for a route the name service still answers with "try again"."""
        self.parked: list[tuple[NetSession, Frame]] = []
        self._answers: dict[int, Callable[[NetSession, Frame], Frame | None]] = {
            Code.GET_ROUTEINFO_BY_TOPIC: self._route, Code.GET_BROKER_CLUSTER_INFO: self._clusters,
            Code.GET_ALL_TOPIC_LIST_FROM_NAMESERVER: self._topic_list, Code.HEART_BEAT: self._heartbeat,
            Code.SEND_MESSAGE_V2: self._send, Code.SEND_BATCH_MESSAGE: self._send, Code.PULL_MESSAGE: self._pull,
            Code.QUERY_CONSUMER_OFFSET: self._query_offset, Code.UPDATE_CONSUMER_OFFSET: self._commit,
            Code.GET_MAX_OFFSET: self._end, Code.GET_MIN_OFFSET: self._end,
            Code.SEARCH_OFFSET_BY_TIMESTAMP: self._search, Code.UPDATE_AND_CREATE_TOPIC: self._create_topic,
            Code.GET_TOPIC_CONFIG: self._topic_config, Code.DELETE_TOPIC_IN_BROKER: self._delete_topic,
            Code.DELETE_TOPIC_IN_NAMESRV: self._delete_topic,
            Code.GET_TOPIC_STATS_INFO: self._stats, Code.GET_CONSUME_STATS: self._consume_stats,
            Code.GET_BROKER_RUNTIME_INFO: lambda _, frame: _ok(frame, body=KVTable(table={"putTps": "7"})),
        }  # fmt: skip

    def on_open(self, session: NetSession) -> None: ...

    def on_close(self, session: NetSession) -> None: ...

    def on_frames(self, session: NetSession, frames: list[Frame]) -> None:
        for frame in frames:
            answer = self._answers[frame.code](session, frame)
            if answer is not None and not frame.is_oneway:
                session.send_answer(frame, answer)

    def store(self, topic: str, queue_id: int, body: bytes, properties: bytes = b"", sys_flag: int = 0) -> int:
        queue = self.log.setdefault((topic, queue_id), [])
        queue.append(
            encode_record(
                topic.encode(), body, properties, queue_id=queue_id, queue_offset=len(queue), position=0,
                store_timestamp=1000 + len(queue), store_host=HOST, born_timestamp=1, born_host=HOST, sys_flag=sys_flag,
            )
        )  # fmt: skip
        return len(queue) - 1

    def wake(self) -> None:
        """Answer the parked pulls as they would be answered now."""
        parked, self.parked = self.parked, []
        for session, frame in parked:
            answer = self._pull(session, frame, may_park=False)
            assert answer is not None
            session.send_answer(frame, answer)

    def _route(self, _: NetSession, frame: Frame) -> Frame:
        if self.just_started:
            self.just_started -= 1
            return _refuse(frame, ResponseCode.SYSTEM_ERROR)
        queues = self.topics.get(frame.ext["topic"])
        if queues is None:
            return _refuse(frame, ResponseCode.TOPIC_NOT_EXIST)
        data = QueueData(broker_name=BROKER, read_queues=queues, write_queues=queues, permission=7)
        return _ok(frame, body=TopicRoute(queues=[data], brokers=[self._broker_data()]))

    def _broker_data(self) -> BrokerData:
        return BrokerData(cluster="c", broker_name=BROKER, addresses={0: self.leader or self.address})

    def _clusters(self, _: NetSession, frame: Frame) -> Frame:
        return _ok(frame, body=ClusterInfo(brokers={BROKER: self._broker_data()}, clusters={"c": [BROKER]}))

    def _topic_list(self, _: NetSession, frame: Frame) -> Frame:
        return _ok(frame, body=TopicList(topics=list(self.topics)))

    def _heartbeat(self, _: NetSession, frame: Frame) -> Frame:
        self.heartbeats.append(decode_body(Heartbeat, frame.body))
        return _ok(frame)

    def _send(self, session: NetSession, frame: Frame) -> Frame | None:
        header = decode_header(SendMessageHeaderV2, frame.ext)
        fault = self.faults.pop(0) if self.faults else 0
        self.sends.append(header)
        self.bodies.append(frame.body)
        if isinstance(fault, int) and fault not in (0, 10, 11, 12):
            return _refuse(frame, fault)
        properties = (header.properties or "").encode()
        if frame.code == Code.SEND_BATCH_MESSAGE:
            units = decode_batch(frame.body)
            places = [self.store(header.topic, header.queue_id, body, properties) for _, body, properties in units]
        else:
            places = [self.store(header.topic, header.queue_id, frame.body, properties, header.sys_flag)]
        self.topics.setdefault(header.topic, min(header.default_topic_queues, 8))
        if fault == "cut":
            session.abort()
        if isinstance(fault, str):
            return None
        answer = _ok(frame, SendMessageResponse(message_id="ID", queue_id=header.queue_id, queue_offset=places[0]))
        answer.code = fault
        return answer

    def _pull(self, session: NetSession, frame: Frame, *, may_park: bool = True) -> Frame | None:
        header = decode_header(PullMessageHeader, frame.ext)
        queue = self.log.get((header.topic, header.queue_id), [])
        found = queue[header.queue_offset : header.queue_offset + header.messages_max]
        if not found and may_park and header.sys_flag & 2:
            self.parked.append((session, frame))
            return None
        response = PullMessageResponse(
            next_begin_offset=header.queue_offset + len(found), min_offset=0, max_offset=len(queue)
        )
        answer = _ok(frame, response)
        answer.code = ResponseCode.SUCCESS if found else ResponseCode.PULL_NOT_FOUND
        answer.body = b"".join(found)
        return answer

    def _query_offset(self, _: NetSession, frame: Frame) -> Frame:
        header = decode_header(QueryConsumerOffsetHeader, frame.ext)
        offset = self.offsets.get((header.consumer_group, header.topic, header.queue_id))
        if offset is None:
            return _refuse(frame, ResponseCode.QUERY_NOT_FOUND)
        return _ok(frame, OffsetResponse(queue_offset=offset))

    def _commit(self, _: NetSession, frame: Frame) -> Frame:
        header = decode_header(UpdateConsumerOffsetHeader, frame.ext)
        self.offsets[header.consumer_group, header.topic, header.queue_id] = header.commit_offset
        return _ok(frame)

    def _end(self, _: NetSession, frame: Frame) -> Frame:
        header = decode_header(QueueHeader, frame.ext)
        end = len(self.log.get((header.topic, header.queue_id), [])) if frame.code == Code.GET_MAX_OFFSET else 0
        return _ok(frame, OffsetResponse(queue_offset=end))

    def _search(self, _: NetSession, frame: Frame) -> Frame:
        return _ok(frame, OffsetResponse(queue_offset=decode_header(SearchOffsetHeader, frame.ext).timestamp - 1000))

    def _create_topic(self, _: NetSession, frame: Frame) -> Frame:
        header = decode_header(CreateTopicHeader, frame.ext)
        if header.attributes and header.topic in self.topics:  # most can be given only to a new one
            return _refuse(frame, ResponseCode.SYSTEM_ERROR)
        self.topics[header.topic] = header.write_queues
        self.rules[header.topic] = (header.permission, bool(header.order))
        return _ok(frame)

    def _topic_config(self, _: NetSession, frame: Frame) -> Frame:
        name = frame.ext["topic"]
        queues = self.topics.get(name)
        if queues is None:
            return _refuse(frame, ResponseCode.TOPIC_NOT_EXIST)
        permission, order = self.rules.get(name, (6, False))
        body = TopicConfigBody(
            name=name, read_queues=queues, write_queues=queues, permission=permission, order=order,
            attributes={"message.type": "FIFO"},
        )  # fmt: skip
        return _ok(frame, body=body)

    def _delete_topic(self, _: NetSession, frame: Frame) -> Frame:
        self.topics.pop(frame.ext["topic"], None)
        return _ok(frame)

    def _stats(self, _: NetSession, frame: Frame) -> Frame:
        topic = frame.ext["topic"]
        ranges = {
            queue_key(topic, BROKER, n): QueueRange(max_offset=len(self.log.get((topic, n), [])), updated_ms=5)
            for n in range(self.topics[topic])
        }
        return _ok(frame, body=TopicStats(queues=ranges))

    def _consume_stats(self, _: NetSession, frame: Frame) -> Frame:
        header = decode_header(ConsumeStatsHeader, frame.ext)
        assert header.topic is not None
        progress = {
            queue_key(header.topic, BROKER, n): QueueProgress(
                broker_offset=len(self.log.get((header.topic, n), [])),
                consumer_offset=self.offsets.get((header.consumer_group, header.topic, n), 0),
            )
            for n in range(self.topics[header.topic])
        }
        return _ok(frame, body=ConsumeStats(queues=progress))


def _ok(frame: Frame, header: object = None, *, body: Body | None = None) -> Frame:
    ext = encode_header(header) if header is not None else {}  # type: ignore[arg-type]
    return Frame(0, frame.opaque, flag=Flag.RESPONSE, ext=ext, body=b"" if body is None else encode_body(body))


def _refuse(frame: Frame, code: int) -> Frame:
    return Frame(code, frame.opaque, flag=Flag.RESPONSE, remark="refused by the test")


@asynccontextmanager
async def running() -> AsyncIterator[FakeBroker]:
    """A fake broker on a free port of the loopback."""
    broker = FakeBroker()
    server = Server(broker, log=Lines())
    host, port = await server.listen("127.0.0.1", 0)
    broker.address = f"{host}:{port}"
    try:
        yield broker
    finally:
        await server.stop(0.2)
