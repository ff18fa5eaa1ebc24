"""Records as readers get them: Arrow batches with the Spark source's columns, or one by one."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sparklog.log.schema import RECORD_SCHEMA, SEGMENT_SCHEMA
from sparklog.log.segment import Segment

Piece: TypeAlias = tuple[pa.Table, int]
"""Rows of one segment, and the segment's base offset."""

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

    def __init__(
        self,
        topic: str,
        partition: int,
        timestamp_type: int,
        columns: Sequence[str] = RECORD_SCHEMA.names,
    ) -> None:
        """A shaper for one topic-partition that gives these columns of RECORD_SCHEMA."""
        self.schema = pa.schema([RECORD_SCHEMA.field(name) for name in columns])
        self._values: dict[str, pa.Scalar] = {
            "topic": pa.scalar(topic, pa.string()),
            "partition": pa.scalar(partition, pa.int32()),
            "timestampType": pa.scalar(timestamp_type, pa.int32()),
        }
        self._constants: dict[str, pa.Array] = {}
        self._constant_rows = 0

    def shape(self, table: pa.Table, segment: Segment) -> list[pa.RecordBatch]:
        """Record batches of a segment's rows; data columns are not copied."""
        return self._shape(table, segment.base_offset)

    def shape_pieces(self, pieces: Sequence[Piece]) -> list[pa.RecordBatch]:
        """Record batches of rows of several segments; many pieces become one batch."""
        if not pieces:
            return []
        if len(pieces) == 1:
            return self._shape(*pieces[0])
        table = pa.concat_tables([piece for piece, _ in pieces]).combine_chunks()
        bases = np.repeat([base for _, base in pieces], [piece.num_rows for piece, _ in pieces])
        return self._shape(table, pa.array(bases, pa.int64()))

    def _shape(self, table: pa.Table, base_offsets: int | pa.Array) -> list[pa.RecordBatch]:
        batches = []
        start = 0
        for part in table.to_batches():
            if not part.num_rows:
                continue
            bases = base_offsets
            if not isinstance(bases, int):
                bases = bases.slice(start, part.num_rows)
            columns = [self._column(field, part, bases) for field in self.schema]
            batches.append(pa.RecordBatch.from_arrays(columns, schema=self.schema))
            start += part.num_rows
        return batches

    def _column(
        self, field: pa.Field, part: pa.RecordBatch, base_offsets: int | pa.Array
    ) -> pa.Array:
        if field.name == "offset":
            return pc.add(part["offset_delta"].cast(pa.int64()), base_offsets)
        if field.name in self._values:
            return self._constant(field.name, part.num_rows)
        column = part[field.name]
        return column if column.type == field.type else column.cast(field.type)

    def _constant(self, name: str, rows: int) -> pa.Array:
        if rows > self._constant_rows:
            self._constants.clear()
            self._constant_rows = rows
        column = self._constants.get(name)
        if column is None:
            column = self._constants[name] = pa.repeat(self._values[name], self._constant_rows)
        return column.slice(0, rows)


def stored_columns(columns: Iterable[str]) -> list[str]:
    """The columns of a segment file that these columns of RECORD_SCHEMA are made of."""
    wanted = {"offset_delta" if name == "offset" else name for name in columns}
    return [name for name in SEGMENT_SCHEMA.names if name in wanted]


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
