"""Listening on a socket that was bound before."""

import socket

__all__ = ["begin_to_listen"]


def begin_to_listen(bound: socket.socket, backlog: int) -> None:
    """What the event loop does, too; it, however, is silent if that fails.

    Raises: OSError that names the address: a port may be bound by many, and be listened on by one.
    """
    try:
        bound.listen(backlog)
    except OSError as error:
        host, port = bound.getsockname()[:2]
        raise OSError(error.errno, f"{host}:{port}: {error.strerror}") from error
