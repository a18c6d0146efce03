"""What the world is told of a replica's role: clients and other brokers, the name services, the guardian.

A role is taken when everything it stands on is in place, and let go before anything of it is lost: whoever waits for an
answer hears that it is unknown before this replica's log may be cut.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from logherd.app.clock import boot_ms
from logherd.app.group.leadership import GroupLeadership
from logherd.app.group.mode import Lease, Mode
from logherd.app.guarded.keeper import LeaseKeeper
from logherd.app.requests import WaitingAnswers
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
_LEASE_STEP_MS = 100
"""What a lease must have been prolonged by for the guardian to be told: short beside the second that it waits."""
_STUCK_MS = 2_500
"""Nothing committed for so long: later sends are refused, because their clients would give up before they hear."""

_GRANTING: Mapping[str, str] = {"controller": "the controllers do", "raft": "a majority of the group does"}
"""On whom a lease rests, so that the in-sync replicas are not blamed for it."""


class Routes(Protocol):
    """The registration at the name services."""

    def lead(self, epoch: int) -> None: ...

    def name(self, *, own: bool) -> None: ...

    def follow(self) -> None: ...


@dataclass(slots=True)
class _Said:
    """What the machine has said of leaderships here: in which epoch it may serve, which one it hands over, and the role
    that is to be taken once the step has been carried out."""

    serves: Epoch | None = None
    drains: Epoch | None = None
    next: Role | None = None


class Standing:
    """Loop thread only."""

    def __init__(self, leadership: GroupLeadership, keeper: LeaseKeeper, store: MessageStore, mode: Mode) -> None:
        self.leadership = leadership
        self.keeper = keeper
        self._mode = mode
        self._store = store
        self._answers: WaitingAnswers | None = None
        self._routes: Routes | None = None
        self._said = _Said()
        self._following: Following | None = None
        """Whom to follow, while nobody leads here; the address may become known later, or change."""
        self._routed: Role | None = None
        self._lease: Lease | None = None
        self.shut = ""
        """Why messages are refused though this replica leads; empty if they are not."""
        self._progress: tuple[int, int] | None = None
        """(committed position, since when), as seen while it leads."""

    def attach(self, answers: WaitingAnswers, routes: Routes) -> None:
        """The answers that wait for commits, and the registration at the name services."""
        self._answers, self._routes = answers, routes

    # ---- a step tells it, `settle` makes it so -----------------------------------------------------------------------

    def will_serve(self, epoch: Epoch) -> None:
        """Service may begin, once this step has been carried out; but while leadership is handed over none does."""
        self._said.serves = epoch
        if self._said.drains != epoch:
            self._will_lead(epoch)

    def will_resume(self, epoch: Epoch) -> None:
        """Leadership is not handed over any more. Service goes on if it may: it may have ended, or not have begun."""
        self._said.drains = None
        if self._said.serves == epoch:
            self._will_lead(epoch)

    def _will_lead(self, epoch: Epoch) -> None:
        self._said.next, self._following = Leading(epoch), None

    def will_follow(self, following: Following) -> None:
        """Forward from then on, as soon as it is known where to."""
        self._following = following

    def settle(self) -> None:
        """The step has been carried out whole."""
        role, self._said.next = self._said.next, None
        if self._following is not None:
            role = self._followed(self._following)
        if role is not None:
            self._route(role)
            self.leadership.set(role)
        elif isinstance(self._routed, Leading):
            self._name(self._routed)
        self._report_lease()
        self._mind_set()

    def _route(self, role: Role) -> None:
        if role == self._routed or self._routes is None:
            return
        self._routed = role
        if isinstance(role, Leading):
            self._name(role)
            self._routes.lead(role.epoch)
        else:
            self._routes.follow()

    def _name(self, role: Leading) -> None:
        """Say in routes where clients find this leader at this moment."""
        if self._routes is not None:
            self._routes.name(own=not self._mode.found_at_leaders(Epoch(role.epoch)))

    def _followed(self, following: Following) -> Role:
        if following.leader is None:
            return Nobody()
        address = following.address or self._mode.address_of(following.leader)
        return FollowingRole(address, following.epoch) if address else Nobody()

    # ---- at once ---------------------------------------------------------------------------------------------------

    def reconsider(self) -> None:
        """Messages are refused, and something was committed: take them again now, not at the next tick."""
        self._mind_set()

    def drain(self, epoch: Epoch) -> None:
        """Take no more requests; those that are running are answered."""
        self._said.drains = epoch
        self._said.next = self._following = None
        self.leadership.set(Nobody())

    def fence(self) -> None:
        """Every duty of a leader ends here and now."""
        self._said.serves = self._said.next = self._following = self._lease = None
        if self._answers is not None and (count := self._answers.give_up(_UNKNOWN)):
            _log.warning("sends whose outcome is unknown", count=count)
        self.leadership.set(Nobody())
        self.keeper.release()

    # ---- inside ----------------------------------------------------------------------------------------------------

    def _report_lease(self) -> None:
        """The guardian watches over the lease, too (H16). In raft mode each heartbeat prolongs it a little."""
        lease, told = self._mode.lease, self._lease
        if lease is None or lease.until <= boot_ms():
            if told is not None:  # it ended before anything was served, so that nobody was fenced
                self._lease = None
                self.keeper.release()
            return
        if told is None or lease.epoch != told.epoch or not 0 <= lease.until - told.until < _LEASE_STEP_MS:
            self._lease = lease
            self.keeper.lease(lease.epoch, lease.until)

    def _mind_set(self) -> None:
        """While nothing can be committed (H5): say so at once instead of at the time-out, and let nothing pile up."""
        if self._mode.machine.leads is None:
            self._progress, reason = None, ""  # a later leadership is not blamed for the time in between
        else:
            reason = self._obstacle()
        if reason != self.shut:
            (_log.warning if reason else _log.info)("sends", refused_because=reason or None)
            self.shut = reason
            self._store.shut(reason)

    def _obstacle(self) -> str:
        if reason := self._mode.obstacle:
            self._progress = None
            return reason
        store, now = self._store, boot_ms()
        committed = store.committed_position
        if self._progress is None or committed != self._progress[0] or store.end_position == committed:
            self._progress = (committed, now)
            return ""
        if now - self._progress[1] < _STUCK_MS:
            return ""
        if self._said.serves is None and (granting := _GRANTING.get(self._mode.name)) and not self._leased(now):
            return f"its lease is over, and {granting} not renew it"
        return f"in-sync replicas do not acknowledge: {', '.join(map(str, self._mode.awaited))} are needed"

    def _leased(self, now: int) -> bool:
        lease = self._mode.lease
        return lease is not None and lease.until > now
