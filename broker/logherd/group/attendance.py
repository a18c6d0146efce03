"""Which process of each other broker follows this leader, how far it has flushed, and whether it keeps up."""

from collections.abc import Iterator
from dataclasses import dataclass, field

from logherd.controller.values import BrokerId, Registration
from logherd.group.ground import Ground
from logherd.group.pace import Pace
from logherd.group.seat import Process, replica_of
from logherd.model.names import Position
from logherd.replication.epochs import NOWHERE
from logherd.replication.messages import ReplicaId
from logherd.replication.sender import Room
from logherd.replication.shipper import Shipper

__all__ = ["Attendance", "Follower"]

NEAR_MS = 300
"""Four ways there and back to somebody 35 ms away: what comes meanwhile waits for what is under way, and when it last
had everything is known once it has what came after."""


@dataclass(slots=True)
class Follower:
    """A follower's latest process. `leaving_at`: when it said last that the set should do without it. `pace` is looked
    at whenever it is heard of."""

    process: Process
    replica: ReplicaId
    leaving_at: int | None = None
    pace: Pace = field(default_factory=Pace)

    @property
    def in_step_at(self) -> int | None:
        """See Pace."""
        return self.pace.in_step_at


class Attendance:
    """Only the latest process of a broker counts (R4, R11); what an earlier one says is not heard."""

    def __init__(self, ground: Ground, ship: Shipper) -> None:
        self._ground = ground
        self._ship = ship
        self._began = ground.now
        self._followers: dict[BrokerId, Follower] = {}
        self._earlier: dict[BrokerId, int] = {}
        """When an earlier process of a broker was last in step: a restart has as much time as a silence."""

    def __iter__(self) -> Iterator[Follower]:
        return iter(self._followers.values())

    @property
    def replicas(self) -> tuple[ReplicaId, ...]:
        """Everybody who follows."""
        return tuple(each.replica for each in self)

    def named(self, replica: ReplicaId) -> Follower | None:
        """The follower of this name, if it is the latest process of its broker."""
        for each in self._followers.values():
            if each.replica == replica:
                return each
        return None

    def of(self, broker_id: BrokerId) -> Follower | None:
        """The follower of this id."""
        return self._followers.get(broker_id)

    def welcome(self, process: Process) -> bool:
        """Take in a process that has presented itself; True if it is another one than before."""
        known = self.of(process.broker_id)
        if known is not None and known.process == process:
            return False
        self._ground.standing.meet(process)
        self._remember(process.broker_id)
        self._followers[process.broker_id] = Follower(process, replica_of(process))
        return True

    def dismiss_earlier(self) -> bool:
        """Forget processes of which a later one is known; True if there were any."""
        latest = self._ground.standing.latest
        earlier = [each for each in self if each.process.registration < latest(each.process.broker_id)]
        for each in earlier:
            self._remember(each.process.broker_id)
            del self._followers[each.process.broker_id]
        return bool(earlier)

    def leaving(self, broker_id: BrokerId) -> bool:
        """Whether it wants to leave, or is away. It says so again and again: what is said once may come late."""
        each = self.of(broker_id)
        if each is None or each.leaving_at is None:
            return False
        return self._ground.now - each.leaving_at < self._ground.options.lag_ms

    def _remember(self, broker_id: BrokerId) -> None:
        self._earlier[broker_id] = max(self._in_step_since(broker_id), self._earlier.get(broker_id, 0))

    def heard(self, each: Follower) -> None:
        """It has answered."""
        each.pace.keep(self._ship.match(each.replica), self._ground.log.end, self._ground.clock.now)

    def flushed_by(self, broker_id: BrokerId, process: Registration) -> Position:
        """How far a member has flushed; nothing, if that was acknowledged by an earlier process than this."""
        each = self._followers.get(broker_id)
        if each is None or each.process.registration < process:
            return NOWHERE
        return self._ship.match(each.replica)

    def lagging(self, broker_id: BrokerId) -> bool:
        """H6: whether a member has not been in step for too long. Nobody is blamed for a sleep of this process."""
        since = max(self._in_step_since(broker_id), self._earlier.get(broker_id, 0))
        since = max(since, self._began, self._ground.clock.gap_at)
        return self._ground.now - since >= self._ground.options.lag_ms

    def hears(self, broker_id: BrokerId) -> bool:
        """Whether it has answered lately, however far behind it is."""
        each = self.of(broker_id)
        heard_at = self._ship.rounds.heard_at(each.replica) if each is not None else None
        return heard_at is not None and self._ground.now - heard_at < self._ground.options.lag_ms

    def in_step(self, broker_id: BrokerId) -> bool:
        """Whether it keeps up well enough to join."""
        sender = self._ship.sender(each.replica) if (each := self.of(broker_id)) is not None else None
        if sender is None or sender.room is Room.NONE or self.leaving(broker_id):
            return False
        return self._ground.now - self._in_step_since(broker_id) < self._ground.options.lag_ms // 2

    def near(self, broker_id: BrokerId) -> bool:
        """Whether it lacks no more than what is on its way to somebody far away."""
        return self._ground.now - self._in_step_since(broker_id) < min(NEAR_MS, self._ground.options.lag_ms // 5)

    def _in_step_since(self, broker_id: BrokerId) -> int:
        """When it is certain to have lived and to have had everything; long ago, if ever."""
        each = self.of(broker_id)
        heard_at = self._ship.rounds.heard_at(each.replica) if each is not None else None
        if each is None or heard_at is None or each.in_step_at is None:
            return -self._ground.options.lag_ms
        return min(heard_at, each.in_step_at)
