"""Pieces of the log for a replica that mends damage: asked for without a hello, over the port of the peers."""

import asyncio
import socket
from dataclasses import replace

import pytest

from logherd.peers.errors import CodecError, PeerError
from logherd.peers.frames import make_frame
from logherd.peers.hello import encode_hello
from logherd.peers.link import Stage
from logherd.peers.pieces import (
    Asked,
    Given,
    PieceServer,
    PieceSource,
    decode_ask,
    decode_piece,
    encode_ask,
    encode_piece,
)
from logherd.store.mending import Neighbour
from logherd.store.pieces import PieceAsk, PieceState
from unit.peers.fakes import QUICK, Node, Wire, hello_of

ASKED = Asked(
    cluster="c/g", broker="2", ask=PieceAsk(start=100, end=300, before=Neighbour(start=0, end=100, checksum=7))
)


def source(address: tuple[str, int], seconds: float = 10.0) -> PieceSource:
    return PieceSource("a", address, frame_bytes_max=1 << 20, seconds=seconds)


class Giver(Node):
    """A node that gives what is asked for: as many bytes as the range is long."""

    def __init__(self, *, gives: bool = True) -> None:
        super().__init__(hello_of("a"), options=replace(QUICK, hello_ms=60_000))
        self.asked: list[Asked] = []
        self.gives = gives
        self.may_give = asyncio.Event()
        self.may_give.set()

    async def give(self, asked: Asked) -> tuple[bytes, bytes] | None:
        self.asked.append(asked)
        await self.may_give.wait()
        if not self.gives:
            return None
        size = asked.ask.end - asked.ask.start
        return encode_piece(Given(state=PieceState.WHOLE, end=asked.ask.end, leads=True)), b"x" * size


def test_both_messages_are_read_as_they_were_written() -> None:
    assert decode_ask(encode_ask(ASKED)) == ASKED
    given = Given(state=PieceState.NOT_YET)
    assert decode_piece(encode_piece(given) + b"bytes") == (given, b"bytes")
    for garbage in (b"", b"\x07", b"\x07\xff\xff{}", b"\x06\x00\x02{}", b"\x07\x00\x02{]"):
        with pytest.raises(CodecError):
            decode_piece(garbage)
    for garbage in (b"\x06", b"\x06{", b'\x06{"cluster":1}', b"\x06\xff"):
        with pytest.raises(CodecError):
            decode_ask(garbage)


async def test_one_connection_serves_many_questions_and_no_hello_is_missed() -> None:
    node = Giver()
    await node.start({}, on_asked=node.give)
    peer = source(node.address)
    try:
        for size in (1, 100_000, 200):
            asked = Asked(cluster="c/g", broker="2", ask=PieceAsk(start=100, end=100 + size))
            assert await peer.ask(asked) == (
                Given(state=PieceState.WHOLE, end=100 + size, leads=True), b"x" * size,
            )  # fmt: skip
        assert len(node.asked) == 3
        peer.close()
        await node.until(lambda: not node.links._links)
        assert node.log.reasons("peer does not link") == []
    finally:
        peer.close()
        await node.stop()


async def test_whoever_has_said_hello_does_not_ask_for_pieces() -> None:
    node = Giver()
    await node.start({"b": ("127.0.0.1", 1)}, on_asked=node.give)
    try:
        wire = await Wire.dial(node.address)
        wire.send(make_frame(encode_hello(hello_of("b", to="a"))))
        await wire.payload()
        wire.send(make_frame(encode_ask(ASKED)))
        assert await wire.ended()
        assert node.asked == []
    finally:
        await node.stop()


async def test_who_gives_nothing_ends_the_connection_and_it_is_tried_again() -> None:
    node = Giver(gives=False)
    await node.start({}, on_asked=node.give)
    peer = source(node.address)
    try:
        with pytest.raises(PeerError, match="closed the connection"):
            await peer.ask(ASKED)
        node.gives = True
        given, data = await peer.ask(ASKED)
        assert (given.state, len(data)) == (PieceState.WHOLE, 200)
    finally:
        peer.close()
        await node.stop()


async def test_who_is_not_there_or_silent_is_told_from_who_answers() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        address = listening.getsockname()[:2]
        with pytest.raises(PeerError, match="no answer within"):
            await source(address, seconds=0.05).ask(ASKED)
    with pytest.raises(PeerError):
        await source(address).ask(ASKED)


async def test_who_has_no_links_gives_pieces_and_hears_nothing_else() -> None:
    giver = Giver()
    serving = PieceServer(giver.give, seconds=10, connections_max=4)
    server = await asyncio.start_server(serving.serve, "127.0.0.1", 0)
    address = server.sockets[0].getsockname()[:2]
    peer = source(address)
    try:
        for size in (200_000, 7):
            asked = Asked(cluster="c/g", broker="2", ask=PieceAsk(start=100, end=100 + size))
            given, data = await peer.ask(asked)
            assert (given.end, len(data)) == (100 + size, size)
        for other in (make_frame(encode_hello(hello_of("b", to="a"))), b"GET / HTTP/1.1\r\n\r\n", make_frame(b"\x06{")):
            wire = await Wire.dial(address)
            wire.send(other)
            assert await wire.ended()
        assert len(giver.asked) == 2
        giver.gives = False
        with pytest.raises(PeerError, match="closed the connection"):
            await peer.ask(ASKED)
    finally:
        peer.close()
        server.close()
        giver.listening.close()


async def test_one_piece_is_read_at_a_time_and_whoever_has_gone_waits_for_none() -> None:
    node = Giver()
    node.may_give.clear()
    await node.start({}, on_asked=node.give)
    try:
        asks = [
            Asked(cluster="c/g", broker=str(number), ask=PieceAsk(start=100, end=100 + number)) for number in (1, 2, 3)
        ]
        wires = []
        for number, asked in enumerate(asks, 1):
            wires.append(await Wire.dial(node.address))
            wires[-1].send(make_frame(encode_ask(asked)))
            while sum(link.stage is Stage.ASKING for link in node.links._links) < number:
                await asyncio.sleep(0)
        assert node.asked == asks[:1]
        wires[1].close()
        await node.until(lambda: len(node.links._links) == 2)
        node.may_give.set()
        for wire, size in ((wires[0], 1), (wires[2], 3)):
            assert len(decode_piece(await wire.payload())[1]) == size
        assert node.asked == [asks[0], asks[2]]
        assert not node.links._work.asks
        for wire in wires:
            wire.close()
    finally:
        await node.stop()


@pytest.mark.parametrize(
    "more", [encode_ask(ASKED), encode_hello(hello_of("b", to="a")), b"\x03", b"\x05", b"\x07\x00\x02{}"]
)
@pytest.mark.parametrize("at_once", [True, False])
async def test_whoever_asks_waits_for_the_answer_before_it_says_more(more: bytes, at_once: bool) -> None:
    node = Giver()
    node.may_give.clear()
    await node.start({"b": ("127.0.0.1", 1)}, on_asked=node.give)
    try:
        wire = await Wire.dial(node.address)
        if at_once:
            wire.send(make_frame(encode_ask(ASKED)) + make_frame(more))
        else:
            wire.send(make_frame(encode_ask(ASKED)))
            await node.until(lambda: bool(node.asked))
            wire.send(make_frame(more))
        assert await wire.ended()
        node.may_give.set()
        await node.until(lambda: not node.links._links)
        assert node.hellos == []
    finally:
        await node.stop()


async def test_a_disk_that_takes_longer_than_a_hello_ends_no_connection() -> None:
    node = Giver()
    node.may_give.clear()
    await node.start({}, on_asked=node.give)
    try:
        wire = await Wire.dial(node.address)
        wire.send(make_frame(encode_ask(ASKED)))
        await node.until(lambda: bool(node.asked))
        (link,) = node.links._links
        link.sweep(node.links.now() + 3600)
        link.clocks.opened -= 3600
        node.may_give.set()
        assert len(decode_piece(await wire.payload())[1]) == 200
        link.sweep(node.links.now())
        assert link.stage is Stage.GREETING, "the next question may take as long as a hello"
        link.sweep(link.clocks.opened + node.options.hello_ms / 1000)
        assert await wire.ended()
    finally:
        await node.stop()


async def test_whoever_asks_and_does_not_read_is_cut_off() -> None:
    node = Giver()
    await node.start({}, on_asked=node.give)
    try:
        wire = await Wire.dial(node.address)
        await node.until(lambda: bool(node.links._links))
        (link,) = node.links._links
        asked = Asked(cluster="c/g", broker="2", ask=PieceAsk(start=0, end=1 << 20))
        while link.stage is not Stage.ENDED:
            wire.send(make_frame(encode_ask(asked)))
            wanted = len(node.asked) + 1
            await node.until(lambda: len(node.asked) == wanted and link.stage is not Stage.ASKING)  # noqa: B023
        assert link.reason == "it does not read what it has asked for"
        assert len(node.asked) < 20
        wire.close()
    finally:
        await node.stop()


async def test_a_broker_that_stops_while_a_piece_is_read_stops() -> None:
    node = Giver()
    node.may_give.clear()
    await node.start({}, on_asked=node.give)
    wire = await Wire.dial(node.address)
    wire.send(make_frame(encode_ask(ASKED)))
    await node.until(lambda: bool(node.asked))
    await node.stop()
    assert await wire.ended()
