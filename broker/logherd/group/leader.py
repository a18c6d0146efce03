"""The leader that the controllers have chosen: it holds a lease, and keeps the in-sync set."""

from collections.abc import Iterable

from logherd.controller.reports import RoleView
from logherd.controller.values import BrokerId
from logherd.group.ground import Ground
from logherd.group.handover import Handover
from logherd.group.insync import InSync
from logherd.group.leading import Leadership
from logherd.group.messages import Contradicted, Presence
from logherd.group.solitude import Solitude
from logherd.model.names import Position
from logherd.replication.epochs import NOWHERE, Point
from logherd.replication.messages import ReplicaId
from logherd.replication.shipping import FollowersSet

__all__ = ["Leader"]


class Leader(Leadership):
    """Invariant: `commit` moves only while the lease runs."""

    def __init__(self, ground: Ground, view: RoleView, solitude: Solitude) -> None:
        super().__init__(ground, view.epoch)
        self.insync = InSync(ground, self.attendance, view)
        self.handover = Handover(ground, self.attendance, view.epoch)
        self._solitude = solitude
        self._company_at = ground.now

    def leased(self, now: int) -> bool:
        """Whether the lease of this leadership runs."""
        return self._ground.holder.epoch_at(now) == self.epoch

    @property
    def draining(self) -> bool:
        """Whether leadership is being handed over."""
        return self.handover.draining

    @property
    def enough(self) -> bool:
        """H5: whether the set in force is large enough to commit anything."""
        return self.insync.enough

    @property
    def _begins_with(self) -> tuple[BrokerId, ...]:
        return tuple(sorted(self.insync.members))

    def on_tick(self) -> str | None:
        """Look after the disk, the others and the set."""
        cause = super().on_tick()
        if cause is None:
            self._mind_set()
            if self.leased(self._ground.now) and self._deserted():
                self._solitude.given_up()
                cause = "too few of the group are heard"
        return cause

    def _deserted(self) -> bool:
        """Whether too few others have answered for too long. Nobody is blamed for a sleep of this process."""
        ground = self._ground
        if self.insync.can_be_enough(self.attendance.hears):
            self._company_at = ground.now
            self._solitude.over()
        return ground.now - max(self._company_at, ground.clock.gap_at) >= self._solitude.patience_ms

    def _mind_set(self) -> None:
        if self.leased(self._ground.now):
            self.insync.mind(self.epoch, self._barrier)

    def learn(self, view: RoleView) -> None:
        """The controllers have spoken, of this epoch."""
        self.insync.learn(view)
        if self.attendance.dismiss_earlier():
            self._shipped(FollowersSet(self.attendance.replicas))

    def on_accepted(self, request: str, members: tuple[BrokerId, ...], version: int) -> None:
        """A proposal of the set was accepted."""
        view = self.insync.accepted(request, members, version)
        if view is not None and self._ground.standing.learn(view):
            self.learn(view)

    def on_presence(self, sender: ReplicaId, presence: Presence) -> None:
        """A process says that it follows; who is about to leave is let go at once."""
        super().on_presence(sender, presence)
        if presence.leaving and self.attendance.named(sender) is not None:
            self._mind_set()

    def _contradict(self, sender: ReplicaId, committed: Point) -> None:
        self._ground.send(sender, Contradicted(committed))

    def _wanted(self) -> Iterable[BrokerId]:
        return self.insync.members

    def advance(self) -> str | None:
        """Something is news: commit, serve, hand over."""
        leased = self.leased(self._ground.clock.now)
        if leased:
            self._commit()
        if not (leased and self._serving):
            self._mind_service(leased=leased)
        return self.handover.due() if leased else None

    def _committable(self) -> Position:
        """R6, H5."""
        insync = self.insync
        return insync.reached() if insync.enough else NOWHERE
