"""All controllers at once go on from an older state of their disks, while brokers keep what they have (R20).

So it is where their volumes are restored from a snapshot, or where an operator has recovered the quorum from one that
lacked the latest decisions; then no epoch is granted again that may have been. What was decided since is lost: `doubt`
says what must hold all the same, and when nobody promises anything any more.
"""

from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING

from logherd.raft.memory import MemoryLog
from sim.consensus.disk import SimStore, copy_of
from sim.leases.observer import Known
from sim.leases.shape import RESTORE

if TYPE_CHECKING:
    from sim.leases.world import World

__all__ = ["Backups"]


@dataclass(frozen=True, slots=True)
class _Backup:
    disks: dict[str, MemoryLog]
    known: Known
    at_us: int


class Backups:
    """What the disks of all controllers held at one moment, and what was decided then."""

    def __init__(self, world: "World") -> None:
        self._world = world
        self._kept: _Backup | None = None

    def plan(self) -> None:
        """Keep what will be restored."""
        for fault in self._world.plan.faults:
            if fault.kind == RESTORE:
                self._world.after(1_000 * max(0, fault.at_ms - fault.lasts_ms), self._keep)

    def _keep(self) -> None:
        controllers = self._world.controllers.items()
        disks = {name: copy_of(each.store.disk) for name, each in controllers}
        self._kept = _Backup(disks, self._world.observer.known(), self._world.now_us)

    def restore(self, draw: Random) -> None:
        """The controllers stop, and start some time later from what was kept. Nothing that they have sent to each other
        arrives any more."""
        world, kept = self._world, self._kept
        if kept is None:
            return
        world.marks.hit("restored")
        down_us = draw.choice((100_000, 500_000, 2_000_000))
        world.recoveries += draw.random() < 0.5
        world.era += 1
        for name, controller in world.controllers.items():
            controller.crash(down_us + draw.randrange(50_000))
            controller.store = _store_of(kept.disks[name])
        world.observer.forget(kept.known, kept.at_us)
        if draw.random() < 0.5:
            wait = down_us + draw.randrange(4_000_000)
            world.after(wait, lambda: self._stop_the_newest(1_000_000 * draw.randint(1, 5)))

    def _stop_the_newest(self, lasts_us: int) -> None:
        """Who has a log of the latest leadership may have shown it by now, and is gone for a while."""
        for fate in self._world.observer.fates.values():
            logs = [(each.volume.log[-1][0], each) for each in fate.processes if each.volume.log]
            latest = max((epoch for epoch, _ in logs), default=0)
            for epoch, broker in logs:
                if epoch == latest and broker.alive:
                    broker.crash(lasts_us)


def _store_of(disk: MemoryLog) -> SimStore:
    store = SimStore(disk._segment_bytes)
    store.disk = disk
    return store.reopened()
