"""The footer of a segment file: a checksum over it, and what it must say.

Parquet gives its pages checksums and its footer none, and a damaged footer can hide rows, or even
end the process that parses it. So the commit that names a segment carries a checksum of the file's
end in `add.tags` (which other Delta readers pass over):

    "sparklog.footer": "<bytes from the end of the file>:<CRC-32 of them, 8 hexadecimal digits>"

Readers compare it before they parse. Beyond that a footer is held against the table log and
against itself, so that one that was written wrong is found too: no row may hide behind its bounds.
"""

from __future__ import annotations

import functools
import struct
import zlib
from collections.abc import Iterator
from datetime import datetime
from typing import TypeAlias

import pyarrow as pa
import pyarrow.parquet as pq

from sparklog.log.schema import SEGMENT_SCHEMA
from sparklog.storage import OutputFile

TAG_FOOTER = "sparklog.footer"
TRAILER_BYTES = 8
"""A Parquet file ends with the length of its footer and the letters PAR1."""
FOOTER_BYTES_LIKELY = 4096
"""Read at once: the footer of a segment with up to about ten row groups is shorter."""

TimeRange: TypeAlias = tuple[int | None, int | None]
"""Earliest and latest time in microseconds, both inclusive; None is open."""
ALL_TIMES: TimeRange = (None, None)


def footer_checksum(file: OutputFile) -> str:
    """The checksum of a file that has been written to its end, as the table log carries it."""
    end = file.tail(FOOTER_BYTES_LIKELY)
    (footer,) = struct.unpack("<I", end[-TRAILER_BYTES:-4])
    length = footer + TRAILER_BYTES
    end = end[-length:] if length <= len(end) else file.tail(length)
    return f"{len(end)}:{zlib.crc32(end):08x}"


def check_footer(source: pa.NativeFile, size: int, checksum: str) -> None:
    """Raise ValueError if the end of the file is not as it was written."""
    digits, _, expected = checksum.partition(":")
    length = int(digits)
    if not 0 <= length <= size:
        raise ValueError(f"its checksum {checksum!r} is of more bytes than the {size} it has")
    found = zlib.crc32(source.read_at(length, size - length))
    if found != int(expected, 16):
        raise ValueError(f"its footer fails its checksum ({found:08x}, not {expected})")


def check_columns(file: pq.ParquetFile) -> None:
    """Raise ValueError if the file has other columns than a segment."""
    if file.schema.equals(_stored_schema()):
        return
    if not file.schema_arrow.equals(SEGMENT_SCHEMA):
        raise ValueError(f"its columns are not a segment's: {', '.join(file.schema_arrow.names)}")


@functools.cache
def _stored_schema() -> pq.ParquetSchema:
    sink = pa.BufferOutputStream()
    pq.write_table(SEGMENT_SCHEMA.empty_table(), sink, store_schema=False)
    return pq.ParquetFile(pa.BufferReader(sink.getvalue())).schema


def row_groups(
    metadata: pq.FileMetaData, low: int, high: int, delta_max: int, times_us: TimeRange
) -> Iterator[int]:
    """The row groups that may hold offset deltas in [low, high) and these times.

    Raises ValueError where the bounds of row groups overlap, go back or pass `delta_max`: rows
    would be skipped that they hide.
    """
    earliest, latest = times_us
    rows, before = 0, -1
    for index in range(metadata.num_row_groups):
        group = metadata.row_group(index)
        rows += group.num_rows
        deltas = group.column(0).statistics
        if deltas is not None and deltas.has_min_max:
            first, last = deltas.min, deltas.max
            if not before < first <= last <= delta_max:
                raise ValueError(
                    f"row group {index} says that it holds offset deltas {first} to {last}, after "
                    f"{before} and up to {delta_max}"
                )
            before = last
            if last < low or first >= high:
                continue
        if times_us != ALL_TIMES:
            stamps = group.column(1).statistics
            if stamps is not None and stamps.has_min_max:
                if earliest is not None and datetime_us(stamps.max) < earliest:
                    continue
                if latest is not None and datetime_us(stamps.min) > latest:
                    continue
        yield index
    if rows != metadata.num_rows:
        raise ValueError(f"its row groups hold {rows} of its {metadata.num_rows} rows")


def datetime_us(moment: datetime) -> int:
    """Microseconds since the epoch; a time without a zone is taken as UTC."""
    elapsed = moment - datetime(1970, 1, 1, tzinfo=moment.tzinfo)
    return (elapsed.days * 86_400 + elapsed.seconds) * 1_000_000 + elapsed.microseconds
