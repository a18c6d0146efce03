"""Static mode's tables as the controllers record them, and the operators who change them by hand.

Rule H7: of each number there is one table. A second hand goes by what it saw some time ago.
"""

from random import Random
from typing import TYPE_CHECKING

from logherd.controller.commands import Promote
from logherd.controller.machine import Machine
from logherd.controller.values import BrokerId
from logherd.group.table import Promotion, PromotionRefusedError, Recorded, Table, found, promote, served
from sim.groups.broker import GroupBroker
from sim.leases.fate import require
from sim.leases.shape import Shape
from sim.leases.world import KEYS

if TYPE_CHECKING:
    from sim.groups.free_world import FreeWorld

__all__ = ["Registry"]


KEY = KEYS[0]


class Registry:
    """`copies`: `all` synchronous followers must have one, `some`, or `none` does. Only `all` never accepts loss."""

    def __init__(self, draw: Random, shape: Shape, copies: str, second: Random) -> None:
        """`second`: what the other hand does."""
        self._copies = copies
        self._brokers = tuple(BrokerId(each) for each in range(1, shape.brokers + 1))
        self._starts: dict[int, int] = {}
        self.poll_us = draw.choice((300_000, 300_000, 1_500_000))
        self.first = self._table(draw)
        self.recorded: Recorded = found(self.first)
        self._controllers = Machine()
        self._tables = {1: self.first}
        self._second = second
        self._seen = self.recorded
        """By the other hand."""

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
        if self._second.random() < 0.3:
            delay = self._second.choice((0, 20_000, 2_000_000))
            world.after(delay, lambda: self._order(world, self._second, self._seen))
        if self._second.random() < 0.5:
            self._seen = self.recorded
        self._order(world, draw, self.recorded, former=self.recorded.table.leader if instead else None)

    def _order(self, world: "FreeWorld", draw: Random, seen: Recorded, *, former: BrokerId | None = None) -> None:
        """`seen`: what is in force as far as the operator, and the broker that he asks, have heard."""
        loss = self._copies != "all"
        able = [each for each in (self._brokers if loss else seen.eligible) if each != former]
        if not able:
            return
        leader = draw.choice(able)
        alive = tuple(each.id for each in world.free() if each.active and not each.learner and each.id != former)
        synchronous, copies = self._followers(leader, alive, draw)
        chosen = next(each for each in world.free() if each.id == leader)
        assert isinstance(chosen, GroupBroker)
        end = chosen.volume.disk.epochs.point_at(chosen.volume.disk.end)
        order = Promotion(
            after=seen.table.number, leader=leader, synchronous=synchronous, copies=copies, holds=end, loss=loss,
        )  # fmt: skip
        try:
            self._record(world, order, promote(seen, order))
        except PromotionRefusedError:
            world.seen["promotion refused"] += 1

    def _record(self, world: "FreeWorld", order: Promotion, wanted: Recorded) -> None:
        """In force is what the controllers have recorded."""
        table = wanted.table
        command = Promote(group=KEY, after=order.after, broker_id=order.leader, table=repr(table))
        if self._controllers.apply(command).refusal is not None:
            raise PromotionRefusedError("somebody was faster")
        before = self._tables.setdefault(table.number, table)
        require(before == table, "H7", f"there are {before} and {table}")
        self.recorded = wanted
        world.note("operator", f"{self.recorded}")

    def rescue(self, world: "FreeWorld", draw: Random) -> None:
        """Nobody leads: try another one."""
        self.promote(world, draw)
