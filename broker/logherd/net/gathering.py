"""Requests that are let come together: a connection that was left alone is read again once its senders have all spoken.

Senders that wait for their answers ask again when they have them, each in its own moment. Read at the first of these
moments, a few of them make a run, and all others wait for it: two runs for what could be one, for ever. So the kernel
is told for how many bytes it is to wake us (SO_RCVLOWAT): as many as they sent the last time, and what lies there.

Nobody knows who will not ask again: after a short time whatever has come is read, and how often that is in vain is a
matter of `Patience`. Many connections with a request each: `app/linger.py`.

Source: socket(7), SO_RCVLOWAT; tcp_poll in Linux 4.18 and newer, which heeds it, and the end of a connection besides.
"""

import asyncio
import socket
from contextlib import suppress

from logherd.kit.patience import Patience
from logherd.net.kernel_bytes import unread_bytes

__all__ = ["GATHER_BYTES_MAX", "GATHER_SECONDS_MAX", "Gathering"]

GATHER_BYTES_MAX = 128 * 1024
"""What lies in the kernel meanwhile. Larger runs gain nothing from waiting for more."""
GATHER_SECONDS_MAX = 0.003
"""64 senders of a Java client have asked again after 1.3 ms."""


class Gathering:
    """Of one connection. Invariant: the kernel waits for more than a byte only while `waiting`."""

    __slots__ = ("_mark", "_patience", "_timer", "_wire")

    def __init__(self) -> None:
        self._mark = 0
        self._patience = Patience()
        self._timer: asyncio.TimerHandle | None = None
        self._wire: socket.socket | None = None

    @property
    def waiting(self) -> bool:
        """Whether the connection is readable only by many bytes, its end, or after a while."""
        return self._timer is not None

    def begin(self, transport: asyncio.Transport, received: int) -> None:
        """The connection, of which `received` bytes were read so far, is to be read again: wait, if that may pay.

        Returns at once. Without a socket behind the transport nothing is waited for.
        """
        sent, self._mark = received - self._mark, received
        if not self._patience.left():
            return
        wire = transport.get_extra_info("socket")
        if wire is None or wire.fileno() < 0 or self._timer is not None:
            return
        with suppress(OSError):  # the connection is gone: there is nothing to wait for
            there = unread_bytes(wire)
            wanted = min(there + sent, GATHER_BYTES_MAX)
            if there < wanted:
                wire.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, wanted)
                self._wire = wire
                self._timer = asyncio.get_running_loop().call_later(GATHER_SECONDS_MAX, self._run_out)

    def came(self) -> None:
        """While waiting: the connection is readable."""
        self._patience.met()
        self._end()

    def forget(self) -> None:
        """The connection is gone: wait for nothing any more. Idempotent."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._wire = None

    def _run_out(self) -> None:
        self._patience.missed()
        self._end()

    def _end(self) -> None:
        wire = self._wire
        self.forget()
        if wire is not None:
            with suppress(OSError):
                wire.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, 1)
