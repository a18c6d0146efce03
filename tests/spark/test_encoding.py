"""Arrow rows to the bodies of requests and back: compared with the codecs of the broker's own room `wire`."""

import random
from typing import Any
from zlib import crc32

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.types import MapType, StringType, StructField, StructType

from logherd.kit.javahash import java_hash
from logherd.model.host import encode_host
from logherd.model.properties import parse_properties
from logherd.model.record import CHECKSUM_SIZE, SysFlag, encode_record
from logherd.wire.batch import BATCH_MESSAGES_MAX, decode_batch
from logherd.wire.compression import compress_body
from logherd_spark.decoding import Records
from logherd_spark.encoding import Body, RowShape, encode_rows
from logherd_spark.errors import DataLost, OptionRefused, RowRefused
from logherd_spark.keys import hashes_of
from logherd_spark.schema import column_names
from logherd_spark.writers import Identity, Place, _marks

TEXT = st.text(st.characters(exclude_characters="\x01\x02", exclude_categories=["Cs"]), max_size=20)
ROWS = st.lists(
    st.tuples(
        st.none() | TEXT,
        st.binary(max_size=40),
        st.none() | TEXT,
        st.none()
        | st.dictionaries(TEXT.filter(bool).filter(lambda name: name not in ("KEYS", "TAGS")), TEXT, max_size=3),
    ),
    min_size=1,
    max_size=30,
)
Row = tuple[str | None, bytes, str | None, dict[str, str] | None]


def table(rows: list[Row], **more: pa.Array) -> pa.Table:
    keys, values, tags, properties = zip(*rows, strict=True)
    return pa.table(
        {
            "key": pa.array(keys, pa.string()),
            "value": pa.array(values, pa.binary()),
            "tags": pa.array(tags, pa.string()),
            "properties": pa.array(
                [None if each is None else list(each.items()) for each in properties], pa.map_(pa.string(), pa.string())
            ),
            **more,
        }
    )


def encoded(rows: pa.Table, queues: int = 4, *, sticky: int = 0, bytes_max: int = 1 << 20) -> list[Body]:
    return list(encode_rows(rows, queues, sticky=sticky, bytes_max=bytes_max, marks=None))


@given(ROWS)
def test_every_row_becomes_one_message_as_the_wire_reads_it(rows: list[Row]) -> None:
    found = [
        (body.queue, content, parse_properties(properties.decode()))
        for body in encoded(table(rows))
        for _, content, properties in decode_batch(body.data)
    ]
    expected = []
    for key, value, tags, properties in rows:
        texts = {"KEYS": key, "TAGS": tags, **(properties or {})}
        queue = 0 if key is None else abs(java_hash(key)) % 4
        expected.append((queue, value, {name: text for name, text in texts.items() if text}))
    expected.sort(key=lambda each: each[0])
    assert found == expected


@given(ROWS)
def test_the_same_rows_give_the_same_requests(rows: list[Row]) -> None:
    sliced = pa.concat_tables([table(rows), table(rows)]).slice(len(rows))
    assert encoded(table(rows)) == encoded(sliced)


@given(st.lists(TEXT, min_size=1))
def test_keys_go_to_the_queues_to_which_java_sends_them(keys: list[str]) -> None:
    assert hashes_of(pa.array(keys)).tolist() == [abs(java_hash(key)) for key in keys]


def test_a_row_that_was_read_with_a_mark_is_written_with_its_new_one_alone() -> None:
    """A name stands once in a message; which of two a reader takes depends on the reader."""
    old = {"LH_UID": "writer/0/0/7", "n": "1", "LH_UIDS": "2"}
    rows: list[Row] = [("k", b"a", None, old), (None, b"b", None, None), (None, b"c", None, {"n": "3"})]
    marks = _marks(Identity("again", "run", lasting=False), Place(2, 5), 40, len(rows))
    bodies = list(encode_rows(table(rows), 1, sticky=0, bytes_max=1 << 20, marks=marks))
    texts = [properties.decode() for body in bodies for _, _, properties in decode_batch(body.data)]
    assert [text.count("LH_UID\x01") for text in texts] == [1, 1, 1]
    assert [parse_properties(text) for text in texts] == [
        {"KEYS": "k", "n": "1", "LH_UIDS": "2", "LH_UID": "again/2/5/40"},
        {"LH_UID": "again/2/5/41"},
        {"n": "3", "LH_UID": "again/2/5/42"},
    ]
    ((_, _, kept),) = decode_batch(encoded(table(rows[:1]))[0].data)
    assert parse_properties(kept.decode()) == {"KEYS": "k", **old}, (
        "exactly once no row gets a mark: it is any property"
    )


def test_long_bodies_are_cut_between_messages() -> None:
    rows: list[Row] = [("k", random.Random(n).randbytes(100), None, None) for n in range(50)]
    bodies = encoded(table(rows), bytes_max=1000)
    assert [body.messages for body in bodies] == [7] * 7 + [1]
    assert all(len(body.data) <= 1000 for body in bodies)
    assert [content for body in bodies for _, content, _ in decode_batch(body.data)] == [row[1] for row in rows]


def test_no_request_has_more_messages_than_a_broker_takes() -> None:
    count = 2 * BATCH_MESSAGES_MAX + 1
    rows = pa.table({"value": pa.array([b"x"] * count, pa.binary())})
    bodies = encoded(rows, bytes_max=4_000_000)
    assert [body.messages for body in bodies] == [BATCH_MESSAGES_MAX, BATCH_MESSAGES_MAX, 1]
    assert [len(decode_batch(body.data)) for body in bodies] == [BATCH_MESSAGES_MAX, BATCH_MESSAGES_MAX, 1]


def test_the_column_queue_goes_before_the_key() -> None:
    rows: list[Row] = [("k", b"a", None, None), ("k", b"b", None, None), (None, b"c", None, None)]
    bodies = encoded(table(rows, queue=pa.array([0, None, None], pa.int32())), sticky=6)
    by_key = abs(java_hash("k")) % 4
    assert by_key == 3
    assert [(body.queue, body.messages) for body in bodies] == [(0, 1), (2, 1), (by_key, 1)]


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        (pa.table({"value": pa.array([b"a", None])}), "row 1 of an Arrow batch: value is null"),
        (pa.table({"value": [b"a"], "key": ["x\x02y"]}), "column key has a text with the character 1 or 2"),
        (pa.table({"value": [b"a"], "key": [b"\xff"]}), "column key has bytes that are no UTF-8"),
        (pa.table({"value": [b"a"], "queue": [4]}), "column queue is 4 in a row, the topic has queues 0 to 3"),
        (pa.table({"value": [1]}), "column value is int64, it must be string or binary"),
        (pa.table({"value": [b"x" * 2000]}), "its message takes 2022 bytes, .* option maxRequestBytes"),
        (table([(None, b"a", None, {"TAGS": "x"})]), "properties has KEYS or TAGS"),
        (table([(None, b"a", None, {"": "x"})]), "properties has an empty name or __CRC32#, which are not stored"),
        (table([(None, b"a", None, {"__CRC32#": "x"})]), "properties has an empty name or __CRC32#"),
        (pa.table({"value": [b"a"], "queue": ["first"]}), "column queue is string, it must be int: .*'first'"),
        (pa.table({"value": [b"a"], "queue": [1.5]}), "column queue is double, it must be int: .*1.5"),
        (pa.table({"value": [b"a"], "properties": ["x"]}), "column properties is string, it must be a map of strings"),
        (
            pa.table({"value": [b"a"], "properties": pa.array([[("n", 1)]], pa.map_(pa.string(), pa.int32()))}),
            "column properties is map<string, int32>, it must be a map of strings",
        ),
    ],
)
def test_rows_that_cannot_be_messages_are_refused_by_name(rows: pa.Table, said: str) -> None:
    with pytest.raises(RowRefused, match=said):
        encoded(rows, bytes_max=1500)


def test_columns_of_nulls_and_of_large_texts_are_written_as_any_other() -> None:
    """Spark has both: lit(None), and spark.sql.execution.arrow.useLargeVarTypes."""
    value = pa.array([b"a"])
    plain = encoded(pa.table({"value": value}))
    nulls = pa.array([None], pa.null())
    of_nulls = dict.fromkeys(("key", "tags", "queue", "properties"), nulls)
    assert encoded(pa.table({"value": value, **of_nulls})) == plain
    kinds = ((pa.string(), pa.binary()), (pa.large_string(), pa.large_binary()))
    small, large = (
        encoded(
            pa.table(
                {
                    "key": pa.array(["k"], text),
                    "value": pa.array([b"a"], data),
                    "properties": pa.array([[("n", "1")]], pa.map_(text, text)),
                }
            )
        )
        for text, data in kinds
    )
    assert small == large


def test_columns_that_mean_nothing_are_refused_by_name() -> None:
    with pytest.raises(OptionRefused, match="partition"):
        RowShape(["value", "partition"], topic_given=True)
    with pytest.raises(OptionRefused, match="column value is missing"):
        RowShape(["key"], topic_given=True)
    with pytest.raises(OptionRefused, match="neither option topic nor a column topic"):
        RowShape(["value"], topic_given=False)
    with pytest.raises(OptionRefused, match="no column is asked for"):  # Arrow forgets how many such rows there are
        column_names(StructType([]))


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        (StructField("Key", StringType()), "there is no column Key; there are key"),
        (StructField("queue", StringType()), "column queue is asked for as string, it is int"),
        (StructField("key", StringType(), nullable=False), "column key is asked for as string that is never null"),
        (
            StructField("properties", MapType(StringType(), StringType(), valueContainsNull=False)),
            "column properties is asked for as map<string,string> that is never null, or has no null in it",
        ),
    ],
)
def test_a_column_that_is_asked_for_as_it_is_not_is_refused_by_name(asked: StructField, said: str) -> None:
    """Else each task fails, in words of Spark: it takes no batch whose columns may be null if it was told otherwise."""
    with pytest.raises(OptionRefused, match=said):
        column_names(StructType([asked]))


# ---- and back


HOST, HOST_V6 = encode_host("10.0.0.2", 2), encode_host("::1", 1)


def record(offset: int, body: bytes, properties: dict[str, str], **fields: Any) -> bytes:
    text = "".join(f"{name}\x01{value}\x02" for name, value in properties.items())
    values: dict[str, Any] = {
        "queue_id": 1, "queue_offset": offset, "position": 1000 + offset, "born_timestamp": 1, "born_host": HOST,
        "store_timestamp": 1_700_000_000_000 + offset, "store_host": HOST, "topic": b"t", **fields,
    }  # fmt: skip
    return encode_record(body=body, properties=text.encode(), **values)


def one(records: Records, names: tuple[str, ...], *, topic: str, queue_id: int) -> pa.RecordBatch:
    (batch,) = records.batches(names, topic=topic, queue_id=queue_id)
    return batch


ALL = ("key", "value", "topic", "queue", "offset", "timestamp", "tags", "properties")


@given(
    st.lists(
        st.tuples(
            st.binary(max_size=50), st.dictionaries(TEXT.filter(bool), TEXT.filter(bool), max_size=4), st.booleans()
        ),
        min_size=1,
        max_size=20,
    ),
    st.sampled_from(["t", "t" * 127, "t" * 200]),
)
def test_records_become_the_rows_that_they_hold(messages: list[tuple[bytes, dict[str, str], bool]], topic: str) -> None:
    data = b"".join(
        record(5 + n, body, properties, topic=topic.encode(), born_host=HOST_V6 if v6 else HOST)
        for n, (body, properties, v6) in enumerate(messages)
    )
    rows = one(Records(data, "here"), ALL, topic=topic, queue_id=1).to_pylist()
    assert [row["value"] for row in rows] == [body for body, _, _ in messages]
    assert [row["offset"] for row in rows] == [5 + n for n in range(len(messages))]
    assert [int(row["timestamp"].timestamp() * 1000) for row in rows] == [
        1_700_000_000_005 + n for n in range(len(messages))
    ]
    for row, (_, properties, _) in zip(rows, messages, strict=True):
        assert (row["key"], row["tags"]) == (properties.get("KEYS"), properties.get("TAGS"))
        shown = {name: text for name, text in properties.items() if name not in ("KEYS", "TAGS", "__CRC32#")}
        assert dict(row["properties"]) == shown
        assert (row["topic"], row["queue"]) == (topic, 1)


def test_compressed_bodies_come_out_plain() -> None:
    packed, bits = compress_body(b"squeezed" * 9, SysFlag.COMPRESSION_ZSTD)
    data = record(0, b"plain", {}) + record(1, packed, {}, sys_flag=SysFlag.COMPRESSED | bits)
    rows = one(Records(data, "here"), ("value",), topic="t", queue_id=0)
    assert rows.column("value").to_pylist() == [b"plain", b"squeezed" * 9]


def test_a_body_is_read_that_is_as_large_as_a_broker_can_be_told_to_take() -> None:
    plain = bytes(64 << 20)
    for body, said in ((plain, None), (plain + b"x", "offset 0: the body of .* more than 67108864 bytes")):
        packed, bits = compress_body(body, SysFlag.COMPRESSION_LZ4)
        records = Records(record(0, packed, {}, sys_flag=SysFlag.COMPRESSED | bits), "here")
        if said is None:
            (value,) = one(records, ("value",), topic="t", queue_id=0).column("value")
            assert value.as_buffer().equals(pa.py_buffer(plain))
        else:
            with pytest.raises(DataLost, match=said):
                one(records, ("value",), topic="t", queue_id=0)


def test_bodies_that_grow_to_much_come_in_several_batches_in_order() -> None:
    grown = [bytes([n]) * (3 << 20) for n in range(30)]
    packed = [compress_body(body, SysFlag.COMPRESSION_ZLIB) for body in grown]
    data = b"".join(
        record(n, body, {"KEYS": f"k{n}"}, sys_flag=SysFlag.COMPRESSED | bits) for n, (body, bits) in enumerate(packed)
    ) + record(30, b"plain", {})
    assert len(data) < 1 << 20
    batches = list(Records(data, "here").batches(("value", "key", "offset"), topic="t", queue_id=0))
    assert all(sum(map(len, batch.column("value").to_pylist())) <= 36 << 20 for batch in batches)
    assert len(batches) > 1
    rows = [row for batch in batches for row in batch.to_pylist()]
    assert [row["value"] for row in rows] == [*grown, b"plain"]
    assert [(row["key"], row["offset"]) for row in rows[:30]] == [(f"k{n}", n) for n in range(30)]


def test_only_the_columns_asked_for_are_made_in_their_order() -> None:
    batch = one(Records(record(0, b"x", {}), "here"), ("offset", "key"), topic="t", queue_id=0)
    assert batch.schema.names == ["offset", "key"]
    assert batch.to_pylist() == [{"offset": 0, "key": None}]


def test_a_damaged_record_is_named_and_never_shown() -> None:
    first = record(0, b"first", {})
    data = bytearray(first + record(1, b"second", {"a": "b"}))
    covered = [place for place in range(len(data) - CHECKSUM_SIZE) if not -CHECKSUM_SIZE <= place - len(first) < 0]
    rng = np.random.default_rng(7)
    for place in rng.choice(covered, 80):
        damaged = bytearray(data)
        damaged[place] ^= 1 << int(rng.integers(0, 8))
        with pytest.raises(DataLost, match=r"here: message [01] of a pull is damaged"):
            Records(bytes(damaged), "here")
    with pytest.raises(DataLost):
        Records(bytes(data[:-1]), "here")


def bare(data: bytes) -> bytes:
    """A record as a RocketMQ broker writes it: without a checksum of the whole."""
    at = data.rindex(b"a\x01b\x02") - 2
    size = (len(data) - CHECKSUM_SIZE).to_bytes(4)
    properties = (int.from_bytes(data[at : at + 2]) - CHECKSUM_SIZE).to_bytes(2)
    return size + data[4:at] + properties + data[at + 2 : -CHECKSUM_SIZE]


def test_records_of_another_broker_are_read_among_ours() -> None:
    ours = [record(n, b"body %d" % n, {"a": "b", "KEYS": "k"}) for n in range(4)]
    data = ours[0] + bare(ours[1]) + ours[2] + bare(ours[3])
    rows = one(Records(data, "here"), ("key", "value", "properties"), topic="t", queue_id=1).to_pylist()
    assert rows == [{"key": "k", "value": b"body %d" % n, "properties": [("a", "b")]} for n in range(4)]
    damaged = bytearray(data)
    damaged[len(ours[0]) + 90] ^= 1
    with pytest.raises(DataLost, match="message 1 of a pull is damaged: body checksum"):
        Records(bytes(damaged), "here")


@pytest.mark.parametrize(("place", "width"), [(0, 4), (84, 4), (93, 1), (95, 2)])
@pytest.mark.parametrize("value", [0, 1, 0x7F, 0x7FFF, 0x7FFFFFFF, 0xFFFFFFFF])
def test_lengths_that_disagree_are_refused_also_under_a_right_checksum(place: int, width: int, value: int) -> None:
    data = bytearray(record(0, b"12345", {"a": "b"}))
    assert data[93:95] == b"\x01t"
    written = (value & ((1 << 8 * width) - 1)).to_bytes(width)
    if data[place : place + width] == written:
        written = b"\x02" * width
    data[place : place + width] = written
    digits = b"%010d" % (crc32(data[:-CHECKSUM_SIZE]) & 0x7FFFFFFF)
    data[-11:-1] = digits[::-1]
    with pytest.raises(DataLost, match="here: message 0 of a pull is damaged"):
        one(Records(bytes(data), "here"), ALL, topic="t", queue_id=1)
