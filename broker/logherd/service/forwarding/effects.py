"""What the forwarder wants done, in this order. Plain data; the shell carries it out at once."""

from msgspec import Struct

from logherd.service.forwarding.errand import Errand
from logherd.service.ports import Reply
from logherd.wire.frame import Frame

__all__ = ["Answer", "CloseLink", "Effect", "Execute", "Follow", "Relay", "Transmit"]


class Transmit(Struct, gc=False, frozen=True):
    """Write the request to this link, and report its outcome under the errand's number unless it is oneway there.

    `deadline_ms` is on the leader's clock.
    """

    errand: Errand
    link: int
    epoch: int
    deadline_ms: int


class Execute(Struct, gc=False, frozen=True):
    """This broker leads: carry the request out here, exactly as it came."""

    errand: Errand


class Relay(Struct, gc=False, frozen=True):
    """Pass the leader's answer on to the client."""

    errand: Errand
    answer: Frame


class Answer(Struct, gc=False, frozen=True):
    """Answer the client for the leader. Never for a request that is oneway."""

    errand: Errand
    reply: Reply


class Follow(Struct, gc=False, frozen=True):
    """Have a link to this leader, and keep trying. `have` is an open one that will do, 0 if a new one is needed."""

    address: str
    epoch: int
    have: int = 0


class CloseLink(Struct, gc=False, frozen=True):
    """Close this link: what was still open on it has been given up."""

    link: int


Effect = Transmit | Execute | Relay | Answer | Follow | CloseLink
