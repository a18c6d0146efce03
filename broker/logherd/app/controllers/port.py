"""The port where brokers and tools ask: each request becomes a step, each step one answer."""

from collections.abc import Callable
from functools import partial

from logherd.app.controllers.board import Asker, Board
from logherd.kit.errors import InvariantError
from logherd.net.session import NetSession
from logherd.service.controllers.desk import QuorumView, endings, take
from logherd.service.controllers.steps import Step
from logherd.service.ports import Reply, Request
from logherd.telemetry.log import Log
from logherd.wire.codes import ResponseCode
from logherd.wire.frame import Frame

__all__ = ["DeskPort"]

_log = Log("logherd.controller")


class DeskPort:
    """A `FrameHandler` for the controllers' requests."""

    def __init__(self, board: Board, view: Callable[[], QuorumView], clock: Callable[[], int]) -> None:
        """`clock` is that of leases; `view` gives the quorum as this controller knows it."""
        self._board = board
        self._view = view
        self._clock = clock

    def on_open(self, session: NetSession) -> None:
        """Nothing is kept for a connection before it says something."""

    def on_frames(self, session: NetSession, frames: list[Frame]) -> None:
        """Answer each request once, now or later."""
        view = self._view()
        ends = endings(view)
        for frame in frames:
            request = Request(frame, None, 0)
            try:
                step: Step[Reply] = take(frame, self._board.office, view, self._clock())
                asker = Asker(partial(session.reply, request), partial(session.park, request), ends)
                self._board.carry_out(step, asker)
            except InvariantError:
                raise  # the state may be wrong: whoever runs the loop ends the process
            except Exception as error:
                _log.error("request failed by a defect", cause=error, code=frame.code)
                remark = f"internal error ({type(error).__name__}), see the controller's log"
                session.reply(request, Reply(ResponseCode.SYSTEM_ERROR, remark=remark))

    def on_close(self, session: NetSession) -> None:
        """Answers to this connection go nowhere from now on."""
