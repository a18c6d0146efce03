"""What of a connection lies with the kernel: bytes that came and were not read, or were written and are on their way.

Source: ioctl_tty(2), tcp(7): SIOCINQ and SIOCOUTQ, by the names that `termios` has for them. linux/sockios.h, tcp_ioctl
in Linux: SIOCOUTQNSD, which Python has no name for.
"""

import fcntl
import socket
import termios
from struct import Struct

__all__ = ["unacknowledged_bytes", "unread_bytes", "unsent_bytes"]

_COUNT = Struct("i")
_SIOCOUTQNSD = 0x894B
"""The output queue, not sent only: what the peer has no room for yet, say; without what is sent and unacknowledged."""


def unread_bytes(wire: socket.socket) -> int:
    """What has come and was not read yet. Raises: OSError if the socket is closed."""
    return _ask(wire, termios.FIONREAD)


def unacknowledged_bytes(wire: socket.socket) -> int:
    """What was written and the peer's kernel has not acknowledged. Raises: OSError if the socket is closed."""
    return _ask(wire, termios.TIOCOUTQ)


def unsent_bytes(wire: socket.socket) -> int:
    """What was written and has not left for the peer even once. Raises: OSError if the socket is closed."""
    return _ask(wire, _SIOCOUTQNSD)


def _ask(wire: socket.socket, what: int) -> int:
    count: int = _COUNT.unpack(fcntl.ioctl(wire.fileno(), what, bytes(_COUNT.size)))[0]
    return count
