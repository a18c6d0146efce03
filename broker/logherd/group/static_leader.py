"""`static` mode's leader: who must have a copy is written in the table, and nobody leaves that list by itself."""

from collections.abc import Iterable

from logherd.controller.values import BrokerId
from logherd.group.ground import Ground
from logherd.group.leading import Leadership
from logherd.group.messages import Contradicted
from logherd.group.output import Behind, Closed, Draining, Strange
from logherd.group.seat import process_of
from logherd.group.table import Table, table_number
from logherd.model.names import Epoch, Position
from logherd.replication.epochs import NOWHERE, Point
from logherd.replication.messages import ReplicaId

__all__ = ["StaticLeader"]

_LEASE_PERCENT = 75
"""A leader relies on this part of what its followers wait out: two clocks may differ in rate by a quarter."""


class StaticLeader(Leadership):
    """Invariant: with synchronous followers it serves only while so many of them as must have a copy cannot yet follow
    anybody else (static_core.py 3). Asynchronous, it knows of nobody, and serves until it hears of a later table.
    """

    _unleased = "too few synchronous followers are heard"

    def __init__(self, ground: Ground, epoch: Epoch, table: Table) -> None:
        super().__init__(ground, epoch)
        self.table = table
        self.lost: str | None = None
        """Set when a follower has what was committed under this very table, and this log has not."""
        self._behind: tuple[BrokerId, ...] = ()
        self._draining = False
        self._contradicted: dict[BrokerId, ReplicaId] = {}

    def leased(self, now: int) -> bool:
        """Whether enough synchronous followers are bound to this leader."""
        if self.table.copies == 1:
            return True
        since = self._nth(self._heard_at(each) for each in self.table.synchronous)
        return now < since + self._ground.options.bound_ms * _LEASE_PERCENT // 100

    @property
    def draining(self) -> bool:
        """Whether this process is about to stop."""
        return self._draining

    def closed(self, now: int) -> Closed | None:
        """See Leadership; but nobody takes over from who stops."""
        closed = super().closed(now)
        return Closed.STOPPING if closed is Closed.DRAINING else closed

    @property
    def enough(self) -> bool:
        """Whether so many synchronous followers keep up as must have a copy."""
        return len(self.table.synchronous) - len(self._behind) >= self.table.copies - 1

    @property
    def behind(self) -> tuple[BrokerId, ...]:
        """The synchronous followers that do not keep up."""
        return self._behind

    def drain(self) -> None:
        """This process is about to stop; who leads next is for an operator to say."""
        if not self._draining:
            self._draining = True
            self._ground.report(Draining(self.epoch, None))

    def on_tick(self) -> str | None:
        """Look after the disk and the others, and name who is behind."""
        cause = super().on_tick()
        self._see_who_is_behind()
        return cause

    def _see_who_is_behind(self) -> None:
        behind = tuple(each for each in self.table.synchronous if self._is_behind(each))
        if behind != self._behind:
            self._behind = behind
            self._ground.report(Behind(self.epoch, behind))

    def _is_behind(self, follower: BrokerId) -> bool:
        return self.attendance.lagging(follower) or self.attendance.leaving(follower)

    def advance(self) -> str | None:
        """Something is news: commit, serve; why the leadership ends, if it does."""
        if self.lost is not None:
            return self.lost
        if self._behind:
            self._see_who_is_behind()  # who has caught up is believed at once: service may begin with this very step
        self._commit()
        self._mind_service(leased=self.leased(self._ground.now))
        if self._draining and self._ground.told >= self._ground.log.end:
            self._ground.be_drained()
        return None

    def _committable(self) -> Position:
        """What is flushed here and by so many synchronous followers as must have it."""
        own, ground = self._ground.durable.position, self._ground
        if self.table.copies == 1:
            return own
        latest = ground.standing.latest
        return min(own, Position(self._nth(self._flushed(each) for each in self.table.synchronous if latest(each))))

    def _flushed(self, follower: BrokerId) -> Position:
        return self.attendance.flushed_by(follower, self._ground.standing.latest(follower))

    def _heard_at(self, follower: BrokerId) -> int:
        """When the newest round was sent that the latest process of a follower has answered."""
        each = self.attendance.of(follower)
        heard = self._ship.rounds.heard_at(each.replica) if each is not None else None
        return heard if heard is not None else -self._ground.options.bound_ms

    def _nth(self, values: Iterable[int]) -> int:
        """What as many synchronous followers have reached as must."""
        reached, needed = sorted(values, reverse=True), self.table.copies - 1
        return reached[needed - 1] if len(reached) >= needed else NOWHERE

    def _contradict(self, sender: ReplicaId, committed: Point) -> None:
        """Under this very table: this log has lost something. Under an earlier one: the promotion did, known or not,
        and the follower will see whether anybody has accepted that."""
        if table_number(committed.epoch) == self.table.number:
            self.lost = f"{sender} has {committed}, which was committed under this table and is not here"
            return
        self._ground.send(sender, Contradicted(committed))
        process = process_of(sender)
        if process is None or table_number(committed.epoch) < self.table.forgiven:
            return
        if self._contradicted.get(process.broker_id) != sender:
            self._contradicted[process.broker_id] = sender
            self._ground.report(Strange(sender, f"has {committed}, which is not here"))

    def _wanted(self) -> Iterable[BrokerId]:
        return tuple(self._ground.standing.processes)
