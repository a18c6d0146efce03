"""Schedules that chance alone hardly ever draws: each aims at one rare state, and draws its times and its victims."""

from random import Random
from typing import TYPE_CHECKING

from logherd.model.names import Position
from logherd.raft.inputs import Propose, Received, Transfer
from logherd.replication.messages import AppendAck, Envelope

if TYPE_CHECKING:
    from sim.consensus.faults import Faults
    from sim.consensus.member import Member
    from sim.consensus.world import World

__all__ = ["Schemes"]


class Schemes:
    """One method for each kind."""

    def __init__(self, world: "World", faults: "Faults") -> None:
        self._world = world
        self._faults = faults

    def usurp(self, member: "Member", lasts: int, draw: Random) -> None:
        """The leader keeps its quorum through one follower only, which then restarts at once and forgets it."""
        leader, names = self._world.leader(), list(self._world.members)
        if leader is None:
            return
        keeper = draw.choice([name for name in names if name != leader.name] or names)
        apart = [name for name in names if name not in (leader.name, keeper)]
        wait = draw.randrange(800_000, 2_500_000)
        self._world.no_writes_until = self._world.now_us + wait
        pairs = [pair for name in apart for pair in ((name, leader.name), (leader.name, name))]
        self._faults.cut(pairs, wait + 2_000_000)

        def strike() -> None:
            if not self._faults.healed:
                self._faults.stop(self._world.members[keeper], 5_000, power=False)
                self._faults.cut([(leader.name, keeper), (keeper, leader.name)], 2_000_000)

        self._world.after(wait, strike)

    def late_order(self, member: "Member", lasts: int, draw: Random) -> None:
        """The order to take over arrives when the leader has given up waiting; then nobody reaches the old leader."""
        leader, names = self._world.leader(), list(self._world.members)
        target = self._world.members[draw.choice(names)]
        if leader is None or target is leader:
            return
        wait = draw.randrange(1_000_000, 1_800_000)
        until = self._world.no_writes_until = self._world.now_us + wait
        self._world.net.clog((leader.name, target.name), until)
        leader.feed(Transfer(self._world.new_request(), target.identity))
        pairs = [(name, leader.name) for name in names if name != leader.name]
        self._world.after(wait, lambda: None if self._faults.healed else self._faults.cut(pairs, 2_000_000))

    def relapse(self, member: "Member", lasts: int, draw: Random) -> None:
        """A follower takes records that its disk does not acknowledge; the leader drops them from its log for an image.
        Then the follower restarts and has them all, while the leader knows only to send it the image."""
        leader, world = self._world.leader(), self._world
        others = [other for other in world.members.values() if other is not leader and other.alive]
        if leader is None or not others:
            return
        victim, until = draw.choice(others), world.now_us + 1_500_000
        victim.stalled_until = until
        for number in range(40):
            world.after(number * 15_000, lambda: self._write(10))
        imaged: list[Position] = []

        def look() -> None:
            living = victim.alive and leader.alive and not leader.paused_until
            if self._faults.healed or world.now_us > until or not living:
                return
            at = leader.machine.position
            if victim.store.disk.end < at <= victim.store.end and at not in imaged:
                imaged.append(at)
                leader._keep_image()
            if len(imaged) < 2:
                world.after(2_000, look)
                return
            victim.stalled_until = 0
            self._faults.stop(victim, 5_000, power=False)

        look()

    def _write(self, size: int) -> None:
        leader = self._world.leader()
        if leader is not None and not self._faults.healed:
            leader.feed(Propose(self._world.new_request(), bytes(size)))

    def turncoat(self, member: "Member", lasts: int, draw: Random) -> None:
        """A voter forgets, by damage, whom it gave its vote, and comes back beside the leader of the term before, which
        was paused and knows nothing of the election."""
        leader, world = self._world.leader(), self._world
        others = [other for other in world.members.values() if other is not leader]
        if leader is None or len(others) < 2:
            return
        until, voter = world.now_us + 4_000_000, draw.choice(others)
        for number in range(5):
            world.after(1_000 * number, lambda: self._write(10))
        self._faults.cut(_both_ways(leader, [other for other in others if other is not voter]), 6_000_000)
        between = _both_ways(leader, [voter])
        for pair in between:
            world.net.cut(pair)
        leader.pause(4_000_000)

        def look() -> None:
            hard, over = voter.store.disk.hard_state(), self._faults.healed or world.now_us > until
            if not over and voter.alive and leader.paused_until and hard and hard.term <= leader.core.ground.term:
                world.after(5_000, look)
                return
            for pair in between:
                world.net.mend(pair)
            if not over and voter.alive and leader.paused_until and self._faults.can_spare(voter):
                voter.stop_damaged()
                world.after(5_000, voter.start)
                self._faults.cut(_both_ways(voter, [other for other in others if other is not voter]), 2_000_000)
                leader.paused_until = world.now_us
                leader._resume(leader.life)

        look()

    def copy_cut(self, member: "Member", lasts: int, draw: Random) -> None:
        """Whoever is being sent an image dies in the middle of it."""
        world, until = self._world, self._world.now_us + 3_000_000

        def look() -> None:
            half = [other for other in world.members.values() if other.alive and other.store._staged[1]]
            if self._faults.healed or world.now_us > until:
                return
            if half:
                self._faults.stop(draw.choice(half), 50_000, power=draw.random() < 0.3)
            else:
                world.after(5_000, look)

        look()

    def echo(self, member: "Member", lasts: int, draw: Random) -> None:
        """A follower asks for a read and dies; the answer reaches its next life, which has asked for another one."""
        leader, world = self._world.leader(), self._world
        if leader is None or member is leader:
            return
        link, wait = (leader.name, member.name), draw.randrange(200_000, 900_000)
        arrives = world.now_us + wait
        world.net.clog(link, arrives)
        for _ in range(draw.randint(1, 3)):
            world.read(member, lease=False)

        def strike() -> None:
            if not self._faults.healed:
                world.net.clog(link, 0)
                self._faults.stop(member, 5_000, power=False)

        world.after(draw.randrange(20_000, 100_000), strike)
        for before in range(0, 60_000, 6_000):
            world.at(arrives - before, lambda: self._write(10))
            world.at(arrives - before, lambda: None if self._faults.healed else world.read(member, lease=False))

    def boast(self, member: "Member", lasts: int, draw: Random) -> None:
        """A follower claims to hold more than the leader ever had."""
        leader = self._world.leader()
        if leader is None or member is leader or leader.core.leading is None or leader.paused_until:
            return  # a paused leader would judge the claim later, when its log may be that long
        ground = leader.core.ground
        sender = leader.core.leading.shipper.sender(member.identity)
        claim = ground.log.end + draw.choice((1, 28, 60, 500))
        durable = draw.choice((claim, ground.log.end))
        if sender is not None:
            body = AppendAck(sender.generation, claim, durable)
            leader.feed(Received(Envelope(ground.hard.cluster, member.identity, leader.identity, ground.term, body)))


def _both_ways(member: "Member", others: list["Member"]) -> list[tuple[str, str]]:
    return [pair for other in others for pair in ((member.name, other.name), (other.name, member.name))]
