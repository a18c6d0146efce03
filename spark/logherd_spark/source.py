"""The data source `logherd`."""

import os

from pyspark.sql.datasource import DataSource
from pyspark.sql.types import StructType

from logherd_spark.errors import OptionRefused, in_one_sentence
from logherd_spark.options import ReadOptions, read_options, write_options
from logherd_spark.reading import FilteringReader, LogHerdReader, LogHerdStreamReader
from logherd_spark.schema import COLUMNS
from logherd_spark.versions import refuse_what_is_missing
from logherd_spark.writing import LogHerdStreamWriter, LogHerdWriter

__all__ = ["LogHerdDataSource"]


class LogHerdDataSource(DataSource):
    """Topics of a LogHerd or RocketMQ cluster. Options: see the package's page in docs/."""

    @classmethod
    def name(cls) -> str:
        return "logherd"

    def schema(self) -> StructType:
        return COLUMNS

    @in_one_sentence
    def reader(self, schema: StructType) -> LogHerdReader:
        options = self._to_read(streaming=False)
        return FilteringReader(options, schema) if options.push_filters else LogHerdReader(options, schema)

    @in_one_sentence
    def streamReader(self, schema: StructType) -> LogHerdStreamReader:  # noqa: N802
        return LogHerdStreamReader(self._to_read(streaming=True), schema)

    @in_one_sentence
    def writer(self, schema: StructType, overwrite: bool) -> LogHerdWriter:
        if overwrite:
            raise OptionRefused("mode overwrite would take messages away, which a topic does not let: use mode append")
        return LogHerdWriter(write_options(self.options, streaming=False, environment=os.environ), schema)

    @in_one_sentence
    def streamWriter(self, schema: StructType, overwrite: bool) -> LogHerdStreamWriter:  # noqa: ARG002, N802
        return LogHerdStreamWriter(write_options(self.options, streaming=True, environment=os.environ), schema)

    def _to_read(self, *, streaming: bool) -> ReadOptions:
        options = read_options(self.options, streaming=streaming, environment=os.environ)
        refuse_what_is_missing(filters=options.push_filters, limits=options.rows_per_trigger is not None)
        return options
