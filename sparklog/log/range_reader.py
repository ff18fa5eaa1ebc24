"""Reading a planned range of offsets, far from where it was planned.

A plan names the segments, so that whoever reads it opens files and nothing else. Between plan and
read a segment may have been merged into another or removed: the reader then plans the rest again,
by offset, from the newest state. It is data loss only when the log's start offset has passed the
range; offsets that compaction left out are none.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace

import pyarrow as pa

from sparklog.clock import Clock
from sparklog.errors import CorruptSegmentError, ObjectNotFoundError, OffsetOutOfRangeError
from sparklog.log.records import Piece, RecordShaper, stored_columns
from sparklog.log.schema import RECORD_SCHEMA
from sparklog.log.segment import Segment, read_segment
from sparklog.log.segment_footer import ALL_TIMES, TimeRange
from sparklog.log.topic_reader import TopicReader
from sparklog.log.topic_state import require_same_topic
from sparklog.names import topic_folder
from sparklog.storage import Store

REPLANS_MAX = 3
MERGED_ROWS = 32_768
"""Small batches are joined up to this many rows: handing a batch on has a price of its own."""


@dataclass(frozen=True)
class OffsetRange:
    """Offsets [start, end) of one topic-partition, and the segments that hold them."""

    topic: str
    topic_id: str
    partition: int
    start: int
    end: int
    timestamp_type: int
    segments: tuple[Segment, ...] = ()

    @property
    def bytes(self) -> int:
        """About how many bytes of segments it takes to read the range."""
        return bytes_between(self.segments, self.start, self.end)

    def cut(self, start: int, end: int) -> OffsetRange:
        """The part of it with offsets in [start, end)."""
        within = tuple(s for s in self.segments if s.base_offset < end and s.end > start)
        return replace(self, start=start, end=end, segments=within)


def bytes_between(segments: Iterable[Segment], start: int, end: int) -> int:
    """About how many bytes of these segments hold offsets in [start, end)."""
    total = 0
    for segment in segments:
        first, last = max(start, segment.base_offset), min(end, segment.end)
        span = max(1, segment.end - segment.base_offset)
        total += segment.size * max(0, last - first) // span
    return total


@dataclass(frozen=True)
class ReadSettings:
    """What of the records to read, and what to do about records that are gone."""

    columns: tuple[str, ...] = tuple(RECORD_SCHEMA.names)
    times_us: TimeRange = field(default=ALL_TIMES)
    fail_on_data_loss: bool = True
    verify: bool = True
    threads: bool = True


def read_range(
    store: Store, clock: Clock, planned: OffsetRange, settings: ReadSettings
) -> Iterator[pa.RecordBatch]:
    """The range's records in offset order, as batches of the wanted columns."""
    shaper = RecordShaper(
        planned.topic, planned.partition, planned.timestamp_type, settings.columns
    )
    return _shaped(_pieces(store, clock, planned, settings), shaper)


def _pieces(
    store: Store, clock: Clock, planned: OffsetRange, settings: ReadSettings
) -> Iterator[Piece]:
    """Rows as segments hold them, a row group at a time."""
    folder = topic_folder(planned.topic)
    columns = stored_columns(settings.columns)
    position, segments, replans = planned.start, list(planned.segments), 0
    while segments:
        segment = segments.pop(0)
        first, end = max(position, segment.base_offset), min(planned.end, segment.end)
        if first >= end or not segment.holds_time(settings.times_us):
            continue
        tables = read_segment(
            store,
            folder,
            segment,
            first,
            end,
            columns,
            verify=settings.verify,
            times_us=settings.times_us,
            threads=settings.threads,
        )
        try:
            for table in tables:
                yield table, segment.base_offset
                if table.num_rows and "offset_delta" in table.column_names:
                    position = segment.base_offset + table["offset_delta"][-1].as_py() + 1
            position = end
        except ObjectNotFoundError as gone:
            replans += 1
            if replans > REPLANS_MAX:
                raise CorruptSegmentError(
                    f"topic {planned.topic!r} partition {planned.partition} offset {position}: "
                    f"the table log names a segment that is not there: {gone}"
                ) from gone
            segments = _plan_again(store, clock, planned, position, settings)


def _plan_again(
    store: Store, clock: Clock, planned: OffsetRange, position: int, settings: ReadSettings
) -> list[Segment]:
    reader = TopicReader(store, clock, planned.topic)
    require_same_topic(reader.table_log.state, planned.topic, planned.topic_id)
    start = reader.offsets.start[planned.partition]
    if start > position and settings.fail_on_data_loss:
        raise data_loss(planned.topic, planned.partition, position, min(start, planned.end))
    return reader.segments(planned.partition, max(position, start), planned.end)


def data_loss(topic: str, partition: int, position: int, start: int) -> OffsetOutOfRangeError:
    """The error for records that were removed before they were read."""
    return OffsetOutOfRangeError(
        f"topic {topic!r} partition {partition}: offsets {position} to {start - 1} were removed "
        "(by retention, or by hand) before they were read. Set failOnDataLoss=false to go on "
        f"at {start}, or raise the topic's retention"
    )


def _shaped(pieces: Iterator[Piece], shaper: RecordShaper) -> Iterator[pa.RecordBatch]:
    """Record batches of the pieces, small ones joined: each shaping has a price of its own."""
    waiting: list[Piece] = []
    rows = 0
    for piece in pieces:
        more = piece[0].num_rows
        if rows and rows + more > MERGED_ROWS:
            yield from shaper.shape_pieces(waiting)
            waiting, rows = [], 0
        waiting.append(piece)
        rows += more
    yield from shaper.shape_pieces(waiting)
