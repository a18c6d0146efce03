"""Bytes that no peer sends, at a live port beside a good peer: the connection ends with a reason, and nothing else."""

import asyncio
import tracemalloc
from collections import Counter
from dataclasses import replace
from random import Random

import pytest
from msgspec.structs import replace as changed

from logherd.model.names import Epoch, Position
from logherd.peers.codec import encode_envelope
from logherd.peers.frames import make_frame
from logherd.peers.hello import HELLO_BYTES_MAX, Refusal, RefusalCode, encode_hello, encode_refusal
from logherd.peers.link import Link, Stage
from logherd.replication.messages import Envelope, Stale
from unit.peers.fakes import CLUSTER, QUICK, Node, Wire, beat, hello_of, nodes, replica
from unit.peers.test_codec import GOLDEN
from unit.peers.test_link import Wire as Transport

HELLO = make_frame(encode_hello(hello_of("b", to="a")))
ENVELOPE = make_frame(encode_envelope(beat("b", "a")))


async def reason_for(data: bytes, message: str = "peer link lost", *, greet: bool = False) -> str:
    node = Node(hello_of("a"))
    await node.start({"b": ("127.0.0.1", 1)})
    try:
        wire = await Wire.dial(node.address)
        if greet:
            wire.send(HELLO)
            await wire.payload()
        wire.send(data)
        assert await wire.ended()
        await node.until(lambda: bool(node.log.reasons(message)))
        return node.log.reasons(message)[0]
    finally:
        await node.stop()


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"GET / HTTP/1.1\r\nHost: a\r\n\r\n", "bytes that are no frame: a frame of 1195725856 bytes"),
        (bytes(8), "a frame of 0 bytes"),
        ((HELLO_BYTES_MAX + 1).to_bytes(4, "big") + bytes(4), f"a frame of {HELLO_BYTES_MAX + 1} bytes"),
        (HELLO[:-1] + b"!", "fails its checksum"),
        (ENVELOPE, "envelope: not at this point"),
        (make_frame(b"\x03"), "frame: of kind 3 and 1 bytes, not at this point"),
        (make_frame(b"\xee"), "of kind 238"),
        (make_frame(encode_refusal(Refusal(RefusalCode.TWIN, "go away"))), "refused by the peer: go away"),
        (make_frame(b"\x02"), "refusal: 1 bytes"),
        (make_frame(b"\x06{"), "asked: "),
        (make_frame(b'\x06{"x":' + b"[" * 16_000), "asked: maximum recursion depth exceeded"),
    ],
)
async def test_whoever_says_no_hello_is_cut_off(data: bytes, reason: str) -> None:
    assert reason in await reason_for(data, "peer does not link")


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (make_frame(b"\x04"), "of kind 4"),
        (make_frame(b"\x03x"), "of kind 3 and 2 bytes"),
        (make_frame(b"\x05"), "envelope: 1 bytes"),
        (make_frame(encode_envelope(beat("b", "a")) + b"x"), "heartbeat: 1 bytes are left over"),
        (make_frame(encode_envelope(beat("c", "a"))), "sender: c.0000000000000001 on a connection of b."),
        (make_frame(encode_envelope(changed(beat("b", "a"), sender=replica("b", 2)))), "sender: b.0000000000000002"),
        ((QUICK.frame_bytes_max + 1).to_bytes(4, "big") + bytes(4), f"1 to {QUICK.frame_bytes_max} are taken"),
    ],
)
async def test_a_peer_that_talks_nonsense_is_cut_off(data: bytes, reason: str) -> None:
    assert reason in await reason_for(data, greet=True)


async def test_what_came_before_the_nonsense_is_not_lost() -> None:
    node = Node(hello_of("a"))
    await node.start({"b": ("127.0.0.1", 1)})
    try:
        wire = await Wire.dial(node.address)
        wire.send(HELLO + ENVELOPE + ENVELOPE + bytes(8))
        assert await wire.ended()
        assert node.heard == [beat("b", "a")] * 2
    finally:
        await node.stop()


async def test_an_envelope_on_a_connection_that_we_have_dialled_is_refused() -> None:
    async with nodes(hello_of("a"), hello_of("b")) as (a, b):
        await a.until(lambda: bool(a.linked))
        accepted = b.links._peers["a"].accepted
        assert accepted is not None
        accepted.outgoing.send(make_frame(encode_envelope(beat("b", "a"))), bulk=False)
        await a.until(lambda: any("envelope: not at this point" in r for r in a.log.reasons("peer link lost")))
        assert a.heard == []


async def test_a_flood_of_silent_connections_does_not_keep_a_peer_out() -> None:
    node = Node(hello_of("a"), options=replace(QUICK, accepted_max=3, hello_ms=60_000))
    await node.start({"b": ("127.0.0.1", 1)})
    try:
        wires = [await Wire.dial(node.address) for _ in range(10)]
        await node.until(lambda: len(node.log.reasons("peer does not link")) == 7)
        assert set(node.log.reasons("peer does not link")) == {"too many connections without a hello"}
        peer = await Wire.dial(node.address)
        peer.send(HELLO)
        await peer.payload()
        wires += [await Wire.dial(node.address) for _ in range(10)]
        peer.send(ENVELOPE)
        await node.until(lambda: bool(node.heard))
        assert sum(link.dialled is None for link in node.links._links) <= 3
        for wire in (peer, *wires):
            wire.close()
    finally:
        await node.stop()


async def test_as_many_go_as_come_in_one_pass_of_the_loop() -> None:
    """Who goes is told so after that pass."""
    node = Node(hello_of("a"), options=replace(QUICK, accepted_max=3, hello_ms=60_000))
    await node.start({"b": ("127.0.0.1", 1)})
    made = [Link(node.links, dialled=None) for _ in range(10)]
    for link in made:
        link.connection_made(Transport(node.listening))
    stages = Counter(link.stage for link in made)
    for link in made:
        link.connection_lost(None)
    await node.stop()
    assert stages == {Stage.ENDED: 7, Stage.GREETING: 3}


async def test_more_peers_than_allowed_are_closed_at_once() -> None:
    node = Node(hello_of("a"), options=replace(QUICK, accepted_max=1))
    await node.start({"b": ("127.0.0.1", 1)})
    try:
        peer = await Wire.dial(node.address)
        peer.send(HELLO)
        await peer.payload()
        assert await (await Wire.dial(node.address)).ended()
        assert node.log.reasons("connection refused") == ["too many connections"]
        peer.close()
    finally:
        await node.stop()


def attack(draw: Random) -> bytes:
    """One connection's worth of hostility: often a good beginning, then anything."""
    parts = [HELLO] if draw.random() < 0.6 else []
    for _ in range(draw.randrange(1, 6)):
        kind = draw.randrange(6)
        if kind == 0:
            parts.append(draw.randbytes(draw.randrange(1, 200)))
        elif kind == 1:
            parts.append(make_frame(draw.randbytes(draw.randrange(1, 200))))
        elif kind == 2:
            body, _, _ = draw.choice(GOLDEN)
            payload = bytearray(encode_envelope(Envelope(CLUSTER, replica("b"), replica("a"), Epoch(1), body)))
            payload[draw.randrange(len(payload))] ^= 1 << draw.randrange(8)
            parts.append(make_frame(bytes(payload)))
        elif kind == 3:
            parts.append(
                make_frame(
                    encode_hello(hello_of(draw.choice("abcz"), to=draw.choice("abcz"), instance=draw.randrange(9)))
                )
            )
        elif kind == 4:
            parts.append(draw.randrange(1 << 32).to_bytes(4, "big") + draw.randbytes(draw.randrange(300)))
        else:
            parts.append(make_frame(encode_envelope(beat("b", "a", draw.randrange(1 << 40)))))
    data = b"".join(parts)
    return data[: draw.randrange(len(data) + 1)] if draw.random() < 0.3 else data


@pytest.mark.parametrize("seed", range(4))
async def test_a_good_peer_notices_nothing_of_three_hundred_hostile_connections(seed: int) -> None:
    draw = Random(seed)
    options = replace(QUICK, hello_ms=200, idle_ms=2_000, accepted_max=400)
    async with nodes(hello_of("a"), hello_of("c"), options=options) as (a, c):
        a.links._peers["b"] = type(a.links._peers["c"])("b", ("127.0.0.1", 1))
        await c.until(lambda: bool(c.linked))
        sent = 0
        tracemalloc.start()
        try:
            before, _ = tracemalloc.get_traced_memory()
            for _ in range(30):
                wires = [await Wire.dial(a.address) for _ in range(10)]
                for wire in wires:
                    data = attack(draw)
                    cut = draw.randrange(len(data) + 1)
                    wire.send(data[:cut])
                    await asyncio.sleep(0)
                    wire.send(data[cut:])
                    sent += 1
                    assert c.links.send(beat("c", "a", sent))
                await asyncio.sleep(0)
                for wire in wires:
                    wire.close()
            await a.until(lambda: sum(envelope.sender == replica("c") for envelope in a.heard) == sent)
            await a.until(lambda: all(link.name in ("c", None) for link in a.links._links))
            after, _ = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert after - before < 16 << 20
        good = [envelope for envelope in a.heard if envelope.sender == replica("c")]
        assert good == [beat("c", "a", number) for number in range(1, sent + 1)]
        assert c.linked == [replica("a")]
        assert {envelope.sender for envelope in a.heard} <= {replica("b"), replica("c")}
        assert a.linked == [replica("c")]


async def test_half_a_frame_that_is_held_costs_only_what_came() -> None:
    node = Node(hello_of("a"), options=replace(QUICK, frame_bytes_max=64 << 20))
    await node.start({"b": ("127.0.0.1", 1)})
    try:
        wire = await Wire.dial(node.address)
        tracemalloc.start()
        try:
            wire.send(HELLO)
            await wire.payload()
            wire.send((64 << 20).to_bytes(4, "big") + bytes(100))
            await node.until(lambda: "silent" in str(node.log.reasons("peer link lost")))
            assert tracemalloc.get_traced_memory()[1] < 1 << 20
        finally:
            tracemalloc.stop()
        assert await wire.ended()
    finally:
        await node.stop()


def test_the_envelopes_of_the_attack_are_well_formed() -> None:
    whole = Envelope(CLUSTER, replica("b"), replica("a"), Epoch(1), Stale())
    assert encode_envelope(whole)
    assert Position(0) == 0
