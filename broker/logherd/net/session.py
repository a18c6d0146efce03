"""A client's connection as services see it: answer, park, notify, call."""

from collections.abc import Callable
from typing import Protocol

import msgspec

from logherd.net.approval import OnApproval
from logherd.net.channel import Channel
from logherd.net.hub import FrameHandler, Hub
from logherd.net.leaving import Leaving
from logherd.net.limits import FlowLimits, PatienceLimits
from logherd.net.misread import is_misread
from logherd.net.pending import Pending
from logherd.wire.codec import encode_frame, encode_head
from logherd.wire.codes import ResponseCode
from logherd.wire.errors import FrameError
from logherd.wire.frame import Flag, Frame
from logherd.wire.headers import encode_header
from logherd.wire.limits import DEFAULT_LIMITS

__all__ = ["Body", "NetSession"]

Body = bytes | list[memoryview]
UNREAD_SECONDS = 1.0
"""Nobody is read while the memory of all is full, and senders give up after 3 s."""
REMARK_LENGTH_MAX = 1_000
"""Characters; at most 4,000 bytes, below the 4 KiB that peers accept."""


class _Request(Protocol):
    @property
    def frame(self) -> Frame: ...


class _Reply(Protocol):
    @property
    def code(self) -> int: ...
    @property
    def header(self) -> msgspec.Struct | dict[str, str] | None: ...
    @property
    def body(self) -> Body: ...
    @property
    def remark(self) -> str | None: ...


class NetSession(Channel):
    """A client's connection. All public calls return at once and none raises because the peer is gone.

    Answers leave in the order of their `reply` calls. `on_open` and `on_close` of the handler come once each.
    """

    def __init__(self, hub: Hub) -> None:
        super().__init__(hub)
        self._calls: Pending[Frame | None] = Pending()
        self._handler = hub.handler
        self._own_limits = False

    def __repr__(self) -> str:
        return f"<NetSession {self.id} {self.remote_ip}:{self.remote_port}>"

    @property
    def unsent(self) -> int:
        """Bytes written to this client that were in this process when they were last counted."""
        return self._traffic.unsent

    @property
    def handed_over(self) -> bool:
        """Whether it is another broker's: `hand_over` was called."""
        return self._own_limits

    def has_room(self, size: int) -> bool:
        """Whether an answer of `size` bytes leaves half of what may lie unsent, of this client and of all memory, to
        others; the only one always may."""
        if self._fits(size):
            return True
        self.count_unsent()  # the client may have read since that was counted, and would be refused for half a second
        return self._fits(size)

    def _fits(self, size: int) -> bool:
        unsent, budget = self._outbox.size + self._traffic.unsent, self._budget
        most = self._flow.unsent_bytes_max // 2
        return not unsent or (unsent + size <= most and budget.used + size <= budget.bytes_max // 2)

    def takes_nothing(self, now: float) -> bool:
        """Whether for UNREAD_SECONDS its client has taken nothing of what lies here for it; as of the latest sweep.

        Of another broker nobody says so: it reads nothing while its own clients do not, and has them to look after.
        """
        traffic = self._traffic
        return traffic.unsent > 0 and not self._own_limits and now - traffic.taken_at >= UNREAD_SECONDS

    def give_up(self) -> None:
        """End the connection at once: what it does not read is in everybody's way."""
        self._abort("answers are not read, and fill the memory of all", unsent=self._traffic.unsent)

    def hand_over(self, handler: FrameHandler, flow: FlowLimits) -> None:
        """From the next slice of requests on this connection belongs to `handler` and has limits of its own.

        Its sends come as ordinary frames, not as SendFrame, and its frames may be as large as any that we send: what a
        broker passes on is larger than what the settings let its client send. `handler` hears `on_close` in place of
        the one before, and no `on_open`.
        """
        self._handler = handler
        self._own_limits = True
        self._take_flow(flow)
        self._reader.read_plainly(DEFAULT_LIMITS)

    def send_away(self, told: Callable[[], None]) -> None:
        """From the next slice of requests on clients that understand it are told to use another connection.

        Brokers that give their clients' requests to this one are not. `told` is called whenever somebody was told.
        """
        if not self._own_limits:
            self._handler = Leaving(self._handler, told)
            self._reader.read_plainly()

    def turn_away(self) -> None:
        """End the connection after what is already queued: too many are open."""
        self._hub.admission.refused += 1
        self.end("too many connections, or too many of this address, are open")

    def relimit(self, flow: FlowLimits, patience: PatienceLimits) -> None:
        """The limits of the server have changed. A connection that was handed over keeps those of its own."""
        self._patience.relimit(patience)
        if not self._own_limits:
            self._take_flow(flow)
            self.resume()

    def _take_flow(self, flow: FlowLimits) -> None:
        self._flow = flow
        self._intake.widen(flow)
        if self._transport is not None:
            self._transport.set_write_buffer_limits(high=flow.unsent_bytes_soft, low=flow.unsent_bytes_soft // 2)

    def reply(self, request: _Request, reply: _Reply) -> None:
        """Answer a delivered request; does nothing for a oneway request or when the client is gone.

        A long remark is cut: it may quote what the client sent, and no peer reads more. An answer that no peer would
        accept (too large, no UTF-8) is replaced by a system error that says so. One that the client would misread is
        left out.
        """
        frame = request.frame
        if frame.flag & Flag.ONEWAY:
            return
        if reply.code and not self._own_limits and is_misread(frame, reply.code):
            self._leave_unanswered(frame)
            return
        remark = reply.remark
        if remark is not None and len(remark) > REMARK_LENGTH_MAX:
            remark = remark[:REMARK_LENGTH_MAX] + "..."
        answer = Frame(
            reply.code, frame.opaque, flag=Flag.RESPONSE, ext=_fields(reply.header), remark=remark,
            serialize=frame.serialize,
        )  # fmt: skip
        try:
            self.send_answer(frame, answer, reply.body)
        except FrameError as error:
            self._hub.log.warning("answer cannot be sent", remote=self._remote, code=frame.code, detail=error)
            failure = Frame(ResponseCode.SYSTEM_ERROR, frame.opaque, flag=Flag.RESPONSE, remark=str(error))
            self.send_answer(frame, failure)

    def _leave_unanswered(self, request: Frame) -> None:
        if self._transport is not None:
            self._intake.answered(request)
            self._mark_dirty()  # so that what it held up goes on at the end of the pass

    def send_answer(self, request: Frame, answer: Frame, body: Body = b"") -> None:
        """Send `answer` for a delivered request that is not oneway. A `body` of slices is sent without being copied.

        Raises: FrameError if no peer would accept the answer; then the request is still unanswered.
        """
        if self._transport is None:
            return
        if isinstance(body, bytes):
            if body:
                answer.body = body
            data = encode_frame(answer)
            self._intake.answered(request)
            self._send(data)
        else:
            head = encode_head(answer, sum(map(len, body)))
            self._intake.answered(request)
            self._send_slices(head, body)

    def send_encoded(self, requests: list[Frame], answers: list[bytes]) -> None:
        """Send answers that are whole encoded frames, one for each of these delivered requests; none is oneway."""
        if self._transport is not None:
            self._intake.answered_all(requests)
            self._send(answers[0] if len(answers) == 1 else b"".join(answers))

    def park(self, request: _Request) -> None:
        """The handler keeps this request for long (a long poll): it counts as parked, no longer as running."""
        if self._transport is not None and not request.frame.flag & Flag.ONEWAY:
            self._intake.park(request.frame)

    def notify(self, code: int, header: msgspec.Struct | dict[str, str] | None, body: bytes = b"") -> None:
        """Send a oneway request to the client; one that no peer would accept is left out."""
        if self.closed:
            return
        try:
            frame = Frame(code, self._calls.reserve(), flag=Flag.ONEWAY, ext=_fields(header), body=body)
            self._send(encode_frame(frame))
        except FrameError as error:
            self._hub.log.warning("request cannot be sent", remote=self._remote, code=code, detail=error)

    def call(
        self, code: int, header: msgspec.Struct | dict[str, str] | None, body: bytes, *, timeout_ms: int,
        on_answer: Callable[[Frame | None], None],
    ) -> None:  # fmt: skip
        """Send a request to the client; `on_answer` runs once, later, with None after the timeout (up to one sweep
        late), when the client is gone or if no peer would accept the request."""
        if self.closed:
            self._hub.defer(lambda: on_answer(None))
            return
        opaque = self._calls.add(self._hub.now() + timeout_ms / 1000, on_answer)
        try:
            self._send(encode_frame(Frame(code, opaque, ext=_fields(header), body=body)))
        except FrameError as error:
            self._hub.log.warning("request cannot be sent", remote=self._remote, code=code, detail=error)
            self._calls.take(opaque)
            self._hub.defer(lambda: on_answer(None))

    # ---- what the channel needs

    def _opened(self) -> None:
        self._hub.sessions.add(self)
        self._handler.on_open(self)
        if self._hub.admission.crowded(self.remote_ip):
            self._handler = OnApproval(self._handler)

    def _requests(self, frames: list[Frame]) -> None:
        self._handler.on_frames(self, frames)

    def _answer_came(self, frame: Frame) -> None:
        on_answer = self._calls.take(frame.opaque)
        if on_answer is None:
            self._hub.log.debug("answer without a request", remote=self._remote, opaque=frame.opaque)
        else:
            on_answer(frame)

    def _expire_calls(self, now: float) -> None:
        for _, on_answer in self._calls.expire(now):
            on_answer(None)

    def _lost(self) -> None:
        for _, on_answer in self._calls.drain():
            on_answer(None)
        self._handler.on_close(self)
        self._hub.forget(self)

    def _flush_later(self) -> None:
        self._hub.mark_dirty(self)

    def _starve(self) -> None:
        self._hub.starved.setdefault(self)


def _fields(header: msgspec.Struct | dict[str, str] | None) -> dict[str, str]:
    if header is None:
        return {}
    return encode_header(header) if isinstance(header, msgspec.Struct) else header
