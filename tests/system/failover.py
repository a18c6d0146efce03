"""Rounds of failover under a steady Java producer: hurt the leader or a follower, see the effect, mend it, agree again.

A round is judged by what the client saw: the longest gap between two successes, and its failed sends. What is lost or
foreign is found at the end, when everything that was acknowledged is compared with what is stored.
"""

import itertools
import os
import signal
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field

from compat.driver import Driver
from system.controllers import CLIENTS, NODES
from system.faults import Fault, Partition, Paused, cut, prove_within
from system.guardians import is_alive
from system.replicas import BROKERS, REPLICAS_PORT, ReplicatedGroup
from system.steady import Difference, JavaSend, SteadyConsumer, SteadyProducer, compare, longest_gap

__all__ = ["SHAPES", "Round", "Rounds", "run_rounds"]

_BEFORE, _AFTER = 40, 100
"""Sends that must be stored before a fault, and after everything is mended."""
_QUEUES = 4
"""Of a topic that a send has made."""


@dataclass(frozen=True, slots=True)
class Round:
    """One fault, from its begin until all are in sync again. Times are seconds since 1970.

    `over`: the time from which on no send could be on its way to what was hurt.
    """

    shape: str
    leader: str
    begin: float
    over: float
    end: float


@dataclass(slots=True)
class Rounds:
    """What came of a run."""

    rounds: list[Round] = field(default_factory=list)
    sends: list[JavaSend] = field(default_factory=list)
    difference: Difference | None = None
    arrivals: dict[str, float] = field(default_factory=dict)
    """When each message came first to the consumer, if there was one."""

    def gap(self, each: Round) -> float:
        """The longest time between two successes."""
        return longest_gap(self.sends, each.begin, each.end)

    def rest(self, each: Round) -> float:
        """The longest time in which the consumer got nothing."""
        times = sorted(self.arrivals.values())
        return max(b - a for a, b in itertools.pairwise(times) if b > each.begin and a < each.end)

    def failed(self, each: Round) -> list[JavaSend]:
        """The sends that threw, of those that were begun in this round or were on their way when it began."""
        return [
            send for send in self.sends
            if not send.ok and send.invoked <= each.end and send.returned >= each.begin
        ]  # fmt: skip

    def late(self, each: Round) -> list[JavaSend]:
        """The failed sends that were begun when nothing was hurt any more: nobody can excuse them."""
        return [send for send in self.failed(each) if send.invoked > each.over]

    def report(self, shape: str) -> str:
        """One line: rounds, median and worst gap, failed sends."""
        of_shape = [each for each in self.rounds if each.shape == shape]
        gaps = sorted(map(self.gap, of_shape))
        failed = sum(len(self.failed(each)) for each in of_shape)
        middle = gaps[len(gaps) // 2]
        line = f"{shape:<34}{len(gaps):>3} rounds, gap p50 {middle:6.3f} worst {gaps[-1]:6.3f} s, failed sends {failed}"
        if not self.arrivals:
            return line
        rests = sorted(map(self.rest, of_shape))
        return f"{line}; consumer's p50 {rests[len(rests) // 2]:6.3f} worst {rests[-1]:6.3f} s"


def _kill_leader(group: ReplicatedGroup, leader: str, producer: SteadyProducer) -> float:
    """kill -9 of the process; its guardian lives."""
    epoch, broker = group.page()["epoch"], group.brokers[leader]
    child = broker.child
    os.kill(child, signal.SIGKILL)
    prove_within(20, f"{leader} dies", lambda: not is_alive(child))
    dead = time.time()
    assert group.wait_for_epoch(epoch)["leader"]["brokerId"] != broker.number
    prove_within(60, f"{leader} lives again", lambda: broker.child != child)
    return dead


def _pause_leader(group: ReplicatedGroup, leader: str, producer: SteadyProducer) -> float:
    """SIGSTOP of the process, until its guardian has killed it and another one leads."""
    epoch, broker = group.page()["epoch"], group.brokers[leader]
    child = broker.child
    paused = Paused(child, leader)
    paused.inject()
    try:
        paused.prove()
        assert group.wait_for_epoch(epoch)["leader"]["brokerId"] != broker.number
        prove_within(60, f"the guardian kills {leader}", lambda: not is_alive(child))
        dead = time.time()
    finally:
        if is_alive(child):
            paused.heal()
    prove_within(60, f"{leader} lives again", lambda: broker.child != child)
    return dead


def _cut(group: ReplicatedGroup, name: str) -> Partition:
    others = [each for each in (*NODES, *BROKERS, CLIENTS) if each != name]
    return Partition(group.network, cut(name, others), name=f"cut {name}", probe_port=REPLICAS_PORT)


def _cut_leader(group: ReplicatedGroup, leader: str, producer: SteadyProducer) -> float:
    """Nobody reaches the leader's namespace, and it reaches nobody, until clients have found another leader."""
    epoch = group.page()["epoch"]

    def meanwhile() -> None:
        assert group.wait_for_epoch(epoch)["leader"]["brokerId"] != group.brokers[leader].number
        producer.wait_for(_AFTER, since=time.time())

    _apply(_cut(group, leader), meanwhile)
    return time.time()


def _follower(group: ReplicatedGroup, leader: str) -> str:
    return next(name for name in BROKERS if name != leader)


def _pause_follower(group: ReplicatedGroup, leader: str, producer: SteadyProducer) -> float:
    """SIGSTOP of a follower until it has left the in-sync set, and two seconds longer."""
    name = _follower(group, leader)
    _apply(Paused(group.brokers[name].child, name), lambda: _without(group, name))
    return 0.0


def _cut_follower(group: ReplicatedGroup, leader: str, producer: SteadyProducer) -> float:
    name = _follower(group, leader)
    _apply(_cut(group, name), lambda: _without(group, name))
    return 0.0


def _without(group: ReplicatedGroup, name: str) -> None:
    number = group.brokers[name].number
    group.wait(lambda page: number not in page["inSync"], f"{name} leaves the in-sync set")
    time.sleep(2)


def _apply(fault: Fault, meanwhile: Callable[[], None]) -> None:
    try:
        fault.inject()
        fault.prove()
        meanwhile()
    finally:
        fault.heal()
    fault.prove_healed()


def _switch_over(group: ReplicatedGroup, leader: str, producer: SteadyProducer) -> float:
    """A person gives leadership to another one."""
    target = _follower(group, leader)
    epoch = group.page()["epoch"]
    group.elect(target)
    assert group.wait_for_epoch(epoch)["leader"]["brokerId"] == group.brokers[target].number
    return 0.0


def _restart_all(group: ReplicatedGroup, leader: str, producer: SteadyProducer) -> float:
    """SIGTERM to one broker after the other, the leader last; each is in sync again before the next."""
    for name in [*(each for each in BROKERS if each != leader), leader]:
        broker = group.brokers[name]
        child = broker.child
        os.kill(child, signal.SIGTERM)
        prove_within(60, f"{name} ends", lambda child=child: not is_alive(child))  # type: ignore[misc]
        prove_within(60, f"{name} lives again", lambda: broker.child != child)  # noqa: B023
        group.settle()
    return 0.0


Shape = Callable[[ReplicatedGroup, str, SteadyProducer], float]
"""Hurts and mends; the result is `Round.over`, 0 if no send may fail at all."""
SHAPES: dict[str, Shape] = {
    "leader killed": _kill_leader,
    "leader paused": _pause_leader,
    "leader cut off": _cut_leader,
    "follower paused": _pause_follower,
    "follower cut off": _cut_follower,
    "planned switch": _switch_over,
    "rolling restart": _restart_all,
}


def run_rounds(
    group: ReplicatedGroup, driver: Driver, topic: str, plan: Sequence[tuple[str, int]], *, stale: bool = False,
    consume: bool = False,
) -> Rounds:  # fmt: skip
    """Run so many rounds of each shape under the load; what is stored of the topic is compared in the end.

    Each round has a producer of its own, which knows where the leader is; `stale`: one producer for all rounds, which
    asks for routes every 30 s as it always does and meanwhile speaks to whoever led then. `consume`: one push consumer
    for all rounds, which has to get all that was stored.

    Raises: NotSettled, UnprovedFault, AssertionError: the run is void.
    """
    done = Rounds()
    shapes = [shape for shape, count in plan for _ in range(count)]
    consumer = SteadyConsumer(driver, group.name_servers, topic, name="consumer")
    with ExitStack() as stack:
        for part in [shapes] if stale else [[shape] for shape in shapes]:
            leader = group.settle()
            first = len(done.rounds)
            with SteadyProducer(driver, group.name_servers, topic, name=f"{topic}-{first}") as producer:
                if consume and not first:
                    producer.wait_for(_BEFORE, since=time.time())  # they make the topic
                    stack.enter_context(consumer)
                    consumer.wait_for(send.value for send in producer.sends[:_BEFORE] if send.ok)
                for shape in part:
                    done.rounds.append(_round(group, leader, shape, producer))
                    leader = group.settle()
            done.sends += producer.sends
            for each in done.rounds[first:]:
                gap, failed = done.gap(each), len(done.failed(each))
                print(f"{each.shape}: {each.leader}, gap {gap:.3f} s, failed {failed}", flush=True)
        if consume:
            consumer.wait_for(send.value for send in done.sends if send.ok)
            done.arrivals = consumer.arrivals
    done.difference = compare(topic, done.sends, group.stored(topic, _QUEUES))
    return done


def _round(group: ReplicatedGroup, leader: str, shape: str, producer: SteadyProducer) -> Round:
    producer.wait_for(_BEFORE, since=time.time())
    begin = time.time()
    over = SHAPES[shape](group, leader, producer)
    group.settle()
    producer.wait_for(_AFTER, since=time.time())
    return Round(shape, leader, begin, over, time.time())
