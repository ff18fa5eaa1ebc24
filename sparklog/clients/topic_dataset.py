"""Segments as a pyarrow Dataset, for engines that scan lazily.

A module of its own because pyarrow.dataset is slow to import, and few clients need it. It reads no
file: whoever scans the dataset does.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.dataset as ds

from sparklog.log.schema import TABLE_SCHEMA, TIMESTAMP
from sparklog.log.segment import Segment
from sparklog.storage import Store


def dataset(store: Store, folder: str, segments: list[Segment]) -> ds.Dataset:
    """The segments as fragments that know their partition and base offset."""
    filesystem, base = store.arrow_filesystem()
    file_format = ds.ParquetFileFormat()
    fragments = [
        file_format.make_fragment(
            f"{base}/{folder}{segment.path}",
            filesystem,
            (ds.field("partition") == pa.scalar(segment.partition, pa.int32()))
            & (ds.field("base_offset") == segment.base_offset),
        )
        for segment in segments
    ]
    return ds.FileSystemDataset(fragments, TABLE_SCHEMA, file_format, filesystem)


def filtered(
    whole: ds.Dataset, low: int | None, high: int | None, first: int | None, end: int | None
) -> ds.Dataset:
    """Its rows in these offsets and times (microseconds), each [from, to) with open ends."""
    offset = ds.field("base_offset") + ds.field("offset_delta").cast(pa.int64())
    stamp = ds.field("timestamp")
    if low is not None:
        whole = whole.filter(offset >= low)
    if high is not None:
        whole = whole.filter(offset < high)
    if first is not None:
        whole = whole.filter(stamp >= pa.scalar(first, pa.int64()).cast(TIMESTAMP))
    if end is not None:
        whole = whole.filter(stamp < pa.scalar(end, pa.int64()).cast(TIMESTAMP))
    return whole
