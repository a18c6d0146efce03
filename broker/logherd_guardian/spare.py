"""A connection to a peer's child, made and proven before a client needs it."""

import selectors
import socket
from collections.abc import Callable

from logherd_guardian.options import Address
from logherd_guardian.proxy import GREETING

__all__ = ["Spare", "dialled", "is_silent", "keep_alive"]

_TIMEOUT_MS = 30_000


def dialled(address: Address) -> socket.socket:
    """A socket that has begun to connect. Raises: OSError if it cannot even begin."""
    made = socket.socket(socket.AF_INET6 if ":" in address[0] else socket.AF_INET, socket.SOCK_STREAM)
    try:
        made.settimeout(0)
        try:
            made.connect(address)
        except BlockingIOError:
            pass
        keep_alive(made)
    except OSError:
        made.close()
        raise
    return made


def keep_alive(connection: socket.socket) -> None:
    """Send at once, and notice a dead other end in half a minute."""
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 10)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 5)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, _TIMEOUT_MS)


def is_silent(connection: socket.socket) -> bool:
    """Whether nothing has come that was not read, and no end."""
    try:
        connection.recv(1, socket.MSG_PEEK)
    except BlockingIOError:
        return True
    except OSError:
        pass
    return False


class Spare:
    """Dialled, then greeted, then taken or lost.

    After the greeting a peer says nothing until it has been given a client: what comes then is the end of a spare.
    """

    def __init__(
        self, selector: selectors.BaseSelector, peer: str, address: Address, now: int,
        changed: "Callable[[Spare, str | None], None]",
    ) -> None:  # fmt: skip
        """`changed(spare, None)`: it is greeted; `changed(spare, why)`: it is lost, and closed. Raises: OSError."""
        self.peer = peer
        self.address = address
        self.since = now
        """When it was dialled, ms."""
        self.greeted = False
        self._selector = selector
        self._changed = changed
        self._heard = b""
        self._socket = dialled(address)
        selector.register(self._socket, selectors.EVENT_READ, self._ready)

    def close(self) -> None:
        self._selector.unregister(self._socket)
        self._socket.close()

    @property
    def is_quiet(self) -> bool:
        """Whether the peer has still said nothing more, and not left; it may have while others had their turn."""
        return is_silent(self._socket)

    def take(self) -> socket.socket:
        """The connection, no longer watched here."""
        self._selector.unregister(self._socket)
        return self._socket

    def _ready(self, mask: int) -> None:
        """Something has come, or there is no connection: the peer speaks first."""
        try:
            data = self._socket.recv(len(GREETING) + 1)
        except BlockingIOError:
            return
        except OSError as error:
            self._lose(error.strerror or str(error))
            return
        self._heard += data
        if not data:
            self._lose("closed by the peer")
        elif not GREETING.startswith(self._heard):
            self._lose("no greeting of a child")
        elif self._heard == GREETING:
            self.greeted = True
            self._changed(self, None)

    def _lose(self, why: str) -> None:
        self.close()
        self._changed(self, why)
