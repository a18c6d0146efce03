"""One client's request on its way, the client it belongs to, and what it looks like to the leader."""

from bisect import bisect_left, insort

from logherd.service.forwarding.handling import HANDLING, HOLD_MS, Handling, Kind
from logherd.service.ports import Session
from logherd.wire.frame import Flag, Frame
from logherd.wire.headers import encode_header
from logherd.wire.headers.forwarding import ForwardedHeader
from logherd.wire.headers.pull import PullFlag
from logherd.wire.headers.send import SendMessageHeaderV2
from logherd.wire.send_frame import SendFrame

__all__ = ["HEADER_BYTES", "Caller", "Errand", "at_home", "outgoing"]

HEADER_BYTES = 1024
"""What an ordinary header counts for, as in `net`."""

_FIELD_BYTES = 128
_SEPARATORS_BYTES = 8
_MARKS_BYTES = 1024
_SEND_FIELDS = len(SendMessageHeaderV2.__struct_fields__)
_SEND_REST_BYTES = 128
"""Of a send whose header came decoded: names of fields, numbers and truth values."""

_SUSPEND_MS_MAX = 30_000


class Caller:
    """A client's connection to this broker, and what of it is on its way.

    Invariants: 1. `waiting` is in order of arrival. 2. All `away` ordered requests are on one `link`.
    `blocked`: for which room it waits in the forwarder, of ordered requests or of others; None if for none.
    """

    __slots__ = ("away", "blocked", "bytes_waiting", "gone", "link", "session", "waiting")

    def __init__(self, session: Session) -> None:
        self.session = session
        self.waiting: list[Errand] = []
        self.bytes_waiting = 0
        self.away = 0
        self.link = 0
        self.blocked: bool | None = None
        self.gone = False

    def keep(self, errand: "Errand") -> None:
        """Let an errand wait, in its place by arrival."""
        insort(self.waiting, errand)
        self.bytes_waiting += errand.size

    def drop(self, errand: "Errand") -> None:
        """An errand waits no more. It may be any of tens of thousands: those before it may have more time."""
        del self.waiting[bisect_left(self.waiting, errand)]
        self.bytes_waiting -= errand.size

    def free_for(self, link: int) -> bool:
        """Whether what comes next may go to this leader: nothing that must come before it is still with another."""
        return not self.away or self.link == link


class Errand:
    """A request that goes to the leader. Ordered by arrival; `number` is unique in this process.

    `delayed`: it waited here at some time.
    """

    __slots__ = ("arrived_ms", "caller", "deadline_ms", "delayed", "frame", "handling", "number", "size")

    def __init__(self, number: int, caller: Caller, frame: Frame, *, now_ms: int) -> None:
        handling = HANDLING[frame.code]
        self.number = number
        self.caller = caller
        self.frame = frame
        self.handling: Handling = handling
        self.arrived_ms = now_ms
        self.deadline_ms = now_ms + (_suspend_ms(frame) if handling.kind is Kind.PULL else handling.hold_ms)
        self.size = len(frame.body) + _header_size(frame)
        self.delayed = False

    def __lt__(self, other: "Errand") -> bool:
        return self.number < other.number

    @property
    def oneway(self) -> bool:
        """Whether the client wants no answer."""
        return bool(self.frame.flag & Flag.ONEWAY)

    @property
    def answer_ms(self) -> int:
        """How long the leader's answer is waited for, from the arrival of the request."""
        handling = self.handling
        return handling.answer_ms + (self.deadline_ms - self.arrived_ms if handling.kind is Kind.PULL else 0)


def outgoing(errand: Errand, *, epoch: int, deadline_ms: int, now_ms: int) -> Frame:
    """The request as the leader gets it; `deadline_ms` is on the leader's clock.

    It goes as an ordinary request also where the client wants no answer, so that a refusal is heard of; only an offset
    commit stays oneway. A pull that was held commits no offset: the offset that rides on it may be out of date (H11).
    """
    frame, session = errand.frame, errand.caller.session
    # The typed form of a send has its fields in a struct and not in `ext`.
    ext = encode_header(frame.header) if type(frame) is SendFrame else dict(frame.ext)
    kind = errand.handling.kind
    if errand.delayed and kind is Kind.PULL:
        _shorten_pull(ext, errand.deadline_ms - now_ms)
    marks = ForwardedHeader(
        session=session.id, client_ip=session.remote_ip, client_port=session.remote_port, epoch=epoch,
        deadline_ms=deadline_ms,
    )  # fmt: skip
    ext.update(encode_header(marks))
    flag = frame.flag if kind is Kind.COMMIT else frame.flag & ~Flag.ONEWAY
    return Frame(
        frame.code, 0, flag=flag, ext=ext, body=frame.body, remark=frame.remark, language=frame.language,
        version=frame.version,
    )  # fmt: skip


def at_home(errand: Errand, *, now_ms: int) -> Frame:
    """The request for this broker's own services: the frame that came, because its connection knows it by identity."""
    if errand.delayed and errand.handling.kind is Kind.PULL:
        _shorten_pull(errand.frame.ext, errand.deadline_ms - now_ms)
    return errand.frame


def _header_size(frame: Frame) -> int:
    """What a header counts for: where it is larger than an ordinary one never less than in `net`, here and with what is
    added to it at the leader. Otherwise the leader would hold back a link whose bounds seem to be kept."""
    if type(frame) is SendFrame:
        header, fields = frame.header, _SEND_FIELDS
        texts = _SEND_REST_BYTES + len(header.properties or "") + len(header.broker_name or "")
        texts += len(header.producer_group) + len(header.topic) + len(header.default_topic)
    else:
        fields = len(frame.ext)
        texts = len(frame.remark or "") + sum(len(key) + len(value) for key, value in frame.ext.items())
    if texts + _SEPARATORS_BYTES * fields <= HEADER_BYTES:
        return HEADER_BYTES
    return HEADER_BYTES + texts + _FIELD_BYTES * fields + _MARKS_BYTES


def _suspend_ms(frame: Frame) -> int:
    """How long a pull may wait by what it says, and as long as any other request if that is shorter: it has yet to
    arrive at the leader, which begins nothing whose time is over."""
    try:
        if int(frame.ext.get("sysFlag", "0")) & PullFlag.SUSPEND:
            return min(max(int(frame.ext.get("suspendTimeoutMillis", "0")), HOLD_MS), _SUSPEND_MS_MAX)
    except ValueError:
        return HOLD_MS  # the leader says what is wrong with it
    return HOLD_MS


def _shorten_pull(ext: dict[str, str], left_ms: int) -> None:
    try:
        flags = str(int(ext.get("sysFlag", "0")) & ~PullFlag.COMMIT_OFFSET)
        suspend = int(ext.get("suspendTimeoutMillis", "0"))
    except ValueError:  # also of what is read, and has more digits than are written without that bit
        return
    ext["sysFlag"] = flags
    ext["suspendTimeoutMillis"] = str(max(0, min(suspend, left_ms)))
