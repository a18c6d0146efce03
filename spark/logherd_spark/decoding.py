"""Records as a pull answers them, made into Arrow columns: a few passes over all of them, nothing done per row that
Arrow can do. Every record's checksum is compared.

Layout of a record: `logherd.model.record`.
"""

from collections.abc import Callable
from struct import Struct
from struct import error as StructError  # noqa: N812
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from logherd.model.record import MAGIC_V1, RecordError, SysFlag, check_record
from logherd.wire.compression import decompress_body
from logherd.wire.errors import BodyError
from logherd_spark.errors import DataLost
from logherd_spark.schema import arrow_schema

__all__ = ["Records"]

_U32 = Struct(">I")
_Q = Struct(">q")
_OWN_COLUMNS = ("KEYS", "TAGS", "__CRC32#")


class Records:
    """The records of one or several pulls, back to back."""

    def __init__(self, body: bytes, where: str) -> None:
        """Check all of `body`. Raises: DataLost naming `where` for a damaged record."""
        self._where = where
        self._bytes = np.frombuffer(body, np.uint8)
        self._buffer = pa.py_buffer(body)
        self._starts = self._checked(memoryview(body))
        self.sys_flags = self._number(36, ">i4")
        self._v6 = 12 * ((self.sys_flags & SysFlag.BORN_HOST_V6) > 0).astype(np.int64)
        born_v6 = self._v6
        self._v6 = born_v6 + 12 * ((self.sys_flags & SysFlag.STORE_HOST_V6) > 0)
        self.timestamps = self._number(56 + born_v6, ">i8")
        self.queue_offsets = self._number(20, ">i8")
        self._body_starts = self._starts + 88 + self._v6
        self._body_ends = self._body_starts + self._number(84 + self._v6, ">i4")

    def __len__(self) -> int:
        return len(self._starts)

    def columns(self, names: tuple[str, ...], *, topic: str, queue_id: int) -> pa.RecordBatch:
        """One batch with these columns, in this order."""
        schema = arrow_schema(names)
        makers: dict[str, Callable[[], Any]] = {
            "key": lambda: self._property("KEYS"),
            "value": self._values,
            "topic": lambda: pa.repeat(topic, len(self)),
            "queue": lambda: pa.array(np.full(len(self), queue_id, np.int32)),
            "offset": lambda: pa.array(self.queue_offsets),
            "timestamp": lambda: pa.array(self.timestamps * 1000).cast(pa.timestamp("us", tz="UTC")),
            "tags": lambda: self._property("TAGS"),
            "properties": self._properties,
        }
        arrays = [makers[field.name]().cast(field.type) for field in schema]
        return pa.RecordBatch.from_arrays(arrays, schema=schema)

    def _checked(self, view: memoryview) -> Any:
        starts: list[int] = []
        at, end = 0, len(view)
        try:
            while at < end:
                (size,) = _U32.unpack_from(view, at)
                record = view[at : at + size]
                check_record(record, _Q.unpack_from(record, 28)[0])
                starts.append(at)
                at += size
        except (RecordError, StructError) as error:
            raise DataLost(f"{self._where}: message {len(starts)} of a pull is damaged: {error}") from None
        return np.array(starts, np.int64)

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

    def _values(self) -> pa.Array:
        bodies = self._slices(self._body_starts, self._body_ends)
        packed = np.flatnonzero(self.sys_flags & SysFlag.COMPRESSED)
        if not len(packed):
            return bodies
        plain = bodies.to_pylist()
        for row in packed:
            try:
                plain[row] = decompress_body(plain[row], int(self.sys_flags[row]))
            except BodyError as error:
                raise DataLost(f"{self._where}: offset {self.queue_offsets[row]}: {error}") from None
        return pa.array(plain, pa.binary())

    def _property_texts(self) -> pa.Array:
        long_topic = self._number(4, ">i4") != np.int64(MAGIC_V1 - (1 << 32))
        lengths = self._bytes[self._body_ends].astype(np.int64)
        if long_topic.any():
            lengths = np.where(long_topic, lengths * 256 + self._bytes[self._body_ends + 1], lengths)
        at = self._body_ends + 1 + long_topic + lengths
        sizes = self._bytes[at].astype(np.int64) * 256 + self._bytes[at + 1]
        found = self._slices(at + 2, at + 2 + sizes)
        try:
            return found.cast(pa.string())
        except pa.ArrowInvalid:
            return pa.array([text.decode(errors="replace") for text in found.to_pylist()], pa.string())

    def _property(self, name: str) -> pa.Array:
        texts = self._property_texts()
        found = pc.struct_field(pc.extract_regex(texts, f"(?:^|\x02){name}\x01(?P<value>[^\x02]+)"), [0])
        # A struct of nulls is what a text without the property gives; its field may be an empty string.
        return pc.if_else(pc.equal(found, ""), pa.scalar(None, pa.string()), found)

    def _properties(self) -> pa.Array:
        pieces = pc.split_pattern(self._property_texts(), "\x02")
        rows, flat = pc.list_parent_indices(pieces), pieces.flatten()
        pairs = pc.split_pattern(flat, "\x01", max_splits=1)
        whole = pc.equal(pc.list_value_length(pairs), 2)
        rows, pairs = rows.filter(whole), pairs.filter(whole)
        names, values = pc.list_element(pairs, 0), pc.list_element(pairs, 1)
        shown = pc.and_(
            pc.and_(pc.not_equal(names, ""), pc.not_equal(values, "")),
            pc.invert(pc.is_in(names, value_set=pa.array(_OWN_COLUMNS))),
        )
        counts = np.bincount(np.asarray(rows.filter(shown)), minlength=len(self))
        offsets = np.concatenate(([0], np.cumsum(counts))).astype(np.int32)
        return pa.MapArray.from_arrays(pa.array(offsets), names.filter(shown), values.filter(shown))
