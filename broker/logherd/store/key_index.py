"""Keys of the message index: how a record's keys are found and hashed, and entries that wait to be written.

RocketMQ's index knows a key only by abs(hashCode("topic#key")); a client checks the key itself. Indexed are UNIQ_KEY
and each blank-separated token of KEYS.

Source: apache/rocketmq: store/src/main/java/org/apache/rocketmq/store/index/IndexService.java
"""

from struct import Struct

from logherd.kit.javahash import extend_hash, java_hash

__all__ = ["PENDING", "KeyHasher", "hash_key"]

PENDING = Struct(">Iqq")
"""A waiting entry: key hash, position, store ms."""

_PREFIX_LENGTH = 20  # what one client's UNIQ_KEYs have in common: address, process, class loader
_PREFIXES_MAX = 4096
_SIGN = 0x80000000


class KeyHasher:
    """Hashes keys, remembering the hash of the part that a client's ids share."""

    __slots__ = ("_prefixes",)

    def __init__(self) -> None:
        self._prefixes: dict[tuple[int, bytes], int] = {}

    def hash_id(self, topic_hash: int, key: bytes) -> int:
        """The index's hash of a UNIQ_KEY; equal to `hash_key`, faster where prefixes repeat."""
        if not key.isascii():
            return hash_key(topic_hash, key)
        prefix = (topic_hash, key[:_PREFIX_LENGTH])
        known = self._prefixes.get(prefix)
        if known is None:
            if len(self._prefixes) >= _PREFIXES_MAX:
                self._prefixes.clear()
            known = self._prefixes[prefix] = extend_hash(topic_hash, prefix[1])
        value = extend_hash(known, key[_PREFIX_LENGTH:])
        return value if value < _SIGN else (-value) & (_SIGN - 1)


def hash_key(topic_hash: int, key: bytes) -> int:
    """abs(hashCode("topic#key")) with abs(MIN_VALUE) taken as 0, given the unsigned hash of "topic#"."""
    if key.isascii():
        value = extend_hash(topic_hash, key)
    else:
        text = key.decode(errors="replace")
        units = len(text.encode("utf-16-le", "surrogatepass")) // 2
        value = (topic_hash * pow(31, units, 1 << 32) + java_hash(text)) & 0xFFFFFFFF
    return value if value < _SIGN else (-value) & (_SIGN - 1)
