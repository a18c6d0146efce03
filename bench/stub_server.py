"""A broker that answers every send at once and stores nothing: the ceiling that a client can reach on this machine.

It is its own name service, so that a stock client needs one address: `python -m bench.stub_server --port 0` prints
`listening on HOST:PORT` and runs until it is stopped. Sends (10, 310, 320) are answered without being decoded; every
other request is decoded and gets what keeps a producer content (routes, heartbeats, topics) or "not supported".
"""

import argparse
import asyncio
import re
from struct import Struct
from typing import cast

import uvloop

from logherd.wire.bodies import encode_body
from logherd.wire.bodies.routes import BrokerData, ClusterInfo, QueueData, TopicRoute
from logherd.wire.codec import FrameReader, encode_frame
from logherd.wire.codes import RequestCode, ResponseCode
from logherd.wire.frame import Flag, Frame
from logherd.wire.headers import encode_header
from logherd.wire.headers.send import SendMessageResponse

__all__ = ["StubConnection", "StubServer", "serve"]

_LENGTHS = Struct(">II")
_SEND = re.compile(rb'"code":(?:310|320|10)\D')
_OPAQUE = re.compile(rb'"opaque":(\d+)')
_ONEWAY = re.compile(rb'"flag":2\D')
_MARK = 2_000_000_000
_DONE = (RequestCode.UNREGISTER_CLIENT, RequestCode.CHECK_CLIENT_CONFIG, RequestCode.UPDATE_AND_CREATE_TOPIC)
"""What changes nothing here: every topic exists."""


class StubServer:
    """What its connections share. `queues` queues of any topic at one broker, which is this server."""

    def __init__(self, queues: int, broker_name: str = "broker-a", cluster: str = "DefaultCluster") -> None:
        self._queues = queues
        self._broker_name = broker_name
        self._cluster = cluster
        self._address = ""
        response = SendMessageResponse(
            message_id="7F00000100002A9F0000000000000001", queue_id=0, queue_offset=1, transaction_id="0" * 32
        )
        answer = encode_frame(Frame(0, _MARK, flag=Flag.RESPONSE, ext=encode_header(response)))
        self._answer_head, self._answer_tail = answer[8:].split(b"%d" % _MARK)

    def send_answer(self, opaque: bytes) -> bytes:
        """The whole answer to a send."""
        header_length = len(self._answer_head) + len(opaque) + len(self._answer_tail)
        return _LENGTHS.pack(header_length + 4, header_length) + self._answer_head + opaque + self._answer_tail

    def answer(self, request: Frame) -> Frame:
        """The answer to anything but a send."""
        answer = Frame(0, request.opaque, flag=Flag.RESPONSE)
        if request.code == RequestCode.GET_ROUTEINFO_BY_TOPIC:
            answer.body = encode_body(self._route())
        elif request.code == RequestCode.GET_BROKER_CLUSTER_INFO:
            answer.body = encode_body(self._clusters())
        elif request.code == RequestCode.HEART_BEAT:
            answer.ext = {"IS_SUPPORT_HEART_BEAT_V2": "true", "IS_SUB_CHANGE": "true"}
        elif request.code in (RequestCode.SEND_MESSAGE, RequestCode.SEND_MESSAGE_V2, RequestCode.SEND_BATCH_MESSAGE):
            [answer] = FrameReader().feed(self.send_answer(b"%d" % request.opaque))
        elif request.code not in _DONE:
            answer.code = ResponseCode.REQUEST_CODE_NOT_SUPPORTED
            answer.remark = f" request type {request.code} not supported by the stub"
        return answer

    async def listen(self, host: str, port: int, *, make: "type[StubConnection] | None" = None) -> asyncio.Server:
        """Accept connections; the bound address goes into the routes."""
        kind = make or StubConnection
        server = await asyncio.get_running_loop().create_server(lambda: kind(self), host, port, backlog=1024)
        bound = server.sockets[0].getsockname()
        self._address = f"{bound[0]}:{bound[1]}"
        return server

    @property
    def address(self) -> str:
        """host:port, after `listen`."""
        return self._address

    def _route(self) -> TopicRoute:
        queues = QueueData(
            broker_name=self._broker_name, read_queues=self._queues, write_queues=self._queues, permission=6
        )
        return TopicRoute(queues=[queues], brokers=[self._broker()])

    def _clusters(self) -> ClusterInfo:
        return ClusterInfo(brokers={self._broker_name: self._broker()}, clusters={self._cluster: [self._broker_name]})

    def _broker(self) -> BrokerData:
        return BrokerData(cluster=self._cluster, broker_name=self._broker_name, addresses={0: self._address})


class StubConnection(asyncio.Protocol):
    """A client's connection."""

    def __init__(self, stub: StubServer) -> None:
        self.stub = stub
        self.transport: asyncio.WriteTransport | None = None
        self._buffer = bytearray()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.WriteTransport", transport)

    def data_received(self, data: bytes) -> None:
        buffer = self._buffer
        if buffer:
            buffer += data
            data = bytes(buffer)
            buffer.clear()
        answers: list[bytes] = []
        at, end = 0, len(data)
        while end - at >= 8:
            length, marker = _LENGTHS.unpack_from(data, at)
            stop = at + 4 + length
            if stop > end:
                break
            answers.append(self._answer(data, at, stop, at + 8 + (marker & 0xFFFFFF)))
            at = stop
        buffer += data[at:]
        if answers:
            self.send(data[:at], b"".join(answers))

    def send(self, data: bytes, answers: bytes) -> None:
        """Whole requests came, and these are their answers."""
        if self.transport is not None:
            self.transport.write(answers)

    def _answer(self, data: bytes, at: int, stop: int, header_end: int) -> bytes:
        if data[at + 4] == 0 and _SEND.search(data, at + 8, header_end):
            opaque = _OPAQUE.search(data, at + 8, header_end)
            if opaque is not None:
                return b"" if _ONEWAY.search(data, at + 8, header_end) else self.stub.send_answer(opaque[1])
        [request] = FrameReader().feed(data[at:stop])
        return b"" if request.is_oneway or request.is_response else encode_frame(self.stub.answer(request))


async def serve(host: str, port: int, queues: int) -> None:
    """Run until cancelled."""
    stub = StubServer(queues)
    server = await stub.listen(host, port)
    print(f"listening on {stub.address}", flush=True)
    await server.serve_forever()


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=0, help="0 takes any free port")
    parser.add_argument("--queues", type=int, default=8, help="queues of every topic")
    options = parser.parse_args()
    try:
        uvloop.run(serve(options.host, options.port, options.queues))
    except KeyboardInterrupt:
        pass


if __name__ == "__main__":
    main()
