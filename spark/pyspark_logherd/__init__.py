"""By this module's name Spark finds the data source: it imports what begins with `pyspark_` and takes `DefaultSource`.

It knows nothing but where the data source is."""

from logherd_spark.source import LogHerdDataSource

__all__ = ["DefaultSource"]

DefaultSource = LogHerdDataSource
