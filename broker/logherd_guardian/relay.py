"""One client's connection passed on to a peer, byte for byte in both directions.

Holds no bytes of its own: it looks at what one side has sent, gives the other as much as that takes, and only then
takes exactly this from the first. So what waits, waits in the kernel, bounded by its socket buffers, and a side that
does not read stops the other from being read.

What one side did to its connection is done to the other: a peer that died resets its client, as a broker that dies
does (a stock client forgets requests on a connection that ends with FIN). So does the death of this process. What the
peer has answered before it was lost reaches the client first: a reset discards what waits in our kernel.
"""

import selectors
import socket
from collections.abc import Callable
from struct import Struct

from logherd_guardian.clock import clock_ms
from logherd_guardian.spare import is_silent

__all__ = ["BUFFER_BYTES", "RESET", "Relay"]

BUFFER_BYTES = 64 << 10
_ROUNDS_MAX = 4
"""So many buffers are moved before others have their turn."""
_DELIVERY_MS = 1_000
"""So long a client has to take the last answers of a peer that was lost."""
_LINGER = Struct("ii")
RESET, _FIN = _LINGER.pack(1, 0), _LINGER.pack(0, 0)
"""Values of SO_LINGER: how the kernel ends a connection, see tcp_close in Linux."""
_TCP_INFO = Struct("=B143xI")
"""tcpi_state and, since Linux 4.6, tcpi_notsent_bytes, see linux/tcp.h: what SIOCOUTQNSD tells, too."""
_TCP_CLOSE = 7
_READ, _WRITE = selectors.EVENT_READ, selectors.EVENT_WRITE


class _Way:
    """One direction."""

    def __init__(self, source: socket.socket, sink: socket.socket) -> None:
        self.source = source
        self.sink = sink
        self.blocked = False
        """The sink takes nothing at the moment of what the source has sent."""
        self.ended = False
        """The source has sent its last byte, and the sink has been told."""


class Relay:
    """Ends when both directions have ended, or when one side is lost: then both are closed, once the client has what
    the peer had answered, or does not take it in time."""

    def __init__(
        self, selector: selectors.BaseSelector, client: socket.socket, peer: socket.socket, buffer: memoryview,
        ended: "Callable[[Relay], None]",
    ) -> None:  # fmt: skip
        """Raises: OSError if the system cannot watch them; they are reset then."""
        self.moved_at = clock_ms()
        """When the last bytes went through, ms."""
        self._asked = False
        """Whether the client has spoken last."""
        self._selector = selector
        self._sides = (client, peer)
        self._ways = (_Way(peer, client), _Way(client, peer))
        self._until: int | None = None
        """One side is lost: when the client's time for the last answers ends, ms."""
        self._buffer = buffer
        self._ended = ended
        for side in self._sides:
            side.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
        try:
            self._watch()
        except OSError:
            self.close()
            raise

    @property
    def half_ended(self) -> bool:
        return any(way.ended for way in self._ways)

    @property
    def is_at_rest(self) -> bool:
        """Whether nothing is on its way, as far as bytes tell: the peer has answered since the client spoke, that has
        left this machine, and neither has sent more."""
        if self._asked or self._until is not None:
            return False
        return all(is_silent(side) and _has_left(side) for side in self._sides)

    def close(self, *, reset: bool = True) -> None:
        """End both connections: with a reset, so that a client looks at once for what was on its way, or with FIN."""
        for side in self._sides:
            side.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET if reset else _FIN)
            self._unwatch(side)
            side.close()

    def tick(self, now: int) -> None:
        """Go on with the end, if one side is lost."""
        if self._until is not None and (now >= self._until or self._has_delivered()):
            self._end(reset=True)

    def _watch(self) -> None:
        """Ask for what each side is waited for; a side that is waited for nothing is not asked at all."""
        for side in self._sides:
            wanted = 0
            for way in self._ways:
                if way.source is side and not way.ended and not way.blocked:
                    wanted |= _READ
                if way.sink is side and way.blocked:
                    wanted |= _WRITE
            known = self._selector.get_map().get(side)
            if wanted and known is None:
                self._selector.register(side, wanted, self._ready)
            elif not wanted:
                self._unwatch(side)
            elif known is not None and known.events != wanted:
                self._selector.modify(side, wanted, self._ready)

    def _unwatch(self, side: socket.socket) -> None:
        if side in self._selector.get_map():
            self._selector.unregister(side)

    def _ready(self, mask: int) -> None:
        """Something can move; which way is found by trying."""
        try:
            for way in self._ways:
                if not way.ended:
                    self._move(way)
            if not all(way.ended for way in self._ways):
                self._watch()  # for which the system may have no memory
                return
        except OSError:
            self._lose()
            return
        self._end(reset=False)

    def _lose(self) -> None:
        """One side is lost; which one, and what it had sent before, is not known here."""
        for side in self._sides:
            self._unwatch(side)
        now = clock_ms()
        self._until = now + _DELIVERY_MS
        self.tick(now)

    def _has_delivered(self) -> bool:
        """Whether everything that the peer has answered is on its way to the client, or never will be."""
        answers = self._ways[0]
        if not answers.ended:
            try:
                if not self._move(answers):
                    return False
            except OSError:
                answers.ended = True
        return _has_left(answers.sink)

    def _move(self, way: _Way) -> bool:
        """Whether the source has no more at the moment, or has ended."""
        for _ in range(_ROUNDS_MAX):
            try:
                count = way.source.recv_into(self._buffer, 0, socket.MSG_PEEK)
            except BlockingIOError:
                return True
            if count == 0:
                way.ended = True
                if self._until is None:  # a reset is what its client is to hear, and not an end before it
                    way.sink.shutdown(socket.SHUT_WR)
                return True
            try:
                sent = way.sink.send(self._buffer[:count])
            except BlockingIOError:
                way.blocked = True
                return False
            way.blocked = False
            way.source.recv_into(self._buffer, sent)
            self.moved_at, self._asked = clock_ms(), way is self._ways[1]
        return False

    def _end(self, *, reset: bool) -> None:
        self.close(reset=reset)
        self._ended(self)


def _has_left(side: socket.socket) -> bool:
    """Whether everything that was written is on its way, or never will be."""
    state, unsent = _TCP_INFO.unpack(side.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _TCP_INFO.size))
    return state == _TCP_CLOSE or not unsent
