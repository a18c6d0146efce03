"""Power cuts of members: the process stands still, its file system stops without writing anything more, it is killed.

The order is that of a real cut as seen from the disk: nothing that the process does after it reaches the disk, and it
answers nobody. A proof is a probe write that fails.
"""

from collections.abc import Callable, Mapping, Sequence

from system.disks import LoopDisk
from system.faults import Paused, UnprovedFault, prove_within
from system.rounds import Bench, RoundLog

__all__ = ["cut_power", "cut_power_of_all", "hand_over_by_power"]


def _lose(bench: Bench, disks: Mapping[str, LoopDisk], names: Sequence[str]) -> None:
    """All of them at once, as nearly as one process can: first everybody stands still."""
    for name in names:
        pause = Paused(bench.quorum.nodes[name].pid, name)
        pause.inject()
        pause.prove()
    for name in names:
        disks[name].lose_power()
        if not disks[name].is_dead():
            raise UnprovedFault(f"the disk of {name} still takes writes")
    for name in names:
        bench.quorum.nodes[name].kill()
        disks[name].unmount()


def _return(bench: Bench, disks: Mapping[str, LoopDisk], names: Sequence[str]) -> None:
    for name in names:
        disks[name].mount()
        prove_within(2, f"the disk of {name} is back", lambda name=name: not disks[name].is_dead())  # type: ignore[misc]
        bench.quorum.nodes[name].launch()
    for name in names:
        bench.quorum.nodes[name].wait_ready()


def cut_power(disks: Mapping[str, LoopDisk], *, leader: bool) -> Callable[[Bench, str, RoundLog], None]:
    """Of one member; the others go on."""

    def shape(bench: Bench, leading: str, log: RoundLog) -> None:
        victim = leading if leader else bench.draw.choice(bench.others(leading))
        _lose(bench, disks, [victim])
        bench.quorum.leader(among=bench.others(victim))
        _return(bench, disks, [victim])

    return shape


def cut_power_of_all(disks: Mapping[str, LoopDisk]) -> Callable[[Bench, str, RoundLog], None]:
    """Of everybody: what was answered must be on the disks."""

    def shape(bench: Bench, leading: str, log: RoundLog) -> None:
        _lose(bench, disks, bench.names)
        _return(bench, disks, bench.draw.sample(bench.names, len(bench.names)))

    return shape


def hand_over_by_power(disks: Mapping[str, LoopDisk]) -> Callable[[Bench, str, RoundLog], None]:
    """The one that slept and the one that lost power must together know what the other two had answered.

    Source: Jepsen on NATS 2.12.1; P06 of the fault plan.
    """

    def shape(bench: Bench, leading: str, log: RoundLog) -> None:
        sleeper = bench.draw.choice(bench.others(leading))
        loser, rest = bench.draw.sample([leading, *(set(bench.others(leading)) - {sleeper})], 2)
        asleep, paused = (Paused(bench.quorum.nodes[name].pid, name) for name in (sleeper, rest))
        asleep.inject()
        try:
            asleep.prove()
            bench.hold(0.5, 1.0)
            _lose(bench, disks, [loser])
            paused.inject()
        finally:
            asleep.heal()
        try:
            paused.prove()
            _return(bench, disks, [loser])
            bench.quorum.leader(among=[sleeper, loser])
            bench.hold(0.3, 0.6)
        finally:
            paused.heal()
        paused.prove_healed()

    return shape
