"""The producer: `send` gathers records, a background thread appends them.

Idempotence is always on: a record is appended once, however often the store makes the producer
try. With a `producer_id` that outlives the process, `committed(topic)` says how many records of
that id the topic holds, so a restarted producer goes on exactly where it was, and a zombie of the
same id is fenced.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from types import TracebackType
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sparklog.clients.accumulator import Accumulator
from sparklog.clients.chunk import ArrowChunk, ArrowFuture, Chunk, RecordChunk, RecordFuture
from sparklog.clients.sender import Sender
from sparklog.clients.topic_session import TopicSession
from sparklog.clock import Clock, Ids
from sparklog.config import ProducerConfig
from sparklog.errors import ClientClosedError, InvalidRecordError, RecordTooLargeError
from sparklog.log.schema import HEADERS, TIMESTAMP
from sparklog.log.topic_state import PartitionOffsets
from sparklog.names import check_name
from sparklog.storage import Store

RECORD_OVERHEAD_BYTES = 24
ARROW_CHUNK_BYTES = 32 << 20

_ARROW_TYPES = {
    "partition": pa.int32(),
    "timestamp": TIMESTAMP,
    "key": pa.binary(),
    "value": pa.binary(),
    "headers": HEADERS,
}


class Producer:
    """Appends records to topics. Safe to use from several threads; close it, or use `with`."""

    def __init__(
        self, store: Store, clock: Clock, ids: Ids, config: ProducerConfig, background: bool = True
    ) -> None:
        """Made by `log.producer`. Without `background` flush and result do the work themselves."""
        self._clock = clock
        self._config = config
        self.producer_id = config.producer_id or ids.unique()
        linger = store.linger_ms_default if config.linger_ms is None else config.linger_ms
        self._accumulator = Accumulator(
            clock, linger / 1000, config.batch_size, config.buffer_memory
        )
        self._executor = ThreadPoolExecutor(2, "sparklog-io") if background else None
        self._sender = Sender(
            store,
            clock,
            ids,
            config,
            self.producer_id,
            config.producer_id is not None,
            self._executor,
        )
        self._lock = threading.RLock()
        self._thread: threading.Thread | None = None
        if background:
            self._thread = threading.Thread(target=self._run, name="sparklog-sender", daemon=True)
            self._thread.start()

    def send(
        self,
        topic: str,
        value: bytes | None = None,
        key: bytes | None = None,
        headers: Iterable[tuple[str, bytes | None]] | None = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
    ) -> RecordFuture:
        """Append one record; returns at once with a future of its place."""
        session = self._session(topic)
        pairs = _check_headers(headers)
        size = _length(topic, "key", key) + _length(topic, "value", value) + RECORD_OVERHEAD_BYTES
        if pairs:
            size += sum(len(pair["key"]) + len(pair["value"] or b"") for pair in pairs)
        self._check_size(session, size)
        if key is None:
            self._check_keyless(session)
        if partition is None and self._config.partitioner is not None:
            partition = self._config.partitioner(topic, key, value, session.partitions)
        if partition is not None:
            self._check_partition(session, partition)
        stamp = self._clock.now_ms()
        if timestamp_ms is not None:
            if isinstance(timestamp_ms, bool) or not isinstance(timestamp_ms, int):
                raise InvalidRecordError(f"timestamp_ms must be an int, not {timestamp_ms!r}")
            _check_time(session, timestamp_ms, stamp)
            stamp = timestamp_ms

        def place(newest: Chunk | None) -> tuple[Chunk, int]:
            chunk = newest if isinstance(newest, RecordChunk) else RecordChunk(topic, self._pump)
            return chunk, chunk.append(partition, stamp, key, value, pairs, size)

        chunk, index = self._accumulator.add(topic, size, place, self._config.max_block_ms / 1000)
        if self._config.acks == "0":
            return _acknowledged(topic, stamp)
        return RecordFuture(chunk, index)

    def send_arrow(self, topic: str, data: pa.Table | pa.RecordBatch) -> ArrowFuture:
        """Append a table or batch: columns value [, key, headers, partition, timestamp].

        The fast path: rows stay columns all the way into the segment.
        """
        session = self._session(topic)
        table = self._check_table(session, data)
        chunks: list[Chunk] = []
        start = 0
        rows = max(1, table.num_rows * ARROW_CHUNK_BYTES // max(1, table.nbytes))
        while start < table.num_rows:
            chunk = ArrowChunk(topic, self._pump, table.slice(start, rows))
            self._accumulator.add(
                topic, chunk.size, _placer(chunk), self._config.max_block_ms / 1000
            )
            chunks.append(chunk)
            start += rows
        return ArrowFuture(chunks)

    def committed(self, topic: str) -> int:
        """How many records of this producer id the topic holds: where to resume after a restart."""
        with self._lock:
            return self._sender.committed(topic)

    def flush(self, timeout: float | None = None) -> bool:
        """Send everything now and wait; False if the timeout came first."""
        if self._thread is None:
            self._drain()
            return True
        return self._accumulator.wait_empty(timeout)

    def close(self, timeout: float | None = None) -> None:
        """Flush and stop. After the timeout what was not sent fails with ClientClosedError."""
        if self._accumulator.closed:
            return
        self._accumulator.close()
        if self._thread is None:
            self._drain()
        else:
            self._thread.join(timeout)
            if self._thread.is_alive():
                self._fail_rest(timeout)
        if self._executor is not None:
            self._executor.shutdown(wait=timeout is None)

    def __enter__(self) -> Producer:
        """Use with `with`."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close: everything that was sent is delivered."""
        self.close()

    def _run(self) -> None:
        while (taken := self._accumulator.take(wait=True)) is not None:
            self._deliver(*taken)

    def _drain(self) -> None:
        while (taken := self._accumulator.take(wait=False)) is not None:
            self._deliver(*taken)

    def _deliver(self, topic: str, chunks: list[Chunk]) -> None:
        try:
            with self._lock:
                self._sender.send(topic, chunks)
        finally:
            self._accumulator.release(sum(chunk.size for chunk in chunks))

    def _fail_rest(self, timeout: float | None) -> None:
        while (taken := self._accumulator.take(wait=False)) is not None:
            topic, chunks = taken
            for chunk in chunks:
                chunk.fail(
                    ClientClosedError(
                        f"topic {topic!r}: the producer was closed with a timeout of {timeout} s "
                        "before this record was sent; it was not written"
                    )
                )
            self._accumulator.release(sum(chunk.size for chunk in chunks))

    def _pump(self, chunk: Chunk, timeout: float | None) -> None:
        if self._thread is None:
            self._drain()
        else:
            chunk.block(timeout)

    def _session(self, topic: str) -> TopicSession:
        if self._accumulator.closed:
            raise ClientClosedError("the producer is closed; open a new one")
        known = self._sender.known(topic)
        if known is not None:
            return known
        with self._lock:
            return self._sender.session(check_name(topic))

    def _check_partition(self, session: TopicSession, partition: object) -> None:
        if isinstance(partition, bool) or not isinstance(partition, int):
            raise InvalidRecordError(f"partition must be an int, not {partition!r}")
        if not 0 <= partition < session.partitions:
            with self._lock:
                session.table_log.refresh()
                offsets = PartitionOffsets.of(session.table_log.state)
                session.partitions = len(offsets.next)
            offsets.check_partition(session.topic, partition)

    def _check_size(self, session: TopicSession, size: int) -> None:
        limit = session.max_message_bytes
        if self._config.max_request_size is not None:
            limit = min(limit, self._config.max_request_size)
        if size > limit:
            raise RecordTooLargeError(
                f"topic {session.topic!r}: a record of {size} bytes is above {limit} "
                "(max.message.bytes, or the producer's max.request.size); "
                "split it, or raise the limit"
            )

    def _check_keyless(self, session: TopicSession) -> None:
        if session.compacted:
            raise InvalidRecordError(
                f"topic {session.topic!r} is compacted (cleanup.policy): "
                "a record without a key has no place in it"
            )

    def _check_table(self, session: TopicSession, data: pa.Table | pa.RecordBatch) -> pa.Table:
        if isinstance(data, pa.RecordBatch):
            data = pa.Table.from_batches([data])
        if not isinstance(data, pa.Table):
            raise InvalidRecordError(
                f"send_arrow takes a pyarrow Table or RecordBatch, not {type(data).__name__}"
            )
        table = _conform(session.topic, data)
        lengths = pc.add(
            pc.fill_null(pc.binary_length(table["key"]), 0),
            pc.fill_null(pc.binary_length(table["value"]), 0),
        )
        if table.num_rows:
            self._check_size(session, pc.max(lengths).as_py() + RECORD_OVERHEAD_BYTES)
            bounds = pc.min_max(table["partition"])
            for bound in (bounds["min"].as_py(), bounds["max"].as_py()):
                if bound is not None:
                    self._check_partition(session, bound)
            if table["key"].null_count:
                self._check_keyless(session)
            stamps = pc.min_max(table["timestamp"].cast(pa.int64()))
            for stamp in (stamps["min"].as_py(), stamps["max"].as_py()):
                if stamp is not None:
                    _check_time(session, stamp // 1000, self._clock.now_ms())
        return table


def _check_time(session: TopicSession, stamp_ms: int, now_ms: int) -> None:
    """Refuse a time too far from now, as Kafka does: one wrong clock must not upset retention."""
    if not session.create_time:
        return  # the append's own time replaces it
    for key, limit, distance in (
        ("after", session.timestamp_after_max_ms, stamp_ms - now_ms),
        ("before", session.timestamp_before_max_ms, now_ms - stamp_ms),
    ):
        if distance > limit:
            raise InvalidRecordError(
                f"topic {session.topic!r}: timestamp {stamp_ms} is {distance} ms {key} now; "
                f"message.timestamp.{key}.max.ms allows {limit}"
            )


def _placer(chunk: Chunk) -> Callable[[Chunk | None], tuple[Chunk, int]]:
    """Put this chunk into the queue whatever stands before it."""
    return lambda _: (chunk, 0)


def _conform(topic: str, data: pa.Table) -> pa.Table:
    """The table with exactly the columns and types that the sender takes."""
    unknown = set(data.column_names) - set(_ARROW_TYPES)
    if unknown or "value" not in data.column_names:
        raise InvalidRecordError(
            f"topic {topic!r}: send_arrow needs a column 'value' and may have "
            f"{sorted(set(_ARROW_TYPES) - {'value'})}; got {data.column_names}"
        )
    columns = []
    for name, kind in _ARROW_TYPES.items():
        if name not in data.column_names:
            columns.append(pa.nulls(data.num_rows, kind))
            continue
        column = data[name]
        try:
            columns.append(column if column.type == kind else column.cast(kind))
        except pa.ArrowException as error:
            raise InvalidRecordError(
                f"topic {topic!r}: column {name!r} is {column.type}, which does not become "
                f"{kind}: {error}"
            ) from error
    return pa.table(dict(zip(_ARROW_TYPES, columns, strict=True)))


def _length(topic: str, what: str, data: object) -> int:
    if data is None:
        return 0
    if not isinstance(data, bytes):
        raise InvalidRecordError(
            f"topic {topic!r}: {what} must be bytes or None, not {type(data).__name__}; encode it"
        )
    return len(data)


def _check_headers(headers: Any) -> list[dict[str, Any]] | None:
    if not headers:
        return None
    pairs = []
    for pair in headers:
        try:
            name, value = pair
        except (TypeError, ValueError):
            raise InvalidRecordError(
                f"a header must be a (str, bytes) pair, not {pair!r}"
            ) from None
        if not isinstance(name, str) or not (value is None or isinstance(value, bytes)):
            raise InvalidRecordError(f"a header must be a (str, bytes) pair, not {pair!r}")
        pairs.append({"key": name, "value": value})
    return pairs


def _acknowledged(topic: str, stamp: int) -> RecordFuture:
    """acks=0: nobody waits for the place."""

    def nothing(_: Chunk, __: float | None) -> None:
        return None

    chunk = RecordChunk(topic, nothing)
    chunk.complete(np.array([-1], np.int32), np.array([-1]), np.array([stamp]))
    return RecordFuture(chunk, 0)
