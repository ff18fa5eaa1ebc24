"""A partition's segments in offset order: which of them holds an offset, or comes after a time.

Built from the table's file list as columns; a segment's own words are parsed only when it is
touched, so that finding one among a hundred thousand is a binary search and no more.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sparklog.errors import CorruptCommitError
from sparklog.log.segment import Segment
from sparklog.table.live_files import add_of_row
from sparklog.table.table_state import TableState


class PartitionLog:
    """An index over the live segments of one partition at one version of the table."""

    def __init__(self, adds: pa.Table, base_offsets: np.ndarray) -> None:
        """Rows of the file list, sorted by their base offsets."""
        self._adds = adds
        self._base_offsets = base_offsets

    def __len__(self) -> int:
        """How many segments there are."""
        return len(self._base_offsets)

    def segment(self, index: int) -> Segment:
        """The segment at this place in offset order."""
        row = self._adds.slice(index, 1).to_pylist(maps_as_pydicts="strict")[0]
        return Segment.from_add(add_of_row(row))

    def index_of(self, offset: int) -> int:
        """The first segment that holds this offset or, if none does, a later one."""
        index = int(np.searchsorted(self._base_offsets, offset, side="right")) - 1
        if index < 0:
            return 0
        return index if self.segment(index).last_offset >= offset else index + 1

    def segments(self, start: int = 0, end: int | None = None) -> Iterator[Segment]:
        """Segments that hold offsets in [start, end), in order."""
        for index in range(self.index_of(start), len(self)):
            segment = self.segment(index)
            if end is not None and segment.base_offset >= end:
                return
            yield segment

    def bytes(self) -> int:
        """The size of all segments."""
        return int(pc.sum(self._adds["size"]).as_py() or 0)


def partition_logs(state: TableState) -> dict[int, PartitionLog]:
    """The index of every partition that has segments."""
    adds = state.files.adds()
    if not adds.num_rows:
        return {}
    partitions = _integers(state, adds, "partition", pa.int32())
    bases = _integers(state, adds, "base_offset", pa.int64())
    order = np.lexsort((bases, partitions))
    sorted_partitions, sorted_bases = partitions[order], bases[order]
    ordered = adds.take(pa.array(order))
    numbers, starts = np.unique(sorted_partitions, return_index=True)
    ends = [*starts[1:], len(order)]
    return {
        int(number): PartitionLog(ordered.slice(start, end - start), sorted_bases[start:end])
        for number, start, end in zip(numbers, starts, ends, strict=True)
    }


def _integers(state: TableState, adds: pa.Table, name: str, kind: pa.DataType) -> np.ndarray:
    column = adds["partitionValues"].combine_chunks()
    texts = pc.map_lookup(column, pa.scalar(name), "first")
    try:
        values = texts.cast(kind)
        if values.null_count:
            raise ValueError(f"{adds['path'].filter(values.is_null())[0]} has none")
    except ValueError as error:  # Arrow's own errors are such too
        raise CorruptCommitError(
            f"table log {state.folder} at version {state.version}: "
            f"the partition value {name} of a file is malformed: {error}"
        ) from error
    result: np.ndarray = values.to_numpy(zero_copy_only=False)
    return result
