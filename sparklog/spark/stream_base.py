"""What streaming reads have in common, with a group and without: limits, topics, tasks.

The planner's process holds one instance for the life of the query; tasks get a pickled one that
has nothing open.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)

from sparklog.log.range_reader import ReadSettings
from sparklog.spark.admission import Place, Waiting, limit_bytes, limit_offsets, offsets_waiting
from sparklog.spark.batch_reader import read_task
from sparklog.spark.options import SourceOptions
from sparklog.spark.process import CLOCK
from sparklog.spark.settings import advise
from sparklog.spark.source_check import check_stream, open_topics
from sparklog.spark.stream_offset import TopicOffsets, to_json
from sparklog.spark.task_plan import TaskRanges
from sparklog.spark.topic_set import TopicSet


class StreamReaderBase(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """One query's source."""

    def __init__(self, options: SourceOptions) -> None:
        """Made by the data source; reads nothing yet."""
        check_stream(options)
        self._options = options
        self._opened: TopicSet | None = None
        self._target: dict[Place, int] | None = None
        self._took_at = float("-inf")

    def __reduce__(self) -> Any:
        """Tasks get the options and nothing that is open."""
        return type(self), (self._options,)

    def getDefaultReadLimit(self) -> ReadLimit:
        """What the options limit a micro-batch to; Spark shows it in the query's plan."""
        options = self._options
        if options.max_offsets is not None:
            return ReadMaxRows(options.max_offsets)
        if options.max_bytes is not None:
            return ReadMaxBytes(options.max_bytes)
        if options.min_offsets is not None:
            return ReadMinRows(options.min_offsets)
        return ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:
        """From now on nothing that comes later is read."""
        topics = self._topics()
        topics.refresh()
        self._target = {place: topics.end(place) for place in topics.places()}

    def reportLatestOffset(self) -> dict[str, Any] | None:
        """Where the log ends, for the query's progress."""
        topics = self._topics()
        return self._to_json({place: topics.end(place) for place in topics.places()})

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The records of one task, in offset order within each topic-partition."""
        assert isinstance(partition, TaskRanges)
        settings = ReadSettings(
            columns=self._options.columns,
            fail_on_data_loss=self._options.fail_on_data_loss,
            threads=False,  # Spark has given the cores to its tasks
        )
        return read_task(self._options, partition, settings)

    def commit(self, end: dict[str, Any]) -> None:
        """Nothing to do: it comes too late to be of use, and never for the last batch."""

    def stop(self) -> None:
        """Nothing to release that the end of the process does not."""

    def _topics(self) -> TopicSet:
        if self._opened is None:
            advise()
            self._opened = open_topics(self._options)
        return self._opened

    def _end(self, place: Place, position: int) -> int:
        """How far the partition may be read: to its end, or to where AvailableNow ends."""
        end = self._topics().end(place)
        return end if self._target is None else min(end, self._target.get(place, position))

    def _admit(self, waiting: Waiting, limit: ReadLimit) -> Waiting | None:
        """What of it the next micro-batch takes; None if there is to be none yet."""
        count = offsets_waiting(waiting)
        if count == 0 or self._too_few(count, limit):
            return None
        if not isinstance(limit, ReadAllAvailable):
            if self._options.max_bytes is not None:
                waiting = limit_bytes(waiting, self._options.max_bytes, self._topics().segments)
            if self._options.max_offsets is not None:
                waiting = limit_offsets(waiting, self._options.max_offsets)
        self._took_at = CLOCK.monotonic()
        return waiting

    def _too_few(self, count: int, limit: ReadLimit) -> bool:
        """Whether to wait for more records; never with a trigger that is to end.

        A limit is of the trigger's kind: `Once` asks for all there is, whatever the options say,
        and so does a query without limits, which has no fewest either.
        """
        fewest = self._options.min_offsets
        if fewest is None or self._target is not None or isinstance(limit, ReadAllAvailable):
            return False
        waited_ms = (CLOCK.monotonic() - self._took_at) * 1000
        return count < fewest and waited_ms < self._options.max_trigger_delay_ms

    def _to_json(self, offsets: dict[Place, int]) -> dict[str, Any]:
        topics = self._topics()
        by_topic: dict[str, dict[int, int]] = {}
        for (topic, partition), offset in offsets.items():
            by_topic.setdefault(topic, {})[partition] = offset
        return to_json(
            {
                topic: TopicOffsets(topics.reader(topic).topic_id, of_topic)
                for topic, of_topic in by_topic.items()
            }
        )
