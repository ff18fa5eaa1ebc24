"""Records on their way: gathered by `send`, and told what became of them.

A chunk is what one or more sends put into a topic's queue: single records gathered in lists, or
one Arrow table. Its outcome is kept once for all its records, as arrays; a future is only a place
in a chunk, so that a record costs no lock of its own.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from sparklog.errors import SparklogTimeoutError
from sparklog.log.schema import HEADERS, TIMESTAMP

Pump = Callable[["Chunk", float | None], None]


class RecordMetadata(NamedTuple):
    """Where a record stands. The offset is -1 if it is not known (acks=0, a late duplicate)."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int


class Appended(NamedTuple):
    """A stretch of an Arrow table's rows that one commit gave one partition."""

    topic: str
    partition: int
    base_offset: int
    records: int


class Chunk:
    """Some records of one topic, in send order, and their common outcome."""

    def __init__(self, topic: str, pump: Pump) -> None:
        """An empty chunk; `pump` waits for it, or does the work where no thread does."""
        self.topic = topic
        self.size = 0
        self.count = 0
        self.partitions: np.ndarray | None = None
        self.offsets: np.ndarray | None = None
        self.timestamps_ms: np.ndarray | None = None
        self.error: BaseException | None = None
        self._pump = pump
        self._done = threading.Event()
        self._callbacks: list[Callable[[], None]] = []
        self._lock = threading.Lock()

    @property
    def done(self) -> bool:
        """Whether the outcome is known."""
        return self._done.is_set()

    def table(self, now_ms: int) -> pa.Table:
        """The records as columns: partition (null: choose one), timestamp, key, value, headers."""
        raise NotImplementedError

    def complete(self, partitions: np.ndarray, offsets: np.ndarray, stamps: np.ndarray) -> None:
        """The records stand at these places."""
        self.partitions, self.offsets, self.timestamps_ms = partitions, offsets, stamps
        self._finish()

    def fail(self, error: BaseException) -> None:
        """The records were not written, or nobody knows."""
        self.error = error
        self._finish()

    def wait(self, timeout: float | None) -> None:
        """Wait for the outcome; raise it if it is an error."""
        if not self.done:
            self._pump(self, timeout)
        if not self.done:
            raise SparklogTimeoutError(
                f"topic {self.topic!r}: no outcome within {timeout} s; the producer goes on trying "
                "until delivery.timeout.ms"
            )
        if self.error is not None:
            raise self.error

    def block(self, timeout: float | None) -> None:
        """Block until another thread tells the outcome."""
        self._done.wait(timeout)

    def on_done(self, callback: Callable[[], None]) -> None:
        """Call back once the outcome is known: at once if it is."""
        with self._lock:
            if not self.done:
                self._callbacks.append(callback)
                return
        callback()

    def _finish(self) -> None:
        with self._lock:
            self._done.set()
            callbacks, self._callbacks = self._callbacks, []
        for callback in callbacks:
            callback()


class RecordChunk(Chunk):
    """Single records."""

    def __init__(self, topic: str, pump: Pump) -> None:
        """An empty chunk."""
        super().__init__(topic, pump)
        self._rows: list[tuple[int | None, int | None, bytes | None, bytes | None, Any]] = []

    def append(
        self,
        partition: int | None,
        timestamp_ms: int | None,
        key: bytes | None,
        value: bytes | None,
        headers: list[dict[str, Any]] | None,
        size: int,
    ) -> int:
        """Add a record; returns its place."""
        self._rows.append((partition, timestamp_ms, key, value, headers))
        self.size += size
        self.count += 1
        return self.count - 1

    def table(self, now_ms: int) -> pa.Table:
        """The records as columns."""
        partitions, stamps, keys, values, headers = zip(*self._rows, strict=True)
        stamps_us = [(now_ms if stamp is None else stamp) * 1000 for stamp in stamps]
        return pa.table(
            {
                "partition": pa.array(partitions, pa.int32()),
                "timestamp": pa.array(stamps_us, pa.int64()).cast(TIMESTAMP),
                "key": pa.array(keys, pa.binary()),
                "value": pa.array(values, pa.binary()),
                "headers": pa.array(headers, HEADERS),
            }
        )


class ArrowChunk(Chunk):
    """A slice of an Arrow table that `send_arrow` got, already with the right columns."""

    def __init__(self, topic: str, pump: Pump, table: pa.Table) -> None:
        """A chunk of the whole slice."""
        super().__init__(topic, pump)
        self._table = table
        self.count = table.num_rows
        self.size = table.nbytes

    def table(self, now_ms: int) -> pa.Table:
        """The records as columns."""
        if self._table["timestamp"].null_count == 0:
            return self._table
        now = pa.scalar(now_ms * 1000, pa.int64()).cast(TIMESTAMP)
        index = self._table.schema.get_field_index("timestamp")
        return self._table.set_column(index, "timestamp", self._table["timestamp"].fill_null(now))


class RecordFuture:
    """The outcome of one `send`."""

    __slots__ = ("_chunk", "_index")

    def __init__(self, chunk: Chunk, index: int) -> None:
        """The record at this place of the chunk."""
        self._chunk = chunk
        self._index = index

    def done(self) -> bool:
        """Whether the outcome is known."""
        return self._chunk.done

    def result(self, timeout: float | None = None) -> RecordMetadata:
        """Where the record stands; waits, and raises what went wrong."""
        chunk = self._chunk
        chunk.wait(timeout)
        assert chunk.partitions is not None and chunk.offsets is not None
        assert chunk.timestamps_ms is not None
        return RecordMetadata(
            chunk.topic,
            int(chunk.partitions[self._index]),
            int(chunk.offsets[self._index]),
            int(chunk.timestamps_ms[self._index]),
        )

    def exception(self, timeout: float | None = None) -> BaseException | None:
        """What went wrong, or None; waits."""
        try:
            self._chunk.wait(timeout)
        except SparklogTimeoutError:
            if not self._chunk.done:
                raise
        except Exception:
            pass
        return self._chunk.error

    def add_done_callback(self, callback: Callable[[RecordFuture], object]) -> None:
        """Call `callback(future)` once the outcome is known, from the producer's thread."""
        self._chunk.on_done(lambda: _call(callback, self))


def _call(callback: Callable[[RecordFuture], object], future: RecordFuture) -> None:
    callback(future)


class ArrowFuture:
    """The outcome of one `send_arrow`."""

    def __init__(self, chunks: list[Chunk]) -> None:
        """The table's slices."""
        self._chunks = chunks

    def done(self) -> bool:
        """Whether all outcomes are known."""
        return all(chunk.done for chunk in self._chunks)

    def result(self, timeout: float | None = None) -> list[Appended]:
        """Where the rows stand: stretches by partition, in offset order; raises what went wrong."""
        found: list[Appended] = []
        for chunk in self._chunks:
            chunk.wait(timeout)
            assert chunk.partitions is not None and chunk.offsets is not None
            for partition in np.unique(chunk.partitions):
                offsets = chunk.offsets[chunk.partitions == partition]
                found.append(Appended(chunk.topic, int(partition), int(offsets[0]), len(offsets)))
        return found
