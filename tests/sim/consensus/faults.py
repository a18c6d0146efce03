"""Faults carried out, and the operator who changes members in the middle of them."""

from functools import partial
from random import Random
from typing import TYPE_CHECKING

from logherd.raft.inputs import ChangeMembers, DiskFull, Transfer
from logherd.raft.members import Configuration, Goal
from logherd.replication.messages import ReplicaId
from sim.consensus.file_store import FileStore
from sim.consensus.plan import Fault
from sim.consensus.schemes import Schemes

if TYPE_CHECKING:
    from sim.consensus.member import Member
    from sim.consensus.world import World

__all__ = ["Faults"]


class Faults:
    """Begins each fault of the plan, and ends it after its time. Nothing begins once the run is healed."""

    def __init__(self, world: "World") -> None:
        self._world = world
        self.healed = False
        self.schemes = Schemes(world, self)

    def begin(self, fault: Fault) -> None:
        """Carry a fault out."""
        world = self._world
        leader = world.leader()
        names = list(world.members)
        member = leader if fault.target < 0 and leader else world.members[names[fault.target % len(names)]]
        draw = Random(fault.number)
        world.note(member.name, f"fault {fault.kind} {fault.lasts_ms} ms")
        name = fault.kind.replace("-", "_")
        method = getattr(self.schemes, name, None) or getattr(self, "_" + name)
        method(member, fault.lasts_ms * 1000, draw)

    def heal(self) -> None:
        """End everything, for ever."""
        self.healed = True
        world = self._world
        world.net.heal()
        for member in world.members.values():
            member.stalled_until = 0
            if isinstance(member.store, FileStore):
                member.store.empty()
            if not member.alive:
                member.start()
            elif member.paused_until:
                member.paused_until = world.now_us
                member._resume(member.life)
            member.feed(DiskFull(full=False))

    def disk_failed(self, member: "Member") -> None:
        """The store has stopped: the process ends, with the machine or without it, and starts again."""
        self._world.observer.marks.hits["flush-failed"] += 1
        member.stop(power=member.draw.random() < 0.5)
        self._world.after(member.draw.choice((5_000, 300_000, 1_200_000)), member.start)

    # ---- processes ---------------------------------------------------------------------------------------------

    def _crash(self, member: "Member", lasts: int, draw: Random) -> None:
        self.stop(member, lasts, power=False)

    def _power(self, member: "Member", lasts: int, draw: Random) -> None:
        self.stop(member, lasts, power=True)

    def _flush_error(self, member: "Member", lasts: int, draw: Random) -> None:
        """A failed flush ends the process. The power goes soon after: who went on has lost what it called durable."""
        if isinstance(member.store, FileStore):
            member.store.files.failing_flush = draw.randrange(4)
            self._world.after(draw.randrange(5_000, 300_000), partial(self.storm_stop, member, lasts))
        else:
            self.stop(member, lasts, power=True)

    def stop(self, member: "Member", lasts: int, *, power: bool) -> None:
        """End the process, and start it again later."""
        if member.alive:
            member.stop(power=power)
            self._world.after(lasts, member.start)

    def _storm(self, member: "Member", lasts: int, draw: Random) -> None:
        """Several processes lose power at nearly the same time, the leader first."""
        for other in self._world.members.values():
            if other is member or draw.random() < 0.6:
                wait, down = draw.randrange(200_000), draw.randrange(lasts)
                self._world.after(wait, partial(self.storm_stop, other, down))

    def storm_stop(self, member: "Member", lasts: int) -> None:
        """Power loss, unless all is healed by now."""
        if not self.healed:
            self.stop(member, lasts, power=True)

    def _pause(self, member: "Member", lasts: int, draw: Random) -> None:
        member.pause(lasts)

    def _wipe(self, member: "Member", lasts: int, draw: Random) -> None:
        if self.can_spare(member):
            member.wipe()
            self._world.relink(member.name)

    def _damage(self, member: "Member", lasts: int, draw: Random) -> None:
        """Of what was flushed something is lost, and the store says that something may be."""
        if member.alive and self.can_spare(member):
            member.stop_damaged()
            self._world.after(lasts, member.start)

    def can_spare(self, member: "Member") -> bool:
        """Whether every configuration that anybody holds keeps a majority of whole disks without this one."""
        for other in self._world.members.values():
            current = other.core.ground.members.current
            for half in (current.voters, current.outgoing):
                lost = [peer for peer in half if peer == member.identity or self._is_lost(peer)]
                if half and 2 * len(lost) >= len(half):
                    return False
        return True

    # ---- disks -------------------------------------------------------------------------------------------------

    def _stall(self, member: "Member", lasts: int, draw: Random) -> None:
        member.stalled_until = self._world.now_us + lasts

    def _brownout(self, member: "Member", lasts: int, draw: Random) -> None:
        """Disks stop answering nearly everywhere; while votes and records wait for them, the power goes."""
        for other in self._world.members.values():
            if other is member or draw.random() < 0.7:
                wait = draw.randrange(300_000, 3_000_000)
                other.stalled_until = self._world.now_us + wait
                if draw.random() < 0.5:
                    down, at = draw.randrange(1_000_000), draw.randrange(wait)
                    self._world.after(at, partial(self.storm_stop, other, down))

    def _full(self, member: "Member", lasts: int, draw: Random) -> None:
        member.feed(DiskFull(full=True))
        self._world.after(lasts, lambda: member.feed(DiskFull(full=False)))

    def _fill(self, member: "Member", lasts: int, draw: Random) -> None:
        """The disk has no room, until some time later: batches are tried again."""
        if isinstance(member.store, FileStore):
            store = member.store
            store.fill(draw.choice((0, 100, 2_000)))
            self._world.after(lasts, store.empty)
        else:
            self._full(member, lasts, draw)

    # ---- network -----------------------------------------------------------------------------------------------

    def _isolate(self, member: "Member", lasts: int, draw: Random) -> None:
        others = [name for name in self._world.members if name != member.name]
        pairs = [pair for name in others for pair in ((name, member.name), (member.name, name))]
        self.cut(pairs, lasts)

    def _one_way(self, member: "Member", lasts: int, draw: Random) -> None:
        others = [name for name in self._world.members if name != member.name and draw.random() < 0.7]
        out = draw.random() < 0.5
        self.cut([(member.name, name) if out else (name, member.name) for name in others], lasts)

    def _partition(self, member: "Member", lasts: int, draw: Random) -> None:
        here = [name for name in self._world.members if draw.random() < 0.5]
        there = [name for name in self._world.members if name not in here]
        self.cut([pair for a in here for b in there for pair in ((a, b), (b, a))], lasts)

    def cut(self, pairs: list[tuple[str, str]], lasts: int) -> None:
        """Lose everything in these directions for a time."""
        net = self._world.net
        for pair in pairs:
            net.cut(pair)

        def mend() -> None:
            for pair in pairs:
                net.mend(pair)

        self._world.after(lasts, mend)

    def _clog(self, member: "Member", lasts: int, draw: Random) -> None:
        for name in self._world.members:
            if name != member.name and draw.random() < 0.5:
                pair = (member.name, name) if draw.random() < 0.5 else (name, member.name)
                self._world.net.clog(pair, self._world.now_us + lasts)

    def _reset(self, member: "Member", lasts: int, draw: Random) -> None:
        if member.alive:
            self._world.relink(member.name)

    # ---- the operator ------------------------------------------------------------------------------------------

    def _is_lost(self, peer: ReplicaId) -> bool:
        return self._is_dead(peer) or self._world.observer.is_doubtful(peer)

    def _is_dead(self, peer: ReplicaId) -> bool:
        return peer in self._world.observer.graves

    def _transfer(self, member: "Member", lasts: int, draw: Random) -> None:
        leader = self._world.leader()
        if leader is not None:
            target = None if draw.random() < 0.3 else draw.choice(list(self._world.members.values())).identity
            leader.feed(Transfer(self._world.new_request(), target))

    def _change(self, member: "Member", lasts: int, draw: Random) -> None:
        leader = self._world.leader()
        if leader is None:
            return
        everybody = [other.identity for other in self._world.members.values()]
        voters = list(leader.core.ground.members.current.voters)
        chance = draw.random()
        if chance < 0.35:
            goal = [peer for peer in voters if peer != member.identity] or voters
        elif chance < 0.7:
            goal = voters if member.identity in voters else [*voters, member.identity]
        else:
            goal = draw.sample(everybody, draw.randint(1, len(everybody)))
        goal = [peer for peer in goal if not self._is_dead(peer)]
        learners = [peer for peer in everybody if peer not in goal and draw.random() < 0.3]
        if goal:
            self._ask(leader, Goal(tuple(goal), tuple(learners), single=draw.random() < 0.5))

    def replace_dead(self) -> None:
        """Put whoever lives under the name of a dead voter in its place."""
        leader = self._world.leader()
        if leader is None:
            return
        current: Configuration = leader.core.ground.members.current
        if not any(self._is_dead(peer) for peer in current.members):
            return
        names = [peer.partition(".")[0] for peer in current.voters]
        voters = tuple(self._world.members[name].identity for name in dict.fromkeys(names))
        learners = tuple(peer for peer in current.learners if not self._is_dead(peer) and peer not in voters)
        self._ask(leader, Goal(voters, learners))

    def _ask(self, leader: "Member", goal: Goal) -> None:
        leader.feed(ChangeMembers(self._world.new_request(), goal))
