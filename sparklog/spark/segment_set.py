"""The segments that one task is writing: one a topic-partition, in bounded memory.

Rows wait until they fill a row group. When all that wait together pass `WAITING_BYTES_MAX`, those
of the partition that has most are written as they are. When `OPEN_FILES_MAX` files are open, the
one that was opened first is closed, and its partition goes on in another segment: then a
partition has several, in the order of their rows.
"""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa

from sparklog.errors import SparklogError
from sparklog.log.segment import ROW_GROUP_ROWS, WrittenSegment
from sparklog.log.segment_writer import SegmentWriter
from sparklog.names import topic_folder
from sparklog.storage import Store

WAITING_BYTES_MAX = 128 << 20
OPEN_FILES_MAX = 256

Place = tuple[str, int]
"""A topic and a partition."""


class _Slot:
    """One partition's share."""

    def __init__(self) -> None:
        self.waiting: list[pa.RecordBatch] = []
        self.rows = 0
        self.bytes = 0
        self.written: list[WrittenSegment] = []


class SegmentSet:
    """Segments under way. Finish them, or discard them."""

    def __init__(self, store: Store, begin: Callable[[str, int], SegmentWriter]) -> None:
        """No segment yet; `begin` begins one for a topic-partition."""
        self._store = store
        self._begin = begin
        self._slots: dict[Place, _Slot] = {}
        self._open: dict[Place, SegmentWriter] = {}
        self._bytes = 0

    def append(self, place: Place, records: pa.RecordBatch) -> None:
        """Add records (timestamp, key, value, headers) behind those of this place."""
        slot = self._slots.get(place)
        if slot is None:
            slot = self._slots[place] = _Slot()
        size = records.nbytes
        slot.waiting.append(records)
        slot.rows += records.num_rows
        slot.bytes += size
        self._bytes += size
        if slot.rows >= ROW_GROUP_ROWS:
            self._write(place, slot)
        elif self._bytes > WAITING_BYTES_MAX:
            largest = max(self._slots, key=lambda place: self._slots[place].bytes)
            self._write(largest, self._slots[largest]).flush()

    def finish(self) -> dict[Place, tuple[WrittenSegment, ...]]:
        """Close all files, durable; from now on a commit may name them."""
        for place, slot in self._slots.items():
            if slot.rows:
                self._write(place, slot)
            if place in self._open:
                self._close(place)
        return {place: tuple(slot.written) for place, slot in self._slots.items()}

    def discard(self) -> None:
        """Give up: all files go away."""
        for writer in self._open.values():
            writer.discard()
        self._open.clear()
        for (topic, _), slot in self._slots.items():
            for segment in slot.written:
                try:
                    self._store.delete(topic_folder(topic) + segment.path)
                except SparklogError:
                    return  # vacuum takes what is left

    def _write(self, place: Place, slot: _Slot) -> SegmentWriter:
        writer = self._open.get(place)
        if writer is None:
            if len(self._open) >= OPEN_FILES_MAX:
                self._close(next(iter(self._open)))
            writer = self._open[place] = self._begin(*place)
        for records in slot.waiting:
            writer.append(records)
        self._bytes -= slot.bytes
        slot.waiting, slot.rows, slot.bytes = [], 0, 0
        return writer

    def _close(self, place: Place) -> None:
        self._slots[place].written.append(self._open[place].finish(durable=True))
        del self._open[place]
