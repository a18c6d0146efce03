"""A change of members on its way, step by step towards its goal. The steps themselves are in members.py."""

from dataclasses import dataclass

from logherd.raft.ground import Ground
from logherd.raft.inputs import ChangeMembers
from logherd.raft.lease import Lease
from logherd.raft.members import Configuration, Goal, next_configuration
from logherd.raft.output import Decided, Refusal, Unknown
from logherd.replication.shipper import Shipper

__all__ = ["Changing"]


@dataclass(frozen=True, slots=True)
class _Change:
    """`request` is answered when the goal is committed."""

    goal: Goal
    request: int
    deadline: int


class Changing:
    """At most one change at a time; a joint group is left even if the change was begun by another leader."""

    def __init__(self, ground: Ground, ship: Shipper, lease: Lease) -> None:
        self._ground = ground
        self._ship = ship
        self._lease = lease
        self._change: _Change | None = None
        self.settled: Configuration | None = None
        """Of these members it is known that nothing is left to do, until a change is wanted."""

    def settle(self, current: Configuration) -> None:
        """Nothing was to be done about these members: that stays so, unless a change waits for something."""
        if self._change is None:
            self.settled = current

    @property
    def running(self) -> bool:
        """Whether a goal is being worked on."""
        return self._change is not None

    @property
    def goal(self) -> Goal | None:
        """Which."""
        return self._change.goal if self._change is not None else None

    def begin(self, change: ChangeMembers, *, ready: bool, blocked: bool) -> None:
        """Take a request or refuse it; `blocked`: leadership is being handed over."""
        ground, goal, former, reason = self._ground, change.goal, self._change, None
        if not ready:
            reason = Refusal.NOT_READY
        elif (former is not None and not change.instead) or blocked or ground.members.current.joint:
            reason = Refusal.RUNNING
        elif not goal.voters or any(peer in goal.voters for peer in goal.learners):
            reason = Refusal.INVALID
        elif ground.full and not goal.reached(ground.members.current):
            reason = Refusal.DISK_FULL
        if reason is not None:
            ground.refuse(change.request, reason, ground.identity)
            return
        if former is not None:
            ground.refuse(former.request, Refusal.BEHIND, ground.identity)
        self._change = _Change(goal, change.request, ground.clock.now + ground.options.change_ms_max)
        self.settled = None

    def on_tick(self) -> None:
        """Give up on new voters that do not catch up. Those that became learners stay learners."""
        change = self._change
        if change is not None and self._ground.clock.now >= change.deadline:
            self._ground.refuse(change.request, Refusal.BEHIND, self._ground.identity)
            self._change = None

    def following(self) -> Configuration | None:
        """The configuration to append now; the caller knows that the current one is committed."""
        ground, change = self._ground, self._change
        if change is not None and change.goal.reached(ground.members.current):
            ground.out.answers.append(Decided(change.request, ground.members.since))
            self._change = change = None
        following = next_configuration(ground.members.current, change.goal if change else None, self._ship.caught_up)
        if following is None or ground.members.current.joint or self._lease.heard_with(following):
            return following
        return None  # it would at once depend on somebody who was not heard yet, and step down

    def close(self) -> None:
        """The leadership ends: the next leader may finish a joint change, or never hear of this one."""
        if self._change is not None:
            self._ground.out.answers.append(Unknown(self._change.request))
            self._change = None
