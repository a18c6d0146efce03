"""Where HTTP calls arrive: this controller, asked for its state anew at each step, because time passes in between."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from logherd.controller.machine import Machine
from logherd.controller.office import Office
from logherd.controller.settings import OfficeOptions
from logherd.service.controllers.documents import Document, LeaderShape, error
from logherd.service.controllers.standing import Peer, Standing
from logherd.service.controllers.steps import Endings, QuorumRefusal, Seat

__all__ = ["Place", "endings_of_action", "endings_of_read", "leader_shape", "redirect"]

_ELSEWHERE = frozenset({QuorumRefusal.NOT_LEADER, QuorumRefusal.TRANSFERRING})
_CONFLICTS = frozenset({QuorumRefusal.RUNNING, QuorumRefusal.INVALID})
_LATE = frozenset({QuorumRefusal.BEHIND, QuorumRefusal.TIMED_OUT})


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """One controller. `office` gives None while it does not lead, or is not ready to."""

    machine: Callable[[], Machine]
    office: Callable[[], Office | None]
    standing: Callable[[], Standing]
    options: OfficeOptions
    """What it was configured with; what was set at run time is in the machine."""
    shown: Mapping[str, str]
    """Settings of this process, as they are shown."""
    renewed_from: Callable[[Seat], str | None] = lambda _seat: None
    """The address from which a broker's process renews its lease here."""


def leader_shape(leader: Peer | None) -> LeaderShape | None:
    """A controller that leads, as it is shown."""
    if leader is None:
        return None
    return LeaderShape(node=leader.node, address=leader.address, admin=leader.admin)


def redirect(place: Place) -> Document:
    """Nothing was done here; the leader would do it."""
    standing = place.standing()
    leader = standing.leader
    if leader is not None and leader.node == standing.node:
        return error(503, "NOT_READY", "this controller leads and is not ready yet; repeat in a moment", leader=None)
    where = f"{leader.node} does" if leader is not None else "no leader is known"
    return error(409, "NOT_LEADER", f"this controller does not lead: {where}", leader=leader_shape(leader))


def endings_of_action(place: Place) -> Endings[Document]:
    """How an action is answered when a step of it cannot be carried out."""

    def refused(refusal: QuorumRefusal) -> Document:
        if refusal in _ELSEWHERE:
            return redirect(place)
        status = 409 if refusal in _CONFLICTS else 504 if refusal in _LATE else 503
        return error(status, refusal.name, f"the controllers refuse this: {refusal.value}")

    return Endings(refused=refused, unknown=_unknown)


def endings_of_read() -> Endings[Document]:
    """How a question is answered that nobody confirms."""

    def refused(refusal: QuorumRefusal) -> Document:
        said = f"the quorum does not confirm what is known here ({refusal.value}); ?stale=true shows that"
        return error(503, "NOT_CONFIRMED", said)

    return Endings(refused=refused, unknown=_unknown)


def _unknown() -> Document:
    said = "the outcome is unknown, because the leader of the controllers changed; ask, then repeat with the requestId"
    return error(504, "UNKNOWN_OUTCOME", said)
