"""The end of a run: without faults all groups come back to work; an operator helps where data was lost."""

from typing import TYPE_CHECKING

from logherd.controller.commands import Tune
from logherd.controller.values import Group
from sim.leases.fate import Fate, require

if TYPE_CHECKING:
    from sim.leases.world import World

__all__ = ["Calm"]

_LOOK_US = 500_000
_STEADY = 5
"""So many looks in a row must find nothing wrong."""
_PATIENCE_US = 3_000_000
"""After so long without a fault an operator sees to what is left: accepts loss, if only that helps."""


class Calm:
    """Liveness: a master with a lease, everybody in sync, records acknowledged again, no transfer left over."""

    def __init__(self, world: "World") -> None:
        self._world = world
        self._since = world.now_us
        self._acknowledged = {key: fate.acknowledged for key, fate in world.observer.fates.items()}

    def run(self, until_us: int) -> None:
        """Raises: Violation if something is still wrong at the end."""
        world, steady, wrong = self._world, 0, ""
        orders = world.faults.orders
        orders.submit(Tune(values={"gatherMs": 200, "transferMs": 2_000, "preferAfterMs": 0}))
        while world.now_us < until_us and steady < _STEADY:
            world.run_until(world.now_us + _LOOK_US)
            wrong = "; ".join(filter(None, map(self._wrong_with, world.observer.fates.values())))
            steady = 0 if wrong else steady + 1
            if wrong and world.now_us - self._since > _PATIENCE_US:
                for fate in world.observer.fates.values():
                    orders.rescue(fate)
        require(not wrong, "liveness", wrong)

    def _wrong_with(self, fate: Fate) -> str:
        group = fate.group
        if group is None or not group.founded:
            return f"{fate.key}: nobody founded the group"
        if self._world.now_us - fate.led_us > _LOOK_US:
            return f"{fate.key}: nobody leads; {group}"
        if group.transfer is not None:
            return f"{fate.key}: a transfer to b{group.transfer.target} is left over"
        missing = [broker_id for broker_id in self._wanted(fate, group) if broker_id not in group.sync.members]
        if missing:
            return f"{fate.key}: {missing} are not in sync; {group}"
        enough = len(group.sync.members) >= group.rules.min_in_sync
        if enough and fate.acknowledged <= self._acknowledged[fate.key]:
            return f"{fate.key}: nothing is acknowledged; {group}"
        return ""

    def _wanted(self, fate: Fate, group: Group) -> list[int]:
        """Who must be in sync again: every living process that is no learner."""
        learners = {each.broker_id for each in group.replicas if each.learner}
        return [broker.id for broker in fate.processes if broker.alive and broker.id not in learners]
