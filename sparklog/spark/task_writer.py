"""What one task of the sink does: rows become segments that no commit names yet.

    Arrow batch -> by topic -> checked -> placed by key -> by partition -> segments

A row goes to the partition that its column `partition` names, else to the one that Kafka's murmur2
gives its key; keyless rows stay together for a batch, and the next batch's go to the next
partition. Rows of one task keep their order within a partition. Records carry the time of their
writing, as with Kafka's sink.

A topic in which the query's batch stands already gets nothing: after a restart a batch that was
committed before costs no file.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from types import TracebackType
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from sparklog.log.partitioner import partition_for_keys
from sparklog.log.schema import SEGMENT_SCHEMA, TIMESTAMP
from sparklog.log.segment import Writer, segment_path
from sparklog.log.segment_writer import SegmentWriter
from sparklog.log.topic_state import PartitionOffsets
from sparklog.spark.options import SinkOptions
from sparklog.spark.process import CLOCK, process_store
from sparklog.spark.segment_set import SegmentSet
from sparklog.spark.sink_commit import QUERY, TaskMessage, TopicSegments, batch_stands
from sparklog.spark.sink_rows import Rows, check_rows
from sparklog.spark.sink_schema import SinkColumns
from sparklog.spark.sink_topics import IDS, SinkTopic, log_identity, sink_topic

RECORDS = pa.schema([field for field in SEGMENT_SCHEMA if field.name != "offset_delta"])


@dataclass
class _Target:
    """A topic as one task writes to it."""

    topic: SinkTopic
    id: str
    partitions: int
    stands: bool
    sticky: int


class TaskWriter:
    """Writes one task's rows. Finish it, or leave its `with` by an error: then no file stays."""

    def __init__(self, options: SinkOptions, columns: SinkColumns, writer: Writer) -> None:
        """For rows of these columns, as this writer."""
        self._options = options
        self._columns = columns
        self._writer = writer
        self._log_id = log_identity(options.store)
        self._targets: dict[str, _Target] = {}
        self._segments = SegmentSet(process_store(options.store), self._begin)

    def write(self, batch: pa.RecordBatch) -> None:
        """Take some rows."""
        if not batch.num_rows:
            return
        rows = Rows.of(batch, self._columns)
        now_us = pa.scalar(CLOCK.now_ms() * 1000, pa.int64()).cast(TIMESTAMP)
        stamps = pa.repeat(now_us, len(rows))
        absent = {
            name: pa.nulls(len(rows), RECORDS.field(name).type)
            for name in ("key", "headers")
            if getattr(rows, name) is None
        }
        topic = self._options.topic
        parts = rows.by_topic() if topic is None else [(topic, rows)]
        for name, of_topic in parts:
            target = self._target(name)
            if target.stands:
                continue
            check_rows(target.topic, of_topic)
            for partition, some in of_topic.by_partition(_place(target, of_topic)):
                count = len(some)
                columns = [
                    stamps.slice(0, count),
                    absent["key"].slice(0, count) if some.key is None else some.key,
                    some.value,
                    absent["headers"].slice(0, count) if some.headers is None else some.headers,
                ]
                records = pa.RecordBatch.from_arrays(columns, schema=RECORDS)
                self._segments.append((name, partition), records)

    def finish(self) -> TaskMessage:
        """Close all segments, durable; the message names them for the commit."""
        written = self._segments.finish()
        topics = []
        for name, target in self._targets.items():
            places = sorted(place for place in written if place[0] == name)
            if places:
                segments = tuple(segment for place in places for segment in written[place])
                topics.append(TopicSegments(name, target.id, segments))
        return TaskMessage(self._log_id, self._writer, tuple(topics))

    def __enter__(self) -> TaskWriter:
        """Use with `with`: an error discards."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Discard after an error."""
        if kind is not None:
            self._segments.discard()

    def _target(self, name: str) -> _Target:
        target = self._targets.get(name)
        if target is None:
            topic = sink_topic(self._options.store, self._log_id, name)
            topic.look()
            writer = self._writer
            stands = writer.kind == QUERY and batch_stands(
                topic.standing(writer.app_id), writer.sequence
            )
            sticky = int(IDS.uniform() * topic.partitions)
            target = _Target(topic, topic.id, topic.partitions, stands, sticky)
            self._targets[name] = target
        return target

    def _begin(self, name: str, partition: int) -> SegmentWriter:
        topic = self._targets[name].topic
        path = segment_path(partition, CLOCK.now_ms(), self._writer, IDS.unique())
        compression = topic.config.compression_for(self._options.compression)
        return SegmentWriter(topic.store, topic.folder, path, compression)


def write_task(
    options: SinkOptions,
    columns: SinkColumns,
    writer: Writer,
    batches: Iterable[pa.RecordBatch],
) -> TaskMessage:
    """Write all rows of a task; after an error none of its files stays."""
    with TaskWriter(options, columns, writer) as task:
        for batch in batches:
            task.write(batch)
        return task.finish()


def _place(target: _Target, rows: Rows) -> npt.NDArray[np.int32]:
    """The partition of every row."""
    chosen = _place_by_key(target, rows.key, len(rows))
    given = rows.partition
    if given is None or given.null_count == len(given):
        return chosen
    bounds = pc.min_max(given)
    offsets = PartitionOffsets.of(target.topic.table_log.state)
    for bound in (bounds["min"].as_py(), bounds["max"].as_py()):
        offsets.check_partition(target.topic.name, bound)
    wanted = given.fill_null(-1).to_numpy()
    result: npt.NDArray[np.int32] = np.where(wanted >= 0, wanted, chosen).astype(np.int32)
    return result


def _place_by_key(target: _Target, keys: Any, count: int) -> npt.NDArray[np.int32]:
    if keys is not None and not keys.null_count:
        return partition_for_keys(keys, target.partitions)
    target.sticky = (target.sticky + 1) % target.partitions
    if keys is None or keys.null_count == count:
        return np.full(count, target.sticky, np.int32)
    chosen = partition_for_keys(keys, target.partitions)
    chosen[keys.is_null().to_numpy(zero_copy_only=False)] = target.sticky
    return chosen
