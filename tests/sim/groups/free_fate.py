"""What must hold of a group without controllers, in static or raft mode; the observer's memory is its own.

L2 an epoch has one leader. L3 a leader that begins has everything that was committed in earlier epochs. R1 what is
committed continues what was. R4 nothing committed is cut. R6 what is committed has a flushed copy wherever its mode
says. V1 a replica votes once in an epoch, and only for what it has kept.

Static mode promises this only if all synchronous followers must have a copy. Otherwise a promotion may lose what was
acknowledged, and until it has been heard of there may be two leaders: then the history of the later one counts.
"""

from typing import TYPE_CHECKING

from logherd.controller.values import GroupKey
from logherd.model.names import Epoch
from logherd.replication.messages import ReplicaId
from sim.leases.fate import require
from sim.leases.marks import Marks
from sim.leases.volume import Entry

if TYPE_CHECKING:
    from sim.groups.free_broker import FreeBroker

__all__ = ["FreeFate", "FreeObserver"]


class FreeFate:
    """`strict`: whether loss is never allowed."""

    def __init__(self, key: GroupKey, *, strict: bool) -> None:
        self.key = key
        self.strict = strict
        self.processes: list[FreeBroker] = []
        self.committed: list[Entry] = []
        self.acknowledged = self.elections = self.lost = 0
        self._begun: dict[Epoch, str] = {}
        self._reached: dict[Epoch, int] = {}
        """How many records were committed in an epoch, those of earlier ones included."""
        self._votes: dict[tuple[ReplicaId, Epoch], ReplicaId] = {}

    def is_late(self, epoch: Epoch) -> bool:
        """Whether a leader of a later epoch has begun."""
        return bool(self._begun) and epoch < max(self._begun)

    def on_begin(self, broker: "FreeBroker", epoch: Epoch) -> None:
        """L2, L3."""
        self.elections += 1
        process = self._begun.setdefault(epoch, broker.incarnation)
        require(process == broker.incarnation, "L2", f"epoch {epoch} is begun by {process} and {broker.incarnation}")
        # Not what a later epoch has committed, of whichever epoch the records are: who comes back and has not heard of
        # that one yet begins one of its own, in which it commits nothing.
        earlier = self.committed[: max((count for each, count in self._reached.items() if each < epoch), default=0)]
        if self.strict:
            require(broker.volume.holds(earlier), "L3", f"{broker.name} begins {epoch} and lacks committed records")
        elif not self.is_late(epoch):
            kept = broker.volume.same_as(self.committed)
            self.lost += len(self.committed) - kept
            del self.committed[kept:]

    def on_committed(self, broker: "FreeBroker", epoch: Epoch, log: list[Entry]) -> None:
        """R1, R6."""
        if not self.strict and self.is_late(epoch):
            return
        known = len(self.committed)
        same = known == 0 or (len(log) >= known and log[known - 1] == self.committed[-1])
        behind = len(log) < known and self.committed[len(log) - 1] == log[-1]
        require(same or behind, "R1", f"{broker.name} acknowledges another history")
        require(broker.copied(log), "R6", f"{broker.name} acknowledges what has too few copies")
        self.acknowledged += max(len(log) - known, 0)
        self.committed += log[known:]
        self._reached[epoch] = max(self._reached.get(epoch, 0), len(log))

    def on_shown(self, broker: "FreeBroker", log: list[Entry]) -> None:
        """W1: a follower shows what is committed; in raft mode perhaps before the leader, whose disk is slower."""
        if broker.world.mode == "raft" and len(log) > len(self.committed):
            self.on_committed(broker, broker.core.epoch, log)
        elif self.strict:
            known = self.committed[: len(log)]
            require(
                len(known) == len(log), "W1", f"{broker.name} shows {len(log)}, {len(self.committed)} are committed"
            )
            require(log[-1] == known[-1], "W1", f"{broker.name} shows another history")

    def on_truncate(self, broker: "FreeBroker", at: int) -> None:
        """R4."""
        log = broker.volume.log
        lost = self.strict and at < len(self.committed) and log[at] == self.committed[at]
        require(not lost, "R4", f"{broker.name} cuts a committed record at {at}")

    def on_vote(self, voter: ReplicaId, epoch: Epoch, candidate: ReplicaId) -> None:
        """V1."""
        given = self._votes.setdefault((voter, epoch), candidate)
        require(given == candidate, "V1", f"{voter} votes for {given} and {candidate} in epoch {epoch}")


class FreeObserver:
    """What a world asks of its observer."""

    def __init__(self, fate: FreeFate) -> None:
        self.fates = {fate.key: fate}
        self.marks = Marks()
        self._fate = fate
        self._numbers = 0

    def new_entry(self, epoch: Epoch) -> Entry:
        """A record that never was."""
        self._numbers += 1
        return (epoch, self._numbers)

    def check(self) -> None:
        """Nothing is checked after every single event."""

    def on_begin(self, broker: "FreeBroker", epoch: Epoch) -> None:
        """A leader begins its epoch."""
        broker.world.note(broker.name, f"begins epoch {epoch} after {len(broker.volume.log)} records")
        self._fate.on_begin(broker, epoch)

    def on_truncate(self, broker: "FreeBroker", at: int) -> None:
        """A follower cuts its log."""
        broker.world.note(broker.name, f"cuts its log from {len(broker.volume.log)} to {at} records")
        self._fate.on_truncate(broker, at)
