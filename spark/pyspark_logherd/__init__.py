"""Lets Spark find `logherd` by itself: it looks for modules whose name begins with `pyspark_`, and in them for
`DefaultSource`."""

from logherd_spark.source import LogHerdDataSource

__all__ = ["DefaultSource"]

DefaultSource = LogHerdDataSource
