"""Connecting to a host that may be a name."""

import asyncio
import socket
from collections.abc import Callable
from typing import Final, TypeVar

__all__ = ["dial"]

_PORT_MAX: Final = 65_535

_Protocol = TypeVar("_Protocol", bound=asyncio.Protocol)


async def dial(make: Callable[[], _Protocol], host: str, port: int) -> _Protocol:
    """Connect to host:port; the addresses that a name stands for are tried in their order.

    May be cancelled at any time. (The event loop looks names up, too; but when it is cancelled meanwhile it forgets to
    look at what came of that, and a failure is reported much later as nobody's.) Raises: OSError, UnicodeError.
    """
    if not 0 <= port <= _PORT_MAX:  # the system says so with an OverflowError, which nobody expects of an address
        raise OSError(f"{port} is no port; one is 0 to {_PORT_MAX}")
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    last = OSError(f"{host} stands for no address")
    for *_, address in found:
        try:
            _, protocol = await loop.create_connection(make, str(address[0]), port)
        except OSError as error:
            last = error
        else:
            return protocol
    raise last
