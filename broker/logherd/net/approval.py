"""A connection beyond the limit of its address or of all, which is open only so that another broker can say that it is
one.

Clients would use up the address that brokers share with them (one machine, a NAT), or all that a leader has, and a
broker that does not lead could bring none of its own clients' requests to the leader.
"""

from typing import TYPE_CHECKING

from logherd.wire.codes import RequestCode
from logherd.wire.frame import Frame

if TYPE_CHECKING:
    from logherd.net.hub import FrameHandler
    from logherd.net.session import NetSession

__all__ = ["OnApproval"]


class OnApproval:
    """The handler of such a connection. Nothing that comes over it is carried out but one request to be forwarded to;
    unless the connection was handed over by that, it is turned away."""

    def __init__(self, handler: "FrameHandler") -> None:
        """`handler` had the connection before, decides about that request, and hears of the end."""
        self._handler = handler

    def on_open(self, session: "NetSession") -> None:
        self._handler.on_open(session)

    def on_close(self, session: "NetSession") -> None:
        self._handler.on_close(session)

    def on_frames(self, session: "NetSession", frames: list[Frame]) -> None:
        if len(frames) == 1 and frames[0].code == RequestCode.FORWARDING_OPEN:
            self._handler.on_frames(session, frames)
        if not session.handed_over:
            session.turn_away()
