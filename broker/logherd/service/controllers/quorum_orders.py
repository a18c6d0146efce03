"""POST actions on the quorum itself: who leads it, who belongs to it."""

import re
from typing import Any

from logherd.model.names import Epoch, Position
from logherd.raft.inputs import RecoverQuorum
from logherd.replication.epochs import Point
from logherd.replication.messages import ReplicaId
from logherd.service.controllers.calls import (
    MembersOrder,
    Order,
    RecoverOrder,
    TransferOrder,
    read_order,
    refuse_field,
)
from logherd.service.controllers.documents import Document
from logherd.service.controllers.place import Place
from logherd.service.controllers.quorum_pages import quorum_page
from logherd.service.controllers.standing import Standing
from logherd.service.controllers.steps import HandOver, Rebuild, Resettle, Step

__all__ = ["hand_over", "recover", "resettle"]

_RESETS_MISSED_MAX = 1_000
"""An order that reaches some survivors only is given again, with a number above theirs: to the others it is further
away. But no slip of the pen may use up all numbers."""
_TERMS_MISSED_MAX = 1 << 40
"""The same for terms: who comes new is in term 0, and follows nobody whose term no count can have come to."""
_INCARNATION = re.compile(r"[0-9a-f]{16}")


def hand_over(place: Place, body: dict[str, Any]) -> Step[Document]:
    """Give the leadership to a node, or to the one with the longest log. For the leader only. Raises: CallError."""
    order, standing = read_order(TransferOrder, body), place.standing()
    if order.node == standing.node:
        return _done(place, order, changed=False)
    peer = standing.peer(order.node)
    if order.node is not None and (peer is None or not peer.voter):
        voters = ", ".join(peer.node for peer in standing.peers if peer.voter)
        refuse_field("node", order.node, f"a voter of the quorum: {voters}")

    def then(now: int) -> Document:
        return _done(place, order)

    return HandOver(peer.identity if peer is not None else None, then)


def resettle(place: Place, body: dict[str, Any]) -> Step[Document]:
    """Work towards these members; answered when they are in force. For the leader only. Raises: CallError."""
    order, standing = read_order(MembersOrder, body), place.standing()
    voters = tuple(dict.fromkeys(_identity(standing, "voters", each) for each in order.voters))
    learners = tuple(dict.fromkeys(_identity(standing, "learners", each) for each in order.learners))
    both = [each for each in learners if each in voters]
    if both:
        refuse_field("learners", both[0], "left out, because voters has it")
    present = {peer.identity: peer.voter for peer in standing.peers if peer.voter is not None}
    if standing.settled and present == {**dict.fromkeys(voters, True), **dict.fromkeys(learners, False)}:
        return _done(place, order, changed=False)

    def then(now: int) -> Document:
        return _done(place, order)

    return Resettle(voters, learners, then)


def recover(place: Place, body: dict[str, Any]) -> Step[Document]:
    """Make the survivors the quorum: voters that are not named are given up for good. Asked of each survivor itself.

    Committed decisions that no survivor holds are lost. Refused where a leader is heard. Raises: CallError.
    """
    order, standing = read_order(RecoverOrder, body), place.standing()
    named = {each.identity: Point(Epoch(each.epoch), Position(each.position)) for each in order.survivors}
    own = standing.identity
    if own not in named:
        refuse_field("survivors", sorted(named), f"a list with this controller, {own}, because it was asked")
    voters = {peer.identity for peer in standing.peers if peer.voter}
    if order.reset == standing.progress.reset and voters == set(named):
        return _done(place, order, changed=False)
    reset = standing.progress.reset
    if not reset < order.reset <= reset + _RESETS_MISSED_MAX:
        most = reset + _RESETS_MISSED_MAX
        refuse_field("reset", order.reset, f"above {reset}, which it is here, and at most {most}")
    term = standing.leadership.term
    if not term < order.term <= term + _TERMS_MISSED_MAX:
        refuse_field("term", order.term, f"above {term}, the term here, and at most {term + _TERMS_MISSED_MAX}")
    if named[own] != standing.progress.last:
        last = standing.progress.last
        refuse_field("survivors", own, f"given with its last record: epoch {last.epoch}, position {last.position}")
    for each in sorted(named):
        _check_identity(standing, each)
    survivors = tuple((ReplicaId(each), point) for each, point in named.items())

    def then(now: int) -> Document:
        return _done(place, order)

    return Rebuild(RecoverQuorum(0, order.reset, Epoch(order.term), survivors), then)


def _check_identity(standing: Standing, name: str) -> None:
    """A quorum that counts on a member that cannot be has no leader who would correct that; and a member whose name is
    no identity cannot even be shown. Raises: CallError."""
    node, _, incarnation = name.rpartition(".")
    if standing.peer(node) is None or _INCARNATION.fullmatch(incarnation) is None:
        known = ", ".join(sorted({peer.identity or f"{peer.node}.<16 hex digits>" for peer in standing.peers}))
        refuse_field("survivors", name, f"the identity of a controller that is known here: {known}")


def _identity(standing: Standing, field: str, name: str) -> str:
    """Who is meant by a node's name: the one that answers there, or else the member of that name."""
    peers = [peer for peer in standing.peers if name in (peer.node, peer.identity) and peer.identity is not None]
    peers.sort(key=lambda peer: (peer.identity == name, peer.connected, peer.voter is not None), reverse=True)
    if not peers or peers[0].identity is None:
        known = ", ".join(sorted({peer.node for peer in standing.peers}))
        refuse_field(field, name, f"a controller that has been heard of; known are {known}")
    return peers[0].identity


def _done(place: Place, order: Order, *, changed: bool = True) -> Document:
    return Document(200, {
        "changed": changed, "requestId": order.request_id, "quorum": quorum_page(place.standing()),
    })  # fmt: skip
