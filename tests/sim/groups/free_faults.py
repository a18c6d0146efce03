"""What can happen to replicas in static or raft mode besides the faults of `sim.groups`."""

from random import Random
from typing import TYPE_CHECKING

from logherd.controller.values import BrokerId
from logherd.group.inputs import HandOver
from sim.groups.faults import GroupFaults
from sim.groups.free_broker import VotingBroker
from sim.leases.broker import Broker
from sim.leases.fate import require
from sim.leases.process import Process
from sim.leases.shape import LEADING, MASTER

if TYPE_CHECKING:
    from sim.groups.free_world import FreeWorld

__all__ = ["FreeFaults"]


class FreeFaults(GroupFaults):
    """`appoint`: an operator promotes somebody, by hand (static) or asks the leader to hand over (raft). `usurp`: the
    same behind the leader's back. `renew`: a store is lost, while a majority and all that it has are not (raft).
    """

    def __init__(self, world: "FreeWorld") -> None:
        super().__init__(world)
        self._kinds |= {"appoint": self._appoint, "renew": self._renew, "usurp": self._usurp}

    def _target(self, target: int, draw: Random) -> Process:
        return super()._target(MASTER if target == LEADING else target, draw)

    def _part(
        self, victim: Process, lasts: int, *, draw: Random | None = None, to: bool = True, back: bool = True
    ) -> None:
        super()._part(victim, lasts, draw=draw, to=to, back=back)
        if draw is None:
            self._world.net.part(victim.name, "registry", lasts, to=to, back=back)

    def _appoint(self, victim: Process, lasts: int, draw: Random) -> None:
        if self._world.mode == "static":
            self._world.registry.promote(self._world, draw)
            return
        for each in self._world.free():
            if each.active and each.core.leads is not None:
                each.feed(HandOver(draw.choice((None, BrokerId(draw.randint(1, self._world.shape.brokers))))))

    def _usurp(self, victim: Process, lasts: int, draw: Random) -> None:
        """Another one is to lead, and the present leader, cut off, does not hear of it."""
        leader = next((each for each in self._world.free() if each.active and each.serves() is not None), None)
        if leader is None:
            return
        if self._world.mode == "static":
            self._part(leader, 2_500_000)
            wait = draw.randrange(500_000)
            self._world.after(wait, lambda: self._world.registry.promote(self._world, draw, instead=True))
            return
        others = [each for each in range(1, self._world.shape.brokers + 1) if each != leader.id]
        if others:
            leader.feed(HandOver(BrokerId(draw.choice(others))))
            self._world.after(draw.choice((1_000, 2_500, 25_000)), lambda: self._part(leader, 1_500_000))

    def _lose_leader(self, leader: Broker, draw: Random) -> None:
        """Or it hands over before its turn, as it should, and is cut off while it does (raft)."""
        if self._world.mode == "raft" and draw.random() < 0.4:
            self._usurp(leader, 0, draw)
        else:
            super()._lose_leader(leader, draw)

    def _renew(self, victim: Process, lasts: int, draw: Random) -> None:
        """Only when everybody who has a vote has the store that was given it, and the others are a majority."""
        broker = self._replica(victim, draw)
        voting = [each for each in self._world.free() if isinstance(each, VotingBroker)]
        leader = next((each for each in voting if each.active and each.serves() is not None), None)
        if leader is None or not isinstance(broker, VotingBroker) or not broker.alive:
            return
        members = leader.core.raft.ground.members
        settled = members.since <= leader.core.commit and not members.current.joint
        voters = [each.voter for each in voting if not each.learner]
        if settled and len(voters) > 2 and sorted(voters) == sorted(members.current.voters):
            # The leader's own disk may be behind what others have flushed, and what is committed by that; and what this
            # one has flushed it may have acknowledged, so that the leader will count a copy that is gone by then.
            count = max(leader.volume.store.count_at(leader.core.commit), len(broker.volume.flushed))
            known = leader.volume.log[:count]
            others = [each for each in voting if each is not broker and not each.learner]
            if sum(each.volume.holds(known) for each in others) > len(voters) // 2:
                broker.crash(lasts)
                broker.new_volume()

    def _retain(self, victim: Process, lasts: int, draw: Random) -> None:
        broker = self._replica(victim, draw)
        volume = broker.volume
        most = volume.committed
        if isinstance(broker, VotingBroker):
            most = min(most, volume.store.count_at(broker.core.pinned))
        if broker.active and most > volume.store.dropped + 1:
            volume.store.drop(draw.randint(volume.store.dropped + 1, most))
            if isinstance(broker, VotingBroker):
                kept = volume.store.notes(volume.store.epochs.base.position, volume.position_of(volume.committed))
                require(kept, "V2", f"{broker.name} keeps no record of who belongs to the group")
