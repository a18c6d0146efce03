"""Taking an address before anything else is opened, so that a wrong one is told first."""

import socket

from logherd.kit.errors import LogHerdError
from logherd.settings.options import Endpoint

__all__ = ["CannotListen", "bind"]


class CannotListen(LogHerdError):
    """An address of the configuration cannot be bound."""


def bind(endpoint: Endpoint, setting: str) -> socket.socket:
    """Take an address without accepting connections yet. Raises CannotListen that names the setting and the address."""
    family = socket.AF_INET6 if ":" in endpoint.host else socket.AF_INET
    taken = socket.socket(family, socket.SOCK_STREAM)
    try:
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        taken.bind((endpoint.host, endpoint.port))
    except OSError as error:
        taken.close()
        raise CannotListen(f"{setting} {endpoint}: {error.strerror}") from error
    taken.setblocking(False)  # noqa: FBT003 - the socket's own signature
    return taken
