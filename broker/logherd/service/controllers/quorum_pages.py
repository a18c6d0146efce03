"""This controller and the quorum as documents. Answered from what is known here, without asking anybody."""

from logherd.service.controllers.documents import (
    Document,
    HealthPage,
    MemberShape,
    PeerShape,
    QuorumPage,
    ReadyPage,
    StatusPage,
    point_shape,
)
from logherd.service.controllers.place import Place, leader_shape
from logherd.service.controllers.standing import Peer, Standing, faults, readiness

__all__ = ["health_page", "quorum_page", "ready_page", "status_page"]


def status_page(place: Place) -> StatusPage:
    """What `logherd status` and the operator look at first."""
    standing = place.standing()
    leadership, progress, unready = standing.leadership, standing.progress, readiness(standing)
    return StatusPage(
        cluster=standing.cluster, node=standing.node, identity=standing.identity, version=standing.version,
        pid=standing.pid, role=leadership.role, term=leadership.term, leader=leader_shape(standing.leader),
        ready=unready is None, why_not_ready=unready, applied=progress.applied, committed=progress.committed,
        end=progress.end, groups=sum(1 for _ in place.machine()),
        peers=[_peer(each) for each in standing.peers if each.node != standing.node],
    )  # fmt: skip


def health_page(standing: Standing) -> Document:
    """Whether this process should be restarted: only what a restart could help."""
    found = faults(standing)
    return Document(503 if found else 200, HealthPage(healthy=not found, faults=found))


def ready_page(standing: Standing) -> Document:
    """Whether this controller should be asked."""
    why_not = readiness(standing)
    return Document(200 if why_not is None else 503, ReadyPage(ready=why_not is None, why_not=why_not))


def quorum_page(standing: Standing) -> QuorumPage:
    """Who belongs to the quorum, and how far each is; at its leader also who is connected and does not belong, as a
    controller that came back on an empty disk: the operator and `logherd up` give it the vote of its former self."""
    leads = standing.leader is not None and standing.leader.node == standing.node
    listed = [each for each in standing.peers if each.voter is not None or (leads and each.connected)]
    return QuorumPage(
        node=standing.node, identity=standing.identity, reset=standing.progress.reset,
        last=point_shape(standing.progress.last), leader=leader_shape(standing.leader), term=standing.leadership.term,
        members=[_member(each, standing) for each in listed],
    )  # fmt: skip


def _member(peer: Peer, standing: Standing) -> MemberShape:
    return MemberShape(
        node=peer.node, identity=peer.identity or "", voter=bool(peer.voter), connected=peer.connected,
        match=peer.match, lag_bytes=None if peer.match is None else max(standing.progress.end - peer.match, 0),
        heard_ms=peer.heard_ms,
    )  # fmt: skip


def _peer(peer: Peer) -> PeerShape:
    return PeerShape(
        node=peer.node, identity=peer.identity, address=peer.address, admin=peer.admin, connected=peer.connected,
        heard_ms=peer.heard_ms, refused=peer.refused,
    )  # fmt: skip
