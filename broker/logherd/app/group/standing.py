"""What the world is told of a replica's role: clients and other brokers, the name services, the guardian.

A role is taken when everything it stands on is in place, and let go before anything of it is lost: whoever waits for an
answer hears that it is unknown before this replica's log may be cut.
"""

from typing import Protocol

from logherd.app.group.leadership import GroupLeadership
from logherd.app.guarded.keeper import LeaseKeeper
from logherd.app.requests import WaitingAnswers
from logherd.group.core import GroupCore
from logherd.group.leader import Leader
from logherd.group.output import Following
from logherd.model.names import Epoch
from logherd.service.forwarding.roles import Following as FollowingRole
from logherd.service.forwarding.roles import Leading, Nobody, Role
from logherd.service.ports import Reply
from logherd.store import MessageStore
from logherd.telemetry.log import Log
from logherd.wire.codes import ResponseCode

__all__ = ["Routes", "Standing"]

_log = Log("logherd.group")

_UNKNOWN = Reply(
    ResponseCode.SYSTEM_ERROR, remark="unknown: this broker ceased to lead before the message was committed"
)
_TOO_FEW = "fewer replicas are in sync than replication.minInSync asks for"
_STUCK_MS = 2_500
"""Nothing committed for so long: later sends are refused, because their clients would give up before they hear."""


class Routes(Protocol):
    """The registration at the name services."""

    def lead(self, epoch: int) -> None: ...

    def follow(self) -> None: ...


class Standing:
    """Loop thread only."""

    def __init__(self, leadership: GroupLeadership, keeper: LeaseKeeper, store: MessageStore) -> None:
        self.leadership = leadership
        self.keeper = keeper
        self._store = store
        self._answers: WaitingAnswers | None = None
        self._routes: Routes | None = None
        self._next: Role | None = None
        self._leased_until: int | None = None
        self.shut = ""
        """Why messages are refused though this replica leads; empty if they are not."""
        self._progress = (0, 0)
        """(committed position, since when)"""

    def attach(self, answers: WaitingAnswers, routes: Routes) -> None:
        """The answers that wait for commits, and the registration at the name services."""
        self._answers, self._routes = answers, routes

    # ---- a step tells it, `settle` makes it so -----------------------------------------------------------------------

    def will_lead(self, epoch: Epoch) -> None:
        """Serve once this step has been carried out."""
        self._next = Leading(epoch)

    def will_follow(self, following: Following) -> None:
        """Forward from then on, if it is known where to."""
        known = following.leader is not None and following.address
        self._next = FollowingRole(following.address, following.epoch) if known else Nobody()

    def settle(self, core: GroupCore) -> None:
        """The step has been carried out whole."""
        role, self._next = self._next, None
        if role is not None:
            if self._routes is not None:
                if isinstance(role, Leading):
                    self._routes.lead(role.epoch)
                else:
                    self._routes.follow()
            self.leadership.set(role)
        self._report_lease(core)
        self._mind_set(core)

    # ---- at once ---------------------------------------------------------------------------------------------------

    def drain(self) -> None:
        """Take no more requests; those that are running are answered."""
        self._next = None
        self.leadership.set(Nobody())

    def fence(self) -> None:
        """Every duty of a leader ends here and now."""
        self._next = self._leased_until = None
        if self._answers is not None and (count := self._answers.give_up(_UNKNOWN)):
            _log.warning("sends whose outcome is unknown", count=count)
        self.leadership.set(Nobody())
        self.keeper.release()

    # ---- inside ----------------------------------------------------------------------------------------------------

    def _report_lease(self, core: GroupCore) -> None:
        """The guardian watches over the lease, too (H16)."""
        until = core.ground.holder.until
        if until != self._leased_until and until is not None and core.leading is not None:
            self._leased_until = until
            self.keeper.lease(core.leading.epoch, until)

    def _mind_set(self, core: GroupCore) -> None:
        """While nothing can be committed (H5): say so at once instead of at the time-out, and let nothing pile up."""
        reason = "" if core.leading is None else self._obstacle(core, core.leading)
        if reason != self.shut:
            (_log.warning if reason else _log.info)("sends", refused_because=reason or None)
            self.shut = reason
            self._store.shut(reason)

    def _obstacle(self, core: GroupCore, leader: Leader) -> str:
        if not leader.insync.enough:
            return _TOO_FEW
        store, now = self._store, core.ground.now
        committed, since = self._progress
        if store.committed_position != committed or store.end_position == committed:
            self._progress = (store.committed_position, now)
            return ""
        if now - since < _STUCK_MS:
            return ""
        return f"in-sync replicas do not acknowledge: {', '.join(map(str, leader.insync.members))} are needed"
