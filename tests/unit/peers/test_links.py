"""Links on real sockets of the loopback: messages, reconnects, silence, back-pressure, stop."""

import asyncio
import socket
from contextlib import closing
from dataclasses import replace

import pytest
from msgspec import structs

from logherd.model.names import Epoch, Position
from logherd.peers import links as links_module
from logherd.peers.codec import encode_envelope
from logherd.peers.frames import make_frame
from logherd.peers.hello import decode_hello
from logherd.peers.link import Link
from logherd.peers.links import PeerLinks
from logherd.raft.messages import Doubtful
from logherd.replication.epochs import Point, Run
from logherd.replication.log import Span
from logherd.replication.messages import Append, Envelope, HeartbeatAck
from unit.peers.fakes import CLUSTER, QUICK, Node, Wire, beat, hello_of, nodes, replica

MIB = 1 << 20


def append(source: str, target: str, size: int, generation: int = 1) -> Envelope:
    start = Point(Epoch(1), Position(10))
    span = Span(start, Position(10 + size), (Run(Epoch(1), Position(10)),), b"x" * size)
    return Envelope(CLUSTER, replica(source), replica(target), Epoch(1), Append(generation, span, Position(0)))


async def test_every_node_is_linked_with_every_other_one_and_messages_arrive_in_order() -> None:
    async with nodes(hello_of("a"), hello_of("b"), hello_of("c")) as (a, b, c):
        for node, others in ((a, "bc"), (b, "ac"), (c, "ab")):
            await node.until(lambda node=node: len(node.linked) == 2)
            assert sorted(node.linked) == [replica(name) for name in others]
            assert {view.identity for view in node.links.views()} == set(node.linked)
        for number in range(100):
            assert a.links.send(beat("a", "b", number))
        await b.until(lambda: len(b.heard) == 100)
        assert b.heard == [beat("a", "b", number) for number in range(100)]
        assert c.heard == []
        assert a.view("b").messages_out == b.view("a").messages_in == 100


async def test_what_is_sent_in_one_pass_arrives_as_one_write() -> None:
    async with nodes(hello_of("a"), hello_of("b")) as (a, b):
        await a.until(lambda: bool(a.linked))
        for number in range(50):
            a.links.send(beat("a", "b", number))
        await b.until(lambda: len(b.heard) == 50)
        assert b.batches == [50]


async def test_what_is_written_before_the_end_of_a_pass_is_not_written_again() -> None:
    async with nodes(hello_of("a"), hello_of("b")) as (a, b):
        await a.until(lambda: bool(a.linked))
        for number in range(4):
            a.links.send(beat("a", "b", number))
            a.links.flush()
        await b.until(lambda: len(b.heard) == 4)
        assert b.heard == [beat("a", "b", number) for number in range(4)]


async def test_a_hello_is_heard_before_the_link_and_in_both_directions() -> None:
    async with nodes(hello_of("a"), hello_of("b")) as (a, b):
        for node, other in ((a, "b"), (b, "a")):
            await node.until(lambda node=node: len(node.hellos) == 2 and len(node.linked) == 1)
            assert {hello.sender for hello in node.hellos} == {replica(other)}


async def test_large_messages_arrive_whole() -> None:
    async with nodes(hello_of("a"), hello_of("b")) as (a, b):
        await a.until(lambda: bool(a.linked))
        sent = [append("a", "b", size, generation) for generation, size in enumerate((1, 65_536, MIB, 7, MIB))]
        assert all(a.links.send(envelope) for envelope in sent)
        await b.until(lambda: len(b.heard) == len(sent))
        assert b.heard == sent


async def test_who_is_of_the_first_release_gets_what_that_understands() -> None:
    async with nodes(hello_of("a"), hello_of("b", revision=1), hello_of("c")) as (a, b, c):
        await a.until(lambda: len(a.linked) == 2)
        for node, outline in ((b, b"uvw"), (c, b"")):
            plain = append("a", node.hello.sender[0], 9)
            assert isinstance(plain.body, Append)
            span = structs.replace(plain.body.span, outline=b"uvw")
            assert a.links.send(structs.replace(plain, body=structs.replace(plain.body, span=span)))
            short = HeartbeatAck(7, Position(9), short=True)
            assert a.links.send(structs.replace(plain, body=short))
            await node.until(lambda node=node: len(node.heard) == 2)
            answer, heard = sorted((each.body for each in node.heard), key=lambda body: isinstance(body, Append))
            assert isinstance(heard, Append)
            assert (bytes(heard.span.outline), bytes(heard.span.data)) == (outline, b"x" * 9)
            assert answer == (short if outline else HeartbeatAck(7, Position(9)))
            assert a.links.send(structs.replace(plain, body=Doubtful(5, short)))
            await node.until(lambda node=node: len(node.heard) == 3)
            assert node.heard[2].body == Doubtful(5, answer), "also of who is in doubt"


async def test_nothing_is_sent_without_a_link_to_exactly_that_replica() -> None:
    async with nodes(hello_of("a"), hello_of("b")) as (a, b):
        assert not a.links.send(beat("a", "b"))
        assert not a.links.send(beat("a", "nobody"))
        await a.until(lambda: bool(a.linked))
        other_life = structs.replace(beat("a", "b"), to=replica("b", 2))
        assert not a.links.send(other_life)
        assert not a.links.send(structs.replace(beat("a", "b"), body=object()))
        assert not a.links.send(beat("a", "b", -1))
        assert a.links.send(beat("a", "b", 7))
        await b.until(lambda: bool(b.heard))
        assert b.heard == [beat("a", "b", 7)]
        assert a.view("b").dropped == 4


async def test_a_changed_hello_reaches_those_who_are_connected() -> None:
    founders = (replica("a"), replica("b"))
    async with nodes(hello_of("a"), hello_of("b")) as (a, b):
        await a.until(lambda: bool(a.linked))
        a.hello = replace(a.hello, founded=founders)
        a.links.announce()
        await b.until(lambda: b.hellos[-1].founded == founders)
        assert a.links.send(beat("a", "b"))
        await b.until(lambda: bool(b.heard))
        assert len(a.linked) == 1


async def test_a_hello_that_changes_while_the_answer_is_on_its_way_is_said_again() -> None:
    founders = (replica("a"), replica("b"))
    with closing(socket.create_server(("127.0.0.1", 0))) as listening:
        node = Node(hello_of("a"))
        await node.start({"b": listening.getsockname()[:2]})
        try:
            wire = await Wire.accept(listening)
            assert decode_hello(await wire.payload()) == replace(node.hello, to="b")
            node.hello = replace(node.hello, founded=founders)
            node.links.announce()
            assert decode_hello(await wire.payload()) == replace(node.hello, to="b")
            await wire.say(hello_of("b", to="a"))
            await node.until(lambda: node.linked == [replica("b")])
            wire.close()
        finally:
            await node.stop()


async def test_small_messages_leave_at_once_and_the_kernel_holds_little() -> None:
    async with nodes(hello_of("a"), hello_of("b")) as (a, _):
        await a.until(lambda: bool(a.linked))
        for link in a.links._links:
            wire = link.outgoing._transport.get_extra_info("socket")
            tcp = socket.IPPROTO_TCP
            assert wire.getsockopt(tcp, socket.TCP_NODELAY)
            assert wire.getsockopt(tcp, socket.TCP_NOTSENT_LOWAT) == QUICK.buffer_bytes
            assert wire.getsockopt(tcp, socket.TCP_USER_TIMEOUT) == QUICK.idle_ms
            assert wire.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)


async def test_a_restarted_peer_is_linked_again() -> None:
    async with nodes(hello_of("a"), hello_of("b")) as (a, b):
        await a.until(lambda: bool(a.linked))
        await b.stop()
        await a.until(lambda: not a.view("b").connected)
        assert not a.links.send(beat("a", "b"))
        again = Node(hello_of("b", incarnation=2, instance=77))
        again.listening.close()
        again.listening = socket.create_server(b.address)
        await again.start({"a": a.address})
        try:
            await a.until(lambda: a.linked == [replica("b"), replica("b", 2)])
            assert not a.links.send(beat("a", "b")), "the former one is not there"
            assert a.links.send(structs.replace(beat("a", "b"), to=replica("b", 2)))
            await again.until(lambda: bool(again.heard))
        finally:
            await again.stop()


async def test_a_broken_connection_is_dialled_again() -> None:
    async with nodes(hello_of("a"), hello_of("b")) as (a, b):
        await a.until(lambda: bool(a.linked))
        for link in tuple(b.links._links):
            link.end("cut by the test")
        await a.until(lambda: len(a.linked) == 2)
        assert a.links.send(beat("a", "b"))
        await b.until(lambda: bool(b.heard))


@pytest.mark.parametrize("dialled", [False, True])
async def test_that_a_replica_is_not_linked_any_more_is_told_whichever_direction_broke(dialled: bool) -> None:
    never_silent = replace(QUICK, hello_ms=60_000, idle_ms=60_000)  # nothing but the test cuts a link
    async with nodes(hello_of("a"), hello_of("b"), options=never_silent) as (a, b):
        await a.until(lambda: all(len(node.links._links) == 2 and node.linked for node in (a, b)))
        [link] = [each for each in a.links._links if (each.dialled is not None) is dialled]
        assert (a.unlinked, b.unlinked) == ([], [])
        link.end("cut by the test")
        await a.until(lambda: bool(a.unlinked and b.unlinked))
        assert (a.unlinked, b.unlinked) == ([replica("b")], [replica("a")])
        await a.until(lambda: len((a if dialled else b).linked) == 2)


async def test_who_goes_by_another_identity_says_nothing_more_as_the_former_one() -> None:
    """What the former one had acknowledged is not in this one's log."""
    async with nodes(hello_of("a"), hello_of("b")) as (a, b):
        await a.until(lambda: all(len(node.links._links) == 2 and node.linked for node in (a, b)))
        a.hello = hello_of("a", incarnation=2)
        a.links.renew("its log began anew")
        assert not a.links.send(beat("a", "b"))
        await b.until(lambda: b.linked == [replica("a"), replica("a", 2)])
        await a.until(lambda: a.linked == [replica("b")] * 2)
        assert not b.links.send(beat("b", "a")), "whom the former one was promised it to"
        assert a.links.send(structs.replace(beat("a", "b"), sender=replica("a", 2)))
        await b.until(lambda: bool(b.heard))
        assert {envelope.sender for envelope in b.heard} == {replica("a", 2)}
        assert set(a.log.reasons("peer link lost")) == {"its log began anew"}


async def test_a_link_without_messages_is_kept_alive() -> None:
    async with nodes(hello_of("a"), hello_of("b")) as (a, _):
        await a.until(lambda: bool(a.linked))
        await a.until(lambda: (a.view("b").since_ms or 0) > 4 * QUICK.idle_ms)
        assert a.linked == [replica("b")]
        assert (a.view("b").heard_ms or 0) < QUICK.idle_ms


async def test_a_peer_that_falls_silent_is_given_up_and_dialled_again() -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as mute:
        node = Node(hello_of("a"))
        await node.start({"b": mute.getsockname()[:2]})
        try:
            first = await Wire.accept(mute)
            await first.say(hello_of("b", to="a"))
            await node.until(lambda: node.view("b").connected)
            await node.until(lambda: not node.view("b").connected)
            assert node.log.reasons("peer link lost") == [f"silent for {QUICK.idle_ms} ms"]
            second = await Wire.accept(mute)
            first.close()
            second.close()
        finally:
            await node.stop()


async def test_a_peer_that_says_no_hello_is_given_up() -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as mute:
        node = Node(hello_of("a"))
        await node.start({"b": mute.getsockname()[:2]})
        try:
            await node.until(lambda: bool(node.log.reasons("peer does not link")))
            assert node.log.reasons("peer does not link")[0] == f"no hello within {QUICK.hello_ms} ms"
            wire = await Wire.dial(node.address)
            assert await wire.ended()
            assert not node.view("b").connected
        finally:
            await node.stop()


async def test_an_address_that_is_wrong_is_told_once_and_tried_again() -> None:
    node = Node(hello_of("a"))
    with closing(socket.create_server(("127.0.0.1", 0))) as listening:
        nobody = listening.getsockname()[:2]
    await node.start({"b": nobody, "c": ("x" * 70 + ".invalid", 1)})
    try:
        await node.until(lambda: len(node.log.reasons("peer not reached")) >= 2)
        with closing(socket.create_server(nobody)) as listening:
            wire = await Wire.accept(listening)
            await wire.say(hello_of("b", to="a"))
            await node.until(lambda: node.linked == [replica("b")])
            wire.close()
        told = [fields["peer"] for _, message, fields in node.log.lines if message == "peer not reached"]
        assert told.count("c") == 1
    finally:
        await node.stop()


async def test_a_peer_that_never_reads_costs_bounded_memory_and_hurts_nobody() -> None:
    options = replace(QUICK, idle_ms=60_000)
    with closing(socket.create_server(("127.0.0.1", 0))) as deaf:
        b = Node(hello_of("b"), options=options)
        a = Node(hello_of("a"), options=options)
        await b.start({"a": a.address})
        await a.start({"b": b.address, "deaf": deaf.getsockname()[:2]})
        try:
            wire = await Wire.accept(deaf)
            await wire.say(hello_of("deaf", to="a"))
            await a.until(lambda: len(a.linked) == 2)
            sent = dropped = 0
            for _ in range(100):
                for _ in range(4):
                    if a.links.send(append("a", "deaf", MIB)):
                        sent += 1
                    else:
                        dropped += 1
                a.links.send(beat("a", "deaf"))
                await asyncio.sleep(0)
            assert dropped > 300
            dialled = a.links._peers["deaf"].dialled
            assert dialled is not None
            link = dialled.outgoing
            assert link.unsent <= options.unsent_bytes_max + options.unsent_urgent_bytes_max + 2 * MIB
            for number in range(20_000):
                a.links.send(beat("a", "deaf", number))
            assert link.unsent <= options.unsent_bytes_max + options.unsent_urgent_bytes_max + 2 * MIB
            for number in range(10):
                assert a.links.send(beat("a", "b", number))
            await b.until(lambda: len(b.heard) == 10)
            assert a.view("deaf").dropped >= dropped
            wire.close()
        finally:
            await a.stop()
            await b.stop()


async def test_a_heartbeat_overtakes_the_megabytes_that_wait() -> None:
    options = replace(QUICK, idle_ms=60_000)
    with closing(socket.create_server(("127.0.0.1", 0))) as slow:
        slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 64 * 1024)
        a = Node(hello_of("a"), options=options)
        await a.start({"b": slow.getsockname()[:2]})
        try:
            wire = await Wire.accept(slow)
            await wire.say(hello_of("b", to="a"))
            await a.until(lambda: bool(a.linked))
            queued = 0
            while a.links.send(append("a", "b", MIB // 4)):
                queued += 1
                await asyncio.sleep(0)
            assert queued >= 16
            assert a.links.send(beat("a", "b", 99))
            before = 0
            while True:
                payload = await wire.payload()
                if payload[0] == 5 and encode_envelope(beat("a", "b", 99)) == payload:
                    break
                before += len(payload)
            assert before < 2 * MIB < queued * MIB // 4
            wire.close()
        finally:
            await a.stop()


async def test_a_stop_ends_everything_and_nothing_is_handed_on_after_it() -> None:
    async with nodes(hello_of("a"), hello_of("b")) as (a, b):
        await a.until(lambda: bool(a.linked))
        await b.until(lambda: bool(b.linked))
        stopping = asyncio.ensure_future(b.links.stop())
        await asyncio.sleep(0)
        a.links.send(beat("a", "b"))
        await stopping
        await b.links.stop()
        assert b.heard == []
        assert not b.links._links
        assert not b.links.send(beat("b", "a"))
        assert all(task.done() for task in b.links._work.tasks)
        await a.until(lambda: not a.view("b").connected)


async def test_whoever_comes_while_it_stops_is_not_taken() -> None:
    node = Node(hello_of("a"))
    await node.start({"b": ("127.0.0.1", 1)})
    known = set(node.links._links)
    node.links._work.stopping = True
    link = Link(node.links, dialled=None)
    assert not node.links.made(link)
    link.hello = hello_of("b", to="a")
    node.links.greeted(link, first=True)
    assert (node.links._links, node.hellos, node.view("b").identity) == (known, [], None)
    await node.stop()


async def test_a_stop_closes_what_is_linked_and_waits_for_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(links_module, "_STOP_SECONDS", 60)
    async with nodes(hello_of("a"), hello_of("b"), options=replace(QUICK, idle_ms=60_000)) as (a, b):
        await a.until(lambda: bool(a.linked) and bool(b.linked))
        async with asyncio.timeout(10):
            await a.links.stop()


def refuse_strangers(node: Node, count: int) -> None:
    """So many come, each by another name, and go."""
    for number in range(count):
        stranger = Link(node.links, dialled=None)
        stranger.claimed, stranger.reason = f"x{number}.0000000000000001", "no node is called so"
        node.links.ended(stranger)


async def test_the_names_that_strangers_give_themselves_take_little_memory() -> None:
    node = Node(hello_of("a"))
    await node.start({"b": ("127.0.0.1", 1)})
    refuse_strangers(node, 1_000)
    assert len(node.links._strangers) == 64
    await node.stop()


async def test_a_stop_tells_of_how_many_lines_were_left_out() -> None:
    node = Node(hello_of("a"))
    await node.start({"b": ("127.0.0.1", 1)})
    refuse_strangers(node, 30)
    await node.stop()
    told = [fields for _, message, fields in node.log.lines if message == "peer does not link"]
    left_out = [fields["left_out"] for fields in told if "left_out" in fields]
    assert left_out == [20]
    await node.links.stop()
    assert node.log.lines[-1][2] is told[-1], "and once only"


async def test_a_stop_does_not_wait_for_a_peer_that_does_not_read() -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as deaf:
        a = Node(hello_of("a"), options=replace(QUICK, idle_ms=60_000))
        await a.start({"deaf": deaf.getsockname()[:2]})
        wire = await Wire.accept(deaf)
        await wire.say(hello_of("deaf", to="a"))
        await a.until(lambda: bool(a.linked))
        while a.links.send(append("a", "deaf", MIB)):
            await asyncio.sleep(0)
        async with asyncio.timeout(5):
            await a.stop()
        assert not a.links._links
        wire.close()


async def test_our_own_long_pause_is_not_blamed_on_the_peers() -> None:
    async with nodes(hello_of("a"), hello_of("b")) as (a, _):
        await a.until(lambda: bool(a.linked))
        for link in a.links._links:
            link.clocks.heard -= 10
            link.outgoing.moved -= 10
        handle, _ = a.links._work.sweep or (None, 0.0)
        assert handle is not None
        handle.cancel()
        a.links._work.sweep = handle, asyncio.get_running_loop().time() - 10
        a.links._sweep()
        await a.until(lambda: (a.view("b").since_ms or 0) > 2 * QUICK.idle_ms)
        assert a.linked == [replica("b")]


async def test_what_came_after_our_own_pause_is_not_moved_into_the_future() -> None:
    async with nodes(hello_of("a"), hello_of("b")) as (a, _):
        await a.until(lambda: bool(a.linked))
        handle, _ = a.links._work.sweep or (None, 0.0)
        assert handle is not None
        handle.cancel()
        now = asyncio.get_running_loop().time()
        for link in a.links._links:
            link.clocks.heard = now  # read in the pass that sweeps, and before it
        a.links._work.sweep = handle, now - 10
        a.links._sweep()
        now = asyncio.get_running_loop().time()
        assert all(max(link.clocks.heard, link.clocks.opened) <= now for link in a.links._links)
        assert (a.view("b").heard_ms or 0) >= 0


async def test_the_own_name_among_the_peers_is_left_out() -> None:
    known = {"a": ("127.0.0.1", 1), "b": ("127.0.0.1", 1)}
    links = PeerLinks(
        lambda: hello_of("a"), known, on_envelopes=lambda _: None, on_linked=lambda _: None, on_hello=lambda _: None
    )
    assert [view.name for view in links.views()] == ["b"]
    await links.stop()


async def test_a_later_link_of_the_same_process_takes_the_place_of_the_earlier() -> None:
    node = Node(hello_of("a"))
    await node.start({"b": ("127.0.0.1", 1)})
    try:
        older, newer = await Wire.dial(node.address), await Wire.dial(node.address)
        await older.say(hello_of("b", to="a"))
        await older.payload()
        await newer.say(hello_of("b", to="a"))
        await newer.payload()
        assert await older.ended()
        newer.send(make_frame(encode_envelope(beat("b", "a"))))
        await node.until(lambda: bool(node.heard))
        newer.close()
    finally:
        await node.stop()


async def test_a_stop_in_any_pass_of_a_handshake_ends_at_once() -> None:
    """The loop tells nobody of a connection whose making is cancelled; the links must not wait for that word."""
    for passes in range(40):
        async with nodes(hello_of("a"), hello_of("b", segment_bytes=4096 if passes % 2 else 1 << 20)) as made:
            for _ in range(passes):
                await asyncio.sleep(0)
            async with asyncio.timeout(5):
                for node in made:
                    await node.links.stop()
                    assert not node.links._links
