"""A process that was forked before its guardian began, by one that had imported its code: it waits for the guardian."""

import ctypes
import os
import signal
import socket

from logherd_guardian.child import receive_lent

__all__ = ["await_guardian"]

_PR_SET_PDEATHSIG = 1


def await_guardian(connection: socket.socket, guardian: int) -> dict[str, str] | None:
    """Become the child that process `guardian`, which is our parent, would start, once it says so. Blocks until then.

    The result is what its child's environment would say. None if the guardian has ended instead.
    Raises: OSError if the system forbids to die with the guardian.
    """
    os.setsid()
    if ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "cannot be bound to the guardian")
    if os.getppid() != guardian:  # it ended before we were bound to it
        return None
    with connection:
        return receive_lent(connection)
