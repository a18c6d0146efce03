"""Questions and orders to the admin HTTP ports of brokers and controllers."""

import http.client
import json
from collections.abc import Mapping
from typing import Any

__all__ = ["Answer", "ask", "order"]

_SECONDS = 2.0
_ORDER_SECONDS = 10.0
_BYTES_MAX = 8 << 20

Answer = tuple[int, dict[str, Any]]
"""HTTP status and JSON object."""


def ask(address: str, path: str) -> Answer | None:
    """The page at `path`; None if nobody answers sensibly. Blocks for 2 s at most for each step of the exchange."""
    return _exchange(address, "GET", path, None, {}, _SECONDS)


def order(address: str, path: str, body: Mapping[str, Any], token: str) -> Answer | None:
    """Post a JSON object with the secret; None if nobody answers, in which case it may have been done all the same."""
    headers = {"content-type": "application/json", "authorization": f"Bearer {token}"}
    return _exchange(address, "POST", path, json.dumps(dict(body)), headers, _ORDER_SECONDS)


def _exchange(
    address: str, method: str, path: str, body: str | None, headers: Mapping[str, str], seconds: float
) -> Answer | None:  # fmt: skip
    host, _, port = address.rpartition(":")
    # A proxy of the environment has no say about addresses of this machine: this client knows none.
    connection = http.client.HTTPConnection(host.strip("[]"), int(port), timeout=seconds)
    try:
        connection.request(method, path, body, dict(headers))
        answer = connection.getresponse()
        document = json.loads(answer.read(_BYTES_MAX))
    except (OSError, http.client.HTTPException, ValueError):
        return None
    finally:
        connection.close()
    return (answer.status, document) if isinstance(document, dict) else None
