"""How clients leave a server that stops: those who understand it are told to go, before connections are reset.

The Java client of RocketMQ 5.3.2 and newer takes the answer 1500 for "use another connection, and send this again
there": all its threads go on with a new one, and nothing is on its way on the old one when that ends. By a reset alone
it may lose a request: when the connection ends while another of its threads is replacing it, it forgets what waits.
Those for Go and C++ do so always: what is on its way when a connection ends waits for its whole time, a pull for 30 s.

Source: apache/rocketmq 5.3.3: remoting/netty/NettyRemotingClient.invokeImpl, NettyRemotingAbstract.
processRequestCommand (its server tells versions above 475; enableReconnectForGoAway is on by default).
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

from logherd.wire.codes import ResponseCode
from logherd.wire.frame import Flag, Frame

if TYPE_CHECKING:
    from logherd.net.hub import FrameHandler
    from logherd.net.session import NetSession

__all__ = ["Leaving"]

_LANGUAGE = "JAVA"
_NOT_UNDERSTOOD_UP_TO = 475
_REMARK = "this broker is about to stop; send it again over another connection"


class Leaving:
    """The handler of one connection while its server stops. Who understands it is told to go; what others ask is
    answered as before, until there is a moment at which nothing of theirs is on its way.
    """

    def __init__(self, handler: "FrameHandler", told: Callable[[], None]) -> None:
        """`handler` had the connection before, and hears of its end. `told` is called whenever somebody was told."""
        self._handler = handler
        self._told = told

    def on_open(self, session: "NetSession") -> None:
        self._handler.on_open(session)

    def on_close(self, session: "NetSession") -> None:
        self._handler.on_close(session)

    def on_frames(self, session: "NetSession", frames: list[Frame]) -> None:
        others: list[Frame] = []
        for frame in frames:
            if _understands(frame):
                answer = Frame(
                    ResponseCode.GO_AWAY, frame.opaque, flag=Flag.RESPONSE, remark=_REMARK, serialize=frame.serialize
                )
                session.send_answer(frame, answer)
                self._told()
            else:
                others.append(frame)
        if others:
            self._handler.on_frames(session, others)


def _understands(frame: Frame) -> bool:
    return frame.version > _NOT_UNDERSTOOD_UP_TO and frame.language == _LANGUAGE and not frame.flag & Flag.ONEWAY
