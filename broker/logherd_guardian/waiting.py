"""A child that was forked before its guardian began, by a process that had imported its code already. It waits to hear
what it is lent; then it is the first life of the guardian's command. Later lives are started as ever.
"""

import os
import socket
from collections.abc import Mapping

__all__ = ["Waiting"]


class Waiting:
    """A child of this very process, and the socket at which it waits."""

    __slots__ = ("_socket", "pid")

    def __init__(self, pid: int, descriptor: int) -> None:
        """Takes the descriptor. Raises: OSError if it is not a socket."""
        os.set_inheritable(descriptor, False)  # noqa: FBT003
        self._socket = socket.socket(fileno=descriptor)
        self.pid = pid

    def begin(self, incarnation: str, lent: Mapping[str, int], page: int) -> bool:
        """Say who it is and lend it the descriptors: `INCARNATION NAME NAME ...` as one message, with the listeners in
        the order of their names and then the page. False if it has died. To be called once."""
        text = " ".join((incarnation, *lent)).encode()
        try:
            socket.send_fds(self._socket, [text], [*lent.values(), page])
        except OSError:
            return False
        finally:
            self.close()
        return True

    def close(self) -> None:
        """It waits no longer, and ends if it was not told to begin."""
        self._socket.close()
