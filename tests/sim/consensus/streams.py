"""Independent random streams from one seed: taking one fault away must not change any packet."""

from hashlib import blake2b
from random import Random

__all__ = ["stream"]


def stream(seed: int, label: str) -> Random:
    """The generator for one purpose."""
    digest = blake2b(f"{seed:016x}/{label}".encode(), digest_size=16).digest()
    return Random(int.from_bytes(digest, "big"))
