"""How a connection ends on which requests may be on their way: with a reset.

A process that is killed ends its connections with FIN, as one that has finished does. The Java client 5.3.3 forgets the
requests on their way on a connection that ended so, if another of its threads asks for a new connection before it has
looked: they fail after their three seconds. A reset it hears first and fails them at once, and then sends them again.
So a connection is set to be reset from its begin, and to end with FIN only where it is one client's own affair.

Source: tcp_close and tcp_ioctl in Linux: a socket whose linger time is on and 0 sends a reset, also when its process
was killed.
"""

import asyncio
import socket
from collections.abc import Callable
from struct import Struct
from typing import Final

from logherd.net.kernel_bytes import unacknowledged_bytes, unread_bytes, unsent_bytes

__all__ = ["LOOK_SECONDS", "end_with_fin", "end_with_reset", "has_arrived", "has_come", "has_left"]

LOOK_SECONDS: Final = 0.005
"""How often to look again whether a connection may end."""

_LINGER = Struct("ii")
_RESET, _FIN = _LINGER.pack(1, 0), _LINGER.pack(0, 0)


def end_with_reset(transport: asyncio.Transport) -> None:
    """From now on whoever closes the connection resets it, and what the kernel has not sent yet is lost."""
    _set(transport, _RESET)


def end_with_fin(transport: asyncio.Transport) -> None:
    """From now on the connection ends after what was written. Nothing happens if it is gone."""
    _set(transport, _FIN)


def has_arrived(transport: asyncio.Transport) -> bool:
    """Whether the peer's kernel has everything that was written, or never will."""
    return not transport.get_write_buffer_size() and _count(transport, unacknowledged_bytes) == 0


def has_left(transport: asyncio.Transport) -> bool:
    """Whether everything that was written is on its way to the peer, or never will be."""
    return not transport.get_write_buffer_size() and _count(transport, unsent_bytes) == 0


def has_come(transport: asyncio.Transport) -> bool:
    """Whether the peer has sent something that was not read yet."""
    return _count(transport, unread_bytes) > 0


def _count(transport: asyncio.Transport, count: Callable[[socket.socket], int]) -> int:
    """Bytes with the kernel; 0 if the connection is gone."""
    wire = transport.get_extra_info("socket")
    if wire is None or wire.fileno() < 0:
        return 0
    try:
        return count(wire)
    except OSError:
        return 0


def _set(transport: asyncio.Transport, linger: bytes) -> None:
    wire = transport.get_extra_info("socket")
    if wire is not None and wire.fileno() >= 0:
        try:
            wire.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        except OSError:  # closed by its peer in between: there is nothing to end
            return
