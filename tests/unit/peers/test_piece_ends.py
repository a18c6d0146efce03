"""How a question for a piece of the log ends that goes wrong: nothing hangs, and no answer is taken for another's."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from logherd.net.parting import end_with_reset
from logherd.peers.errors import CodecError, PeerError
from logherd.peers.frames import make_frame
from logherd.peers.hello import HELLO_BYTES_MAX
from logherd.peers.pieces import (
    Asked,
    Give,
    Given,
    PieceServer,
    PieceSource,
    decode_ask,
    decode_piece,
    encode_ask,
    encode_piece,
)
from logherd.store.pieces import PieceAsk, PieceState

DEEP = b"[" * 200_000


def asked(size: int = 1) -> Asked:
    return Asked(cluster="c/g", broker="2", ask=PieceAsk(start=0, end=size))


def piece(size: int) -> tuple[bytes, bytes]:
    return encode_piece(Given(state=PieceState.WHOLE, end=size)), b"x" * size


def test_who_has_no_bytes_to_give_is_understood() -> None:
    given = Given(state=PieceState.GONE, start=7, epoch=3)
    assert decode_piece(encode_piece(given)) == (given, b"")


@pytest.mark.parametrize("text", [b'{"cluster":"\xff"}', b'{"x":' + DEEP])
def test_no_text_of_a_peer_is_more_than_wrong(text: bytes) -> None:
    with pytest.raises(CodecError):
        decode_ask(b"\x06" + text)


def test_only_a_piece_is_taken_for_one() -> None:
    head, data = piece(3)
    with pytest.raises(CodecError, match="kind 5"):
        decode_piece(b"\x05" + head[1:] + data)


# ---- who has no links and gives


class Writer:
    """Takes what is written; draining takes as long as the test wants."""

    def __init__(self, fault: OSError | None = None) -> None:
        self.frames: list[bytes] = []
        self.closed = False
        self.read = asyncio.Event()
        self.fault = fault

    def write(self, data: bytes) -> None:
        self.frames.append(data)

    async def drain(self) -> None:
        if self.fault is not None:
            raise self.fault
        await self.read.wait()

    @property
    def transport(self) -> "Writer":
        return self

    def abort(self) -> None:
        self.closed = True

    def is_closing(self) -> bool:
        return self.closed


def reader_of(*frames: bytes) -> asyncio.StreamReader:
    """Of a peer that has said this, and is silent then."""
    reader = asyncio.StreamReader()
    for frame in frames:
        reader.feed_data(frame)
    return reader


def noted(asks: list[Asked]) -> Give:
    async def give(each: Asked) -> tuple[bytes, bytes]:
        asks.append(each)
        return piece(each.ask.end)

    return give


ASK = make_frame(encode_ask(asked()))


async def served(reader: asyncio.StreamReader, writer: Writer, asks: list[Asked], *, seconds: float = 60.0) -> None:
    await PieceServer(noted(asks), seconds=seconds, connections_max=4).serve(reader, writer)  # type: ignore[arg-type]
    assert writer.closed


async def test_whoever_is_silent_is_let_go() -> None:
    async with asyncio.timeout(30):
        await served(reader_of(), Writer(), [], seconds=0.01)


@pytest.mark.parametrize(
    "said",
    [
        make_frame(b"\x05" + encode_ask(asked())[1:]), make_frame(b"\x06{"), b"GET / HTTP/1.1\r\n\r\n",
        (HELLO_BYTES_MAX + 1).to_bytes(4, "big") + bytes(4),
    ],
    ids=["another kind", "no ask", "no frame", "too long"],
)  # fmt: skip
async def test_whoever_says_something_else_is_let_go_and_nothing_is_read_for_it(said: bytes) -> None:
    writer, asks = Writer(), list[Asked]()
    async with asyncio.timeout(30):
        await served(reader_of(said, ASK), writer, asks)
    assert (writer.frames, asks) == ([], [])


async def test_whoever_has_gone_when_its_answer_comes_is_let_go() -> None:
    asks: list[Asked] = []
    async with asyncio.timeout(30):
        await served(reader_of(ASK, ASK), Writer(ConnectionResetError()), asks)
    assert len(asks) == 1


async def test_nothing_is_written_to_whoever_has_gone_while_its_answer_was_read() -> None:
    """The loop of the product takes that for an error of the program, and the healing would end."""
    writer = Writer()

    async def give(each: Asked) -> tuple[bytes, bytes]:
        writer.abort()
        return piece(each.ask.end)

    async with asyncio.timeout(30):
        await PieceServer(give, seconds=60, connections_max=4).serve(reader_of(ASK), writer)  # type: ignore[arg-type]
    assert writer.frames == []


async def test_nothing_more_is_read_for_whoever_has_not_taken_what_it_asked_for() -> None:
    writer, asks, reader = Writer(), list[Asked](), reader_of(ASK, ASK, ASK)
    serving = asyncio.ensure_future(served(reader, writer, asks))
    for _ in range(20):
        await asyncio.sleep(0)
    assert (len(asks), len(writer.frames)) == (1, 1)
    writer.read.set()
    reader.feed_eof()
    await serving
    assert len(asks) == len(writer.frames) == 3


async def test_whoever_sends_a_byte_now_and_then_is_as_silent_as_who_sends_none() -> None:
    reader, sent = reader_of(HELLO_BYTES_MAX.to_bytes(4, "big")), 0

    async def drip() -> None:
        nonlocal sent
        while sent < HELLO_BYTES_MAX:
            reader.feed_data(b"x")
            sent += 1
            await asyncio.sleep(0)

    dripping = asyncio.ensure_future(drip())
    async with asyncio.timeout(30):
        await served(reader, Writer(), [], seconds=0.01)
    dripping.cancel()
    assert sent < HELLO_BYTES_MAX


async def test_whoever_does_not_take_what_it_asked_for_is_let_go() -> None:
    asks = list[Asked]()
    async with asyncio.timeout(30):
        await served(reader_of(ASK), Writer(), asks, seconds=0.01)
    assert len(asks) == 1


class Serving:
    """A server of pieces with room for two, and who has come to it."""

    def __init__(self) -> None:
        self.asks: list[Asked] = []
        self.may_give = asyncio.Event()
        self.server = PieceServer(self.give, seconds=60, connections_max=2)
        self.tasks: list[asyncio.Task[None]] = []

    async def give(self, each: Asked) -> tuple[bytes, bytes]:
        self.asks.append(each)
        await self.may_give.wait()
        return piece(each.ask.end)

    async def come(self, *frames: bytes) -> tuple[asyncio.StreamReader, Writer]:
        reader, writer = reader_of(*frames), Writer()
        writer.read.set()
        self.tasks.append(asyncio.ensure_future(self.server.serve(reader, writer)))  # type: ignore[arg-type]
        await self.rest()
        return reader, writer

    @staticmethod
    async def rest() -> None:
        for _ in range(20):
            await asyncio.sleep(0)

    async def end(self) -> None:
        for each in self.tasks:
            each.cancel()
        await asyncio.wait(self.tasks)


async def test_who_has_asked_for_nothing_for_longest_goes_when_one_more_comes() -> None:
    serving = Serving()
    serving.may_give.set()
    reader, asking = await serving.come()
    reader.feed_data(ASK)
    await serving.rest()
    silent = [(await serving.come())[1] for _ in range(4)]
    reader.feed_data(ASK)
    await serving.rest()
    assert [each.closed for each in (asking, *silent)] == [False, True, True, True, False]
    assert len(asking.frames) == 2
    later = (await serving.come(ASK))[1]
    assert [each.closed for each in (asking, silent[-1], later)] == [False, True, False]
    reader.feed_data(ASK)
    await serving.rest()
    await serving.come()
    assert [each.closed for each in (asking, later)] == [False, True]
    await serving.end()


async def test_nobody_who_waits_for_an_answer_goes_for_one_more() -> None:
    serving = Serving()
    waiting = [(await serving.come(ASK))[1] for _ in range(2)]
    late = (await serving.come(ASK))[1]
    assert [late.closed, *(each.closed for each in waiting)] == [True, False, False]
    serving.may_give.set()
    await serving.rest()
    assert [len(each.frames) for each in (late, *waiting)] == [0, 1, 1]
    assert not (await serving.come())[1].closed
    assert [each.closed for each in waiting] == [True, False]
    serving.server.close()
    assert waiting[1].closed
    await serving.end()


# ---- who asks


@asynccontextmanager
async def peer(*answers: bytes | None) -> AsyncIterator[tuple[PieceSource, list[asyncio.StreamWriter]]]:
    """Gives each connection its own answer as soon as it is asked; None: it waits; nothing: it is reset."""
    connections: list[asyncio.StreamWriter] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        answer = answers[len(connections)]
        connections.append(writer)
        await reader.read(1)
        if answer is not None:
            writer.write(answer)
        if answer == b"":
            end_with_reset(writer.transport)
            writer.transport.abort()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    source = PieceSource("a", server.sockets[0].getsockname()[:2], frame_bytes_max=1 << 20, seconds=30)
    try:
        yield source, connections
    finally:
        source.close()
        server.close()
        for writer in connections:
            writer.close()


async def test_an_answer_that_comes_too_late_is_none_to_the_next_question() -> None:
    async with peer(None, make_frame(*piece(2))) as (source, connections):
        source._seconds = 0.2
        with pytest.raises(PeerError, match="no answer within"):
            await source.ask(asked(1))
        source._seconds = 30
        while not connections:
            await asyncio.sleep(0)
        connections[0].write(make_frame(*piece(1)))
        assert await source.ask(asked(2)) == (Given(state=PieceState.WHOLE, end=2), b"xx")


async def test_an_answer_that_nobody_waits_for_any_more_is_none_to_the_next_question() -> None:
    async with peer(None, make_frame(*piece(2))) as (source, connections):
        asking = asyncio.ensure_future(source.ask(asked(1)))
        while not connections:
            await asyncio.sleep(0)
        asking.cancel()
        await asyncio.wait([asking])
        connections[0].write(make_frame(*piece(1)))
        assert await source.ask(asked(2)) == (Given(state=PieceState.WHOLE, end=2), b"xx")


@pytest.mark.parametrize("said", [b"HTTP/1.1 400 Bad Request\r\n\r\n", make_frame(b"\x07"), make_frame(b"\x02?"), b""])
async def test_whoever_answers_something_else_or_goes_is_asked_over_another_connection(said: bytes) -> None:
    async with peer(said, make_frame(*piece(2))) as (source, connections):
        with pytest.raises(PeerError):
            await source.ask(asked(1))
        assert await source.ask(asked(2)) == (Given(state=PieceState.WHOLE, end=2), b"xx")
        assert len(connections) == 2


@pytest.mark.parametrize("reset", [False, True])
async def test_whoever_has_let_go_of_a_silent_connection_is_asked_over_another_one(reset: bool) -> None:
    """So does every peer, seconds after its latest answer; the loop of the product takes a write to a connection that
    was reset for an error of the program, and the healing would end."""
    async with peer(make_frame(*piece(1)), make_frame(*piece(2))) as (source, connections):
        await source.ask(asked(1))
        assert source._open is not None
        reader = source._open[0]
        if reset:
            end_with_reset(connections[0].transport)
        connections[0].transport.abort()
        async with asyncio.timeout(30):
            while not reader.at_eof() and reader.exception() is None:
                await asyncio.sleep(0)
            while reset and not source._open[1].transport.is_closing():
                await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert await source.ask(asked(2)) == (Given(state=PieceState.WHOLE, end=2), b"xx")
        assert len(connections) == 2


async def test_a_host_that_can_be_none_is_a_peer_that_is_not_there() -> None:
    with pytest.raises(PeerError):
        await PieceSource("a", ("a" * 64 + ".b", 1), frame_bytes_max=1, seconds=10).ask(asked())


async def test_a_connection_that_is_let_go_is_closed() -> None:
    async with peer(make_frame(*piece(1))) as (source, connections):
        await source.ask(asked(1))
        source.close()
        source.close()
        async with asyncio.timeout(30):
            while not connections[0].transport.is_closing():
                connections[0].write(b"?")
                await asyncio.sleep(0)
