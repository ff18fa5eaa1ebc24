"""A segment that is written bit by bit: for a writer that cannot hold all its records at once.

Records gather until they fill a row group, or until the owner asks for less. The file is nothing
to anybody before a commit names it: whoever gives up discards it, and one that was left behind by a
crash is swept up by vacuum.
"""

from __future__ import annotations

from types import TracebackType

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from sparklog.errors import SparklogError
from sparklog.log.schema import SEGMENT_SCHEMA
from sparklog.log.segment import ROW_GROUP_ROWS, WrittenSegment, parquet_options
from sparklog.log.segment_footer import footer_checksum
from sparklog.storage import Store


class SegmentWriter:
    """One new segment file. Finish it, or discard it."""

    def __init__(self, store: Store, topic_folder: str, path: str, compression: str) -> None:
        """Begin the file under a path that `segment_path` made."""
        self._path = path
        self._file = store.open_output(topic_folder + path)
        self._writer = pq.ParquetWriter(
            self._file.stream, SEGMENT_SCHEMA, **parquet_options(compression)
        )
        self._waiting: list[pa.RecordBatch] = []
        self._waiting_rows = 0
        self._count = 0
        self._bounds: list[tuple[int, int]] = []

    def append(self, records: pa.RecordBatch) -> None:
        """Add records (timestamp, key, value, headers) behind those that are there."""
        self._waiting.append(records)
        self._waiting_rows += records.num_rows
        while self._waiting_rows >= ROW_GROUP_ROWS:
            self._write_group()

    def flush(self) -> None:
        """Write what has gathered, as a row group that is not full."""
        if self._waiting_rows:
            self._write_group()

    def finish(self, *, durable: bool = True) -> WrittenSegment:
        """Close the file; from now on a commit may name it."""
        self.flush()
        try:
            self._writer.close()
        except OSError as error:
            raise self._failure(error) from error
        footer = footer_checksum(self._file)
        size = self._file.finish(durable=durable)
        return WrittenSegment(
            partition=int(self._path[1 : self._path.index("/")]),
            path=self._path,
            size=size,
            count=self._count,
            timestamp_min_us=min(low for low, _ in self._bounds),
            timestamp_max_us=max(high for _, high in self._bounds),
            footer=footer,
        )

    def discard(self) -> None:
        """Give up: the file goes away."""
        try:
            self._writer.close()
        except (pa.ArrowException, OSError, SparklogError):
            pass  # it goes away in any case
        self._file.discard()

    def __enter__(self) -> SegmentWriter:
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
            self.discard()

    def _write_group(self) -> None:
        waiting = pa.Table.from_batches(self._waiting)
        rows, rest = waiting.slice(0, ROW_GROUP_ROWS), waiting.slice(ROW_GROUP_ROWS)
        self._waiting, self._waiting_rows = rest.to_batches(), rest.num_rows
        deltas = np.arange(self._count, self._count + rows.num_rows, dtype=np.int32)
        columns = [pa.array(deltas), *(rows[name] for name in SEGMENT_SCHEMA.names[1:])]
        table = pa.Table.from_arrays(columns, schema=SEGMENT_SCHEMA)
        try:
            self._writer.write_table(table, row_group_size=ROW_GROUP_ROWS)
        except OSError as error:
            raise self._failure(error) from error
        self._count += rows.num_rows
        bounds = pc.min_max(rows["timestamp"].cast(pa.int64()))
        self._bounds.append((bounds["min"].as_py(), bounds["max"].as_py()))

    def _failure(self, error: OSError) -> Exception:
        return error if isinstance(error, SparklogError) else self._file.failure(error)
