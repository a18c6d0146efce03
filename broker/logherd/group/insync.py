"""Whose flushed end counts, and who should be in the in-sync set: what is in force, and what this leader has proposed.

Source: controller-ha R6, R9, R11; design H5, H6; defects #5663, #9897, DX-3, DX-4, DX-9 name what goes wrong otherwise.
"""

from collections.abc import Callable

from msgspec.structs import replace

from logherd.controller.commands import AlterSyncSet, SyncMember
from logherd.controller.reports import RoleView
from logherd.controller.values import BrokerId, Registration
from logherd.group.attendance import Attendance
from logherd.group.ground import Ground
from logherd.group.output import SetChanged
from logherd.model.names import Epoch, Position
from logherd.replication.epochs import NOWHERE

__all__ = ["InSync"]

_PATIENCE = 6
"""How many times `lag_ms` somebody is near before it is awaited: it kept up for so long without falling behind."""


class InSync:
    """Invariants: (1) a record is committed only when every member of the set in force, and of each set proposed that
    may still come into force, has flushed it, and the set in force is large enough; (2) all proposals that may still
    come into force expect the version in force, so at most one of them does; (3) none is smaller than the minimum.

    What is committed also waits for who is `awaited`; that costs a moment, and keeps nothing safe.
    """

    def __init__(self, ground: Ground, attendance: Attendance, view: RoleView) -> None:
        self._ground = ground
        self._attendance = attendance
        self._view = view
        self._proposed: list[AlterSyncSet] = []
        """Proposals that may have been, or may yet be, accepted; the last one is wanted."""
        self._awaited: tuple[BrokerId, ...] = ()
        self._near_since: dict[BrokerId, int] = {}
        """Since when who is no member could be one but for what is on its way to it."""
        self._begun_at: int | None = None
        self._asked_at: int | None = None
        self._count = 0
        self._needed = self._who_is_needed()

    @property
    def members(self) -> tuple[BrokerId, ...]:
        """The set in force, as far as it is known here."""
        return self._view.members

    @property
    def enough(self) -> bool:
        """Whether the set in force is large enough to commit anything (H5)."""
        return len(self._view.members) >= self._view.min_in_sync

    def can_be_enough(self, hears: Callable[[BrokerId], bool]) -> bool:
        """Whether this replica and the others that it hears, members or not, are as many as a commit takes."""
        me, latest = self._ground.me.broker_id, self._ground.standing.processes
        others = [each for each in {*self.members, *latest} if each != me and each not in self._view.learners]
        return 1 + sum(map(hears, others)) >= self._view.min_in_sync

    @property
    def pending(self) -> tuple[tuple[BrokerId, ...], ...]:
        """The sets that may still come into force; for status."""
        return tuple(tuple(member.broker_id for member in command.members) for command in self._proposed)

    @property
    def awaited(self) -> tuple[BrokerId, ...]:
        """Who was near for several times `lag_ms`, and lacks what was committed a moment ago: nothing more is committed
        until they have that. Who is further away than the members would have it only once nobody sends, and could not
        join before. Others are not awaited: who was only behind joins without it, and who hangs, or is slow, would make
        everybody as slow.
        """
        return self._awaited

    @property
    def asked_at(self) -> int | None:
        """When the change that is wanted was proposed first; for status."""
        return self._begun_at if self._proposed else None

    # ---- what is in force ----------------------------------------------------------------------------------------

    def learn(self, view: RoleView) -> None:
        """The controllers' view of this leadership, at least as late as the one before."""
        before, self._view = self._view, view
        if before.version < view.version:
            # Invariant 2: what expects an earlier version has been accepted, or never will be.
            self._proposed.clear()
            self._asked_at = None
        self._needed = self._who_is_needed()
        if before.members != view.members:
            self._ground.report(SetChanged(before.members, view.members, view.version))

    def accepted(self, request: str, members: tuple[BrokerId, ...], version: int) -> RoleView | None:
        """A proposal has come into force; the view that follows from that, if it is news."""
        ours = next((command for command in self._proposed if command.request == request), None)
        if ours is None or version <= self._view.version:
            return None
        standing = self._ground.standing
        processes = tuple(standing.latest(member) for member in members)
        return replace(self._view, members=members, processes=processes, version=version)

    def reached(self) -> Position:
        """R6: how far everybody has flushed whose copy counts."""
        me = self._ground.standing.me.broker_id
        if me not in self._view.members:
            return NOWHERE
        reached, flushed_by = self._ground.durable.position, self._attendance.flushed_by
        for member, process in self._needed:
            if member != me and (flushed := flushed_by(member, process)) < reached:
                reached = flushed
        return reached

    def _who_is_needed(self) -> tuple[tuple[BrokerId, Registration], ...]:
        """Whose flushed end counts, and since which process: what an earlier one had may be lost (R11)."""
        latest = self._ground.standing.latest
        needed = {member: latest(member) for member in (*self.members, *self._awaited)}
        for command in self._proposed:
            for member in command.members:
                needed[member.broker_id] = max(member.registration, latest(member.broker_id))
        return tuple(needed.items())

    # ---- what should be in force ---------------------------------------------------------------------------------

    def mind(self, epoch: Epoch, barrier: Position | None) -> None:
        """R9: propose what should be, again until the outcome is known, and made anew when something else should be."""
        self._await(barrier)
        wanted = self._wanted(barrier)
        if wanted == self.members and not self._proposed:
            return
        members = tuple(self._member(each) for each in wanted)
        latest = self._proposed[-1] if self._proposed else None
        now = self._ground.now
        if latest is None or _processes(latest.members) != _processes(members):
            latest = self._proposal(epoch, members)
            self._begun_at = now
            self._proposed.append(latest)
            self._needed = self._who_is_needed()
        elif self._asked_at is not None and now - self._asked_at < self._ground.options.retry_ms:
            return
        self._asked_at = now
        self._ground.ask(latest)

    def _wanted(self, barrier: Position | None) -> tuple[BrokerId, ...]:
        """Members that keep up, and whoever has caught up. Never so few that nothing could be committed: who is gone
        then is waited for, because it may come back sooner than another one catches up."""
        me, view = self._ground.me.broker_id, self._view
        staying = {each for each in view.members if each == me or self._may_stay(each)}
        joining = {
            each.process.broker_id for each in self._attendance if self._may_join(each.process.broker_id, barrier)
        }
        wanted = {me, *staying, *joining}
        if len(wanted) < view.min_in_sync:
            wanted = {me, *view.members, *joining}
        return tuple(sorted(wanted))

    def _may_stay(self, broker_id: BrokerId) -> bool:
        return not self._attendance.leaving(broker_id) and not self._attendance.lagging(broker_id)

    def _may_join(self, broker_id: BrokerId, barrier: Position | None) -> bool:
        """Who has everything that is committed and this leader's barrier, and keeps up."""
        return self._is_close(broker_id, barrier) and self._flushed(broker_id) >= self._ground.commit

    def _await(self, barrier: Position | None) -> None:
        """Whoever falls silent meanwhile is not near any more, and is awaited no more."""
        present = (each.process.broker_id for each in self._attendance)
        now, patience, before = self._ground.now, _PATIENCE * self._ground.options.lag_ms, self._near_since
        self._near_since = {
            each: before.get(each, now)
            for each in present if self._is_close(each, barrier) and self._attendance.near(each)
        }  # fmt: skip
        awaited = tuple(
            each for each, since in self._near_since.items()
            if now - since >= patience and self._flushed(each) < self._ground.commit
        )  # fmt: skip
        if awaited != self._awaited:
            self._awaited = awaited
            self._needed = self._who_is_needed()

    def _is_close(self, broker_id: BrokerId, barrier: Position | None) -> bool:
        """Whether it is no member, could be one, has the barrier, and keeps up."""
        if barrier is None or broker_id in self.members or broker_id in self._view.learners:
            return False
        return self._flushed(broker_id) >= barrier and self._attendance.in_step(broker_id)

    def _flushed(self, broker_id: BrokerId) -> Position:
        return self._attendance.flushed_by(broker_id, self._ground.standing.latest(broker_id))

    def _member(self, broker_id: BrokerId) -> SyncMember:
        ground = self._ground
        process = ground.standing.latest(broker_id)
        own = broker_id == ground.me.broker_id
        flushed = ground.durable.position if own else self._attendance.flushed_by(broker_id, process)
        return SyncMember(broker_id=broker_id, registration=process, end=ground.known_point(flushed))

    def _proposal(self, epoch: Epoch, members: tuple[SyncMember, ...]) -> AlterSyncSet:
        ground, version = self._ground, self._view.version
        self._count += 1
        return AlterSyncSet(
            group=ground.seat.group, broker_id=ground.me.broker_id, registration=ground.me.registration, epoch=epoch,
            version=version, members=members, committed=ground.known_point(ground.commit),
            min_in_sync=self._view.min_in_sync, request=f"{ground.me.registration}/{epoch}/{version}/{self._count}",
        )  # fmt: skip


def _processes(members: tuple[SyncMember, ...]) -> list[tuple[BrokerId, Registration]]:
    return [(member.broker_id, member.registration) for member in members]
