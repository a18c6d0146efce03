"""Rounds of faults on three members: who leads, hurt somebody, prove it, mend it, prove that too, and agree again.

A round is written from the leader's point of view, because that is what decides its meaning: whom it hits is found out
when it begins. Every round ends with all members following one leader.
"""

import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

from system.faults import Block, Fault, Partition, Paused, Slow, both_ways, cut, prove_within
from system.netns import Network
from system.nodes import Quorum

__all__ = ["SHAPES", "Bench", "RoundLog", "run_rounds"]


@dataclass(frozen=True, slots=True)
class Bench:
    """What rounds act on. `clients` is the node from which clients ask; `ports`: for members, for clients."""

    network: Network
    quorum: Quorum
    clients: str
    peer_port: int
    client_port: int
    draw: random.Random = field(default_factory=lambda: random.Random(4))

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self.quorum.nodes)

    def others(self, name: str) -> list[str]:
        return [other for other in self.names if other != name]

    def hold(self, least: float, most: float) -> None:
        """Let the load go on for a time that is drawn."""
        time.sleep(self.draw.uniform(least, most))

    def partition(self, name: str, blocks: Sequence[Block], *, action: str = "drop", share: int = 100) -> Partition:
        return Partition(
            self.network, blocks, name=name, probe_port=self.peer_port, action=action, share=share
        )  # fmt: skip


@dataclass(slots=True)
class RoundLog:
    """What came of the rounds: how often each shape, and how long a leader was missed after each kill of one."""

    done: dict[str, int] = field(default_factory=dict)
    leader_change_seconds: list[float] = field(default_factory=list)
    settled_seconds: list[float] = field(default_factory=list)


def _kill(bench: Bench, leader: str, log: RoundLog) -> None:
    """kill -9 of the leader; the others must have another one."""
    others = bench.others(leader)
    bench.quorum.nodes[leader].kill()
    killed = time.monotonic()
    bench.quorum.leader(among=others)
    log.leader_change_seconds.append(time.monotonic() - killed)
    bench.quorum.nodes[leader].start()


def _kill_follower(bench: Bench, leader: str, log: RoundLog) -> None:
    victim = bench.draw.choice(bench.others(leader))
    bench.quorum.nodes[victim].kill()
    bench.hold(0.3, 1.0)
    assert bench.quorum.leader(among=bench.others(victim)) == leader, "a follower's death changes no leader"
    bench.quorum.nodes[victim].start()


def _kill_all(bench: Bench, leader: str, log: RoundLog) -> None:
    """Everybody at once, started again in any order."""
    names = list(bench.names)
    for name in names:
        bench.quorum.nodes[name].kill()
    bench.draw.shuffle(names)
    for name in names:
        bench.quorum.nodes[name].launch()
    for name in names:
        bench.quorum.nodes[name].wait_ready()


def _pause(seconds: float, *, follower: bool = False) -> Callable[[Bench, str, RoundLog], None]:
    def shape(bench: Bench, leader: str, log: RoundLog) -> None:
        victim = bench.draw.choice(bench.others(leader)) if follower else leader
        fault = Paused(bench.quorum.nodes[victim].pid, victim)

        def meanwhile() -> None:
            if seconds >= 2 and not follower:
                bench.quorum.leader(among=bench.others(leader))
                # The one that sleeps gets questions about what has changed since.
                bench.hold(0.3, 0.8)
            else:
                time.sleep(seconds)

        _apply(fault, meanwhile)

    return shape


def _partition(
    make: Callable[[Bench, str], Partition], *, moves: bool | None
) -> Callable[[Bench, str, RoundLog], None]:
    """`moves`: another leader must be found meanwhile (True), must not be (False), or either may be (None)."""

    def shape(bench: Bench, leader: str, log: RoundLog) -> None:
        def meanwhile() -> None:
            if moves:
                bench.quorum.leader(among=bench.others(leader))
            bench.hold(0.2, 0.8 if moves is not None else 2.0)
            if moves is False:
                assert bench.quorum.leader(among=[leader], seconds=3), "this partition leaves the leader its majority"

        _apply(make(bench, leader), meanwhile)

    return shape


def _apply(fault: Fault, meanwhile: Callable[[], None]) -> None:
    """Inject, prove, wait, heal, prove healed; healed also when something fails in between."""
    try:
        fault.inject()
        fault.prove()
        meanwhile()
    finally:
        fault.heal()
    fault.prove_healed()


def _slow(bench: Bench, leader: str, log: RoundLog) -> None:
    _apply(Slow(bench.network, leader), lambda: bench.hold(1.0, 2.0))


def _edge(bench: Bench, leader: str) -> Partition:
    """The leader and one follower do not see each other; the other follower sees both."""
    other = bench.draw.choice(bench.others(leader))
    return bench.partition(f"bridge, leader {leader} at an end", both_ways(leader, other))


def _bridge(bench: Bench, leader: str) -> Partition:
    one, other = bench.others(leader)
    return bench.partition(f"bridge over leader {leader}", both_ways(one, other))


def _cut_leader(action: str) -> Callable[[Bench, str], Partition]:
    def make(bench: Bench, leader: str) -> Partition:
        everybody = [*bench.others(leader), bench.clients]
        return bench.partition(f"cut leader {leader} by {action.split()[0]}", cut(leader, everybody), action=action)

    return make


def _cut_follower(bench: Bench, leader: str) -> Partition:
    victim = bench.draw.choice(bench.others(leader))
    return bench.partition(f"cut follower {victim}", cut(victim, [*bench.others(victim), bench.clients]))


def _deaf(bench: Bench, leader: str) -> Partition:
    return bench.partition(f"leader {leader} hears nobody", [Block(other, leader) for other in bench.others(leader)])


def _mute(bench: Bench, leader: str) -> Partition:
    return bench.partition(f"nobody hears leader {leader}", [Block(leader, other) for other in bench.others(leader)])


def _peers_only(bench: Bench, leader: str) -> Partition:
    blocks = cut(leader, bench.others(leader), bench.peer_port)
    return bench.partition(f"peer port of leader {leader}", blocks)


def _clients_only(bench: Bench, leader: str) -> Partition:
    return bench.partition(f"client port of leader {leader}", cut(leader, [bench.clients], bench.client_port))


def _wake_alone(bench: Bench, leader: str, log: RoundLog) -> None:
    """The leader sleeps while another is elected, and wakes up cut off from the others, but not from clients: nobody
    tells it that it leads no more, and the last that it heard of the others was that they followed."""
    asleep = Paused(bench.quorum.nodes[leader].pid, leader)
    apart = _peers_only(bench, leader)

    def meanwhile() -> None:
        def wake() -> None:
            bench.quorum.leader(among=bench.others(leader))
            bench.hold(0.3, 0.6)

        _apply(asleep, wake)
        bench.hold(0.8, 1.2)

    _apply(apart, meanwhile)


def _split(bench: Bench, leader: str, log: RoundLog) -> None:
    """Every member for itself: the leader must notice that it leads nobody."""
    one, two, three = bench.names
    blocks = [*both_ways(one, two), *both_ways(one, three), *both_ways(two, three)]

    def meanwhile() -> None:
        prove_within(5, f"{leader} leads no more", lambda: bench.quorum.ask(leader).get("leads") is False)
        bench.hold(0.2, 0.8)
        assert not any(bench.quorum.ask(name).get("leads") for name in bench.names), "nobody can lead alone"

    _apply(bench.partition("all apart", blocks), meanwhile)


def _loss(bench: Bench, leader: str) -> Partition:
    one, two, three = bench.names
    blocks = [*both_ways(one, two), *both_ways(one, three), *both_ways(two, three)]
    return bench.partition("a tenth of all packets lost", blocks, share=10)


Shape = Callable[[Bench, str, RoundLog], None]
SHAPES: dict[str, Shape] = {
    "kill leader": _kill,
    "kill follower": _kill_follower,
    "kill all": _kill_all,
    "pause leader for 0.5 s": _pause(0.5),
    "pause leader until another leads": _pause(3.0),
    "leader sleeps and wakes up alone": _wake_alone,
    "pause follower": _pause(1.5, follower=True),
    "cut leader, packets dropped": _partition(_cut_leader("drop"), moves=True),
    "cut leader, packets refused": _partition(_cut_leader("reject with tcp reset"), moves=True),
    "cut follower": _partition(_cut_follower, moves=False),
    "leader hears nobody": _partition(_deaf, moves=True),
    "nobody hears the leader": _partition(_mute, moves=True),
    "bridge with the leader at an end": _partition(_edge, moves=None),
    "bridge over the leader": _partition(_bridge, moves=False),
    "all apart": _split,
    "peer port of the leader": _partition(_peers_only, moves=True),
    "client port of the leader": _partition(_clients_only, moves=False),
    "a tenth lost": _partition(_loss, moves=None),
    "slow leader": _slow,
}


def run_rounds(
    bench: Bench, plan: Sequence[tuple[str, int]], *, shapes: Mapping[str, Shape] = SHAPES, settle_seconds: float = 10.0
) -> RoundLog:
    """Run so many rounds of each shape, in an order drawn from the bench's seed.

    Raises: NotSettled if a leader is missed too long; UnprovedFault if a fault had no effect: the run is void.
    """
    log = RoundLog()
    for number, shape in enumerate(_ordered(bench, plan), 1):
        print(f"{datetime.now(UTC):%H:%M:%S.%f} {number:3} {shape}", end=": ", flush=True)
        leader = bench.quorum.agree(seconds=settle_seconds)
        began = time.monotonic()
        shapes[shape](bench, leader, log)
        healed = time.monotonic()
        after = bench.quorum.agree(seconds=settle_seconds)
        settled = time.monotonic()
        log.done[shape] = log.done.get(shape, 0) + 1
        log.settled_seconds.append(settled - healed)
        print(f"{leader} -> {after}, {healed - began:.1f} s, settled in {settled - healed:.2f} s")
    return log


def _ordered(bench: Bench, plan: Sequence[tuple[str, int]]) -> Iterator[str]:
    shapes = [shape for shape, count in plan for _ in range(count)]
    bench.draw.shuffle(shapes)
    yield from shapes
