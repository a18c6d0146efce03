"""What the world is told of a replica's role: clients and other brokers, the name services, the guardian.

A role is taken when everything it stands on is in place, and let go before anything of it is lost: whoever waits for an
answer hears that it is unknown before this replica's log may be cut.
"""

from typing import Protocol

from logherd.app.group.leadership import GroupLeadership
from logherd.app.guarded.keeper import LeaseKeeper
from logherd.app.requests import WaitingAnswers
from logherd.group.core import GroupCore
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


class Routes(Protocol):
    """The registration at the name services."""

    def lead(self, epoch: int) -> None: ...

    def follow(self) -> None: ...


class Standing:
    """Loop thread only."""

    def __init__(self, leadership: GroupLeadership, keeper: LeaseKeeper, store: MessageStore) -> None:
        self.leadership = leadership
        self._keeper = keeper
        self._store = store
        self._answers: WaitingAnswers | None = None
        self._routes: Routes | None = None
        self._next: Role | None = None
        self._leased_until: int | None = None
        self._shut = ""

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
        self._keeper.release()

    # ---- inside ----------------------------------------------------------------------------------------------------

    def _report_lease(self, core: GroupCore) -> None:
        """The guardian watches over the lease, too (H16)."""
        until = core.ground.holder.until
        if until != self._leased_until and until is not None and core.leading is not None:
            self._leased_until = until
            self._keeper.lease(core.leading.epoch, until)

    def _mind_set(self, core: GroupCore) -> None:
        """While too few replicas are in sync nothing is committed (H5): say so at once instead of at the time-out."""
        reason = "" if core.leading is None or core.leading.insync.enough else _TOO_FEW
        if reason != self._shut:
            self._shut = reason
            self._store.shut(reason)
