"""Records as readers get them: Arrow batches with the Spark source's columns, or one by one."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sparklog.log.schema import RECORD_SCHEMA
from sparklog.log.segment import Segment

CREATE_TIME = 0
LOG_APPEND_TIME = 1


class Record(NamedTuple):
    """One record, as `poll` gives it."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, bytes | None]]


class RecordShaper:
    """Turns a segment's columns into record batches; keeps the constant columns between calls."""

    def __init__(self, topic: str, partition: int, timestamp_type: int) -> None:
        """A shaper for one topic-partition."""
        self.topic = topic
        self.partition = partition
        self.timestamp_type = timestamp_type
        self._constants: tuple[pa.Array, pa.Array, pa.Array] | None = None

    def shape(self, table: pa.Table, segment: Segment) -> list[pa.RecordBatch]:
        """Record batches with the columns of RECORD_SCHEMA; data columns are not copied."""
        batches = []
        for part in table.to_batches():
            rows = part.num_rows
            if rows:
                topics, partitions, types = self._constant_columns(rows)
                offsets = pc.add(part["offset_delta"].cast(pa.int64()), segment.base_offset)
                columns = [
                    part["key"],
                    part["value"],
                    topics.slice(0, rows),
                    partitions.slice(0, rows),
                    offsets,
                    part["timestamp"],
                    types.slice(0, rows),
                    part["headers"].cast(RECORD_SCHEMA.field("headers").type),
                ]
                batches.append(pa.RecordBatch.from_arrays(columns, schema=RECORD_SCHEMA))
        return batches

    def _constant_columns(self, rows: int) -> tuple[pa.Array, pa.Array, pa.Array]:
        if self._constants is None or len(self._constants[0]) < rows:
            self._constants = (
                pa.repeat(pa.scalar(self.topic, pa.string()), rows),
                pa.array(np.full(rows, self.partition, np.int32)),
                pa.array(np.full(rows, self.timestamp_type, np.int32)),
            )
        return self._constants


def to_records(batch: pa.RecordBatch) -> list[Record]:
    """The batch's records one by one."""
    if not batch.num_rows:
        return []
    topic = batch["topic"][0].as_py()
    partition = batch["partition"][0].as_py()
    milliseconds = (batch["timestamp"].cast(pa.int64()).to_numpy() // 1000).tolist()
    headers = batch["headers"]
    if headers.null_count == len(headers):
        pairs: list[list[tuple[str, bytes | None]]] = [[] for _ in range(len(headers))]
    else:
        pairs = [[(h["key"], h["value"]) for h in row or []] for row in headers.to_pylist()]
    return [
        Record(topic, partition, offset, timestamp, key, value, header)
        for offset, timestamp, key, value, header in zip(
            batch["offset"].to_numpy().tolist(),
            milliseconds,
            batch["key"].to_pylist(),
            batch["value"].to_pylist(),
            pairs,
            strict=True,
        )
    ]
