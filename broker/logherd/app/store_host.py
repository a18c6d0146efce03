"""The address that records and message ids carry: an IP address, also where the broker is known by a name.

A client that has a message's id asks exactly this address for the message. So a name is looked up, once, when a broker
starts: what it stands for has to outlive this process, as a Service's address does. A start does not wait long for it.
"""

import asyncio
import socket

from logherd.model.host import encode_host
from logherd.settings.options import Endpoint
from logherd.telemetry.log import Log

__all__ = ["find_store_host"]

_LOOKUP_SECONDS = 1.0
_LOOPBACK = "127.0.0.1"

_log = Log("logherd.app")


async def find_store_host(routed: Endpoint) -> bytes:
    """Of the address by which clients reach this group's leader. Loopback, and a warning, if nobody knows the name."""
    try:
        return encode_host(routed.host, routed.port)
    except ValueError:
        pass
    try:
        async with asyncio.timeout(_LOOKUP_SECONDS):
            found = await asyncio.get_running_loop().getaddrinfo(routed.host, None, type=socket.SOCK_STREAM)
    except TimeoutError:
        reason = f"no answer within {_LOOKUP_SECONDS:g} s"
    except (OSError, UnicodeError) as error:
        reason = str(error)
    else:
        # IPv4 first: every client can read it in an id.
        _, _, _, _, address = min(found, key=lambda each: each[0] != socket.AF_INET)
        return encode_host(str(address[0]), routed.port)
    _log.warning("records carry loopback as the broker's address", name=routed.host, reason=reason)
    return encode_host(_LOOPBACK, routed.port)
