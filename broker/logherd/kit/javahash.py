"""Java's `String.hashCode`, which RocketMQ uses for tag codes and for the key index.

Source: the Java Language Specification's h = 31 * h + c over UTF-16 units, modulo 2**32, read as signed.
"""

from functools import lru_cache
from operator import mul

__all__ = ["extend_hash", "hash_ascii", "java_hash", "signed32"]

_MASK = 0xFFFFFFFF
_CACHED_LENGTH_MAX = 128
"""Peers choose the texts: a cache bounds their number only."""
_POWERS_LENGTH = 512
_MODULUS = 1 << 32
_POWERS: list[int] = [int(pow(31, n, _MODULUS)) for n in range(_POWERS_LENGTH - 1, -1, -1)]
_POWER_OF: list[int] = [int(pow(31, n, _MODULUS)) for n in range(_POWERS_LENGTH + 1)]
# The tail of _POWERS for every short length, so that the hot path does not slice.
_TAILS: list[list[int]] = [_POWERS[_POWERS_LENGTH - n :] for n in range(_POWERS_LENGTH + 1)]


def signed32(value: int) -> int:
    """Read the low 32 bits of `value` as a signed number."""
    value &= _MASK
    return value - (1 << 32) if value & 0x80000000 else value


def hash_ascii(text: bytes) -> int:
    """Unsigned 32-bit hash of bytes below 0x80, where one byte is one UTF-16 unit."""
    length = len(text)
    if length <= _POWERS_LENGTH:
        value: int = sum(map(mul, text, _TAILS[length])) & _MASK
        return value
    return extend_hash(hash_ascii(text[:_POWERS_LENGTH]), text[_POWERS_LENGTH:])


def extend_hash(prefix_hash: int, text: bytes) -> int:
    """Hash of prefix + text, given the prefix's unsigned hash; `text` is bytes below 0x80.

    The index hashes `topic#key`: the topic's part is computed once and extended per key.
    """
    while len(text) > _POWERS_LENGTH:
        head, text = text[:_POWERS_LENGTH], text[_POWERS_LENGTH:]
        prefix_hash = (prefix_hash * _POWER_OF[_POWERS_LENGTH] + sum(map(mul, head, _POWERS))) & _MASK
    length = len(text)
    value: int = (prefix_hash * _POWER_OF[length] + sum(map(mul, text, _TAILS[length]))) & _MASK
    return value


def java_hash(text: str) -> int:
    """Signed 32-bit `String.hashCode` of any text. Cached if it is short: tags repeat."""
    return _hash_cached(text) if len(text) <= _CACHED_LENGTH_MAX else _hash(text)


def _hash(text: str) -> int:
    if text.isascii():
        return signed32(hash_ascii(text.encode()))
    units = memoryview(text.encode("utf-16-le", "surrogatepass")).cast("H")
    value = 0
    for unit in units:
        value = (value * 31 + unit) & _MASK
    return signed32(value)


_hash_cached = lru_cache(maxsize=65536)(_hash)
