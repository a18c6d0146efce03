"""From a record's properties to what the derived files hold of it: the tags code of its unit, its keys in the index."""

from collections.abc import Iterable
from itertools import repeat

from logherd.kit.javahash import java_hash
from logherd.model.record import SysFlag
from logherd.store.key_index import PENDING, KeyHasher, hash_key
from logherd.store.outline import Outlines

__all__ = ["Extractor", "batch_words", "has_unit", "tags_code_is_time"]

_TAGS = b"\x02TAGS\x01"
_KEYS = b"\x02KEYS\x01"
_KEYS_SIZE = len(_KEYS)
_UNIQUE = b"\x02UNIQ_KEY\x01"
_UNIQUE_SIZE = len(_UNIQUE)
_DELAY = b"\x02DELAY\x01"
_SCHEDULE_TOPIC = "SCHEDULE_TOPIC_XXXX"
_DELAY_MS = [
    1000 * seconds
    for seconds in (1, 5, 10, 30, 60, 120, 180, 240, 300, 360, 420, 480, 540, 600, 1200, 1800, 3600, 7200)
]
_TAG_CODES_MAX = 65536
_REMEMBERED_MAX = 8192
_REMEMBERED_LENGTH_MAX = 256
_pack_pending = PENDING.pack


def has_unit(sys_flag: int) -> bool:
    """Prepared and rolled-back transaction records are in the log but in no queue."""
    return not sys_flag & SysFlag.TRANSACTION_PREPARED


def batch_words(sys_flag: int) -> str:
    """What is to be said more of a record that is not its queue's next one, for people."""
    if not sys_flag & SysFlag.INNER_BATCH:
        return ""
    return "; it is a batch in one record, of a topic of RocketMQ's type BatchCQ, which is not read here: no damage"


def _keys_of(marked: bytes) -> list[bytes]:
    """UNIQ_KEY and the tokens of KEYS; `marked` are the properties with 0x02 put before them."""
    keys = list[bytes]()
    at = marked.find(_UNIQUE)
    if at >= 0:
        key = marked[at + _UNIQUE_SIZE :].partition(b"\x02")[0]
        if key:
            keys.append(key)
    at = marked.find(_KEYS)
    if at >= 0:
        tokens = marked[at + _KEYS_SIZE :].partition(b"\x02")[0]
        if b" " in tokens:
            keys += [key for key in tokens.split(b" ") if key]
        elif tokens:
            keys.append(tokens)
    return keys


def tags_code_is_time(topic: str) -> bool:
    """Whether units of this topic hold the time of delivery instead of a tags code."""
    return topic == _SCHEDULE_TOPIC


class Extractor:
    """Finds tags and keys; collects entries for the index in `pending` until they are taken away. `outlines` are those
    for the followers of the log, None if it has none."""

    __slots__ = ("_hash_id", "_hash_ids", "_known", "_known_of", "_tag_codes", "outlines", "pending")

    def __init__(self, *, outlined: bool = False) -> None:
        hasher = KeyHasher()
        self._hash_id = hasher.hash_id
        self._hash_ids = hasher.hash_ids
        self._tag_codes: dict[bytes, int] = {}
        self._known: dict[bytes, list[int]] = {}
        self._known_of = -1
        self.pending = bytearray()
        self.outlines = Outlines(self.pending) if outlined else None

    def extract(
        self, properties: bytes, sole_key: bytes | None, topic_hash: int, position: int, store_timestamp: int
    ) -> int:
        """The tags code of an appended message; its keys are put among the waiting index entries.

        `sole_key` is the value of UNIQ_KEY where the caller knows that there are neither TAGS nor KEYS.
        """
        if sole_key is not None:
            self.pending += _pack_pending(self._hash_id(topic_hash, sole_key), position, store_timestamp)
            return 0
        marked = b"\x02" + properties
        self.add_keys(marked, topic_hash, position, store_timestamp)
        return self.tags_code(marked)

    def add_ids(self, topic_hash: int, keys: list[bytes], positions: list[int], store_timestamp: int) -> None:
        """Put the UNIQ_KEYs of messages that were stored together among the waiting index entries."""
        hashes = self._hash_ids(topic_hash, keys)
        self.pending += b"".join(map(_pack_pending, hashes, positions, repeat(store_timestamp)))

    def tags_code(self, marked: bytes) -> int:
        """hashCode of TAGS, 0 without; `marked` are the properties with 0x02 put before them."""
        at = marked.find(_TAGS)
        if at < 0:
            return 0
        at += len(_TAGS)
        end = marked.find(b"\x02", at)
        tags = marked[at:end] if end >= 0 else marked[at:]
        code = self._tag_codes.get(tags)
        if code is None:
            code = java_hash(tags.decode(errors="replace"))
            if len(tags) <= _REMEMBERED_LENGTH_MAX:
                if len(self._tag_codes) >= _TAG_CODES_MAX:
                    self._tag_codes.clear()
                self._tag_codes[tags] = code
        return code

    def entries(self, topic_hash: int, records: list[bytes], positions: list[int], stored: Iterable[int]) -> bytes:
        """Index entries of records of one topic, to be put behind `pending`; `records` are their marked properties,
        which end in 0x02, without a checksum."""
        keys = list[bytes]()
        for marked in records:
            at = marked.find(_UNIQUE) + _UNIQUE_SIZE
            key = marked[at : marked.find(b"\x02", at)] if at >= _UNIQUE_SIZE else b""
            if not key or marked.find(_KEYS) >= 0:
                return self._entries_of_any(topic_hash, records, positions, stored)
            keys.append(key)
        return b"".join(map(_pack_pending, self._hash_ids(topic_hash, keys), positions, stored))

    def _entries_of_any(
        self, topic_hash: int, records: list[bytes], positions: list[int], stored: Iterable[int]
    ) -> bytes:
        entries = list[bytes]()
        for marked, position, stored_ms in zip(records, positions, stored, strict=False):
            for key_hash in self._hashes_of(topic_hash, marked):
                entries.append(_pack_pending(key_hash, position, stored_ms))
        return b"".join(entries)

    def _hashes_of(self, topic_hash: int, marked: bytes) -> list[int]:
        """Of the keys in these properties. Those without an id of the message come again, and are remembered."""
        if topic_hash != self._known_of:
            self._known, self._known_of = {}, topic_hash
        known = self._known.get(marked)
        if known is not None:
            return known
        if _UNIQUE in marked:
            return self._hash_ids(topic_hash, _keys_of(marked))
        found = [hash_key(topic_hash, key) for key in _keys_of(marked)]
        if len(marked) <= _REMEMBERED_LENGTH_MAX:
            if len(self._known) >= _REMEMBERED_MAX:
                self._known.clear()
            self._known[marked] = found
        return found

    def add_keys(self, marked: bytes, topic_hash: int, position: int, store_timestamp: int) -> None:
        """Put UNIQ_KEY and the tokens of KEYS among the waiting index entries."""
        for key in _keys_of(marked):
            self.pending += _pack_pending(self._hash_id(topic_hash, key), position, store_timestamp)

    def cut(self, position: int) -> None:
        """Forget the waiting entries of records at or above a position, and all outlines: others may come there."""
        if self.outlines is not None:
            self.outlines.forget()
        waiting = self.pending
        end = len(waiting)
        while end and PENDING.unpack_from(waiting, end - PENDING.size)[1] >= position:
            end -= PENDING.size
        del waiting[end:]

    def replayed_tags_code(self, topic: str, marked: bytes, store_timestamp: int) -> int:
        """As `tags_code`; in RocketMQ's schedule topic, which adopted stores have, the time of delivery in ms."""
        if tags_code_is_time(topic):
            at = marked.find(_DELAY)
            level = marked[at + len(_DELAY) :].partition(b"\x02")[0] if at >= 0 else b""
            if level.isdigit() and int(level) > 0:
                return store_timestamp + _DELAY_MS[min(int(level), len(_DELAY_MS)) - 1]
        return self.tags_code(marked)
