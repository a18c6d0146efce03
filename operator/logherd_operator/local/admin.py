"""Questions to a broker's admin HTTP port."""

import http.client
import json
import urllib.error
import urllib.request
from typing import Any

__all__ = ["ask_ready", "ask_status"]

_SECONDS = 2.0
_BYTES_MAX = 1 << 20


def ask_ready(admin_address: str) -> bool:
    """Does the broker say that it serves? False also if it cannot be reached. Blocks for 2 s at most."""
    return _get(f"http://{admin_address}/ready") is not None


def ask_status(admin_address: str) -> dict[str, Any] | None:
    """The broker's own view, or None if it does not answer sensibly. Blocks for 2 s at most."""
    body = _get(f"http://{admin_address}/status")
    try:
        document = None if body is None else json.loads(body)
    except ValueError:
        return None
    return document if isinstance(document, dict) else None


def _get(url: str) -> bytes | None:
    # A proxy of the environment has no say about addresses of this machine.
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(url, timeout=_SECONDS) as answer:
            body: bytes = answer.read(_BYTES_MAX)
            return body
    except (urllib.error.URLError, http.client.HTTPException, OSError):
        return None
