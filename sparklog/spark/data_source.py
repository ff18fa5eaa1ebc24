"""`format("sparklog")`: the Python data source that Spark finds, or that `register` names.

Spark builds an instance wherever it needs one: at `load`, in the planner, for a write. It holds
the options and nothing else.
"""

from __future__ import annotations

from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
)
from pyspark.sql.types import StructType

from sparklog.spark.batch_reader import SparklogReader
from sparklog.spark.group_reader import GroupStreamReader
from sparklog.spark.options import SinkOptions, SourceOptions
from sparklog.spark.sink import SparklogStreamWriter, SparklogWriter
from sparklog.spark.source_check import check_given_schema, check_source, source_schema
from sparklog.spark.stream_reader import SparklogStreamReader


class SparklogDataSource(DataSource):
    """Topics of a log as a source and a sink."""

    @classmethod
    def name(cls) -> str:
        """The name of the format."""
        return "sparklog"

    def schema(self) -> str:
        """The columns of the source; wrong options are told here, at `load`."""
        options = self._source_options()
        check_source(options)
        return source_schema(options.columns)

    def reader(self, schema: StructType) -> DataSourceReader:
        """A batch read."""
        options = self._source_options()
        check_given_schema(schema, options.columns)
        return SparklogReader(options)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """A streaming read."""
        options = self._source_options()
        check_given_schema(schema, options.columns)
        return (
            SparklogStreamReader(options) if options.group is None else GroupStreamReader(options)
        )

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        """A batch write."""
        return SparklogWriter(schema, self._sink_options(), overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        """A streaming write."""
        return SparklogStreamWriter(schema, self._sink_options(), overwrite)

    def _sink_options(self) -> SinkOptions:
        given: dict[str, Any] = dict(self.options)
        return SinkOptions.of(given)

    def _source_options(self) -> SourceOptions:
        given: dict[str, Any] = dict(self.options)
        return SourceOptions.of(given)


def register(spark: SparkSession) -> None:
    """Name the format on this session, for set-ups in which Spark does not find it by itself."""
    spark.dataSource.register(SparklogDataSource)
