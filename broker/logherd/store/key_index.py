"""Keys of the message index: how a record's keys are found and hashed, and entries that wait to be written.

RocketMQ's index knows a key only by abs(hashCode("topic#key")); a client checks the key itself. Indexed are UNIQ_KEY
and each blank-separated token of KEYS.

Source: apache/rocketmq: store/src/main/java/org/apache/rocketmq/store/index/IndexService.java
"""

from bisect import bisect_left
from collections.abc import Iterator
from struct import Struct

from logherd.kit.javahash import extend_hash, java_hash

__all__ = ["PENDING", "KeyHasher", "find_waiting", "hash_key", "waiting_below"]

PENDING = Struct(">Iqq")
"""A waiting entry: key hash, position, store ms."""
_HASH = Struct(">I")

_ID_LENGTH_MIN = 12
_ID_LENGTH_MAX = 64
_REMEMBERED_MAX = 1024
_SIGN = 0x80000000


class KeyHasher:
    """Hashes ids of messages, remembering the hashes of what they begin with.

    A client's ids differ in their last 12 characters, those of one millisecond only in the last 4. What is remembered
    is of one topic: messages of one topic come in runs.
    """

    __slots__ = ("_beginnings", "_clients", "_topic_hash")

    def __init__(self) -> None:
        self._topic_hash = -1
        self._clients: dict[bytes, int] = {}
        self._beginnings: dict[bytes, int] = {}

    def hash_id(self, topic_hash: int, key: bytes) -> int:
        """The index's hash of a UNIQ_KEY; equal to `hash_key`, faster where beginnings repeat."""
        self._turn_to(topic_hash)
        beginning = self._beginnings.get(key[:-4])
        if beginning is None or not key.isascii():
            return self._add(key)
        a, b, c, d = key[-4:]
        value = (beginning + 29791 * a + 961 * b + 31 * c + d) & 0xFFFFFFFF
        return value if value < _SIGN else (-value) & (_SIGN - 1)

    def hash_ids(self, topic_hash: int, keys: list[bytes]) -> list[int]:
        """`hash_id` of each."""
        self._turn_to(topic_hash)
        beginning_of, hashes = self._beginnings.get, list[int]()
        for key in keys:
            beginning = beginning_of(key[:-4])
            if beginning is None or not key.isascii():
                hashes.append(self._add(key))
                continue
            a, b, c, d = key[-4:]
            value = (beginning + 29791 * a + 961 * b + 31 * c + d) & 0xFFFFFFFF
            hashes.append(value if value < _SIGN else (-value) & (_SIGN - 1))
        return hashes

    def _turn_to(self, topic_hash: int) -> None:
        if topic_hash != self._topic_hash:
            self._topic_hash = topic_hash
            self._clients = {}
            self._beginnings = {}

    def _add(self, key: bytes) -> int:
        """Remember how the key begins; its hash."""
        if len(key) < _ID_LENGTH_MIN or len(key) > _ID_LENGTH_MAX or not key.isascii():
            return hash_key(self._topic_hash, key)
        client = key[:-12]
        known = self._clients.get(client)
        if known is None:
            if len(self._clients) >= _REMEMBERED_MAX:
                self._clients.clear()
            known = self._clients[client] = extend_hash(self._topic_hash, client)
        if len(self._beginnings) >= _REMEMBERED_MAX:
            self._beginnings.clear()
        found = extend_hash(known, key[-12:-4])
        self._beginnings[key[:-4]] = found * 923521 & 0xFFFFFFFF
        value = extend_hash(found, key[-4:])
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


def waiting_below(waiting: bytes | bytearray, position: int) -> int:
    """Bytes of the waiting entries of records below a position; they wait in the order of the log."""
    size = PENDING.size
    places = range(len(waiting) // size)
    return size * bisect_left(places, position, key=lambda place: int(PENDING.unpack_from(waiting, place * size)[1]))


def find_waiting(waiting: bytes | bytearray, key_hash: int) -> Iterator[tuple[int, int]]:
    """(position, store ms) of waiting entries with this hash, newest first. `waiting` must not change meanwhile."""
    wanted, size = _HASH.pack(key_hash), PENDING.size
    end = len(waiting)
    while end > 0 and (at := waiting.rfind(wanted, 0, end)) >= 0:
        start = at - at % size
        if start == at:
            yield PENDING.unpack_from(waiting, at)[1:]
            start -= size
        # Only the start of an entry counts: a hash like 0 is found nearly everywhere else too.
        end = start + len(wanted)
