"""`spark.read.format("sparklog")`: what is there between two points, read once.

The points are resolved when Spark plans the read, so every task of one read sees the same records,
whatever is produced meanwhile.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, Filter, InputPartition

from sparklog.log.range_reader import ReadSettings, read_range
from sparklog.spark.options import SourceOptions
from sparklog.spark.process import CLOCK, process_store
from sparklog.spark.pushdown import Pushed, push
from sparklog.spark.source_check import check_batch, open_topics
from sparklog.spark.source_plan import plan_range
from sparklog.spark.start_point import EARLIEST, LATEST, StartPoint
from sparklog.spark.task_plan import TaskRanges, plan_tasks


class SparklogReader(DataSourceReader):
    """One batch read."""

    def __init__(self, options: SourceOptions) -> None:
        """Made by the data source; reads nothing yet."""
        self._options = options
        self._pushed = Pushed()
        # Spark refuses a reader whose class overrides pushFilters unless the session has
        # spark.sql.python.filterPushdown.enabled, and it is off by default. As a member the
        # method is used where the setting is on, and ignored where it is not.
        self.pushFilters = _PushFilters(self)  # type: ignore[method-assign]

    def __getstate__(self) -> dict[str, Any]:
        """Tasks have no filters to push."""
        return {name: value for name, value in vars(self).items() if name != "pushFilters"}

    def push(self, filters: Iterable[Filter]) -> Iterable[Filter]:
        """Take over what prunes; return what Spark must apply itself."""
        self._pushed, rest = push(filters)
        return rest

    def partitions(self) -> Sequence[InputPartition]:
        """The tasks of the read."""
        options, pushed = self._options, self._pushed
        topics = open_topics(options)
        check_batch(options, topics)
        starting = options.starting or StartPoint.named(EARLIEST)
        ending = options.ending or StartPoint.named(LATEST)
        ranges = []
        for place in topics.places():
            topic, partition = place
            if not pushed.takes(topic, partition):
                continue
            reader, strict = topics.reader(topic), options.fail_on_data_loss
            start = starting.resolve("startingOffsets", reader, partition, strict=strict)
            end = ending.resolve("endingOffsets", reader, partition, strict=strict)
            start, end = pushed.cut(start, end)
            ranges.append(plan_range(topics, options, place, start, end))
        return plan_tasks(ranges, options.min_partitions, options.max_records_per_partition)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The records of one task, in offset order within each topic-partition."""
        assert isinstance(partition, TaskRanges)
        settings = ReadSettings(
            columns=self._options.columns,
            times_us=self._pushed.times_us,
            fail_on_data_loss=self._options.fail_on_data_loss,
            threads=False,  # Spark has given the cores to its tasks
        )
        return read_task(self._options, partition, settings)


class _PushFilters:
    """`reader.pushFilters`, which looks like the base class's own to Spark's check."""

    def __init__(self, reader: SparklogReader) -> None:
        self.__func__ = DataSourceReader.pushFilters
        self._reader = reader

    def __call__(self, filters: list[Filter]) -> Iterable[Filter]:
        return self._reader.push(filters)


def read_task(
    options: SourceOptions, task: TaskRanges, settings: ReadSettings
) -> Iterator[pa.RecordBatch]:
    """The records of one task, range after range."""
    store = process_store(options.store)
    for planned in task.ranges:
        yield from read_range(store, CLOCK, planned, settings)
