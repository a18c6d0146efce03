"""A real port on the loopback: connections are independent of each other, and a stop is orderly."""

import asyncio
import socket
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from logherd.net.limits import AdmissionLimits, NetLimits
from logherd.net.server import Server
from logherd.wire.codec import FrameReader, encode_frame
from logherd.wire.codes import ResponseCode
from logherd.wire.frame import Frame
from unit.net.fakes import Lines, Recorder, answer_to, request


@asynccontextmanager
async def serving(
    handler: Recorder, limits: NetLimits | None = None, log: Lines | None = None
) -> AsyncIterator[tuple[Server, tuple[str, int]]]:
    server = Server(handler, limits, log=log or Lines())
    address = await server.listen("127.0.0.1", 0)
    try:
        yield server, address
    finally:
        await server.stop(2)


async def read_frames(reader: asyncio.StreamReader, count: int) -> list[Frame]:
    frames: list[Frame] = []
    codec = FrameReader()
    async with asyncio.timeout(5):
        while len(frames) < count:
            data = await reader.read(65536)
            if not data:
                break
            frames += codec.feed(data)
    return frames


async def close(writer: asyncio.StreamWriter) -> None:
    writer.close()
    try:
        await writer.wait_closed()
    except ConnectionError:
        pass


async def test_requests_are_answered_in_order_over_a_socket() -> None:
    async with serving(Recorder(answer_at_once=True)) as (server, address):
        reader, writer = await asyncio.open_connection(*address)
        writer.write(b"".join(request(n) for n in range(500)))
        frames = await read_frames(reader, 500)
        assert [frame.opaque for frame in frames] == list(range(500))
        assert server.connections == 1
        assert server.bytes_held == 0
        await close(writer)


async def test_garbage_on_one_connection_does_not_disturb_another() -> None:
    lines = Lines()
    async with serving(Recorder(answer_at_once=True), log=lines) as (server, address):
        good_reader, good_writer = await asyncio.open_connection(*address)
        bad_reader, bad_writer = await asyncio.open_connection(*address)
        bad_writer.write(b"\xff" * 100)
        assert await bad_reader.read() == b""
        good_writer.write(request(9))
        assert [frame.opaque for frame in await read_frames(good_reader, 1)] == [9]
        assert [fields["reason"] for _, fields in lines.warnings] == ["bytes that are no frame"]
        assert server.connections == 1
        await close(good_writer)
        await close(bad_writer)


async def test_a_connection_above_the_limit_is_closed_and_a_later_one_is_accepted() -> None:
    limits = NetLimits(admission=AdmissionLimits(connections_per_address_max=1))
    async with serving(Recorder(answer_at_once=True), limits) as (_, address):
        reader, writer = await asyncio.open_connection(*address)
        writer.write(request(1))
        await read_frames(reader, 1)
        refused_reader, refused_writer = await asyncio.open_connection(*address)
        try:
            assert await refused_reader.read() == b""
        except ConnectionResetError:
            pass
        await close(refused_writer)
        await close(writer)
        reader, writer = await asyncio.open_connection(*address)
        writer.write(request(2))
        assert len(await read_frames(reader, 1)) == 1
        await close(writer)


async def test_a_listening_socket_can_be_taken_over() -> None:
    listening = socket.create_server(("127.0.0.1", 0))
    handler = Recorder(answer_at_once=True)
    server = Server(handler, log=Lines())
    address = await server.listen_on(listening)
    reader, writer = await asyncio.open_connection(*address)
    writer.write(request(4))
    assert len(await read_frames(reader, 1)) == 1
    await close(writer)
    await server.stop(1)


async def test_a_port_that_somebody_took_meanwhile_is_told() -> None:
    with socket.socket() as bound, socket.socket() as other:
        for each in (bound, other):
            each.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind(("127.0.0.1", 0))
        other.bind(bound.getsockname())
        other.listen()
        with pytest.raises(OSError, match=f"127.0.0.1:{bound.getsockname()[1]}: Address already in use"):
            await Server(Recorder(), log=Lines()).listen_on(bound)


async def test_a_stop_answers_what_runs_and_takes_nothing_new() -> None:
    handler = Recorder()
    server = Server(handler, log=Lines())
    address = await server.listen("127.0.0.1", 0)
    reader, writer = await asyncio.open_connection(*address)
    writer.write(request(1))
    while not handler.frames:
        await asyncio.sleep(0)
    server._hub.budget.held = True
    stopping = asyncio.create_task(server.stop(5), name="stop")
    await asyncio.sleep(0)
    writer.write(request(2))  # lies unread in the socket when the server closes: the answer must survive that
    await writer.drain()
    handler.opened[0].send_answer(handler.frames[0], answer_to(handler.frames[0]))
    assert [frame.opaque for frame in await read_frames(reader, 1)] == [1]
    await stopping
    with pytest.raises(ConnectionResetError):  # a client must not wait for the answer to 2
        await reader.read()
    assert [frame.opaque for frame in handler.frames] == [1]
    assert handler.closed == handler.opened
    assert server.connections == 0
    await close(writer)


def of_java(number: int, version: int = 476) -> bytes:
    return encode_frame(Frame(310, number, language="JAVA", version=version, ext={"a": "producers"}))


async def test_a_stop_sends_away_who_understands_it_and_resets_when_nobody_sends_any_more() -> None:
    handler = Recorder()
    server = Server(handler, log=Lines(), typed_sends=True)
    address = await server.listen("127.0.0.1", 0)
    reader, writer = await asyncio.open_connection(*address)
    writer.write(of_java(1))
    while not handler.frames:
        await asyncio.sleep(0)
    stopping = asyncio.create_task(server.stop(30), name="stop")
    await asyncio.sleep(0)
    writer.write(of_java(2) + of_java(3))
    told = [(frame.opaque, frame.code) for frame in await read_frames(reader, 2)]
    assert told == [(2, ResponseCode.GO_AWAY), (3, ResponseCode.GO_AWAY)]
    handler.opened[0].send_answer(handler.frames[0], answer_to(handler.frames[0]))  # what ran before is answered
    assert [frame.opaque for frame in await read_frames(reader, 1)] == [1]
    await stopping
    with pytest.raises(ConnectionResetError):
        await reader.read()
    assert [frame.opaque for frame in handler.frames] == [1]
    assert server.bytes_held == 0
    await close(writer)


async def test_an_older_client_is_answered_and_not_told_what_it_does_not_understand() -> None:
    handler = Recorder()
    server = Server(handler, log=Lines())
    left: list[int] = []
    server.on_leave = lambda: left.append(len(handler.frames))
    address = await server.listen("127.0.0.1", 0)
    reader, writer = await asyncio.open_connection(*address)
    while not handler.opened:
        await asyncio.sleep(0)
    stopping = asyncio.create_task(server.stop(30), name="stop")
    await asyncio.sleep(0)
    for number in range(1, 4):
        writer.write(of_java(number, version=475))
        while len(handler.frames) < number:
            assert not handler.closed
            await asyncio.sleep(0)
        handler.opened[0].send_answer(handler.frames[-1], answer_to(handler.frames[-1]))
        assert [(frame.opaque, frame.code) for frame in await read_frames(reader, 1)] == [(number, 0)]
    await stopping
    with pytest.raises(ConnectionResetError):
        await reader.read()
    assert left == [3], "once, when connections begin to end"
    await close(writer)


async def test_a_connection_ends_between_two_requests_of_a_client_that_goes_on_asking() -> None:
    handler = Recorder()
    server = Server(handler, log=Lines())
    address = await server.listen("127.0.0.1", 0)
    reader, writer = await asyncio.open_connection(*address)
    while not handler.opened:
        await asyncio.sleep(0)
    stopping = asyncio.create_task(server.stop(30), name="stop")
    answered = 0
    loop, session = asyncio.get_running_loop(), handler.opened[0]
    while not session.closed:
        writer.write(of_java(answered + 1, version=475))
        while len(handler.frames) == answered:
            assert not handler.closed, "it ended with a request on its way"
            await asyncio.sleep(0)
        session.send_answer(handler.frames[-1], answer_to(handler.frames[-1]))
        assert len(await read_frames(reader, 1)) == 1
        answered += 1
        again = loop.time() + 0.02  # as a client that rests between two requests, for less than its kernel's 40 ms
        while loop.time() < again and not session.closed:
            await asyncio.sleep(0)
    await stopping
    assert answered >= 3
    await close(writer)


async def test_a_stop_resets_nothing_that_waits_in_our_kernel_for_a_client_that_reads_slowly() -> None:
    handler, body = Recorder(), bytes(100_000)
    async with serving(handler) as (server, address):
        client = socket.socket()
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 5_000)
        client.connect(address)
        client.sendall(of_java(1, version=475))
        while not handler.frames:
            await asyncio.sleep(0)
        session = handler.opened[0]
        session.send_answer(handler.frames[0], answer_to(handler.frames[0], body))
        server.write()
        session.count_unsent()
        assert session.unsent == 0, "all of it is with the kernel"
        stopping = asyncio.create_task(server.stop(30), name="stop")
        while not session.closed and not server._hub.budget.held:  # until nobody looks for rest any more
            await asyncio.sleep(0)
        client.settimeout(0)
        reader, writer = await asyncio.open_connection(sock=client)
        assert [frame.body for frame in await read_frames(reader, 1)] == [body]
        await stopping
        with pytest.raises(ConnectionResetError):
            await reader.read()
        await close(writer)


async def test_a_stop_cuts_off_what_does_not_end_and_says_so() -> None:
    handler, lines = Recorder(), Lines()
    server = Server(handler, log=lines)
    address = await server.listen("127.0.0.1", 0)
    reader, writer = await asyncio.open_connection(*address)
    writer.write(request(1))
    while not handler.frames:
        await asyncio.sleep(0)
    await server.stop(0.01)
    assert server.connections == 0
    assert "requests left without an answer at stop" in [message for message, _ in lines.warnings]
    with pytest.raises(ConnectionResetError):
        await reader.read()
    await close(writer)


async def test_aborted_connections_leave_nothing_behind() -> None:
    handler = Recorder(answer_at_once=True)
    async with serving(handler) as (server, address):
        for _ in range(200):
            client = socket.create_connection(address)
            client.sendall(request(1)[:20])
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            client.close()
        async with asyncio.timeout(5):
            while len(handler.closed) < 200:
                await asyncio.sleep(0)
        assert (server.connections, server.bytes_held, server.sessions) == (0, 0, ())
