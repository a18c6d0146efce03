"""Rounds of faults on a broker group under load: hurt, prove it, see what must go on meanwhile, mend, be whole again.

A round is written from the group's leader's point of view. What goes on is shown by acknowledged sends, at least
`GOES_ON` of them during a fault that must not stop the group, and again after every fault.
"""

import random
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime

from checkers.history import Outcome
from system.broker_groups import BrokerGroup, BrokerNode, GroupBench
from system.faults import Fault, Paused
from system.group_load import GroupLoad
from system.group_operator import Operator
from system.nodes import Quorum

__all__ = ["GOES_ON", "GroupLog", "Round", "Shape", "apply", "run_group_rounds"]

GOES_ON = 100


class BrokerPaused(Paused):
    """A guardian kills its broker when that has slept for longer than its lease: then there is nobody to wake up."""

    def __init__(self, node: BrokerNode) -> None:
        super().__init__(node.broker_pid, node.name)
        self._guarded = node.guarded

    def heal(self) -> None:
        try:
            super().heal()
        except ProcessLookupError:
            if not self._guarded:
                raise

    def prove_healed(self) -> None:
        try:
            super().prove_healed()
        except FileNotFoundError:
            if not self._guarded:
                raise


@dataclass(slots=True)
class GroupLog:
    """What came of the rounds: how often each shape, and how long until a send was answered after it was mended."""

    done: dict[str, int] = field(default_factory=dict)
    whole_seconds: list[float] = field(default_factory=list)
    orders: int = 0
    """By hand."""


@dataclass(frozen=True, slots=True)
class Round:
    """One fault's surroundings. `leader` and `follower` are brokers as it begins; the follower is drawn."""

    bench: GroupBench
    load: GroupLoad
    leader: str
    follower: str
    operator: Operator

    @property
    def group(self) -> BrokerGroup:
        return self.bench.group

    @property
    def controllers(self) -> Quorum:
        return self.bench.controllers

    @property
    def draw(self) -> random.Random:
        return self.bench.draw

    @property
    def followers(self) -> list[str]:
        return self.bench.others(self.leader)

    def paused(self, name: str) -> Paused:
        """A pause of a broker or of a controller."""
        if name in self.group.brokers:
            return BrokerPaused(self.group.brokers[name])
        return Paused(self.controllers.nodes[name].pid, name)

    def goes_on(self) -> None:
        """Sends are acknowledged."""
        self.load.wait_for(Outcome.OK, GOES_ON, meanwhile=self.operator.look_after)

    def another_leads(self) -> str:
        """Wait until one of the followers leads, and serves clients; its name. Where it must be, it is promoted."""
        self.operator.promote_another(self.leader)
        name = self.group.leader(among=self.followers, seconds=180)
        self.goes_on()
        return name

    def hold(self, least: float, most: float) -> None:
        """Let the load go on for a time that is drawn."""
        time.sleep(self.draw.uniform(least, most))


Shape = Callable[[Round], None]


def apply(meanwhile: Callable[[], None], *faults: Fault) -> None:
    """Inject, prove, wait, heal, prove healed; healed also when something fails in between."""
    begun: list[Fault] = []
    try:
        for fault in faults:
            begun.append(fault)
            fault.inject()
        for fault in faults:
            fault.prove()
        meanwhile()
    finally:
        for fault in begun:
            fault.heal()
    for fault in faults:
        fault.prove_healed()


def run_group_rounds(
    bench: GroupBench, load: GroupLoad, shapes: Mapping[str, Shape], plan: Iterable[str]
) -> GroupLog:  # fmt: skip
    """Carry out these rounds in this order.

    Raises: NotSettled or AssertionError if the group does not do what it must; UnprovedFault if the run is void.
    """
    log, operator = GroupLog(), Operator(bench)
    for number, shape in enumerate(plan, 1):
        bench.controllers.agree(seconds=180)
        leader = bench.group.agree()
        operator.await_successor()
        _all_run(bench)
        print(f"{datetime.now(UTC):%H:%M:%S.%f} {number:3} {shape}", end=": ", flush=True)
        began, sent = time.monotonic(), load.count(Outcome.OK)
        shapes[shape](Round(bench, load, leader, bench.draw.choice(bench.others(leader)), operator))
        mended = time.monotonic()
        load.wait_for(Outcome.OK, GOES_ON)
        load.wait_for_queues()
        after = bench.group.agree()
        whole = time.monotonic()
        log.done[shape] = log.done.get(shape, 0) + 1
        log.whole_seconds.append(whole - mended)
        sent = load.count(Outcome.OK) - sent
        print(f"{leader} -> {after}, {mended - began:.1f} s, whole in {whole - mended:.1f} s, {sent} sends", flush=True)
    log.orders = operator.orders
    return log


def _all_run(bench: GroupBench) -> None:
    """No process has ended by itself."""
    for node in (*bench.group.nodes.values(), *bench.controllers.nodes.values()):
        assert node.running, f"{node.name} has ended: {node.condition()}"
