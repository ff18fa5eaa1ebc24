"""`spark.readStream.format("sparklog")`: topics as an endless table, micro-batch by micro-batch.

    initialOffset -> latestOffset(start, limit) -> partitions(start, end) -> tasks -> latestOffset
                              ^                                                         |
                              '---------------------------------------------------------'

Guarantees:
1. A micro-batch is what its logged offsets say: `partitions(start, end)` gives the same records
   whichever run asks, first or after a restart.
2. Records of one topic-partition are read in offset order.
3. Partitions and topics that appear while the query runs are read from their first record.
4. With AvailableNow the query ends at what was there when it began.

The planner's process holds one instance for the life of the query; tasks get a pickled one that
has nothing open. It keeps no offsets of its own: they stand in the query's checkpoint.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
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
from sparklog.spark.admission import (
    Place,
    Stretch,
    limit_bytes,
    limit_offsets,
    offsets_waiting,
)
from sparklog.spark.batch_reader import read_task
from sparklog.spark.options import SourceOptions
from sparklog.spark.process import CLOCK
from sparklog.spark.source_check import check_stream, open_topics
from sparklog.spark.source_plan import lose, plan_range
from sparklog.spark.start_point import LATEST, StartPoint
from sparklog.spark.stream_offset import StreamOffset, TopicOffsets, from_json, to_json
from sparklog.spark.task_plan import TaskRanges, plan_tasks
from sparklog.spark.topic_set import TopicSet


class SparklogStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """One query's source."""

    def __init__(self, options: SourceOptions) -> None:
        """Made by the data source; reads nothing yet."""
        check_stream(options)
        self._options = options
        self._opened: TopicSet | None = None
        self._target: dict[Place, int] | None = None
        self._took_at = float("-inf")
        self._told: set[str] = set()

    def __reduce__(self) -> Any:
        """Tasks get the options and nothing that is open."""
        return SparklogStreamReader, (self._options,)

    def initialOffset(self) -> dict[str, Any]:
        """Where a new query starts."""
        topics, options = self._topics(), self._options
        starting = options.starting or StartPoint.named(LATEST)
        strict = options.fail_on_data_loss
        return self._to_json(
            {
                place: starting.resolve(
                    "startingOffsets", topics.reader(place[0]), place[1], strict=strict
                )
                for place in topics.places()
            }
        )

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

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        """The end of the next micro-batch; `start` itself where there is nothing to read."""
        topics = self._topics()
        topics.refresh()
        waiting = self._waiting(from_json(start))
        count = offsets_waiting(waiting)
        if count == 0 or self._too_few(count, limit):
            return start
        if not isinstance(limit, ReadAllAvailable):
            if self._options.max_bytes is not None:
                waiting = limit_bytes(waiting, self._options.max_bytes, topics.segments)
            if self._options.max_offsets is not None:
                waiting = limit_offsets(waiting, self._options.max_offsets)
        self._took_at = CLOCK.monotonic()
        return self._to_json({place: s.end for place, s in waiting.items()})

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """The tasks of a micro-batch."""
        topics, options = self._topics(), self._options
        first, last = from_json(start), from_json(end)
        ranges = []
        for topic, until in last.items():
            if not self._same_topic(topic, until):
                continue
            since = first.get(topic, TopicOffsets(until.topic_id))
            if since.topic_id != until.topic_id:
                since = TopicOffsets(until.topic_id)  # created again: read from its first record
            for partition, stop in until.next.items():
                begin = since.next.get(partition, 0)
                ranges.append(plan_range(topics, options, (topic, partition), begin, stop))
        return plan_tasks(ranges, options.min_partitions, options.max_records_per_partition)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The records of one task, in offset order within each topic-partition."""
        assert isinstance(partition, TaskRanges)
        settings = ReadSettings(
            columns=self._options.columns, fail_on_data_loss=self._options.fail_on_data_loss
        )
        return read_task(self._options, partition, settings)

    def commit(self, end: dict[str, Any]) -> None:
        """Nothing to do: the checkpoint keeps the offsets."""

    def stop(self) -> None:
        """Nothing to release that the end of the process does not."""

    def _topics(self) -> TopicSet:
        if self._opened is None:
            self._opened = open_topics(self._options)
        return self._opened

    def _waiting(self, start: StreamOffset) -> dict[Place, Stretch]:
        """What is there and not read yet, by topic-partition."""
        topics = self._topics()
        self._check_gone(start)
        waiting = {}
        for place in topics.places():
            topic, partition = place
            of_topic = start.get(topic)
            same = of_topic is not None and of_topic.topic_id == topics.reader(topic).topic_id
            begin = of_topic.next.get(partition, 0) if same and of_topic else 0
            end = topics.end(place) if self._target is None else self._target.get(place, begin)
            waiting[place] = Stretch(begin, max(begin, end))
        return waiting

    def _check_gone(self, start: StreamOffset) -> None:
        """Records that the query was to read may have gone with a topic or its old self."""
        topics = self._topics()
        for topic, of_topic in start.items():
            if topic not in topics.topics():
                self._lose_once(
                    f"topic {topic!r}, which this query has read, is not read any more: it was "
                    "deleted, or the options leave it out. Start with failOnDataLoss=false to go "
                    "on without it"
                )
            elif of_topic.topic_id != topics.reader(topic).topic_id:
                self._lose_once(_created_again(topic, of_topic.topic_id))

    def _lose_once(self, what: str) -> None:
        """`latestOffset` is asked a hundred times a second: say it once."""
        if what not in self._told:
            lose(self._options, what)
            self._told.add(what)

    def _same_topic(self, topic: str, until: TopicOffsets) -> bool:
        """Whether the batch's topic still stands; a logged batch of another one is lost."""
        topics = self._topics()
        if topic in topics.topics() and topics.reader(topic).topic_id == until.topic_id:
            return True
        lose(self._options, _created_again(topic, until.topic_id))
        return False

    def _too_few(self, count: int, limit: ReadLimit) -> bool:
        """Whether to wait for more records; never with a trigger that is to end."""
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


def _created_again(topic: str, topic_id: str) -> str:
    return (
        f"topic {topic!r} was deleted since (this query has read id {topic_id}): its records are "
        "gone. Start the query with failOnDataLoss=false to go on with what is there now"
    )
