"""A group of members in one process, over real logs and a network of plain calls."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from logherd.app.quorum.node import NodeOptions, RaftNode
from logherd.app.quorum.outcomes import Outcome, ReadOutcome
from logherd.raft.core import found_group
from logherd.raft.options import RaftOptions
from logherd.raft.output import Event, Role
from logherd.raft.record import Record
from logherd.raft.store import HardState
from logherd.raftlog.log import RaftLog
from logherd.raftlog.options import RaftLogOptions
from logherd.replication.messages import ClusterId, Envelope, ReplicaId
from logherd.replication.sender import ShipOptions
from logherd.store.files_os import OsFiles

CLUSTER = ClusterId("test")
RAFT = RaftOptions(election_ms=200, election_spread_ms=200, rank_delay_ms=50, ship=ShipOptions(heartbeat_ms=30))


FoundT = TypeVar("FoundT")


class Lines:
    """A list of all bodies; the result of a record is its place in the list."""

    def __init__(self, on_change: Callable[[], None]) -> None:
        self.lines: list[bytes] = []
        self.on_change = on_change

    def apply(self, record: Record) -> int:
        self.lines.append(record.body)
        self.on_change()
        return len(self.lines)

    def save(self) -> bytes:
        return b"\n".join(self.lines) or b"\n"

    def load(self, data: bytes) -> None:
        self.lines = [line for line in data.split(b"\n") if line]
        self.on_change()


@dataclass
class Member:
    node: RaftNode[int]
    machine: Lines
    events: list[Event] = field(default_factory=list)
    failures: list[BaseException] = field(default_factory=list)


class Group:
    """Members by identity; `cut` names those whose messages are lost."""

    def __init__(self, directory: Path, names: tuple[str, ...], *, image_records: int = 20_000) -> None:
        self.directory = directory
        self.identities = tuple(ReplicaId(f"{name}.1") for name in names)
        self.options = NodeOptions(raft=RAFT, image_records=image_records)
        self.members: dict[ReplicaId, Member] = {}
        self.cut: set[ReplicaId] = set()
        self.watched: list[Envelope] | None = None
        self._changed = asyncio.Event()

    def start(self, identity: ReplicaId) -> Member:
        log = RaftLog.open(OsFiles(), str(self.directory / identity), RaftLogOptions(segment_bytes=1 << 20))
        if log.hard_state() is None:
            found_group(log, HardState(CLUSTER, identity), self.identities)
            log.take_batch(0).write_and_flush()
        machine, events, failures = Lines(self._changed.set), list[Event](), list[BaseException]()

        def on_event(event: Event) -> None:
            events.append(event)
            self._changed.set()

        def on_failure(error: BaseException) -> None:
            failures.append(error)
            self._changed.set()

        node = RaftNode[int](log, machine, self.options, sender=self, on_event=on_event, on_failure=on_failure)
        self.members[identity] = Member(node, machine, events, failures)
        node.start()
        for other in self.members:
            if other != identity:
                self.members[other].node.linked(identity)
                node.linked(other)
        return self.members[identity]

    def start_all(self) -> None:
        for identity in self.identities:
            self.start(identity)

    async def stop(self, identity: ReplicaId) -> None:
        member = self.members.pop(identity)
        assert await member.node.stop(5)
        assert member.failures == []

    async def stop_all(self) -> None:
        for identity in tuple(self.members):
            await self.stop(identity)

    def send(self, envelope: Envelope) -> bool:
        if self.watched is not None:
            self.watched.append(envelope)
        if {envelope.sender, envelope.to} & self.cut:
            return False
        asyncio.get_running_loop().call_soon(self._deliver, envelope)
        return True

    def _deliver(self, envelope: Envelope) -> None:
        self._changed.set()
        member = self.members.get(envelope.to)
        if member is not None:
            member.node.receive([envelope])

    async def leader(self) -> Member:
        """The leader that has committed a record of its term, once there is one."""
        return await self.until(self._ready_leader)

    async def until(self, look: Callable[[], FoundT | None], seconds: float = 10) -> FoundT:
        """What `look` finds, as soon as it finds something; it is asked whenever something has happened."""
        async with asyncio.timeout(seconds):
            while not (found := look()):
                self._changed.clear()
                await self._changed.wait()
        return found

    def _ready_leader(self) -> Member | None:
        for identity, member in self.members.items():
            leading = member.node.core.leading
            if leading is not None and leading.ready and identity not in self.cut:
                assert member.node.core.role is Role.LEADER
                return member
        return None


async def propose(member: Member, body: bytes) -> Outcome[int]:
    told: asyncio.Future[Outcome[int]] = asyncio.get_running_loop().create_future()
    member.node.propose(body, told.set_result)
    return await asyncio.wait_for(told, 10)


async def read(member: Member) -> ReadOutcome:
    told: asyncio.Future[ReadOutcome] = asyncio.get_running_loop().create_future()
    member.node.read(told.set_result)
    return await asyncio.wait_for(told, 10)
