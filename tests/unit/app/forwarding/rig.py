"""Brokers of one group in this process, each with its own log, and a hand that says who leads.

Nothing is replicated here: what was stored under one leader stays with it. So the logs of all brokers together show
what forwarding did with each message.
"""

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec

from logherd.app.broker import Broker
from logherd.app.forwarding.leadership import SettableLeadership
from logherd.net.connection import Connection, OnRequest, connect
from logherd.net.server import Server
from logherd.net.session import NetSession
from logherd.service.forwarding.roles import Following, Leading, Nobody
from logherd.service.ports import Reply, Request
from logherd.settings.load import load_broker_options
from logherd.settings.options import BrokerOptions
from logherd.wire.bodies import encode_body
from logherd.wire.bodies.routes import BrokerData, QueueData, TopicRoute
from logherd.wire.frame import Frame
from logherd.wire.headers import encode_header
from logherd.wire.headers.send import SendMessageHeaderV2
from logherd.wire.message import Message, decode_messages
from unit.net.fakes import Recorder

TOPIC = "orders"
QUEUES = 4


class Node:
    """One broker and what it is told about the leader."""

    def __init__(self, broker: Broker, leadership: SettableLeadership) -> None:
        self.broker = broker
        self.leadership = leadership
        self.address = broker.addresses()["address"]

    async def connect(self, on_request: OnRequest | None = None) -> Connection:
        host, _, port = self.address.rpartition(":")
        return await connect(host, int(port), on_request=on_request)

    def messages(self) -> list[Message]:
        """What this broker's log holds, each queue in order."""
        found: list[Message] = []
        store = self.broker._engine.store
        for queue in store.queues():
            if queue.topic == TOPIC:
                for offset in range(queue.min_offset, queue.max_offset):
                    unit = store.unit(queue, offset)
                    assert unit is not None
                    record = store.record_at(unit[0])
                    assert record is not None
                    found += decode_messages(bytes(record))
        return found

    def bodies(self) -> Counter[bytes]:
        """The body of every message in this broker's log, with how often it is there."""
        return Counter(message.body for message in self.messages())


class Group:
    """The brokers, and who leads."""

    def __init__(self, nodes: Sequence[Node]) -> None:
        self.nodes = list(nodes)
        self.epoch = 0
        self.leader: Node | None = None

    def elect(self, leader: Node, *, told: Sequence[Node] | None = None) -> None:
        """`leader` leads in a new epoch, and all others (or those that are told) follow it."""
        self.epoch += 1
        self.leader = leader
        for node in self.nodes:
            if node is not leader and (told is None or node in told):
                node.leadership.set(Following(leader.address, self.epoch))
        leader.leadership.set(Leading(self.epoch))

    def depose(self) -> None:
        """Nobody leads any more."""
        for node in self.nodes:
            node.leadership.set(Nobody())

    def stored(self) -> Counter[bytes]:
        """What all logs together hold."""
        return sum((node.bodies() for node in self.nodes), Counter())


@asynccontextmanager
async def group_of(count: int, directory: Path, *, limits: dict[str, object] | None = None) -> AsyncIterator[Group]:
    """`count` brokers without a leader. `limits` are settings."""
    nodes: list[Node] = []
    try:
        for number in range(count):
            node = await _start(number, directory / str(number), limits or {})
            nodes.append(node)
        yield Group(nodes)
    finally:
        for node in nodes:
            await node.broker.stop()


async def start_alone(directory: Path, *, limits: dict[str, object] | None = None) -> Broker:
    """A broker without a group, as `logherd broker` runs it. `limits` are settings."""
    return await Broker.start(_options(0, directory, limits or {}), on_failure=lambda: None)


async def _start(number: int, directory: Path, limits: dict[str, object]) -> Node:
    leadership = SettableLeadership(Nobody())
    broker = await Broker.start(_options(number, directory, limits), on_failure=lambda: None, leadership=leadership)
    return Node(broker, leadership)


def _options(number: int, directory: Path, limits: dict[str, object]) -> BrokerOptions:
    # One answer with the largest message may lie unread, whatever is said.
    largest = {"messageSizeMax": "896KiB"} if "unsentSizePerConnection" in limits else {}
    directory.mkdir()
    path = directory / "broker.json"
    path.write_text(json.dumps({
        "brokerGroup": "g", "clusterName": "C", "listen": "127.0.0.1:0",
        "adminListen": "127.0.0.1:0", "dataDir": str(directory / "data"), "flush": "async",
        "store": {"segmentSize": "8MiB", "indexSlots": 16, "indexEntries": 64, "reservedPercent": 0, **largest},
        "nameService": {"mode": "embedded", "listen": "127.0.0.1:0"}, "limits": limits,
    }))  # fmt: skip
    # A configuration knows one broker in a group so far.
    return msgspec.structs.replace(load_broker_options(path), broker_id=number)


def send_frame(body: bytes, queue_id: int = 0) -> Frame:
    """An ordinary send as stock producers make it."""
    header = SendMessageHeaderV2(
        producer_group="p", topic=TOPIC, default_topic="TBW102", default_topic_queues=QUEUES, queue_id=queue_id,
        sys_flag=0, born_timestamp=1_700_000_000_000, flag=0, properties="",
    )  # fmt: skip
    return Frame(310, 0, ext=encode_header(header), body=body)


async def eventually(holds: Callable[[], bool], seconds: float = 10.0) -> None:
    """Wait until `holds`, which events of the loop bring about."""
    async with asyncio.timeout(seconds):
        while not holds():
            await asyncio.sleep(0)


class _Routes(Recorder):
    """A name service that knows every topic, with one address for it."""

    def __init__(self, address: str) -> None:
        super().__init__()
        self._body = encode_body(TopicRoute(
            queues=[QueueData(broker_name="g", read_queues=QUEUES, write_queues=QUEUES, permission=6)],
            brokers=[BrokerData(cluster="C", broker_name="g", addresses={0: address})],
        ))  # fmt: skip

    def on_frames(self, session: NetSession, frames: list[Frame]) -> None:
        for frame in frames:
            session.reply(Request(frame, None, 0), Reply(body=self._body))


@asynccontextmanager
async def routes_to(node: Node) -> AsyncIterator[str]:
    """The address of a name server that sends all clients to this broker."""
    server = Server(_Routes(node.address))
    host, port = await server.listen("127.0.0.1", 0)
    yield f"{host}:{port}"
    await server.stop(1)
