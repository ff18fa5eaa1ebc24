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

It keeps no offsets of its own: they stand in the query's checkpoint.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pyspark.sql.datasource import InputPartition
from pyspark.sql.streaming.datasource import ReadLimit

from sparklog.spark.admission import Place, Stretch
from sparklog.spark.options import SourceOptions
from sparklog.spark.source_plan import lose, plan_range
from sparklog.spark.start_point import LATEST, StartPoint
from sparklog.spark.stream_base import StreamReaderBase
from sparklog.spark.stream_offset import StreamOffset, TopicOffsets, from_json
from sparklog.spark.task_plan import plan_tasks


class SparklogStreamReader(StreamReaderBase):
    """One query's source, whose checkpoint alone keeps its offsets."""

    def __init__(self, options: SourceOptions) -> None:
        """Made by the data source; reads nothing yet."""
        super().__init__(options)
        self._told: set[str] = set()

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

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        """The end of the next micro-batch; `start` itself where there is nothing to read."""
        topics = self._topics()
        topics.refresh()
        taken = self._admit(self._waiting(from_json(start)), limit)
        if taken is None:
            return start
        return self._to_json({place: stretch.end for place, stretch in taken.items()})

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
            waiting[place] = Stretch(begin, max(begin, self._end(place, begin)))
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


def _created_again(topic: str, topic_id: str) -> str:
    return (
        f"topic {topic!r} was deleted since (this query has read id {topic_id}): its records are "
        "gone. Start the query with failOnDataLoss=false to go on with what is there now"
    )
