"""POST actions on the quorum itself: who leads it, who belongs to it."""

from typing import Any

from logherd.service.controllers.calls import MembersOrder, Order, TransferOrder, read_order, refuse_field
from logherd.service.controllers.documents import Document
from logherd.service.controllers.place import Place
from logherd.service.controllers.quorum_pages import quorum_page
from logherd.service.controllers.standing import Standing
from logherd.service.controllers.steps import HandOver, Resettle, Step

__all__ = ["hand_over", "resettle"]


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
    if present == {**dict.fromkeys(voters, True), **dict.fromkeys(learners, False)}:
        return _done(place, order, changed=False)

    def then(now: int) -> Document:
        return _done(place, order)

    return Resettle(voters, learners, then)


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
