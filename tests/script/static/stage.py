"""Plays a script about a broker group in static mode; besides the commands of `acts`:

group 3 b1 [sync b2,b3 [2]]             so many replicas; who leads table 1, who is synchronous, how many copies
promote b2 [sync b3] [loss] [to b2,b3]  the next table, and who hears of it (everybody, if not told)
hear b1                                 it hears of the table in force
"""

import re
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

from logherd.controller.values import BrokerId
from logherd.group.inputs import Assigned
from logherd.group.output import Event
from logherd.group.table import Promotion, Table, next_table
from logherd.model.names import Epoch
from script.acts import Acts, play_with
from unit.group.ring import StaticRing

__all__ = ["SCRIPTS", "play"]

SCRIPTS = sorted(Path(__file__).parent.glob("*.txt"))


def play(text: str) -> str:
    """The script as it comes out now."""
    return play_with(text, _Static())


def _ids(names: str) -> tuple[BrokerId, ...]:
    return tuple(BrokerId(int(name[1:])) for name in names.split(",") if name)


class _Static(Acts):
    ring: StaticRing

    def commands(self) -> dict[str, Callable[..., None]]:
        return {**super().commands(), "group": self._group, "promote": self._promote, "hear": self._hear}

    def say(self, event: Event) -> str:
        """Epochs as table.leadership, because what stands below depends on names."""
        text = super().say(event)
        return re.sub(r"(epoch |epoch=)(\d{9,})", lambda found: f"{found[1]}{_short(int(found[2]))}", text)

    def _group(self, replicas: str, leader: str, *words: str) -> None:
        synchronous = _ids(words[1]) if words else ()
        copies = int(words[2]) if len(words) > 2 else len(synchronous) + 1
        table = Table(number=1, leader=_ids(leader)[0], synchronous=synchronous, copies=copies, address=leader)
        self.ring = StaticRing(table, replicas=int(replicas))

    def _promote(self, name: str, *words: str) -> None:
        said = dict(pairwise(words))
        node = self.node(name)
        synchronous = _ids(said.get("sync", ""))
        order = Promotion(
            after=self.ring.table.number, leader=BrokerId(node.id), synchronous=synchronous,
            copies=len(synchronous) + 1, address=name, holds=node.log.epochs.point_at(node.log.end),
            loss="loss" in words,
        )  # fmt: skip
        hearing = [self.ring.nodes[each] for each in _ids(said.get("to", ""))]
        self.ring.assign(next_table(self.ring.table, order), *hearing)

    def _hear(self, name: str) -> None:
        self.node(name).feed(Assigned(self.ring.table))


def _short(epoch: int) -> str:
    return f"{Epoch(epoch) >> 43}.{epoch >> 24 & 0x7FFFF}"
