"""The writing half of a connection: what a pass has collected leaves in one write, and the rest waits where a heartbeat
can still overtake it.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from logherd.peers.options import LinkOptions
from logherd.peers.outbox import Outbox

__all__ = ["Outgoing", "Traffic"]

_JOINED_BYTES_MAX = 64 * 1024
"""Up to here one buffer costs less than several."""


@dataclass(slots=True)
class Traffic:
    """Counters; of one peer once it is known who it is."""

    bytes_in: int = 0
    bytes_out: int = 0
    messages_in: int = 0
    messages_out: int = 0
    dropped: int = 0

    def add(self, other: "Traffic") -> None:
        """Take over what a connection had counted before its peer was known."""
        self.bytes_in += other.bytes_in
        self.bytes_out += other.bytes_out


class Outgoing:
    """Invariants: 1. only as much as `buffer_bytes` and one frame lies with the transport; 2. one write for a pass, or
    several if it has collected more than that; 3. nothing is taken any more after one of the
    last four methods.
    """

    __slots__ = (
        "_buffer_bytes",
        "_congested",
        "_now",
        "_open",
        "_outbox",
        "_transport",
        "due",
        "moved",
        "traffic",
    )

    def __init__(self, transport: asyncio.Transport, options: LinkOptions, *, now: Callable[[], float]) -> None:
        self._transport = transport
        self._buffer_bytes = options.buffer_bytes
        self._outbox = Outbox(bulk_bytes_max=options.unsent_bytes_max, urgent_bytes_max=options.unsent_urgent_bytes_max)
        self._now = now
        self._open = True
        self.due: asyncio.Handle | None = None
        """What writes at the end of this pass, if something waits for that."""
        self._congested = False
        self.traffic = Traffic()
        self.moved = now()
        transport.set_write_buffer_limits(high=options.buffer_bytes)

    @property
    def unsent(self) -> int:
        """Bytes that have not reached the system."""
        return self._outbox.size + (self._transport.get_write_buffer_size() if self._open else 0)

    def has_bulk_room(self, size: int) -> bool:
        """Whether records of that size would be taken now."""
        return self._open and self._outbox.has_bulk_room(size)

    def send(self, frame: bytes, *, bulk: bool) -> bool:
        """Queue a frame for the end of this pass; False if too much waits, or the connection has ended."""
        if not self._open:
            return False
        taken = self._outbox.add_bulk(frame) if bulk else self._outbox.add_urgent(frame)
        if taken and self.due is None and not self._congested:
            self.due = asyncio.get_running_loop().call_soon(self.flush)
        return taken

    def flush(self) -> None:
        """Write what waits, as far as the peer takes it."""
        if self.due is not None:
            self.due.cancel()  # where this is not it: there would be nothing left for it
            self.due = None
        transport, outbox = self._transport, self._outbox
        while self._open and (outbox.urgent_bytes or outbox.bulk_bytes) and not self._congested:
            frames = outbox.take(self._buffer_bytes)
            size = sum(map(len, frames))
            self.traffic.bytes_out += size
            if len(frames) == 1:
                transport.write(frames[0])
            elif size <= _JOINED_BYTES_MAX:
                transport.write(b"".join(frames))
            else:
                transport.writelines(frames)

    def pause(self) -> None:
        """The transport has enough."""
        self._congested = True

    def resume(self) -> None:
        """The peer has read on."""
        self._congested = False
        self.moved = self._now()
        self.flush()

    def finish(self) -> None:
        """Write everything and end our direction; the peer's may go on."""
        if self._open:
            self._transport.writelines(self._outbox.take(self._outbox.size))
            self._transport.write_eof()
            self.forget()

    def close(self) -> None:
        """Close after what the transport takes now or has already; what waits behind that is lost."""
        self.flush()
        self.forget()
        self._transport.close()

    def abort(self) -> None:
        """Close now, also what was finished or closed before."""
        self.forget()
        self._transport.abort()

    def forget(self) -> None:
        """Take and write nothing more."""
        self._open = False
        self._outbox.clear()
