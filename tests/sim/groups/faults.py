"""What can happen to real replicas besides the faults of `sim.leases`."""

from random import Random
from typing import TYPE_CHECKING

from sim.groups.broker import GroupBroker
from sim.leases.broker import Broker
from sim.leases.faults import Faults
from sim.leases.process import Process

if TYPE_CHECKING:
    from sim.groups.world import GroupWorld

__all__ = ["GroupFaults"]


class GroupFaults(Faults):
    """`stall`: a flush does not end; `exhaust`: a disk is full to the last byte; `cut-off`: two replicas lose sight of
    each other, and both of nobody else; `retain`: the first records are not kept any more; `leave-behind`, `orphan`,
    `retime`, `half-way`, `cramp`: see there.
    """

    def __init__(self, world: "GroupWorld") -> None:
        super().__init__(world)
        self._kinds |= {
            "stall": self._stall, "exhaust": self._exhaust, "cut-off": self._cut_off, "retain": self._retain,
            "leave-behind": self._leave_behind, "orphan": self._orphan, "retime": self._retime,
            "half-way": self._half_way, "cramp": self._cramp,
        }  # fmt: skip

    def heal(self) -> None:
        for broker in self._world.brokers.values():
            if isinstance(broker, GroupBroker):
                broker.stuck_until = 0
                broker.room_lost = False
                broker.cramped_until = 0
        super().heal()

    def _replica(self, victim: Process, draw: Random) -> GroupBroker:
        broker = self._broker(victim, draw)
        assert isinstance(broker, GroupBroker)
        return broker

    def _roll_back(self, broker: Broker, lasts: int, draw: Random) -> None:
        """The volume is restored to an older state. The controllers can see that only below what they know."""
        group, volume = self._world.observer.group(broker.key), self._replica(broker, draw).volume
        floor = volume.store.count_at(group.sync.committed.position) if group is not None else 0
        if broker.alive and floor > volume.store.dropped:
            broker.crash(lasts)
            broker.volume.cut(draw.randrange(volume.store.dropped, floor))

    def _stop(self, broker: Broker, lasts: int, draw: Random) -> None:
        """An orderly stop: a leader hands over first, a follower leaves the set; but neither is waited for."""
        replica = self._replica(broker, draw)
        if replica.active:
            replica.drain()
        replica.soon(draw.choice((1_000, 300_000)), lambda: replica.crash(lasts))

    def _echo(self, broker: Broker, lasts: int, draw: Random) -> None:
        """Old proposals, of a connection that was closed, arrive now."""
        replica = self._replica(broker, draw)
        for command in replica.proposals[-5:]:
            replica.alter(command)

    def _stall(self, victim: Process, lasts: int, draw: Random) -> None:
        self._replica(victim, draw).stuck_until = self._world.now_us + lasts

    def _exhaust(self, victim: Process, lasts: int, draw: Random) -> None:
        broker = self._replica(victim, draw)
        broker.room_lost = True
        self._for_a_while(broker, "full", lasts)
        self._world.after(lasts, lambda: setattr(broker, "room_lost", False))

    def _cramp(self, victim: Process, lasts: int, draw: Random) -> None:
        """No barrier can be appended. That is known at once, or only when one is refused, as where descriptors lack;
        often just when somebody else has to lead."""
        broker, known, leaderless = self._replica(victim, draw), draw.random() < 0.5, draw.random() < 0.5
        for each in self._world.group(broker.key) if draw.random() < 0.5 else [broker]:
            assert isinstance(each, GroupBroker)
            each.cramped_until, each.cramp_known = self._world.now_us + lasts, known
            if leaderless and each.believes() is not None:
                each.crash(lasts)

    def _retain(self, victim: Process, lasts: int, draw: Random) -> None:
        """Old segments are deleted; what is committed may go."""
        broker = self._replica(victim, draw)
        volume = broker.volume
        if broker.active and volume.committed > volume.store.dropped + 1:
            volume.store.drop(draw.randint(volume.store.dropped + 1, volume.committed))

    def _leave_behind(self, victim: Process, lasts: int, draw: Random) -> None:
        """A replica is away until the others do not keep any more what it lacks (R16)."""
        broker = self._replica(victim, draw)
        others = [each for each in self._world.group(broker.key) if each is not broker]
        for other in others:
            self._world.net.part(broker.name, other.name, 1_800_000)
            self._world.after(1_700_000, lambda other=other: self._retain(other, lasts, draw))  # type: ignore[misc]

    def _orphan(self, victim: Process, lasts: int, draw: Random) -> None:
        """A leader is alone until another has begun, and writes on as long as it may: that must be cut later."""
        masters = [broker for broker in self._world.brokers.values() if broker.believes() is not None]
        if masters:
            self._part(draw.choice(masters), 3_000_000)

    def _retime(self, victim: Process, lasts: int, draw: Random) -> None:
        """A broker goes by other settings from now on, or all of a group do, one after the other: while they run, or
        by a restart, which may be that of an upgrade."""
        broker = self._replica(victim, draw)
        group = [each for each in self._world.group(broker.key) if not each.retired]
        self._one_by_one(group if draw.random() < 0.4 else [broker], draw, restarts=draw.random() < 0.5)

    def _half_way(self, victim: Process, lasts: int, draw: Random) -> None:
        """All are restarted with other settings but who leads, and before its turn nobody hears that one any more."""
        group = [each for each in self._world.group(self._replica(victim, draw).key) if not each.retired]
        leads = [each for each in group if each.believes() is not None]
        last = self._one_by_one([each for each in group if each not in leads], draw, restarts=True)
        wait = last + draw.choice((60_000, 2_200_000, 2_200_000))
        seed = draw.getrandbits(32)
        for each in leads:
            self._world.after(wait, lambda each=each: self._lose_leader(each, Random(seed)))  # type: ignore[misc]

    def _lose_leader(self, leader: Broker, draw: Random) -> None:
        self._part(leader, 2_000_000)

    def _one_by_one(self, brokers: list[Broker], draw: Random, *, restarts: bool) -> int:
        """Change them to the same settings; how long that takes."""
        gap, seed = draw.choice((10_000, 10_000, 10_000, 300_000, 1_000_000)), draw.getrandbits(32)
        for number, each in enumerate(brokers):
            assert isinstance(each, GroupBroker)
            act = self._restart_otherwise if restarts or not each.retimes else self._retime_now
            self._world.after(number * gap, lambda each=each, act=act: act(each, Random(seed)))  # type: ignore[misc]
        return gap * max(len(brokers) - 1, 0)

    def _retime_now(self, broker: GroupBroker, draw: Random) -> None:
        broker.settings = broker.settings.retimed(draw)
        broker.soon(0, broker.retime)

    def _restart_otherwise(self, broker: GroupBroker, draw: Random) -> None:
        broker.settings = broker.settings.retimed(draw).upgraded(draw)
        self._world.note(broker.name, f"is to run with {broker.settings}")
        self._world.seen["restarted otherwise"] += broker.alive
        broker.crash(20_000)

    def _cut_off(self, victim: Process, lasts: int, draw: Random) -> None:
        one = self._replica(victim, draw)
        other = draw.choice(self._world.group(one.key))
        if other is not one:
            self._world.net.part(one.name, other.name, lasts)
