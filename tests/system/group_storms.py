"""Faults that overlap, and faults in the middle of what mends an earlier one.

Nothing is asked of the group while a storm lasts but that it stays right; when it is over, everything is mended and the
group must be whole again.
"""

import itertools
import shutil
import time
from collections.abc import Callable, Mapping

from system.broker_groups import BROKERS, PEER_PORT
from system.controllers import CLIENTS, NODES
from system.faults import Block, Partition, Paused
from system.group_rounds import Round, Shape, apply
from system.nodes import NodeProcess

__all__ = ["STORM_SHAPES"]

_STORM_SECONDS = 15.0


class _Storm:
    """What is broken now. Whoever is dead or paused is no target of another fault of processes."""

    def __init__(self, r: Round) -> None:
        self._r = r
        self._dead: dict[str, NodeProcess] = {}
        self._paused: dict[str, Paused] = {}
        self._partition: Partition | None = None
        self.count = 0

    def blow(self) -> None:
        """One more fault, or one less."""
        moves: list[Callable[[], None]] = [self._kill, self._kill, self._pause, self._cut, self._kill_controller]
        if self._dead:
            moves += [self._start] * 3
        if self._paused:
            moves += [self._resume] * 2
        if self._partition is not None:
            moves += [self._mend] * 2
        self._r.draw.choice(moves)()

    def calm(self) -> None:
        """Everything that is broken is mended."""
        if self._partition is not None:
            self._mend()
        while self._paused:
            self._resume()
        for node in self._dead.values():
            node.launch()
        for node in self._dead.values():
            node.wait_ready()
        self._dead.clear()

    def _free(self, names: tuple[str, ...]) -> list[str]:
        return [name for name in names if name not in self._dead and name not in self._paused]

    def _kill(self) -> None:
        free = self._free(BROKERS)
        if free:
            name = self._r.draw.choice(free)
            self._dead[name] = self._r.group.nodes[name]
            self._dead[name].kill()
            self.count += 1

    def _kill_controller(self) -> None:
        free = self._free(NODES)
        if len(free) == len(NODES):
            name = self._r.draw.choice(free)
            self._dead[name] = self._r.controllers.nodes[name]
            self._dead[name].kill()
            self.count += 1

    def _start(self) -> None:
        self._dead.pop(self._r.draw.choice(list(self._dead))).start()

    def _pause(self) -> None:
        free = self._free((*BROKERS, *NODES))
        if free:
            name = self._r.draw.choice(free)
            pause = self._r.paused(name)
            pause.inject()
            self._paused[name] = pause
            pause.prove()
            self.count += 1

    def _resume(self) -> None:
        pause = self._paused.pop(self._r.draw.choice(list(self._paused)))
        pause.heal()
        pause.prove_healed()

    def _cut(self) -> None:
        if self._partition is not None:
            return
        pairs = list(itertools.permutations((*BROKERS, *NODES, CLIENTS), 2))
        chosen = self._r.draw.sample(pairs, self._r.draw.randint(1, 8))
        blocks = [Block(one, other) for one, other in chosen]
        self._partition = Partition(self._r.bench.network, blocks, name="a storm's cut", probe_port=PEER_PORT)
        self._partition.inject()
        self._partition.prove()
        self.count += 1

    def _mend(self) -> None:
        if self._partition is not None:
            self._partition.heal()
            self._partition.prove_healed()
            self._partition = None


def _storm(r: Round) -> None:
    storm = _Storm(r)
    over = time.monotonic() + _STORM_SECONDS
    try:
        while time.monotonic() < over or not storm.count:
            storm.blow()
            r.hold(0.1, 2.0)
    finally:
        storm.calm()


def _kill_during_copy(r: Round) -> None:
    """The leader dies while a wiped replica is being filled from it: only the other one has everything."""
    node = r.group.brokers[r.follower]
    node.kill()
    shutil.rmtree(node.data)
    node.start()
    r.hold(0.0, 0.5)
    r.group.nodes[r.leader].kill()
    r.hold(0.0, 4.0)
    r.group.nodes[r.leader].start()


def _kill_new_leaders(r: Round) -> None:
    """Each leader dies soon after it began to serve."""
    for _ in range(2):
        leader = r.group.leader(seconds=180)
        r.hold(0.0, 0.5)
        r.group.nodes[leader].kill()
        r.hold(2.5, 4.5)
        r.group.nodes[leader].start()


def _kill_when_paused_wakes(r: Round) -> None:
    """A follower sleeps, the leader goes on with the other one and dies as the sleeper wakes up."""

    def meanwhile() -> None:
        r.group.wait_in_sync(without=r.follower)
        r.goes_on()
        r.group.nodes[r.leader].kill()

    apply(meanwhile, r.paused(r.follower))
    r.hold(0.0, 3.0)
    r.group.nodes[r.leader].start()


STORM_SHAPES: Mapping[str, Shape] = {
    "storm": _storm,
    "leader dies while a replica is filled": _kill_during_copy,
    "leaders die as they begin": _kill_new_leaders,
    "leader dies as a follower wakes up": _kill_when_paused_wakes,
}
