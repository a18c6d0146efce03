"""Rows made into the bodies of batch requests, in a few passes over a whole Arrow batch.

A message of a batch: `logherd.wire.batch`. All messages of an Arrow batch are joined into one binary column, ordered by
queue; the bytes behind a queue's rows are then its request's body as they stand.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from logherd.wire.batch import BATCH_MESSAGES_MAX
from logherd_spark.errors import OptionRefused, RowRefused
from logherd_spark.keys import hashes_of

__all__ = ["MARK", "Body", "RowShape", "as_text", "encode_rows"]

MARK = "LH_UID"
"""The property that marks are values of."""
_HEAD_BYTES = 20
_OVERHEAD = 22
_PROPERTIES_MAX = 30_000
_OWN = frozenset({"KEYS", "TAGS"})
_UNSTORED = frozenset({"", "__CRC32#"})
_TEXT = (pa.types.is_string, pa.types.is_large_string)
_BYTES = (pa.types.is_binary, pa.types.is_large_binary)


class Body(NamedTuple):
    """What one request carries: messages for one writable queue, by its place among the topic's writable queues."""

    queue: int
    messages: int
    data: bytes


class RowShape:
    """The columns of the rows to write, found by name; checked once."""

    def __init__(self, names: list[str], *, topic_given: bool) -> None:
        """Raises: OptionRefused."""
        known = {"key", "value", "topic", "queue", "tags", "properties"}
        unknown = [name for name in names if name not in known]
        if unknown:
            raise OptionRefused(
                f"there is no column {', '.join(unknown)} to write; there are {', '.join(sorted(known))}"
            )
        if "value" not in names:
            raise OptionRefused("column value is missing: it is what is written")
        if "topic" not in names and not topic_given:
            raise OptionRefused("neither option topic nor a column topic says where to write")
        self.names = tuple(names)


def encode_rows(rows: pa.Table, queues: int, *, sticky: int, bytes_max: int, marks: pa.Array | None) -> Iterator[Body]:
    """The requests for these rows, all of one topic with so many writable queues.

    A row goes to the queue that its column `queue` names, else to that of its key, else to `sticky`. The same rows give
    the same requests, always. `marks` are further properties named MARK, as text, one for each row; one that a row
    was read with is left out then.
    Raises: RowRefused naming the row.
    """
    messages = _messages(rows, marks)
    sizes = np.asarray(pc.binary_length(messages))
    if sizes.max(initial=0) > bytes_max:
        row = int(sizes.argmax())
        raise RowRefused(
            f"{_row(row)}: its message takes {sizes[row]} bytes, a request has at most {bytes_max}: "
            "option maxRequestBytes"
        )
    targets = _targets(rows, queues, sticky)
    order = np.argsort(targets, kind="stable")
    messages = messages.take(pa.array(order))
    targets, ends = targets[order], np.cumsum(sizes[order])
    data = memoryview(messages.buffers()[2] or b"")
    first = 0
    while first < len(targets):
        queue = targets[first]
        begin = int(ends[first - 1]) if first else 0
        last = int(np.searchsorted(targets, queue, side="right"))
        last = min(last, first + BATCH_MESSAGES_MAX, int(np.searchsorted(ends, begin + bytes_max, side="right")))
        yield Body(int(queue), last - first, bytes(data[begin : int(ends[last - 1])]))
        first = last


def _messages(rows: pa.Table, marks: pa.Array | None) -> pa.Array:
    values = _column(rows, "value")
    if values.null_count:
        raise RowRefused(f"{_row(_first(values.is_null()))}: value is null, a message has a body")
    values = _as_bytes(values)
    properties = _properties(rows, marks)
    count = len(values)
    body_sizes, property_sizes = np.asarray(pc.binary_length(values)), np.asarray(pc.binary_length(properties))
    if property_sizes.max(initial=0) > _PROPERTIES_MAX:
        row = int(property_sizes.argmax())
        raise RowRefused(
            f"{_row(row)}: key, tags and properties take {property_sizes[row]} bytes, at most {_PROPERTIES_MAX} fit"
        )
    heads = np.zeros((count, _HEAD_BYTES // 4), ">u4")
    heads[:, 0] = body_sizes + property_sizes + _OVERHEAD
    heads[:, 4] = body_sizes
    lengths = property_sizes.astype(">u2")
    return pc.binary_join_element_wise(
        _fixed(heads, _HEAD_BYTES, count), values, _fixed(lengths, 2, count), properties, pa.scalar(b"", pa.binary())
    )


def _properties(rows: pa.Table, marks: pa.Array | None) -> pa.Array:
    parts = [
        part
        for part in (
            _pair(rows, "key", "KEYS"),
            _pair(rows, "tags", "TAGS"),
            _map(rows, marked=marks is not None),
            marks,
        )
        if part is not None
    ]
    if not parts:
        return pa.repeat(pa.scalar(b"", pa.binary()), rows.num_rows)
    return pc.binary_join_element_wise(*parts, "").cast(pa.binary())


def _pair(rows: pa.Table, column: str, name: str) -> pa.Array | None:
    if column not in rows.column_names:
        return None
    texts = as_text(_column(rows, column), column)
    _refuse_separators(texts, column)
    pairs = pc.binary_join_element_wise(f"{name}\x01", texts, "\x02", "")
    return pc.if_else(pc.fill_null(pc.equal(texts, ""), True), "", pairs)  # noqa: FBT003


def _map(rows: pa.Table, *, marked: bool) -> pa.Array | None:
    if "properties" not in rows.column_names:
        return None
    maps = _column(rows, "properties")
    if pa.types.is_null(maps.type):
        return None
    maps = _as_map(maps)
    # A null map may have entries behind it in the buffer; a list of none in its place keeps rows and entries together.
    lengths = np.asarray(pc.fill_null(pc.list_value_length(maps.cast(_entries(maps.type))), 0))
    entries = maps.cast(_entries(maps.type)).flatten()
    names, values = pc.struct_field(entries, [0]), pc.fill_null(pc.struct_field(entries, [1]), "")
    _refuse_separators(names, "properties")
    _refuse_separators(values, "properties")
    own = pc.is_in(names, value_set=pa.array(sorted(_OWN)))
    if pc.any(own).as_py():
        raise RowRefused("properties has KEYS or TAGS: write them as the columns key and tags")
    lost = pc.is_in(names, value_set=pa.array(sorted(_UNSTORED)))
    if pc.any(pc.and_(lost, pc.not_equal(values, ""))).as_py():
        raise RowRefused("properties has an empty name or __CRC32#, which are not stored")
    pairs = pc.binary_join_element_wise(names, values, "\x01")
    left_out = pc.equal(values, "")
    if marked:
        left_out = pc.or_(left_out, pc.equal(names, MARK))
    pairs = pc.if_else(left_out, "", pc.binary_join_element_wise(pairs, "", "\x02"))
    offsets = np.concatenate(([0], np.cumsum(lengths))).astype(np.int32)
    return pc.binary_join(pa.ListArray.from_arrays(pa.array(offsets), pairs), "")


def _entries(kind: pa.MapType) -> pa.DataType:
    return pa.list_(pa.struct([("key", kind.key_type), ("value", kind.item_type)]))


def _targets(rows: pa.Table, queues: int, sticky: int) -> Any:
    targets = np.full(rows.num_rows, sticky % queues, np.int64)
    if "key" in rows.column_names:
        keys = as_text(_column(rows, "key"), "key")
        present = np.asarray(keys.is_valid())
        targets[present] = hashes_of(keys.drop_null()) % queues
    if "queue" in rows.column_names:
        named = _as_numbers(_column(rows, "queue"))
        present = np.asarray(named.is_valid())
        numbers = np.asarray(named.drop_null())
        if len(numbers) and not 0 <= numbers.min() <= numbers.max() < queues:
            wrong = next(int(number) for number in numbers if not 0 <= number < queues)
            raise RowRefused(f"column queue is {wrong} in a row, the topic has queues 0 to {queues - 1}")
        targets[present] = numbers
    return targets


def _column(rows: pa.Table, name: str) -> pa.Array:
    column = rows.column(name)
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column


def _as_bytes(column: pa.Array) -> pa.Array:
    if not any(kind(column.type) for kind in (*_TEXT, *_BYTES)):
        raise RowRefused(f"column value is {column.type}, it must be string or binary")
    return column.cast(pa.binary())


def as_text(column: pa.Array, name: str) -> pa.Array:
    """The column as texts. Raises: RowRefused if it is neither text nor bytes, or holds what is no UTF-8."""
    if pa.types.is_null(column.type):
        return column.cast(pa.string())
    if not any(kind(column.type) for kind in (*_TEXT, *_BYTES)):
        raise RowRefused(f"column {name} is {column.type}, it must be string")
    try:
        return column.cast(pa.string())
    except pa.ArrowInvalid:
        raise RowRefused(f"column {name} has bytes that are no UTF-8: only text can be stored there") from None


def _as_map(column: pa.Array) -> pa.Array:
    kind = column.type
    texts = pa.types.is_map(kind) and all(any(test(of) for test in _TEXT) for of in (kind.key_type, kind.item_type))
    if not texts:
        raise RowRefused(f"column properties is {kind}, it must be a map of strings")
    return column.cast(pa.map_(pa.string(), pa.string()))


def _as_numbers(column: pa.Array) -> pa.Array:
    try:
        return column.cast(pa.int64())
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise RowRefused(f"column queue is {column.type}, it must be int: {error}") from None


def _refuse_separators(texts: pa.Array, column: str) -> None:
    found = pc.fill_null(pc.match_substring_regex(texts, "[\x01\x02]"), False)  # noqa: FBT003
    if pc.any(found).as_py():
        raise RowRefused(f"column {column} has a text with the character 1 or 2, which separate properties on the wire")


def _fixed(numbers: Any, width: int, count: int) -> pa.Array:
    kind = pa.binary(width)
    return pa.Array.from_buffers(kind, count, [None, pa.py_buffer(np.ascontiguousarray(numbers))]).cast(pa.binary())


def _first(found: pa.Array) -> int:
    return int(np.flatnonzero(np.asarray(found))[0])


def _row(number: int) -> str:
    return f"row {number} of an Arrow batch"
