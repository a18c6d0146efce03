"""One simulated broker process of a group without controllers; the shell is that of `broker`."""

from collections import deque
from typing import TYPE_CHECKING

from logherd.controller.values import BrokerId, Registration
from logherd.group.inputs import Assigned, Health, Linked, MembersWanted, Patience, Received, Registered
from logherd.group.machine import GroupMachine
from logherd.group.output import Ask, Event, MustRebuild, Promise, Serving
from logherd.group.seat import Seat, voter_of
from logherd.group.static_core import StaticCore
from logherd.group.table import Table, table_number
from logherd.group.voting_core import VotingCore
from logherd.model.names import Epoch, Position
from logherd.raft.messages import VoteAnswer
from logherd.replication.messages import Envelope, ReplicaId
from sim.groups.broker import TICK_US, GroupBroker
from sim.groups.checks import check_cut
from sim.leases.fate import require
from sim.leases.volume import Entry

if TYPE_CHECKING:
    from sim.groups.free_fate import FreeFate
    from sim.groups.free_world import FreeWorld

__all__ = ["FreeBroker", "StaticBroker", "VotingBroker"]

_LINK_US = 300_000


class FreeBroker(GroupBroker):
    """Its connections are made by itself: when a process is new, and sometimes for no reason."""

    world: "FreeWorld"  # type: ignore[assignment]
    core: GroupMachine  # type: ignore[assignment]

    def made(self) -> GroupMachine:
        """A core over what is kept."""
        raise NotImplementedError

    def started(self) -> None:
        """A new process."""
        volume = self.volume
        self.incarnation = f"{self.name}.{self.life}.{self.volumes}"
        self.granted = self.sick = self.room_lost = False
        self._health = Health()
        self._held: deque[tuple[int, tuple[Envelope, ...]]] = deque()
        self._flushing, self._wanted = False, 0
        self._replies: deque[Position] = deque()
        self._linked: dict[str, ReplicaId] = {}
        volume.store.before_cut = lambda count: check_cut(self, count)
        self.core = self.made()
        self.soon(self.draw.randrange(TICK_US), self._tick)
        self.soon(self.draw.randrange(TICK_US), self._connect)

    @property
    def seat(self) -> Seat:
        """What it knows of itself."""
        return Seat(
            group=self.key, broker_id=self.id, store_id=self.volume.store_id, incarnation=self.incarnation,
            address=self.address, learner=self.learner,
        )  # fmt: skip

    @property
    def fate(self) -> "FreeFate":
        """What is known of its group."""
        return self.world.observer.fates[self.key]

    def ended(self) -> None:
        """What was not flushed may be gone, and what was committed last may not have been noted."""
        self.volume.lose(self.draw)
        volume = self.volume
        volume.committed -= self.draw.randint(0, min(3, volume.committed - volume.store.dropped))

    def believes(self) -> Epoch | None:
        """The epoch that it leads, fenced or not."""
        return self.core.leads if self.alive else None

    def _connect(self) -> None:
        """Connections to processes that are new; they exist while messages pass."""
        for other in self.world.group(self.key):
            if other is self or not other.alive or not isinstance(other, FreeBroker):
                continue
            passes = self.world.net.carries(self.name, other.name) and self.world.net.carries(other.name, self.name)
            if passes and self._linked.get(other.name) != other.core.identity:
                self._linked[other.name] = other.core.identity
                self.feed(Linked(other.core.identity))
                other.soon(500, lambda other=other, me=self.core.identity: other.feed(Linked(me)))  # type: ignore[misc]
        self.soon(_LINK_US, self._connect)

    def _tick(self) -> None:
        """Now and then somebody only reads."""
        epoch = self.serves()
        if epoch is not None:
            self.world.check_alone(self, epoch)
        super()._tick()

    def judge_commit(self, position: Position) -> None:
        """W1, and the rules of the group."""
        volume = self.volume
        count = volume.store.count_at(position)
        require(count > volume.committed, "W1", f"{self.name} shows {count} records after {volume.committed}")
        require(volume.disk.end >= position, "W1", f"{self.name} shows {count} records, not all are flushed")
        volume.committed = count
        epoch = self.core.leads
        if epoch is not None:
            self.fate.on_committed(self, epoch, volume.log[:count])
        else:
            self.fate.on_shown(self, volume.log[:count])

    def copied(self, log: list[Entry]) -> bool:
        """Whether a log has flushed copies wherever it must."""
        raise NotImplementedError

    def _ask(self, ask: Ask) -> None:
        require(False, "asks", f"{self.name} asks controllers: {ask}")  # noqa: FBT003

    def disks(self) -> dict[BrokerId, GroupBroker]:
        """Whose disk holds what, alive or not."""
        return {each.id: each for each in self.world.group(self.key) if isinstance(each, GroupBroker)}


class StaticBroker(FreeBroker):
    """In static mode. It asks for the table now and then; until then it knows the one of its configuration."""

    core: StaticCore  # type: ignore[assignment]

    def made(self) -> StaticCore:
        return StaticCore(
            self.seat, self.settings.static, self.volume.store, epoch=self.volume.kept.epoch,
            commit=self.volume.position_of(self.volume.committed), now=self.now_ms(),
        )  # fmt: skip

    def retime(self) -> None:
        self.core.retime(self.settings.static)
        self.world.note_retimed(self)

    def started(self) -> None:
        super().started()
        number = self.world.registry.registration(self.id)
        self.soon(0, lambda: self.feed(Registered(Registration(number))))
        self.soon(1, lambda: self.feed(Assigned(self.world.registry.first)))
        self.soon(self.draw.randrange(TICK_US, 400_000), self._poll)

    def _poll(self) -> None:
        world, life = self.world, self.life

        def heard(table: Table) -> None:
            if self.life == life and self.alive:
                self.soon(0, lambda: self.feed(Assigned(table)))

        def asked() -> None:
            table = world.registry.recorded.table
            world.net.send("registry", self.name, lambda: heard(table))

        world.net.send(self.name, "registry", asked)
        self.soon(self.draw.randrange(100_000, world.registry.poll_us), self._poll)

    def copied(self, log: list[Entry]) -> bool:
        leading, disks = self.core.leading, self.disks()
        assert leading is not None
        held = [each for each in leading.table.synchronous if disks[each].volume.holds(log)]
        return self.volume.holds(log) and len(held) + 1 >= leading.table.copies

    def _note(self, news: Event) -> list[object]:  # type: ignore[override]
        if isinstance(news, Serving):
            self.world.registry.on_serving(table_number(news.epoch))
        if isinstance(news, MustRebuild):
            require(not self.fate.strict, "rebuild", f"{self.name} is to give up what is committed: {news}")
        return list(super()._note(news))


class VotingBroker(FreeBroker):
    """In raft mode. Only its first store takes part in founding the group."""

    core: VotingCore  # type: ignore[assignment]
    retimes = False

    def made(self) -> VotingCore:
        founders = self.world.founders if self.volumes == 1 and self.id <= self.world.shape.brokers else ()
        options, volume = self.settings.voting, self.volume
        volume.told_ms = max(volume.told_ms, options.election_ms)
        self.world.patience[self.voter] = options.election_ms
        return VotingCore(
            self.seat, options, volume.store, promise=volume.kept, founders=founders, now=self.now_ms(),
            commit=volume.position_of(volume.committed), seed=self.draw.getrandbits(32), owed_ms=volume.told_ms,
        )  # fmt: skip

    def ended(self) -> None:
        if not self.core.raft.ground.quarantined:
            self.volume.told_ms = self.core.raft.ground.options.election_ms
        super().ended()

    def receive(self, envelope: Envelope) -> None:
        if self.alive:
            self.soon(0, lambda: self._take_message(envelope))

    def _take_message(self, envelope: Envelope) -> None:
        """A process says how long it waits for a leader with each connection, before anything else."""
        sender, waits_ms = envelope.sender, self.world.patience[envelope.sender]
        if self._patience.get(sender) != waits_ms:
            self._patience[sender] = waits_ms
            self.feed(Patience(dict(self._patience)))
        self.feed(Received(envelope))

    def started(self) -> None:
        self._patience: dict[ReplicaId, int] = {}
        super().started()
        self.soon(self.draw.randrange(400_000), self._hear_members)

    def _hear_members(self) -> None:
        """Whoever holds the identities says who should belong to the group."""
        self.feed(MembersWanted(*self.world.wanted()))
        self.soon(500_000, self._hear_members)

    @property
    def voter(self) -> ReplicaId:
        """Its name with its present store."""
        return voter_of(self.id, self.volume.store_id)

    def copied(self, log: list[Entry]) -> bool:
        members = self.core.raft.ground.members.current
        brokers = [each for each in self.disks().values() if isinstance(each, VotingBroker)]
        holding = [each.voter for each in brokers if each.volume.holds(log)]
        return members.agreed(lambda voter: int(voter in holding)) == 1

    def _send(self, envelopes: tuple[Envelope, ...]) -> None:
        for envelope in envelopes:
            body = envelope.body
            if isinstance(body, VoteAnswer) and body.granted and not body.pre:
                kept = self.volume.kept
                ready = kept == Promise(envelope.epoch, envelope.to) or kept.epoch > envelope.epoch
                require(ready, "V1", f"{self.name} votes for {envelope.to}, and keeps {kept}")
                self.fate.on_vote(envelope.sender, envelope.epoch, envelope.to)
        super()._send(envelopes)
