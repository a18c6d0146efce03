"""From a frame to its handler and from what the handler says to an answer.

A typed handler gets its header decoded; a raw one (send, pull) reads the few fields it needs from the frame itself,
because they carry nearly all the traffic.
"""

from collections.abc import Callable, Mapping, Sequence

from logherd.kit.clock import Clock
from logherd.service.errors import RequestError
from logherd.service.metadata import MetadataRefusedError
from logherd.service.ports import PARKED, Answer, Handler, Reply, Request, Run, RunHandler, Session
from logherd.service.routing import ROUTES, Role, Where, refusal
from logherd.store import StoreDamaged
from logherd.telemetry.log import Log
from logherd.wire.codes import ResponseCode
from logherd.wire.errors import BodyError, HeaderError
from logherd.wire.frame import Flag, Frame
from logherd.wire.headers import decode_header, encode_header
from logherd.wire.table import REQUESTS

__all__ = ["Dispatcher", "RawHandler", "response_frame"]

_log = Log("logherd.service")

RawHandler = Callable[[Frame, Session], Answer]


class Dispatcher:
    """Answers frames for one role of the process.

    Handlers are given by request code; `missing` names the rows of the route table that have none, which the app
    refuses to start with.
    """

    def __init__(
        self, role: Role, clock: Clock, *, typed: Mapping[int, Handler], raw: Mapping[int, RawHandler] | None = None,
        runs: RunHandler | None = None,
    ) -> None:  # fmt: skip
        """`runs` takes requests that came together, before the handlers of their codes."""
        self._role = role
        self._clock = clock
        self._typed = dict(typed)
        self._raw = dict(raw or {})
        self.handle_run: RunHandler = runs or _no_run

    @property
    def missing(self) -> list[int]:
        """Codes that this role has to answer and no handler was given for."""
        return sorted(
            code
            for code, route in ROUTES.items()
            if route.role is self._role and route.where is not Where.REFUSE
            and code not in self._typed and code not in self._raw
        )  # fmt: skip

    def handle(self, frame: Frame, session: Session) -> Answer | None:
        """Carry out one request.

        Returns the answer to send, or None when nothing is to be sent now: the request was oneway, or its handler
        parked it. Blocks: no. Raises: nothing for any content of the frame; InvariantError goes through.
        """
        handler = self._raw.get(frame.code)
        try:
            answer = handler(frame, session) if handler is not None else self._handle_typed(frame, session)
        except RequestError as error:
            answer = Reply(error.code, remark=error.remark)
        except (HeaderError, BodyError) as error:
            answer = Reply(ResponseCode.INVALID_PARAMETER, remark=str(error))
        except StoreDamaged as error:
            _log.error("damaged record met", code=frame.code, file=error.path, offset=error.offset, what=error.what)
            answer = Reply(ResponseCode.SYSTEM_ERROR, remark=str(error))
        except MetadataRefusedError as error:
            answer = Reply(ResponseCode.SERVICE_NOT_AVAILABLE, remark=str(error))
        if answer is PARKED or frame.flag & Flag.ONEWAY:
            return None
        return answer

    def _handle_typed(self, frame: Frame, session: Session) -> Answer:
        handler = self._typed.get(frame.code)
        if handler is None:
            raise RequestError(ResponseCode.REQUEST_CODE_NOT_SUPPORTED, refusal(frame.code, self._role))
        spec = REQUESTS[frame.code]
        header = None if spec.header is None else decode_header(spec.header, frame.ext)
        return handler(Request(frame, header, self._clock.monotonic_ms()), session)


def _no_run(_frames: Sequence[Frame], _at: int, _session: Session) -> Run | None:
    return None


def response_frame(request: Frame, reply: Reply) -> Frame:
    """The frame that carries a reply whose body is sent apart from it (`encode_head` with the body's length)."""
    header = reply.header
    ext = header if isinstance(header, dict) else {} if header is None else encode_header(header)
    return Frame(
        int(reply.code), request.opaque, flag=Flag.RESPONSE, ext=ext, remark=reply.remark, serialize=request.serialize
    )
