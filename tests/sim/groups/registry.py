"""Static mode's record of tables, and the operator who changes it by hand."""

from random import Random
from typing import TYPE_CHECKING

from logherd.controller.values import BrokerId
from logherd.group.table import Promotion, Recorded, Table, found, promote, served
from sim.groups.broker import GroupBroker
from sim.leases.shape import Shape

if TYPE_CHECKING:
    from sim.groups.free_world import FreeWorld

__all__ = ["Registry"]


class Registry:
    """`copies`: `all` synchronous followers must have one, `some`, or `none` does. Only `all` never accepts loss."""

    def __init__(self, draw: Random, shape: Shape, copies: str) -> None:
        self._copies = copies
        self._brokers = tuple(BrokerId(each) for each in range(1, shape.brokers + 1))
        self._starts: dict[int, int] = {}
        self.poll_us = draw.choice((300_000, 300_000, 1_500_000))
        self.first = self._table(draw)
        self.recorded: Recorded = found(self.first)

    def registration(self, broker_id: BrokerId) -> int:
        """The number of the next process of a broker."""
        self._starts[broker_id] = self._starts.get(broker_id, 0) + 1
        return self._starts[broker_id]

    def _table(self, draw: Random) -> Table:
        leader = draw.choice(self._brokers)
        synchronous, copies = self._followers(leader, self._brokers, draw)
        return Table(number=1, leader=leader, synchronous=synchronous, copies=copies)

    def _followers(
        self, leader: BrokerId, among: tuple[BrokerId, ...], draw: Random
    ) -> tuple[tuple[BrokerId, ...], int]:
        others = [each for each in among if each != leader]
        if self._copies == "none" or not others:
            return (), 1
        chosen = tuple(sorted(draw.sample(others, draw.randint(1, len(others)))))
        return chosen, len(chosen) + 1 if self._copies == "all" else draw.randint(2, len(chosen) + 1)

    def on_serving(self, number: int) -> None:
        """Somebody serves in this table."""
        if number == self.recorded.table.number:
            self.recorded = served(self.recorded)

    def promote(self, world: "FreeWorld", draw: Random, *, instead: bool = False) -> None:
        """An operator chooses somebody who may, and those whom the new leader is to wait for; `instead`: of the present
        leader, who is to have no part in it."""
        recorded = self.recorded
        loss, former = self._copies != "all", recorded.table.leader if instead else None
        able = [each for each in (self._brokers if loss else recorded.eligible) if each != former]
        if not able:
            return
        leader = draw.choice(able)
        alive = tuple(each.id for each in world.free() if each.active and not each.learner and each.id != former)
        synchronous, copies = self._followers(leader, alive, draw)
        chosen = next(each for each in world.free() if each.id == leader)
        assert isinstance(chosen, GroupBroker)
        end = chosen.volume.disk.epochs.point_at(chosen.volume.disk.end)
        order = Promotion(
            after=recorded.table.number, leader=leader, synchronous=synchronous, copies=copies, holds=end, loss=loss,
        )  # fmt: skip
        self.recorded = promote(recorded, order)
        world.note("operator", f"{self.recorded}")

    def rescue(self, world: "FreeWorld", draw: Random) -> None:
        """Nobody leads: try another one."""
        self.promote(world, draw)
