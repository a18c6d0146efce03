"""Who is refused on a real socket: both sides see why, both write it to the log, and nothing is sent between them."""

from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from socket import create_server

import pytest

from logherd.peers.frames import make_frame
from logherd.peers.hello import Hello, Refusal, RefusalCode, decode_hello, decode_refusal, encode_hello, encode_refusal
from logherd.peers.link import Link
from logherd.replication.messages import ClusterId
from unit.peers.fakes import CLUSTER, QUICK, Node, Wire, beat, hello_of, nodes, replica

FOUNDERS = (replica("a"), replica("b"))

UNEQUAL: dict[RefusalCode, Callable[[Hello], Hello]] = {
    RefusalCode.CLUSTER: lambda hello: replace(hello, cluster=ClusterId("c2")),
    RefusalCode.RESET: lambda hello: replace(hello, cluster=ClusterId(CLUSTER.name, 1)),
    RefusalCode.SEGMENT_BYTES: lambda hello: replace(hello, segment_bytes=4096),
    RefusalCode.MODE: lambda hello: replace(hello, about='{"mode":"static"}'),
    RefusalCode.FOUNDERS: lambda hello: replace(hello, founded=(replica("a", 9), replica("b"))),
}


@pytest.mark.parametrize("code", UNEQUAL)
async def test_unequal_nodes_refuse_each_other_and_say_why(code: RefusalCode) -> None:
    left = hello_of("a", founded=FOUNDERS, about='{"mode":"raft"}')
    async with nodes(left, UNEQUAL[code](hello_of("b", founded=FOUNDERS, about='{"mode":"raft"}'))) as (a, b):
        for node, other in ((a, "b"), (b, "a")):
            await node.until(lambda node=node, other=other: node.view(other).refused is not None)
            await node.until(lambda node=node: len(node.log.reasons("peer does not link")) >= 2)
            reasons = node.log.reasons("peer does not link")
            assert any(reason.startswith("refused by us: ") for reason in reasons)
            assert any(reason.startswith("refused by the peer: ") for reason in reasons)
            assert not node.links.send(beat(node.hello.sender[0], other))
            assert node.linked == []
            assert node.hellos == []


async def test_a_refusal_is_told_once_however_often_the_node_tries() -> None:
    node, strange = Node(hello_of("a")), Node(hello_of("z"))
    await node.start({"b": ("127.0.0.1", 1)})
    await strange.start({"a": node.address})
    try:
        tried: set[Link] = set()
        ended = node.links.ended
        node.links.ended = lambda link: (tried.add(link), ended(link))[1]  # type: ignore[method-assign]
        await node.until(lambda: len(tried) >= 4)
        assert len(node.log.reasons("peer does not link")) == 1
        assert len(strange.log.reasons("peer does not link")) == 1
    finally:
        await strange.stop()
        await node.stop()


async def test_a_node_that_is_corrected_is_linked_and_no_longer_called_refused() -> None:
    async with nodes(hello_of("a"), hello_of("b", segment_bytes=4096)) as (a, b):
        await a.until(lambda: a.view("b").refused is not None)
        b.hello = replace(b.hello, segment_bytes=a.hello.segment_bytes)
        await a.until(lambda: bool(a.linked) and bool(b.linked))
        assert a.view("b").refused is None


async def answer(hello: bytes, ours: Hello) -> tuple[Refusal, Node]:
    """What a node with a peer b answers to this hello."""
    node = Node(ours)
    await node.start({"b": ("127.0.0.1", 1)})
    try:
        wire = await Wire.dial(node.address)
        wire.send(make_frame(hello))
        refusal = decode_refusal(await wire.payload())
        assert await wire.ended()
        await node.until(lambda: bool(node.log.reasons("peer does not link")))
        return refusal, node
    finally:
        await node.stop()


@pytest.mark.parametrize(
    ("hello", "code", "sentence"),
    [
        (b"\x01\x00\x09later", RefusalCode.VERSION, "protocol version 9 is not spoken here, 1 is"),
        (b"\x01\x00\x01{}", RefusalCode.MALFORMED, "hello: Object missing required field `cluster`"),
        (encode_hello(hello_of("b", to="c")), RefusalCode.ADDRESSEE, "this is a, not 'c'"),
        (
            encode_hello(hello_of("a", incarnation=2, to="a", instance=1)),
            RefusalCode.SAME_NAME,
            "two nodes are called a",
        ),
        (encode_hello(hello_of("z", to="a")), RefusalCode.UNKNOWN_NODE, "no node is called z here, the others are b"),
        (encode_hello(hello_of("b", to="a", nodes=("b", "a"))), RefusalCode.NODES, "b, a there"),
    ],
)
async def test_whoever_does_not_belong_here_is_told_so(hello: bytes, code: RefusalCode, sentence: str) -> None:
    refusal, node = await answer(hello, hello_of("a", nodes=("a", "b")))
    assert refusal.code is code
    assert sentence in refusal.sentence
    assert node.log.reasons("peer does not link") == [f"refused by us: {refusal.sentence}"]
    assert node.hellos == []


async def test_a_node_that_dials_itself_says_so() -> None:
    node = Node(hello_of("a"))
    await node.start({"b": node.address})
    try:
        await node.until(lambda: node.view("b").refused is not None)
        assert "not 'b'" in str(node.view("b").refused) or "dialled itself" in str(node.view("b").refused)
    finally:
        await node.stop()


async def test_a_node_at_anothers_address_is_refused_by_the_dialler() -> None:
    with closing(create_server(("127.0.0.1", 0))) as listening:
        node = Node(hello_of("a"))
        await node.start({"b": listening.getsockname()[:2], "c": ("127.0.0.1", 1)})
        try:
            wire = await Wire.accept(listening)
            assert decode_hello(await wire.payload()) == replace(node.hello, to="b")
            await wire.say(hello_of("c", to="a"))
            refusal = decode_refusal(await wire.payload())
            assert refusal == Refusal(RefusalCode.ADDRESSEE, "b was dialled and c has answered")
            wire.close()
            assert node.linked == []
        finally:
            await node.stop()


async def test_a_refused_dialler_keeps_its_reason() -> None:
    with closing(create_server(("127.0.0.1", 0))) as listening:
        node = Node(hello_of("a"))
        await node.start({"b": listening.getsockname()[:2]})
        try:
            wire = await Wire.accept(listening)
            wire.send(make_frame(encode_refusal(Refusal(RefusalCode.CLUSTER, "other cluster\x1b[2J"))))
            await node.until(lambda: node.view("b").refused is not None)
            assert node.view("b").refused == "refused by the peer: other cluster\x1b[2J"
            assert node.log.reasons("peer does not link") == ["refused by the peer: other cluster\x1b[2J"]
            assert await wire.ended()
        finally:
            await node.stop()


async def test_a_second_process_with_a_copied_directory_is_refused_while_the_first_lives() -> None:
    async with nodes(hello_of("a"), hello_of("b", instance=1)) as (a, b):
        await a.until(lambda: bool(a.linked))
        copied = Node(hello_of("b", instance=2))
        await copied.start({"a": a.address})
        try:
            await copied.until(lambda: copied.view("a").refused is not None)
            assert "another process is connected as b" in str(copied.view("a").refused)
            assert any("another process is connected as b" in reason for reason in a.log.reasons("peer does not link"))
            assert copied.linked == []
            assert a.links.send(beat("a", "b"))
            await b.until(lambda: bool(b.heard))
            assert a.linked == [replica("b")]
            assert len({hello.instance for hello in a.hellos}) == 1
            await b.stop()
            await copied.until(lambda: copied.linked == [replica("a")])
        finally:
            await copied.stop()


async def test_when_the_first_process_has_gone_without_a_word_the_second_is_accepted_after_the_idle_time_out() -> None:
    node = Node(hello_of("a"))
    await node.start({"b": ("127.0.0.1", 1)})
    first = await Wire.dial(node.address)
    second = Node(hello_of("b", instance=2))
    try:
        await first.say(hello_of("b", to="a", instance=1))
        await node.until(lambda: len(node.hellos) == 1)
        await second.start({"a": node.address})
        await second.until(lambda: second.view("a").refused is not None)
        await second.until(lambda: bool(second.linked))
        # That it was not sooner, and for no other reason.
        assert node.log.reasons("peer link lost") == [f"silent for {QUICK.idle_ms} ms"]
    finally:
        await second.stop()
        first.close()
        await node.stop()


async def test_the_process_that_we_have_dialled_counts_as_living_too() -> None:
    with closing(create_server(("127.0.0.1", 0))) as listening:
        node = Node(hello_of("a"), options=replace(QUICK, idle_ms=60_000))
        await node.start({"b": listening.getsockname()[:2]})
        try:
            first = await Wire.accept(listening)
            await first.say(hello_of("b", to="a", instance=1))
            await node.until(lambda: bool(node.linked))
            second = await Wire.dial(node.address)
            await second.say(hello_of("b", to="a", instance=2))
            assert decode_refusal(await second.payload()).code is RefusalCode.TWIN
            first.close()
            second.close()
        finally:
            await node.stop()


async def test_an_earlier_link_of_a_process_ends_without_the_later_one() -> None:
    node = Node(hello_of("a"), options=replace(QUICK, idle_ms=60_000))
    await node.start({"b": ("127.0.0.1", 1)})
    try:
        older, newer = await Wire.dial(node.address), await Wire.dial(node.address)
        for wire in (older, newer):
            await wire.say(hello_of("b", to="a", instance=1))
            await wire.payload()
        assert await older.ended()
        await node.until(lambda: bool(node.unlinked))
        twin = await Wire.dial(node.address)
        await twin.say(hello_of("b", to="a", instance=2))
        assert decode_refusal(await twin.payload()).code is RefusalCode.TWIN, "the first one lives"
        assert node.view("b").heard_ms is not None
        newer.close()
        twin.close()
    finally:
        await node.stop()


@pytest.mark.parametrize(("incarnation", "instance"), [(1, 2), (2, 1)], ids=["another process", "another name"])
async def test_a_live_link_cannot_become_another_process(incarnation: int, instance: int) -> None:
    node = Node(hello_of("a"))
    await node.start({"b": ("127.0.0.1", 1)})
    try:
        wire = await Wire.dial(node.address)
        await wire.say(hello_of("b", to="a", instance=1))
        await wire.payload()
        await wire.say(hello_of("b", incarnation=incarnation, to="a", instance=instance))
        assert await wire.ended()
        await node.until(lambda: bool(node.log.reasons("peer link lost")))
        assert "on a connection of" in node.log.reasons("peer link lost")[0]
    finally:
        await node.stop()


async def test_a_link_ends_when_a_later_hello_is_refused() -> None:
    async with nodes(hello_of("a"), hello_of("b", founded=FOUNDERS)) as (a, b):
        await a.until(lambda: bool(a.linked))
        await b.until(lambda: bool(b.linked))
        a.hello = replace(a.hello, founded=(replica("a", 9), replica("b")))
        a.links.announce()
        await a.until(lambda: "the group was founded by" in str(a.view("b").refused))
        await a.until(lambda: not a.view("b").connected)


async def test_why_a_link_was_refused_is_shown_also_if_its_peer_does_not_come_again() -> None:
    node = Node(hello_of("a"))
    await node.start({"b": ("127.0.0.1", 1)})
    try:
        wire = await Wire.dial(node.address)
        hello = hello_of("b", to="a")
        await wire.say(hello)
        await wire.payload()
        view = node.view("b")
        assert (view.refused, view.bytes_in) == (None, len(make_frame(encode_hello(hello))))
        await wire.say(replace(hello, cluster=ClusterId("c2")))
        assert await wire.ended()
        await node.until(lambda: bool(node.unlinked))
        assert "refused by us" in str(node.view("b").refused)
    finally:
        await node.stop()
