"""Records as a pull answers them, made into Arrow columns: a few passes over all of them, nothing done per row that
Arrow can do. Every record's checksum is compared.

Layout of a record: `logherd.model.record`.
"""

from collections.abc import Callable, Iterator
from functools import cached_property
from struct import Struct
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from logherd.kit.checksum import crc32
from logherd.model.record import CHECKSUM_SIZE, MAGIC_V1, MAGIC_V2, RecordError, SysFlag, check_record
from logherd.wire.compression import decompress_body
from logherd.wire.errors import BodyError
from logherd_spark.errors import DataLost
from logherd_spark.schema import arrow_schema

__all__ = ["Records"]

_U32 = Struct(">I")
_Q = Struct(">q")
_OWN_COLUMNS = ("KEYS", "TAGS", "__CRC32#")
_RECORD_SIZE_MIN = 91
_PLAIN_BYTES = 32 << 20
"""Of decompressed bodies in one batch, before the last: a pull of 4 MiB may hold thousands of times as much."""
_BODY_BYTES_MAX = 64 << 20
"""Of one body: as many bytes as a broker can be told to take (`store.messageSizeMax`)."""
_SIGNED_V1, _SIGNED_V2 = MAGIC_V1 - (1 << 32), MAGIC_V2 - (1 << 32)
_CHECKSUM_MASK = 0x7FFFFFFF
_CHECKSUM_NAME = np.frombuffer(b"__CRC32#\x01", np.uint8)
_DIGITS_AT = len(_CHECKSUM_NAME)
_DIGITS = 10 ** np.arange(10)


class Records:
    """The records of one or several pulls, back to back."""

    def __init__(self, body: bytes, where: str) -> None:
        """Check all of `body`. Raises: DataLost naming `where` for a damaged record."""
        self._where = where
        self._bytes = np.frombuffer(body, np.uint8)
        self._buffer = pa.py_buffer(body)
        self._starts, self._ends = self._measured(memoryview(body))
        self._checksummed = self._checked(memoryview(body))
        self.sys_flags = self._number(36, ">i4")
        self._v6 = 12 * ((self.sys_flags & SysFlag.BORN_HOST_V6) > 0).astype(np.int64)
        born_v6 = self._v6
        self._v6 = born_v6 + 12 * ((self.sys_flags & SysFlag.STORE_HOST_V6) > 0)
        self.timestamps = self._number(56 + born_v6, ">i8")
        self.queue_offsets = self._number(20, ">i8")
        self._body_starts = self._starts + 88 + self._v6
        self._body_ends = self._body_starts + self._number(84 + self._v6, ">i4")
        self._compare(self._body_starts <= self._body_ends, "its body ends before it begins")
        self._compare(self._body_ends < self._ends, "its body ends behind it")

    def __len__(self) -> int:
        return len(self._starts)

    def batches(self, names: tuple[str, ...], *, topic: str, queue_id: int) -> Iterator[pa.RecordBatch]:
        """All rows with these columns, in this order: one batch, or more where the bodies grow to much."""
        schema = arrow_schema(names)
        makers: dict[str, Callable[[], Any]] = {
            "key": lambda: self._property("KEYS"),
            "topic": lambda: pa.repeat(topic, len(self)),
            "queue": lambda: pa.array(np.full(len(self), queue_id, np.int32)),
            "offset": lambda: pa.array(self.queue_offsets),
            "timestamp": lambda: pa.array(self.timestamps * 1000).cast(pa.timestamp("us", tz="UTC")),
            "tags": lambda: self._property("TAGS"),
            "properties": self._properties,
        }
        made = {name: makers[name]() for name in names if name != "value"}
        first = 0
        for values in self._values() if "value" in names else (pa.nulls(len(self)),):
            arrays = [values if name == "value" else made[name].slice(first, len(values)) for name in schema.names]
            yield pa.RecordBatch.from_arrays(
                [array.cast(field.type) for array, field in zip(arrays, schema, strict=True)], schema=schema
            )
            first += len(values)

    def _measured(self, view: memoryview) -> tuple[Any, Any]:
        """Where each record begins, and where it ends."""
        edges, at, end = [0], 0, len(view)
        while at < end:
            left = end - at
            size = _U32.unpack_from(view, at)[0] if left >= _RECORD_SIZE_MIN else 0
            if not _RECORD_SIZE_MIN <= size <= left:
                raise self._damaged(len(edges) - 1, f"it says {size} bytes, {left} are left")
            at += size
            edges.append(at)
        found = np.array(edges, np.int64)
        return found[:-1], found[1:]

    def _checked(self, view: memoryview) -> Any:
        """Which records have a checksum of the whole, as LogHerd's do; those were compared together."""
        whole = self._ends - CHECKSUM_SIZE
        computed = np.array(
            [crc32(view[at:end]) for at, end in zip(self._starts.tolist(), whole.tolist(), strict=True)], np.int64
        )
        magic = self._number(4, ">i4")
        digits = self._bytes[(whole + _DIGITS_AT)[:, None] + np.arange(len(_DIGITS))].astype(np.int64) - ord("0")
        good = (
            ((magic == _SIGNED_V1) | (magic == _SIGNED_V2))
            & (self._bytes[whole[:, None] + np.arange(_DIGITS_AT)] == _CHECKSUM_NAME).all(axis=1)
            & ((digits >= 0) & (digits < len(_DIGITS))).all(axis=1)
            & (digits @ _DIGITS == computed & _CHECKSUM_MASK)
        )
        for row in np.flatnonzero(~good).tolist():  # another writer's, or damaged
            record = view[self._starts[row] : self._ends[row]]
            try:
                check_record(record, _Q.unpack_from(record, 28)[0])
            except RecordError as error:
                raise self._damaged(row, str(error)) from None
        return good

    def _compare(self, good: Any, what: str) -> None:
        if not good.all():
            raise self._damaged(int(np.argmin(good)), what)

    def _damaged(self, row: int, what: str) -> DataLost:
        return DataLost(f"{self._where}: message {row} of a pull is damaged: {what}")

    def _number(self, place: Any, kind: str) -> Any:
        """A big-endian number in each record, `place` bytes behind its start."""
        width = int(kind[-1])
        rows = self._bytes[(self._starts + place)[:, None] + np.arange(width)]
        return np.ascontiguousarray(rows).view(kind).ravel().astype(f"i{width}")

    def _slices(self, starts: Any, ends: Any) -> pa.Array:
        """bytes[start:end] of each record as a binary array: alternating with what stands between, then every other."""
        edges = np.empty(2 * len(starts), np.int32)
        edges[0::2], edges[1::2] = starts, ends
        both = pa.Array.from_buffers(pa.binary(), len(edges) - 1, [None, pa.py_buffer(edges), self._buffer])
        return both.take(pa.array(np.arange(0, len(edges), 2)))

    def _values(self) -> Iterator[pa.Array]:
        """The bodies of all rows, some rows at a time where they are compressed."""
        bodies = self._slices(self._body_starts, self._body_ends)
        packed = (self.sys_flags & SysFlag.COMPRESSED).astype(bool)
        if not packed.any():
            yield bodies
            return
        plain, size = list[bytes](), 0
        for row, body in enumerate(bodies.to_pylist()):
            plain.append(self._plain(row, body) if packed[row] else body)
            size += len(plain[-1])
            if size >= _PLAIN_BYTES:
                yield pa.array(plain, pa.binary())
                plain, size = [], 0
        if plain:
            yield pa.array(plain, pa.binary())

    def _plain(self, row: int, body: bytes) -> bytes:
        try:
            return decompress_body(body, int(self.sys_flags[row]), _BODY_BYTES_MAX)
        except BodyError as error:
            raise DataLost(f"{self._where}: offset {self.queue_offsets[row]}: {error}") from None

    @cached_property
    def _texts(self) -> tuple[pa.Array, pa.Array]:
        """The properties as text, each different one once, and which of them each record has: rows often repeat them.
        Without the checksum, which differs everywhere."""
        long_topic = self._number(4, ">i4") == _SIGNED_V2
        lengths = self._bytes[self._body_ends].astype(np.int64)
        if long_topic.any():
            lengths = np.where(long_topic, lengths * 256 + self._bytes[self._body_ends + 1], lengths)
        begins = self._body_ends + 3 + long_topic + lengths
        self._compare(begins <= self._ends, "its topic ends behind it")
        sizes = self._bytes[begins - 2].astype(np.int64) * 256 + self._bytes[begins - 1]
        self._compare(begins + sizes == self._ends, "its properties do not end where it does")
        found = self._slices(begins, np.maximum(self._ends - CHECKSUM_SIZE * self._checksummed, begins))
        try:
            texts = found.cast(pa.string())
        except pa.ArrowInvalid:
            texts = pa.array([text.decode(errors="replace") for text in found.to_pylist()], pa.string())
        encoded = texts.dictionary_encode()
        return encoded.dictionary, encoded.indices

    def _property(self, name: str) -> pa.Array:
        texts, which = self._texts
        found = pc.struct_field(pc.extract_regex(texts, f"(?:^|\x02){name}\x01(?P<value>[^\x02]+)"), [0])
        # A struct of nulls is what a text without the property gives; its field may be an empty string.
        return pc.if_else(pc.equal(found, ""), pa.scalar(None, pa.string()), found).take(which)

    def _properties(self) -> pa.Array:
        texts, which = self._texts
        pieces = pc.split_pattern(texts, "\x02")
        rows, flat = pc.list_parent_indices(pieces), pieces.flatten()
        pairs = pc.split_pattern(flat, "\x01", max_splits=1)
        whole = pc.equal(pc.list_value_length(pairs), 2)
        rows, pairs = rows.filter(whole), pairs.filter(whole)
        names, values = pc.list_element(pairs, 0), pc.list_element(pairs, 1)
        shown = pc.and_(
            pc.and_(pc.not_equal(names, ""), pc.not_equal(values, "")),
            pc.invert(pc.is_in(names, value_set=pa.array(_OWN_COLUMNS))),
        )
        counts = np.bincount(np.asarray(rows.filter(shown)), minlength=len(texts))
        offsets = np.concatenate(([0], np.cumsum(counts))).astype(np.int32)
        return pa.MapArray.from_arrays(pa.array(offsets), names.filter(shown), values.filter(shown)).take(which)
