"""From a frame to its handler and from what the handler says to an answer.

A typed handler gets its header decoded; a raw one (send, pull) reads the few fields it needs from the frame itself,
because they carry nearly all the traffic.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence

from logherd.kit.clock import Clock
from logherd.service.errors import RequestError
from logherd.service.metadata import MetadataRefusedError
from logherd.service.ports import PARKED, Answer, Handler, Reply, ReplyAfter, Request, Run, RunHandler, Session
from logherd.service.routing import ROUTES, Role, Where, refusal
from logherd.store import StoreDamaged
from logherd.telemetry.log import FieldValue, Log
from logherd.telemetry.sparing import SparingLog
from logherd.wire.codes import ResponseCode
from logherd.wire.errors import BodyError, HeaderError
from logherd.wire.frame import Flag, Frame
from logherd.wire.headers import decode_header, encode_header
from logherd.wire.table import REQUESTS

__all__ = ["Dispatcher", "RawHandler", "response_frame"]

_log = Log("logherd.service")

_UNKNOWN = -1
"""All codes without a handler are counted as one: peers choose them."""

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
        self._complaints = SparingLog(_log, lambda: clock.monotonic_ms() / 1000)
        self._typed = dict(typed)
        self._raw = dict(raw or {})
        self.handle_run: RunHandler = runs or _no_run
        self.taken: Counter[int] = Counter()
        """Requests with typed headers since the start, by code."""
        self.refused: Counter[tuple[int, int]] = Counter()
        """Requests that were answered at once with another code than success, by code and answer."""
        self.on_damage: Callable[[StoreDamaged], None] = lambda _: None
        """Hears of each damage that a request has met."""

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
            answer = self._refuse(frame, error.code, error.remark)
        except (HeaderError, BodyError) as error:
            answer = self._refuse(frame, ResponseCode.INVALID_PARAMETER, str(error))
        except StoreDamaged as error:
            where: dict[str, FieldValue] = {"file": error.path, "offset": error.offset, "what": error.what}
            self._complaints.error("damaged record met", "offset", code=frame.code, **where)
            answer = self._refuse(frame, ResponseCode.SYSTEM_ERROR, str(error))
            self.on_damage(error)
        except OSError as error:
            self._complaints.error("a file of the store cannot be read", code=frame.code, reason=error)
            answer = self._refuse(frame, ResponseCode.SYSTEM_ERROR, f"the disk of this broker fails: {error}")
        except MetadataRefusedError as error:
            answer = self._refuse(frame, ResponseCode.SERVICE_NOT_AVAILABLE, str(error))
        if answer is PARKED or frame.flag & Flag.ONEWAY:
            return None
        return answer

    def tell(self, *, ending: bool = False) -> None:
        """Write how many complaints were left out (`SparingLog.tell`). Call it now and then, and at the end."""
        self._complaints.tell(ending=ending)

    def _refuse(self, frame: Frame, code: int, remark: str) -> Reply:
        known = frame.code in self._typed or frame.code in self._raw
        self.refused[frame.code if known else _UNKNOWN, code] += 1
        return Reply(code, remark=remark)

    def _handle_typed(self, frame: Frame, session: Session) -> Answer:
        handler = self._typed.get(frame.code)
        self.taken[frame.code if handler is not None else _UNKNOWN] += 1
        if handler is None:
            raise RequestError(ResponseCode.REQUEST_CODE_NOT_SUPPORTED, refusal(frame.code, self._role))
        spec = REQUESTS[frame.code]
        header = None if spec.header is None else decode_header(spec.header, frame.ext)
        request = Request(frame, header, self._clock.monotonic_ms())
        answer = handler(request, session)
        if answer is PARKED:
            _forget_body(request)
        told = answer.reply if type(answer) is ReplyAfter else answer
        if type(told) is Reply and told.code:
            self.refused[frame.code, told.code] += 1
        return answer


def _forget_body(request: Request) -> None:
    """Whoever has parked a request has read its body. Its connection counts what that takes, and forgets it at its own
    end; of one that is oneway nobody counts anything."""
    request.body = b""
    if request.frame.flag & Flag.ONEWAY:
        request.frame.body = b""


def _no_run(_frames: Sequence[Frame], _at: int, _session: Session) -> Run | None:
    return None


def response_frame(request: Frame, reply: Reply) -> Frame:
    """The frame that carries a reply whose body is sent apart from it (`encode_head` with the body's length)."""
    header = reply.header
    ext = header if isinstance(header, dict) else {} if header is None else encode_header(header)
    return Frame(
        int(reply.code), request.opaque, flag=Flag.RESPONSE, ext=ext, remark=reply.remark, serialize=request.serialize
    )
