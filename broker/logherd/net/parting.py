"""How the kernel ends a connection when nobody does it in order: with a reset.

A process that is killed ends its connections with FIN, as one that has finished does. The Java client 5.3.3 forgets the
requests on their way on a connection that ended so, if another of its threads asks for a new connection before it has
looked: they fail after their three seconds. A reset it hears first and fails them at once, and then sends them again.
So a connection is set to be reset from its begin, and to end with FIN only where we end it in order.

Source: tcp_close in Linux: a socket whose linger time is on and 0 sends a reset, also when its process was killed.
"""

import asyncio
import socket
from struct import Struct

__all__ = ["end_with_fin", "end_with_reset"]

_LINGER = Struct("ii")
_RESET, _FIN = _LINGER.pack(1, 0), _LINGER.pack(0, 0)


def end_with_reset(transport: asyncio.Transport) -> None:
    """From now on whoever closes the connection resets it, and what the kernel has not sent yet is lost."""
    _set(transport, _RESET)


def end_with_fin(transport: asyncio.Transport) -> None:
    """From now on the connection ends after what was written. Nothing happens if it is gone."""
    _set(transport, _FIN)


def _set(transport: asyncio.Transport, linger: bytes) -> None:
    wire = transport.get_extra_info("socket")
    if wire is not None and wire.fileno() >= 0:
        try:
            wire.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        except OSError:  # closed by its peer in between: there is nothing to end
            return
