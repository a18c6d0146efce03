"""The asyncio protocol of an accepted connection: bytes in, slices of requests out, one write a pass, back-pressure."""

import asyncio
from abc import abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, cast

from logherd.model.host import encode_host
from logherd.net.foreign import foreign_protocol
from logherd.net.gathering import Gathering
from logherd.net.intake import HEADER_SIZE, SLICE_FRAMES_MAX, Intake, exact_size
from logherd.net.outbox import Outbox
from logherd.net.parting import LOOK_SECONDS, end_with_fin, end_with_reset, has_arrived, has_come, has_left
from logherd.net.patience import Patience
from logherd.wire.codec import FrameReader
from logherd.wire.errors import FrameError
from logherd.wire.frame import Flag, Frame

if TYPE_CHECKING:
    from logherd.net.hub import Hub

__all__ = ["Channel"]

COUNTED_SIZE_MIN = 64 * 1024


class _Traffic:
    """Counters of one connection, in bytes and frames; `unsent` and `partial` are what the budget was last told.
    `taken`: what of `sent` the kernel had at the sweep at `taken_at`, and has no more of yet; -1 for all of it."""

    __slots__ = ("frames", "partial", "received", "sent", "taken", "taken_at", "unsent")

    def __init__(self) -> None:
        self.received = 0
        self.sent = 0
        self.frames = 0
        self.partial = 0
        self.unsent = 0
        self.taken = -1
        self.taken_at = 0.0

    def look(self, now: float) -> None:
        """At each sweep, once `unsent` was counted."""
        taken = self.sent - self.unsent if self.unsent else -1
        if taken != self.taken:
            self.taken, self.taken_at = taken, now


class _Reading:
    """Why nothing is read from a connection: `paused` by its limits or the end, `resting` until it is woken, and then
    perhaps not before many bytes are there."""

    __slots__ = ("gathering", "paused", "resting")

    def __init__(self) -> None:
        self.gathering = Gathering()
        self.paused = False
        self.resting = False


class Channel(asyncio.Protocol):
    """The transport side of a session.

    Invariants: 1. `_opened` and `_lost` come once each, in this order, and only for an admitted connection. 2. What is
    sent leaves in order, with one write per loop pass. 3. When we end the connection, one line says why, or counts it.
    4. It ends with FIN only after `end` or the client's own; a stop or a death of this process resets it.
    """

    def __init__(self, hub: "Hub") -> None:
        self.id = hub.next_id()
        self.remote_ip = ""
        self.remote_port = 0
        self.remote_host = b""
        self._hub = hub
        self._transport: asyncio.Transport | None = None
        self._reader = FrameReader(hub.limits.wire, typed_sends=hub.typed_sends)
        self._intake = Intake(hub.limits.flow, hub.budget)
        self._outbox = Outbox()
        self._budget = hub.budget
        self._patience = Patience(hub.limits.patience, hub.now())
        self._traffic = _Traffic()
        self._flow = hub.limits.flow
        self._dirty = False
        self._reading = _Reading()
        self._congested = False
        self._ending = False

    @property
    def closed(self) -> bool:
        """Whether nothing sent from now on can arrive."""
        return self._transport is None or self._ending

    @property
    def quiet(self) -> bool:
        """Whether no request runs and nothing waits to be written."""
        return self._intake.running == 0 and self._outbox.size == 0

    @property
    def at_rest(self) -> bool:
        """Whether everything that came was answered, and has left this machine: a reset discards what our kernel holds
        for a peer that reads slowly.

        That the peer has acknowledged it is not asked: what its client asks next takes that along, 40 ms later at most,
        and a client that asks that often would never be at rest.
        """
        transport = self._transport
        intake = self._intake
        if transport is None or not self.quiet or intake.parked or intake.backlog or self._traffic.partial:
            return False
        return has_left(transport) and not has_come(transport)

    @property
    def running(self) -> int:
        """Number of requests that are unanswered, and not parked."""
        return self._intake.running

    @property
    def bytes_received(self) -> int:
        """Since the connection was accepted."""
        return self._traffic.received

    @property
    def bytes_sent(self) -> int:
        """Handed to the transport since the connection was accepted."""
        return self._traffic.sent

    def end(self, reason: str, **detail: str | int) -> None:
        """Close the connection after what is already queued, with one log line or count. Idempotent."""
        transport = self._transport
        if transport is None or self._ending:
            return
        self.flush()
        self._ending = True
        self._hub.log.warning("connection closed by us", remote=self._remote, reason=reason, **detail)
        end_with_fin(transport)
        transport.close()

    # ---- what the session adds

    @abstractmethod
    def _opened(self) -> None:
        """The connection was admitted."""

    @abstractmethod
    def _requests(self, frames: list[Frame]) -> None:
        """Requests to handle, 1 to 32."""

    @abstractmethod
    def _answer_came(self, frame: Frame) -> None:
        """An answer of the client."""

    @abstractmethod
    def _expire_calls(self, now: float) -> None:
        """Look at the deadlines of what was asked of the client."""

    @abstractmethod
    def _lost(self) -> None:
        """The connection is gone. Comes once after `_opened`."""

    @abstractmethod
    def _flush_later(self) -> None:
        """Call `flush` at the end of this loop pass."""

    @abstractmethod
    def _starve(self) -> None:
        """Call `resume` when the process has memory again."""

    # ---- asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        wire = cast("asyncio.Transport", transport)
        peer = wire.get_extra_info("peername") or ("0.0.0.0", 0)  # noqa: S104 - a peer that left before we looked
        self.begin(wire, peer[0], peer[1])

    def begin(self, wire: asyncio.Transport, remote_ip: str, remote_port: int) -> None:
        """Serve this client, or refuse it: what `connection_made` does, also for a client that a proxy stands for."""
        self.remote_ip, self.remote_port = remote_ip, remote_port
        refusal = "the server stops" if self._hub.stopping else self._hub.admission.admit(self.remote_ip)
        if refusal is not None:
            self._hub.log.warning("connection refused", remote=self._remote, reason=refusal)
            wire.abort()
            return
        self.remote_host = encode_host(self.remote_ip, self.remote_port)
        wire.set_write_buffer_limits(high=self._flow.unsent_bytes_soft, low=self._flow.unsent_bytes_soft // 2)
        end_with_reset(wire)
        self._transport = wire
        self._opened()

    def data_received(self, data: bytes) -> None:
        traffic = self._traffic
        if self._reading.gathering.waiting:
            self._reading.gathering.came()
        if not traffic.received and (name := foreign_protocol(data)) is not None:
            traffic.received = len(data)
            self.end("not a remoting client", detail=name)
        if self._transport is None or self._ending:
            return
        traffic.received += len(data)
        try:
            frames: Sequence[Frame] = self._reader.feed(data)
        except FrameError as error:
            self._deliver(list(error.frames), len(data))
            self.end("bytes that are no frame", detail=str(error))
            return
        partial, before = self._reader.buffered, traffic.partial
        if partial != before:
            self._budget.used += partial - before
            traffic.partial = partial
        if frames:
            self._deliver(cast("list[Frame]", frames), len(data) + before - partial)
        if not self._reading.paused and self._blocked() and self._transport is not None:
            self._pause(self._transport)

    def pause_writing(self) -> None:
        self._congested = True

    def resume_writing(self) -> None:
        self._congested = False
        self.count_unsent()
        self.resume()

    def eof_received(self) -> bool:
        if self._transport is not None:
            end_with_fin(self._transport)
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        if self._transport is None:
            return
        self._transport = None
        self._reading.gathering.forget()
        traffic = self._traffic
        if not self._ending and traffic.partial:
            self._hub.log.warning("connection ended inside a frame", remote=self._remote, partial=traffic.partial)
        elif not self._ending:
            self._hub.log.debug("connection closed by peer", remote=self._remote, error=exc)
        self._budget.used -= traffic.partial + traffic.unsent
        self._intake.clear()
        self._outbox.take()
        self._hub.admission.release(self.remote_ip, received=traffic.received, sent=traffic.sent)
        self._lost()

    # ---- called by the hub

    def flush(self) -> None:
        """Write what was collected, and read on if there is room."""
        self._dirty = False
        if self.write() and self._reading.paused:
            self.resume()

    def write(self) -> bool:
        """Write what was collected, in one call; close if the peer lets too much pile up. Whether it goes on.

        Whatever was read waits as before, so this may be called where no request can be taken.
        """
        transport = self._transport
        if transport is None or self._ending:
            return False
        outbox, traffic = self._outbox, self._traffic
        if outbox.size:
            size = outbox.size
            traffic.sent += size
            buffers = outbox.take()
            if len(buffers) == 1:
                transport.write(buffers[0])
            else:
                transport.writelines(buffers)
            # What little else is unsent is counted by the next sweep; above the soft limit we are congested.
            if size >= COUNTED_SIZE_MIN or self._congested:
                self.count_unsent()
                if traffic.unsent > self._flow.unsent_bytes_max:
                    self._abort("answers are not read", unsent=traffic.unsent)
                    return False
        return True

    def count_unsent(self) -> None:
        """Tell the budget how much of what we wrote is still in this process."""
        if self._transport is not None:
            unsent = self._transport.get_write_buffer_size()
            self._budget.used += unsent - self._traffic.unsent
            self._traffic.unsent = unsent

    def resume(self) -> None:
        """Deliver what waited and read on, as far as the limits allow."""
        if not self._reading.paused or self._transport is None or self._ending:
            return
        self._pump()
        if self._blocked():
            if self._budget.exhausted:
                self._starve()
            return
        self._reading.paused = False
        if not self._reading.resting:
            self._transport.resume_reading()

    def take_turn(self) -> bool:
        """Deliver one slice of what waits although the memory of all is used up; whether something did."""
        if self._transport is None or self._ending or self._congested:
            return False
        batch = self._intake.take_slice()
        if batch:
            self._requests(batch)
        return bool(batch)

    def rest(self) -> bool:
        """Read nothing until `wake`: what comes would only wait. Whether that is new; requests taken go on."""
        if self._reading.resting or self._transport is None or self._ending:
            return False
        self._reading.resting = True
        if not self._reading.paused:
            self._transport.pause_reading()
        return True

    def wake(self) -> None:
        """Read on, as far as the limits allow, once its senders have spoken again or a little later."""
        if self._reading.resting:
            self._reading.resting = False
            if not self._reading.paused and self._transport is not None and not self._ending:
                self._reading.gathering.begin(self._transport, self._traffic.received)
                self._transport.resume_reading()

    def stop_reading(self) -> None:
        """Take no further request: the server stops."""
        if self._transport is not None and not self._reading.paused:
            self._pause(self._transport)

    def sweep(self, now: float) -> None:
        """Look at the clocks of this connection."""
        if self._ending:
            if not self._hub.stopping:
                self.abort()
            return
        self._expire_calls(now)
        self.count_unsent()
        traffic = self._traffic
        traffic.look(now)
        # While the memory of the whole process is used up frames go on ageing: half frames may be what fills it.
        held = self._reading.paused and not self._budget.full
        overdue = self._patience.step(
            now, received=traffic.received, sent=traffic.sent - traffic.unsent, frames=traffic.frames,
            buffered=traffic.partial, held=held,
        )  # fmt: skip
        if overdue is not None and self._patience.idle and self.quiet and not traffic.unsent:
            # A client that is silent owes nothing and is owed nothing: Java's have a connection to every name server.
            self._hub.log.info("connection closed by us", remote=self._remote, reason=overdue)
            self.abort()
        elif overdue is not None:
            self._abort(overdue, partial=traffic.partial, unsent=traffic.unsent)

    def close(self) -> None:
        """Send what is queued, and reset the connection when the peer has all of it: the server stops.

        There may be requests on their way that nobody will answer, and a reset is what tells a client so; before that
        it would lose the last answers.
        """
        if self._transport is not None and not self._ending:
            self.flush()
            self._ending = True
            self._part()

    def _part(self) -> None:
        transport = self._transport
        if transport is None:
            return
        if has_arrived(transport):
            transport.abort()
        else:
            asyncio.get_running_loop().call_later(LOOK_SECONDS, self._part)

    def abort(self) -> None:
        """Close now; what is queued is lost."""
        self._ending = True
        if self._transport is not None:
            self._transport.abort()

    # ---- inside

    @property
    def _remote(self) -> str:
        return f"{self.remote_ip}:{self.remote_port}"

    def _abort(self, reason: str, **detail: str | int) -> None:
        if not self._ending:
            self._hub.log.warning("connection closed by us", remote=self._remote, reason=reason, **detail)
        self.abort()

    def _send(self, data: bytes) -> None:
        if not self._ending:
            self._outbox.add(data)
            self._mark_dirty()

    def _send_slices(self, head: bytes, slices: Sequence[memoryview]) -> None:
        if not self._ending:
            self._outbox.add_slices(head, slices)
            self._mark_dirty()

    def _mark_dirty(self) -> None:
        if not self._dirty:
            self._dirty = True
            self._flush_later()

    def _blocked(self) -> bool:
        intake = self._intake
        return bool(intake.backlog) or intake.blocked or not self._may_deliver()

    def _deliver(self, frames: list[Frame], bytes_used: int) -> None:
        """Give requests to the handler in slices, as long as nothing stands against it; queue the rest."""
        self._traffic.frames += len(frames)
        done, count = 0, len(frames)
        while done < count and not self._reading.paused and self._may_deliver():
            batch = frames if count <= SLICE_FRAMES_MAX else frames[done : done + SLICE_FRAMES_MAX]
            size = flags = 0
            for frame in batch:
                size += len(frame.body)
                flags |= frame.flag
            if flags or bytes_used - size > 2 * HEADER_SIZE * count or not self._intake.take_all(batch, size):
                break
            self._requests(batch)
            done += len(batch)
            bytes_used -= size
        if done < count:
            self._queue(frames[done:] if done else frames, exact=bytes_used > 2 * HEADER_SIZE * count)
            self._pump()

    def _queue(self, frames: list[Frame], *, exact: bool) -> None:
        for frame in frames:
            if not frame.flag & Flag.RESPONSE:
                self._intake.queue(frame, exact_size=exact_size(frame) if exact else None)
            else:
                self._answer_came(frame)

    def _pump(self) -> None:
        while self._may_deliver() and (batch := self._intake.take_slice()):
            self._requests(batch)

    def _may_deliver(self) -> bool:
        budget = self._budget
        return not (
            self._congested
            or budget.held
            or budget.used >= budget.bytes_max
            or self._outbox.size >= self._flow.unsent_bytes_soft
            or self._ending
            or self._transport is None
        )

    def _pause(self, transport: asyncio.Transport) -> None:
        self._reading.paused = True
        if not self._reading.resting:
            transport.pause_reading()
        if self._budget.exhausted:
            self._starve()
