"""The messages that every proof sends: each kind of payload whose bytes a client or a store could get wrong."""

import hashlib
import random
from typing import Any

from compat.driver import message

__all__ = ["every_kind", "sha256", "small"]


def sha256(body: bytes) -> str:
    return hashlib.sha256(body).hexdigest()


def small(count: int, *, prefix: str = "m", **fields: Any) -> list[dict[str, Any]]:
    """Short messages with a key each, told apart by body and key."""
    return [message(f"{prefix}-{i}", keys=f"{prefix}-key-{i}", **fields) for i in range(count)]


def every_kind() -> dict[str, tuple[bytes, dict[str, Any]]]:
    """Kind -> (body, fields of the message). The same bytes in every run."""
    chance = random.Random(5)
    return {
        "one byte": (b"\0", {}),
        "text": ("grüße, 你好, \U0001f44b".encode(), {"tags": "TagA", "keys": "text-key"}),
        "no tag": (b"no tag", {"keys": "first second third"}),
        "tag only": (b"tag only", {"tags": "TagB"}),
        "tags with equal hashes": (b"BB and Aa hash alike", {"tags": "BB"}),
        "properties": (b"properties", {"properties": {"city": "Zürich", "kind": "a b", "n": "1" * 1000}}),
        "just not compressed": (b"n" * 4095, {"tags": "TagA"}),
        "compressed": (b"compress me, please. " * 1000, {"tags": "TagA", "keys": "compressed-key"}),
        "large": (b"0123456789abcdef" * 60_000, {"keys": "large-key"}),
        "does not compress": (chance.randbytes(100_000), {"tags": "TagC", "keys": "random-key"}),
    }
