"""What PySpark's data source interface got after 4.0, and what stands in for it in an older one.

4.0  reading, writing in Arrow batches; streams with neither limits nor filters
4.1  filters of a batch; Arrow writers for streams have a class of their own
4.2  limits of a micro-batch, and what a stream says about its end
"""

from typing import TYPE_CHECKING

from pyspark import __version__
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamWriter

from logherd_spark.errors import OptionRefused

__all__ = [
    "HAS_FILTERS", "HAS_LIMITS", "ReadAllAvailable", "ReadLimit", "ReadMaxRows", "StreamArrowWriter",
    "SupportsTriggerAvailableNow", "refuse_what_is_missing",
]  # fmt: skip

if TYPE_CHECKING:
    from pyspark.sql.datasource import DataSourceStreamArrowWriter as StreamArrowWriter
    from pyspark.sql.streaming.datasource import (
        ReadAllAvailable,
        ReadLimit,
        ReadMaxRows,
        SupportsTriggerAvailableNow,
    )

    HAS_FILTERS: bool
    HAS_LIMITS: bool
else:
    try:
        from pyspark.sql.datasource import DataSourceStreamArrowWriter as StreamArrowWriter

        HAS_FILTERS = True
    except ImportError:
        HAS_FILTERS = False

        class StreamArrowWriter(DataSourceStreamWriter, DataSourceArrowWriter):
            """Spark 4.0 gives Arrow batches to whatever is an Arrow writer, also in a stream."""

    try:
        from pyspark.sql.streaming.datasource import (
            ReadAllAvailable,
            ReadLimit,
            ReadMaxRows,
            SupportsTriggerAvailableNow,
        )

        HAS_LIMITS = True
    except ImportError:
        HAS_LIMITS = False

        class ReadLimit:
            """Never given by a Spark that has no limits."""

        class ReadAllAvailable(ReadLimit):
            """Stands in."""

        class ReadMaxRows(ReadLimit):
            """Stands in."""

            def __init__(self, max_rows: int) -> None:
                self.max_rows = max_rows

        class SupportsTriggerAvailableNow:
            """Stands in: Spark then makes one micro-batch of what is available."""


def refuse_what_is_missing(*, filters: bool, limits: bool) -> None:
    """Raises: OptionRefused for an option that this Spark cannot keep, naming the version that can."""
    if filters and not HAS_FILTERS:
        raise OptionRefused(f"option filterPushdown needs Spark 4.1, this is {__version__}")
    if limits and not HAS_LIMITS:
        raise OptionRefused(f"option maxOffsetsPerTrigger needs Spark 4.2, this is {__version__}")
