"""An outgoing connection: each request has one outcome, and a caller can tell failed from unknown."""

import asyncio
import ctypes
import socket
import struct
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest

from logherd.net import connection as outgoing
from logherd.net.connection import Connection, connect
from logherd.net.errors import ConnectFailed, ConnectionLost, NetError, RequestTimeout
from logherd.net.server import Server
from logherd.net.session import NetSession
from logherd.wire.codec import encode_frame
from logherd.wire.errors import FrameError
from logherd.wire.frame import Flag, Frame
from logherd.wire.limits import DEFAULT_LIMITS
from unit.net.fakes import FakeTransport, Lines, Recorder, answer_to

_SO_ATTACH_FILTER = 26


@asynccontextmanager
async def connected(
    handler: Recorder, on_request: Callable[[Connection, Frame], None] | None = None
) -> AsyncIterator[tuple[Connection, Server]]:
    server = Server(handler, log=Lines())
    host, port = await server.listen("127.0.0.1", 0)
    connection = await connect(host, port, on_request=on_request)
    try:
        yield connection, server
    finally:
        await connection.close()
        await server.stop(1)


async def test_a_call_gets_its_answer() -> None:
    async with connected(Recorder(answer_at_once=True)) as (connection, _):
        answers = await asyncio.gather(*(connection.call(Frame(105, 0), seconds=5) for _ in range(20)))
        assert [answer.flag for answer in answers] == [Flag.RESPONSE] * 20
        assert len({answer.opaque for answer in answers}) == 20
        assert connection.open_requests == 0


async def test_requests_of_one_pass_arrive_together_and_in_order() -> None:
    handler = Recorder(answer_at_once=True)
    async with connected(handler) as (connection, _):
        await asyncio.gather(*(connection.call(Frame(105, 0, body=b"%d" % n), seconds=5) for n in range(20)))
        assert [frame.body for frame in handler.frames] == [b"%d" % n for n in range(20)]
        assert handler.batches == [20]


async def test_an_unanswered_call_ends_at_its_deadline_and_a_late_answer_is_dropped() -> None:
    handler = Recorder()
    async with connected(handler) as (connection, _):
        with pytest.raises(RequestTimeout, match=r"within 0\.01 s"):
            await connection.call(Frame(105, 0), seconds=0.01)
        handler.opened[0].send_answer(handler.frames[0], answer_to(handler.frames[0]))
        handler.answer_at_once = True
        assert (await connection.call(Frame(105, 0), seconds=5)).opaque != handler.frames[0].opaque


async def test_a_request_whose_connection_breaks_after_it_was_written_is_unknown() -> None:
    handler = Recorder()
    async with connected(handler) as (connection, _):
        waiting = asyncio.create_task(connection.call(Frame(310, 0), seconds=5), name="call")
        while not handler.frames:
            await asyncio.sleep(0)
        handler.opened[0].abort()
        with pytest.raises(ConnectionLost) as caught:
            await waiting
        assert caught.value.written
        assert connection.closed


@pytest.mark.parametrize("passes", [0, 1])
async def test_only_a_request_that_was_not_handed_over_has_failed_for_sure(passes: int) -> None:
    connection = Connection("peer", asyncio.get_running_loop(), None, on_lost=None, limits=DEFAULT_LIMITS)
    transport = FakeTransport()
    connection.connection_made(transport)
    outcomes: list[Frame | NetError] = []
    connection.start(Frame(310, 0), outcomes.append, seconds=5)
    for _ in range(passes):
        await asyncio.sleep(0)
    connection.connection_lost(ConnectionResetError("cut"))
    [lost] = outcomes
    assert isinstance(lost, ConnectionLost)
    assert lost.written is bool(transport.writes) is bool(passes)


@pytest.mark.parametrize("end", ["by the peer", "by us"])
async def test_a_request_that_comes_in_the_pass_in_which_the_connection_ends_has_failed_for_sure(end: str) -> None:
    connection = Connection("peer", asyncio.get_running_loop(), None, on_lost=None, limits=DEFAULT_LIMITS)
    transport = FakeTransport()
    connection.connection_made(transport)
    outcomes: list[Frame | NetError] = []
    connection.start(Frame(310, 0), outcomes.append, seconds=5)
    if end == "by us":
        connection.abort()
    else:
        assert not connection.eof_received()
        transport.close()  # what asyncio does then; the end itself is told in the next pass
    await asyncio.sleep(0)
    connection.connection_lost(None)
    [lost] = outcomes
    assert isinstance(lost, ConnectionLost)
    assert (lost.written, transport.writes) == (False, [])


async def test_a_closed_connection_refuses_for_sure() -> None:
    async with connected(Recorder()) as (connection, _):
        await connection.close()
        with pytest.raises(ConnectionLost) as caught:
            await connection.call(Frame(310, 0), seconds=5)
        assert not caught.value.written
        with pytest.raises(ConnectionLost):
            connection.oneway(Frame(15, 0))
        connection.answer(Frame(0, 1))


async def test_a_oneway_request_is_flagged_and_expects_nothing() -> None:
    handler = Recorder(answer_at_once=True)
    async with connected(handler) as (connection, _):
        connection.oneway(Frame(15, 0))
        await connection.call(Frame(105, 0), seconds=5)
        assert [frame.is_oneway for frame in handler.frames] == [True, False]


async def test_requests_of_the_peer_are_delivered_and_answered() -> None:
    def respond(connection: Connection, frame: Frame) -> None:
        connection.answer(Frame(0, frame.opaque, flag=Flag.RESPONSE, body=frame.body + b"!"))

    handler = Recorder(answer_at_once=True)
    async with connected(handler, respond) as (connection, _):
        await connection.call(Frame(34, 0), seconds=5)
        answered: asyncio.Future[Frame | None] = asyncio.get_running_loop().create_future()
        session: NetSession = handler.opened[0]
        session.call(307, None, b"hey", timeout_ms=5000, on_answer=answered.set_result)
        answer = await answered
        assert answer is not None
        assert answer.body == b"hey!"


async def test_a_cancelled_caller_leaves_the_connection_usable() -> None:
    handler = Recorder()
    async with connected(handler) as (connection, _):
        waiting = asyncio.create_task(connection.call(Frame(310, 0), seconds=5), name="call")
        while not handler.frames:
            await asyncio.sleep(0)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        handler.opened[0].send_answer(handler.frames[0], answer_to(handler.frames[0]))
        handler.answer_at_once = True
        assert (await connection.call(Frame(105, 0), seconds=5)).is_response


async def test_a_frame_that_cannot_be_sent_is_refused_and_forgotten() -> None:
    async with connected(Recorder()) as (connection, _):
        with pytest.raises(FrameError):
            await connection.call(Frame(310, 0, body=bytes(17 * 1024 * 1024)), seconds=5)
        assert connection.open_requests == 0


async def test_a_peer_that_sends_no_frames_is_left() -> None:
    class Garbage(asyncio.Protocol):
        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            assert isinstance(transport, object)
            transport.write(encode_frame(Frame(0, 99, flag=Flag.RESPONSE)) + b"\xff" * 20)  # type: ignore[attr-defined]

    listener = await asyncio.get_running_loop().create_server(Garbage, "127.0.0.1", 0)
    lost: asyncio.Future[Connection] = asyncio.get_running_loop().create_future()
    connection = await connect(*listener.sockets[0].getsockname()[:2], on_lost=lost.set_result)
    assert await lost is connection
    with pytest.raises(ConnectionLost, match="it sent no frame"):
        await connection.call(Frame(310, 0), seconds=1)
    listener.close()


async def test_an_address_that_refuses_or_does_not_answer_is_named() -> None:
    closed = socket.create_server(("127.0.0.1", 0))
    port = closed.getsockname()[1]
    closed.close()
    with pytest.raises(ConnectFailed, match=f"127.0.0.1:{port}"):
        await connect("127.0.0.1", port)


@pytest.mark.parametrize("port", [-1, 65_536, 10**30])
async def test_an_address_that_can_be_no_port_cannot_be_reached(port: int) -> None:
    with pytest.raises(ConnectFailed, match=f"127.0.0.1:{port}"):
        await connect("127.0.0.1", port)


async def test_an_address_that_can_be_no_name_cannot_be_reached() -> None:
    for host in ("a..b", "a" * 64 + ".b"):
        with pytest.raises(ConnectFailed, match=host):
            await connect(host, 1)


async def test_nothing_is_read_while_reading_is_held() -> None:
    async with connected(Recorder(answer_at_once=True)) as (connection, _):
        connection.hold_reading(held=True)
        connection.hold_reading(held=True)
        call = asyncio.ensure_future(connection.call(Frame(105, 0), seconds=0.05))
        with pytest.raises(RequestTimeout):
            await call
        connection.hold_reading(held=False)
        connection.hold_reading(held=False)
        assert (await connection.call(Frame(105, 0), seconds=5)).flag == Flag.RESPONSE


async def test_an_abort_ends_open_requests_as_lost() -> None:
    async with connected(Recorder()) as (connection, _):
        call = asyncio.ensure_future(connection.call(Frame(105, 0), seconds=5))
        await asyncio.sleep(0)
        connection.abort()
        with pytest.raises(ConnectionLost):
            await call
        connection.abort()


async def test_a_peer_that_is_gone_without_a_word_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outgoing, "GONE_SECONDS", 0.3)
    listener = socket.create_server(("127.0.0.1", 0))
    connection = await connect(*listener.getsockname())
    peer, _ = listener.accept()
    cut_off(peer)
    with pytest.raises(ConnectionLost) as caught:
        await connection.call(Frame(105, 0), seconds=20)
    assert caught.value.written
    assert connection.closed
    peer.close()
    listener.close()


async def test_a_peer_of_whom_nothing_is_wanted_is_asked_whether_it_is_there() -> None:
    async with connected(Recorder()) as (connection, _):
        transport = connection._transport
        assert transport is not None
        wire: socket.socket = transport.get_extra_info("socket")
        assert wire.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
        assert wire.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE) == 10
        assert wire.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) == 30_000


def cut_off(wire: socket.socket) -> None:
    """What comes to this socket is lost and acknowledged to nobody, as behind a cable that was pulled.

    By a filter of one instruction, `ret 0`: take no byte of any segment (linux/filter.h).
    """
    instruction = ctypes.create_string_buffer(struct.pack("=HBBI", 0x06, 0, 0, 0))
    program = struct.pack("@HP", 1, ctypes.addressof(instruction))
    wire.setsockopt(socket.SOL_SOCKET, _SO_ATTACH_FILTER, program)
