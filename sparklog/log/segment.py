"""Segments: the data files of a topic-partition.

A segment is one Parquet file of records in offset order, written before its offsets are known.
Its name carries when it was begun and by whom (kind, id, epoch, sequence): that is what vacuum
goes by, never the file's own times. Pages and the footer have checksums, which readers verify, so
a flipped bit is an error that names the file and never a wrong record. Keys and values are kept out
of the statistics in the table log.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from sparklog.errors import CorruptSegmentError, SparklogError
from sparklog.log.schema import SEGMENT_SCHEMA
from sparklog.log.segment_footer import (
    ALL_TIMES,
    TAG_FOOTER,
    TimeRange,
    check_columns,
    check_footer,
    footer_checksum,
    row_groups,
)
from sparklog.storage import Store
from sparklog.storage.store import new_file
from sparklog.table.actions import Add

ROW_GROUP_ROWS = 131_072
PAGE_BYTES = 131_072
"""Small enough that a page is encoded, compressed and summed up in the processor's cache."""
UNIQUE_DIGITS = 16
THREADS_ROWS_MIN = 16_384
"""Below this, handing columns to Arrow's threads takes longer than decoding them."""

_PATH = re.compile(r"p[0-9]+/[A-Za-z0-9._-]+\.parquet")

_ENCODINGS = {
    "offset_delta": "DELTA_BINARY_PACKED",
    "timestamp": "DELTA_BINARY_PACKED",
    "key": "PLAIN",
    "value": "PLAIN",
    "headers.list.element.key": "PLAIN",
    "headers.list.element.value": "PLAIN",
}


@dataclass(frozen=True)
class Writer:
    """Who writes a segment: a plain producer, a transactional id or a Spark query."""

    kind: str  # "producer", "transaction" or "query"
    id: str
    epoch: int
    sequence: int

    @property
    def app_id(self) -> str:
        """The name under which the table log keeps this writer's progress."""
        return f"{self.kind}/{self.id}"


def segment_path(partition: int, stamp_ms: int, writer: Writer, unique: str) -> str:
    """The path of a new segment, relative to the topic's folder."""
    who = f"{writer.kind}.{writer.id}.{writer.epoch}.{writer.sequence}"
    return f"p{partition}/{stamp_ms:013d}-{who}-{unique[:UNIQUE_DIGITS]}.parquet"


@dataclass(frozen=True)
class WrittenSegment:
    """A segment file that no commit names yet."""

    partition: int
    path: str
    size: int
    count: int
    timestamp_min_us: int
    timestamp_max_us: int
    footer: str = ""
    """The checksum of its end, as `footer_checksum` gives it; empty if there is none."""

    def to_add(self, base_offset: int, now_ms: int) -> Add:
        """The action that puts it into the table at this offset."""
        stats = {
            "numRecords": self.count,
            "minValues": {"offset_delta": 0, "timestamp": _iso(self.timestamp_min_us)},
            "maxValues": {
                "offset_delta": self.count - 1,
                "timestamp": _iso(self.timestamp_max_us, round_up=True),
            },
            "nullCount": {"offset_delta": 0, "timestamp": 0},
        }
        return Add(
            path=self.path,
            partition_values={"partition": str(self.partition), "base_offset": str(base_offset)},
            size=self.size,
            modification_time=now_ms,
            data_change=True,
            stats=json.dumps(stats, separators=(",", ":")),
            tags={TAG_FOOTER: self.footer} if self.footer else {},
        )


def _iso(us: int, round_up: bool = False) -> str:
    """Delta keeps timestamp bounds in milliseconds: widen them, never narrow them."""
    ms = -(-us // 1000) if round_up else us // 1000
    return f"{np.datetime64(ms, 'ms')}Z"


@dataclass(frozen=True)
class Segment:
    """A segment that a commit named: where it stands and which offsets it holds."""

    path: str
    partition: int
    base_offset: int
    last_offset: int
    count: int
    size: int
    timestamp_min_us: int
    timestamp_max_us: int
    footer: str = ""

    @property
    def end(self) -> int:
        """The offset behind its last one."""
        return self.last_offset + 1

    def holds_time(self, times_us: TimeRange) -> bool:
        """Whether a record of the range may be in it."""
        earliest, latest = times_us
        return (earliest is None or self.timestamp_max_us >= earliest) and (
            latest is None or self.timestamp_min_us <= latest
        )

    @classmethod
    def from_add(cls, add: Add) -> Segment:
        """Read the table log's words about it; a malformed entry stops the reader."""
        if not _PATH.fullmatch(add.path):
            raise CorruptSegmentError(
                f"the table log names {add.path!r} as a segment, which is not a place where "
                "segments of this topic stand: it is not followed"
            )
        try:
            stats = json.loads(add.stats)
            base = int(add.partition_values["base_offset"])
            return cls(
                path=add.path,
                partition=int(add.partition_values["partition"]),
                base_offset=base,
                last_offset=base + int(stats["maxValues"]["offset_delta"]),
                count=int(stats["numRecords"]),
                size=add.size,
                timestamp_min_us=_us(stats["minValues"]["timestamp"]),
                timestamp_max_us=_us(stats["maxValues"]["timestamp"]),
                footer=add.tags.get(TAG_FOOTER, ""),
            )
        except (KeyError, ValueError, TypeError, RecursionError) as error:
            raise CorruptSegmentError(
                f"segment {add.path}: its entry in the table log is malformed: {error!r}"
            ) from error


def _us(text: str) -> int:
    return int(np.datetime64(text.removesuffix("Z"), "us").astype(np.int64))


def parquet_options(compression: str) -> dict[str, Any]:
    """How segment files are written: the same by whatever way."""
    return {
        "compression": None if compression == "none" else compression,
        "use_dictionary": False,
        "column_encoding": _ENCODINGS,
        "data_page_size": PAGE_BYTES,
        "write_statistics": ["offset_delta", "timestamp"],
        "write_page_checksum": True,
        "store_schema": False,
    }


def write_segment(
    store: Store, topic_folder: str, path: str, records: pa.Table, compression: str, durable: bool
) -> WrittenSegment:
    """Write records (timestamp, key, value, headers, in order) as a segment file."""
    count = records.num_rows
    deltas = pa.array(np.arange(count, dtype=np.int32))
    columns = [deltas, *(records[name] for name in SEGMENT_SCHEMA.names[1:])]
    table = pa.Table.from_arrays(columns, schema=SEGMENT_SCHEMA)

    with new_file(store, topic_folder + path) as file:
        options = parquet_options(compression)
        pq.write_table(table, file.stream, row_group_size=ROW_GROUP_ROWS, **options)
        footer = footer_checksum(file)
        size = file.finish(durable=durable)
    bounds = pc.min_max(records["timestamp"].cast(pa.int64()))
    return WrittenSegment(
        partition=int(path[1 : path.index("/")]),
        path=path,
        size=size,
        count=count,
        timestamp_min_us=bounds["min"].as_py(),
        timestamp_max_us=bounds["max"].as_py(),
        footer=footer,
    )


def read_segment(
    store: Store,
    topic_folder: str,
    segment: Segment,
    first: int,
    end: int,
    columns: Sequence[str] = SEGMENT_SCHEMA.names,
    *,
    verify: bool = True,
    times_us: TimeRange = ALL_TIMES,
    threads: bool = True,
) -> Iterator[pa.Table]:
    """The segment's records with offsets in [first, end), a table a row group.

    Row groups outside the offsets or the times are skipped; rows are cut to the offsets, not to
    the times. ObjectNotFoundError means that the file is gone: plan again from the newest state.
    Columns of large row groups are decoded side by side, unless other readers have the cores.
    """
    key = topic_folder + segment.path
    last = segment.last_offset - segment.base_offset
    low, high = first - segment.base_offset, end - segment.base_offset
    whole = low <= 0 and end > segment.last_offset
    # Deltas are needed to cut, to go on behind a row group, and for rows without other columns.
    simple = whole and columns and segment.count <= ROW_GROUP_ROWS
    cutting = [] if "offset_delta" in columns or simple else ["offset_delta"]
    threads = threads and segment.count >= THREADS_ROWS_MIN
    try:
        with store.open_input(key) as source:
            _check_size(key, segment, source.size())
            if verify and segment.footer:
                check_footer(source, segment.size, segment.footer)
            with pq.ParquetFile(source, page_checksum_verification=verify) as file:
                _check_rows(key, segment, file.metadata.num_rows)
                check_columns(file)
                for group in row_groups(file.metadata, low, high, last, times_us):
                    table = file.read_row_group(
                        group, columns=[*columns, *cutting], use_threads=threads
                    )
                    yield table if whole else _trim(table, low, high)
    except SparklogError:
        raise
    except (pa.ArrowException, OSError, ValueError) as error:
        raise CorruptSegmentError(
            f"segment {key} (offsets {segment.base_offset}..{segment.last_offset}) cannot be read: "
            f"{error}. Restore the file from a copy; its records are not skipped"
        ) from error


def _check_size(key: str, segment: Segment, size: int) -> None:
    if size != segment.size:
        raise CorruptSegmentError(
            f"segment {key} (offsets {segment.base_offset}..{segment.last_offset}) has {size} "
            f"bytes, but the table log says {segment.size}: it was cut off or replaced"
        )


def _check_rows(key: str, segment: Segment, rows: int) -> None:
    if rows != segment.count:
        raise CorruptSegmentError(
            f"segment {key} holds {rows} records, but the table log says {segment.count}"
        )


def _trim(table: pa.Table, low: int, high: int) -> pa.Table:
    """Cut to offset deltas in [low, high): a search, since deltas only grow."""
    if not table.num_rows:
        return table
    deltas = table["offset_delta"].combine_chunks().to_numpy(zero_copy_only=False)
    start = int(np.searchsorted(deltas, low, side="left")) if deltas[0] < low else 0
    stop = int(np.searchsorted(deltas, high, side="left")) if deltas[-1] >= high else table.num_rows
    return table if (start, stop) == (0, table.num_rows) else table.slice(start, stop - start)
