"""What the data source refuses before it asks anybody."""

import pytest
from pyspark.sql.types import BinaryType, StructField, StructType

from logherd_spark.errors import OptionRefused
from logherd_spark.source import LogHerdDataSource

OPTIONS = {"bootstrap": "127.0.0.1:1", "topic": "Events", "deliveryTimeoutMs": "1"}
VALUE = StructField("value", BinaryType())


def test_a_topic_is_not_overwritten_and_mode_overwrite_says_so() -> None:
    """As in the Kafka source; else a job that means to replace rows would add its own to them."""
    with pytest.raises(OptionRefused, match=r"mode overwrite .* mode append"):
        LogHerdDataSource(OPTIONS).writer(StructType([VALUE]), overwrite=True)


def test_a_stream_whose_mode_is_complete_appends_as_in_the_kafka_source() -> None:
    LogHerdDataSource(OPTIONS).streamWriter(StructType([VALUE]), overwrite=True)
