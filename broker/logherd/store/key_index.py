"""Keys of the message index: how a record's keys are found and hashed, and entries that wait to be written.

RocketMQ's index knows a key only by abs(hashCode("topic#key")); a client checks the key itself. Indexed are UNIQ_KEY
and each blank-separated token of KEYS.

Source: apache/rocketmq: store/src/main/java/org/apache/rocketmq/store/index/IndexService.java
"""

from struct import Struct

from logherd.kit.javahash import extend_hash, hash_ascii, java_hash

__all__ = ["PENDING", "KeyHasher", "hash_key"]

PENDING = Struct(">Iqq")
"""A waiting entry: key hash, position, store ms."""

_ID_LENGTH_MIN = 12
_ID_LENGTH_MAX = 64
_REMEMBERED_MAX = 1024
_POWER_OF = tuple(int(pow(31, n, 1 << 32)) for n in range(_ID_LENGTH_MAX + 1))
_SIGN = 0x80000000


class KeyHasher:
    """Hashes ids of messages, remembering the hashes of the parts that they share.

    A client's ids differ in their last 12 characters, those of one millisecond only in the last 4. Both parts are
    remembered without the topic, already multiplied for what follows them.
    """

    __slots__ = ("_beginnings", "_clients")

    def __init__(self) -> None:
        self._clients: dict[bytes, int] = {}
        self._beginnings: dict[bytes, int] = {}

    def hash_id(self, topic_hash: int, key: bytes) -> int:
        """The index's hash of a UNIQ_KEY; equal to `hash_key`, faster where beginnings repeat."""
        length = len(key)
        if not _ID_LENGTH_MIN <= length <= _ID_LENGTH_MAX or not key.isascii():
            return hash_key(topic_hash, key)
        beginning = self._beginnings.get(key[:-4])
        if beginning is None:
            beginning = self._add_beginning(key[:-4])
        a, b, c, d = key[-4:]
        value = (topic_hash * _POWER_OF[length] + beginning + 29791 * a + 961 * b + 31 * c + d) & 0xFFFFFFFF
        return value if value < _SIGN else (-value) & (_SIGN - 1)

    def _add_beginning(self, beginning: bytes) -> int:
        client = beginning[:-8]
        known = self._clients.get(client)
        if known is None:
            if len(self._clients) >= _REMEMBERED_MAX:
                self._clients.clear()
            known = self._clients[client] = hash_ascii(client)
        if len(self._beginnings) >= _REMEMBERED_MAX:
            self._beginnings.clear()
        found = self._beginnings[beginning] = extend_hash(known, beginning[-8:]) * 923521 & 0xFFFFFFFF
        return found


def hash_key(topic_hash: int, key: bytes) -> int:
    """abs(hashCode("topic#key")) with abs(MIN_VALUE) taken as 0, given the unsigned hash of "topic#"."""
    if key.isascii():
        value = extend_hash(topic_hash, key)
    else:
        text = key.decode(errors="replace")
        units = len(text.encode("utf-16-le", "surrogatepass")) // 2
        value = (topic_hash * pow(31, units, 1 << 32) + java_hash(text)) & 0xFFFFFFFF
    return value if value < _SIGN else (-value) & (_SIGN - 1)
