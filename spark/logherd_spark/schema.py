"""The columns, named as the Kafka source names them where it has the same thing.

key         string     the message's keys (RocketMQ's KEYS); null without one
value       binary     the body, decompressed
topic       string
queue       int        the queue's number in its broker group (Kafka's partition)
offset      bigint     the queue offset
timestamp   timestamp  when the broker stored it, ms
tags        string     null without one
properties  map        all others, as text
"""

import pyarrow as pa
from pyspark.sql.types import (
    BinaryType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from logherd_spark.errors import OptionRefused

__all__ = ["COLUMNS", "arrow_schema", "column_names"]

COLUMNS = StructType([
    StructField("key", StringType()),
    StructField("value", BinaryType()),
    StructField("topic", StringType()),
    StructField("queue", IntegerType()),
    StructField("offset", LongType()),
    StructField("timestamp", TimestampType()),
    StructField("tags", StringType()),
    StructField("properties", MapType(StringType(), StringType())),
])  # fmt: skip


def column_names(schema: StructType) -> tuple[str, ...]:
    """The columns asked for: some of COLUMNS in any order. Raises: OptionRefused for others, other types, and none."""
    if not len(schema):
        raise OptionRefused("no column is asked for, and rows without one cannot be counted: ask for offset, to count")
    known = {field.name: field.dataType for field in COLUMNS}
    for field in schema:
        if field.name not in known:
            raise OptionRefused(f"there is no column {field.name}; there are {', '.join(known)}")
        wanted, right = field.dataType.simpleString(), known[field.name].simpleString()
        if wanted != right:
            raise OptionRefused(f"column {field.name} is asked for as {wanted}, it is {right}")
        if not field.nullable or field.dataType != known[field.name]:
            raise OptionRefused(
                f"column {field.name} is asked for as {wanted} that is never null, or has no null in it: ask for it "
                "without NOT NULL"
            )
    return tuple(field.name for field in schema)


_ARROW: dict[str, pa.DataType] = {
    "key": pa.string(), "value": pa.binary(), "topic": pa.string(), "queue": pa.int32(), "offset": pa.int64(),
    "timestamp": pa.timestamp("us", tz="UTC"), "tags": pa.string(), "properties": pa.map_(pa.string(), pa.string()),
}  # fmt: skip


def arrow_schema(names: tuple[str, ...]) -> pa.Schema:
    """What Spark expects of record batches with these columns."""
    return pa.schema([(name, _ARROW[name]) for name in names])
