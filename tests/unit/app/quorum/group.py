"""A group of members in one process, over real logs and a network of plain calls."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

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


class Lines:
    """A list of all bodies; the result of a record is its place in the list."""

    def __init__(self) -> None:
        self.lines: list[bytes] = []

    def apply(self, record: Record) -> int:
        self.lines.append(record.body)
        return len(self.lines)

    def save(self) -> bytes:
        return b"\n".join(self.lines) or b"\n"

    def load(self, data: bytes) -> None:
        self.lines = [line for line in data.split(b"\n") if line]


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

    def start(self, identity: ReplicaId) -> Member:
        log = RaftLog.open(OsFiles(), str(self.directory / identity), RaftLogOptions(segment_bytes=1 << 20))
        if log.hard_state() is None:
            found_group(log, HardState(CLUSTER, identity), self.identities)
            log.take_batch(0).write_and_flush()
        machine, events, failures = Lines(), [], []
        node = RaftNode[int](
            log, machine, self.options, sender=self, on_event=events.append, on_failure=failures.append
        )
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
        if {envelope.sender, envelope.to} & self.cut:
            return False
        asyncio.get_running_loop().call_soon(self._deliver, envelope)
        return True

    def _deliver(self, envelope: Envelope) -> None:
        member = self.members.get(envelope.to)
        if member is not None:
            member.node.receive([envelope])

    async def leader(self) -> Member:
        """The leader that has committed a record of its term, once there is one."""
        return await until(self._ready_leader)

    def _ready_leader(self) -> Member | None:
        for identity, member in self.members.items():
            leading = member.node.core.leading
            if leading is not None and leading.ready and identity not in self.cut:
                assert member.node.core.role is Role.LEADER
                return member
        return None


async def until(look: Callable[[], "Member | bool | None"], seconds: float = 10) -> Member:
    """What `look` finds, as soon as it finds something."""
    async with asyncio.timeout(seconds):
        while True:
            found = look()
            if found:
                return found  # type: ignore[return-value]
            await asyncio.sleep(0.005)


async def propose(member: Member, body: bytes) -> Outcome[int]:
    told: asyncio.Future[Outcome[int]] = asyncio.get_running_loop().create_future()
    member.node.propose(body, told.set_result)
    return await asyncio.wait_for(told, 10)


async def read(member: Member) -> ReadOutcome:
    told: asyncio.Future[ReadOutcome] = asyncio.get_running_loop().create_future()
    member.node.read(told.set_result)
    return await asyncio.wait_for(told, 10)
