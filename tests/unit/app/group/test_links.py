"""A broker's links to the others of its group: when they begin, under which name, and what they say of its log."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import cast

import pytest

from logherd.aiokit.tasks import TaskGuard
from logherd.app.group.beginning import MustAcceptBare
from logherd.app.group.giving import Giving
from logherd.app.group.links import GroupLinks
from logherd.app.group.mode import Greeting
from logherd.app.group.replica import Replica
from logherd.peers.hello import REVISION, Hello
from logherd.peers.options import LinkOptions
from logherd.peers.pieces import Asked, Given, PieceSource, encode_piece
from logherd.replication.messages import Envelope, ReplicaId
from logherd.settings.options import Endpoint, ReplicationOptions
from logherd.store import MessageStore
from logherd.store.pieces import PieceAsk, PieceState
from unit.peers.fakes import CLUSTER, Node, beat, hello_of, replica

SEGMENT = 1 << 20
OPTIONS = LinkOptions(backoff_ms_min=5, backoff_ms_max=20)
"""The others are a broker's, as ours are: who is to say less often that it lives would be taken for silent."""
GREETING = Greeting(founded=(replica("2"),), nodes=("2", "1"), about='{"mode":"raft"}')


class Rig:
    """The links of broker 1, whose bound socket nobody listens on yet, and broker 2."""

    def __init__(self) -> None:
        self.other = Node(hello_of("2"), options=OPTIONS)
        self.identity = replica("1")
        self.greeting = Greeting()
        self.bare_end = 0
        self.heard: list[Hello] = []
        self.told: list[tuple[str, ReplicaId]] = []
        self.envelopes: list[Envelope] = []
        self.failures: list[BaseException] = []
        self.guard = TaskGuard()
        mode = SimpleNamespace(greet=lambda: self.greeting, heard=self.heard.append)
        self.replica = SimpleNamespace(
            mode=mode, links=None, receive=self.envelopes.extend, fail=self.failures.append,
            linked=lambda peer: self.told.append(("linked", peer)),
            unlinked=lambda peer: self.told.append(("unlinked", peer)),
        )  # fmt: skip
        self._name()
        host, port = self.other.address
        peers = {1: Endpoint(host="127.0.0.1", port=1), 2: Endpoint(host=host, port=port)}
        self.store = SimpleNamespace(recovery=SimpleNamespace(bare_end=0))
        self.links = GroupLinks(
            cast("Replica", self.replica), cast("ReplicationOptions", SimpleNamespace(peers=peers)),
            cast("MessageStore", self.store), SEGMENT, cast("Giving", SimpleNamespace(give=self._give)),
        )  # fmt: skip
        self.listening = socket.socket()
        self.listening.bind(("127.0.0.1", 0))
        self.address: tuple[str, int] = self.listening.getsockname()

    def be(self, identity: ReplicaId) -> None:
        """From now on this broker goes by another name."""
        self.identity = identity
        self._name()

    def _name(self) -> None:
        self.replica.machine = SimpleNamespace(cluster=CLUSTER, identity=self.identity)

    async def _give(self, asked: Asked) -> tuple[bytes, bytes]:
        return encode_piece(Given(state=PieceState.WHOLE, end=asked.ask.end)), b"piece"

    async def linked(self) -> None:
        """Both brokers, in both directions."""
        await self.other.until(lambda: len(self.other.hellos) >= 2 and len(self.heard) >= 2)


@asynccontextmanager
async def bound() -> AsyncIterator[Rig]:
    """Broker 1 has a socket and no name yet; broker 2 dials it."""
    made = Rig()
    await made.links.open(made.listening, made.guard)
    await made.other.start({"1": made.address})
    try:
        yield made
    finally:
        await made.links.stop()
        await made.guard.stop(1)
        await made.other.stop()


async def test_nobody_is_heard_before_this_process_has_its_name() -> None:
    async with bound() as rig:
        assert rig.links.address == f"127.0.0.1:{rig.address[1]}"
        await rig.other.until(lambda: bool(rig.other.log.reasons("peer not reached")))
        rig.links.announce()
        assert (rig.replica.links, rig.heard, rig.links.linked(), len(rig.guard)) == (None, [], [], 0)
        rig.links.join("registered")
        await rig.linked()
        assert rig.replica.links is rig.links._links
        assert (rig.told, rig.links.linked()) == ([("linked", replica("2"))], [replica("2")])
        assert [view.name for view in rig.links.views()] == ["2"], "not itself"
        await rig.other.links.stop()
        while rig.links.linked():
            await asyncio.sleep(0)


async def test_whoever_is_given_another_name_is_linked_anew() -> None:
    async with bound() as rig:
        rig.links.join("registered")
        await rig.linked()
        rig.be(replica("1", 2))
        rig.links.join("registered anew")
        assert len(rig.guard) == 2, "the same tasks, to give pieces and to dial"
        await rig.other.until(lambda: rig.other.linked == [replica("1"), replica("1", 2)])
        assert {hello.sender for hello in rig.other.hellos} == {replica("1"), replica("1", 2)}
        assert ("unlinked", replica("2")) in rig.told


async def test_messages_go_both_ways() -> None:
    async with bound() as rig:
        rig.links.join("registered")
        await rig.linked()
        await rig.other.until(lambda: bool(rig.other.linked))
        assert rig.other.links.send(beat("2", "1"))
        assert rig.replica.links.send(beat("1", "2"))
        await rig.other.until(lambda: bool(rig.other.heard and rig.envelopes))
        assert (rig.envelopes, rig.other.heard) == ([beat("2", "1")], [beat("1", "2")])


async def test_a_hello_says_what_must_be_equal_and_what_may_change_is_said_again() -> None:
    async with bound() as rig:
        rig.links.join("registered")
        await rig.linked()
        first = rig.other.hellos[0]
        assert first == Hello(
            cluster=CLUSTER, sender=replica("1"), instance=first.instance, segment_bytes=SEGMENT,
            software=first.software, revision=REVISION, to="2",
        )  # fmt: skip
        assert first.software
        assert rig.other.hellos[1].instance == first.instance
        rig.greeting, rig.store.recovery.bare_end = GREETING, 7
        rig.links.announce()
        await rig.other.until(lambda: len(rig.other.hellos) == 3)
        said = rig.other.hellos[2]
        assert (said.founded, said.nodes, said.about, said.bare_end) == (
            GREETING.founded, GREETING.nodes, GREETING.about, 7
        )  # fmt: skip


async def test_two_processes_of_one_broker_are_told_apart() -> None:
    first, second = Rig(), Rig()
    assert first.links._hello().instance != second.links._hello().instance
    for made in (first, second):
        await made.links.stop()
        made.listening.close()
        made.other.listening.close()


@pytest.mark.parametrize("theirs", [99, 100, 101])
async def test_records_without_a_checksum_are_accepted_before_anything_else_is_heard_of_their_log(theirs: int) -> None:
    async with bound() as rig:
        rig.store.recovery.bare_end = 100
        rig.other.hello = hello_of("2", bare_end=theirs)
        rig.links.join("registered")
        await rig.other.until(lambda: bool(rig.heard or rig.failures))
        if theirs <= 100:
            assert (rig.failures, rig.heard[0].bare_end) == ([], theirs)
            return
        failure = rig.failures[0]
        assert isinstance(failure, MustAcceptBare)
        assert (failure.end, rig.heard) == (101, [])


async def test_pieces_are_given_to_who_has_no_name() -> None:
    async with bound() as rig:
        rig.links.join("registered")
        source = PieceSource("1", rig.address, frame_bytes_max=1 << 20, seconds=10)
        try:
            asked = Asked(cluster="c/g", broker="3", ask=PieceAsk(start=0, end=5))
            while len(rig.guard) < 2:
                await asyncio.sleep(0)
            assert await source.ask(asked) == (Given(state=PieceState.WHOLE, end=5), b"piece")
        finally:
            source.close()


async def test_a_stop_frees_the_port_also_of_who_never_had_a_name() -> None:
    made = Rig()
    await made.links.open(made.listening, made.guard)
    await made.links.stop()
    assert made.listening.fileno() == -1
    made.other.listening.close()
