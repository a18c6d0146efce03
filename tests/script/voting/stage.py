"""Plays a script about a broker group in raft mode; besides the commands of `acts`:

group 3              so many founders
hand b1 b2           an operator wants b1, which leads, to hand over to b2
wipe b2              its process ends, and its store is lost
join b4              another replica starts, with a store of its own
members 1,2,4 [5]    who should vote, and who should learn; everybody hears of it
"""

from collections.abc import Callable
from pathlib import Path

from logherd.controller.values import BrokerId
from logherd.group.inputs import HandOver, MembersWanted
from logherd.group.output import Promise
from logherd.model.names import Position
from script.acts import Acts, play_with
from unit.group.ring import NotedMemory, VotingReplica, VotingRing

__all__ = ["SCRIPTS", "play"]

SCRIPTS = sorted(Path(__file__).parent.glob("*.txt"))


def play(text: str) -> str:
    """The script as it comes out now."""
    return play_with(text, _Voting())


class _Voting(Acts):
    ring: VotingRing

    def commands(self) -> dict[str, Callable[..., None]]:
        return {
            **super().commands(), "group": self._group, "hand": self._hand, "wipe": self._wipe, "join": self._join,
            "members": self._members,
        }  # fmt: skip

    def _group(self, replicas: str) -> None:
        self.ring = VotingRing(int(replicas))

    def _hand(self, name: str, target: str) -> None:
        self.node(name).feed(HandOver(BrokerId(int(target[1:]))))

    def _wipe(self, name: str) -> None:
        node = self._voting(name)
        self.ring.kill(node)
        node.log, node.kept, node.committed, node.founders = NotedMemory(), Promise(), Position(0), ()
        node.store += 1

    def _join(self, name: str) -> None:
        self.ring.restart(self.ring.add(int(name[1:])))

    def _members(self, voters: str, learners: str = "") -> None:
        named = [tuple(self._voting(f"b{each}").core.identity for each in part.split(",") if each)
                 for part in (voters, learners)]  # fmt: skip
        for node in self.ring.nodes.values():
            if node.alive:
                node.feed(MembersWanted(named[0], named[1]))

    def _voting(self, name: str) -> VotingReplica:
        node = self.node(name)
        assert isinstance(node, VotingReplica)
        return node
