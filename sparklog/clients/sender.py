"""The sender: turns gathered records into segments and one commit a topic.

    drain -> columns -> place by key -> one segment a partition -> commit -> outcomes

One commit of a topic is under way at a time, so a producer's records keep their order. A commit
whose outcome stays unknown is tried again with the same sequence until delivery.timeout.ms: the
append rule finds it if it was applied. Given up in doubt, the producer begins a new epoch before
it sends anything else: that settles the old attempt, because whoever commits next occupies the
version it was made for. A producer that was fenced stays fenced, for all its topics: it never
begins a new epoch.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np
import pyarrow as pa

from sparklog.clients.chunk import Chunk
from sparklog.clients.topic_session import TopicSession, Tries
from sparklog.clock import Clock, Ids
from sparklog.config import ProducerConfig
from sparklog.errors import (
    OutcomeUnknownError,
    ProducerFencedError,
    SparklogError,
    SparklogTimeoutError,
    StoreFullError,
)
from sparklog.log.append import Append, append_rule, base_offsets, claim_rule
from sparklog.log.partitioner import partition_for_keys
from sparklog.log.producer_state import ProducerState, producer_state
from sparklog.log.schema import TIMESTAMP
from sparklog.log.segment import Writer, WrittenSegment, segment_path, write_segment
from sparklog.storage import Store
from sparklog.table.committer import Attempt

T = TypeVar("T")

logger = logging.getLogger("sparklog.producer")

PARALLEL_BYTES_MIN = 1 << 20
RETRY_SECONDS = 0.1


@dataclass(frozen=True)
class Placed:
    """Rows in send order, and the order that brings them together by partition."""

    table: pa.Table
    order: np.ndarray
    numbers: list[int]
    starts: list[int]
    counts: list[int]

    def rows(self, index: int) -> pa.Table:
        """The rows of one partition, in send order."""
        if len(self.numbers) == 1:
            return self.table
        start = self.starts[index]
        return self.table.take(pa.array(self.order[start : start + self.counts[index]]))


class Sender:
    """Writes and commits what the producer gathered. One thread at a time."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        ids: Ids,
        config: ProducerConfig,
        producer_id: str,
        named: bool,
        executor: Executor | None,
    ) -> None:
        """A sender for one producer; `executor` writes segments and checkpoints beside it."""
        self._store = store
        self._clock = clock
        self._ids = ids
        self._config = config
        self._app_id = f"producer/{producer_id}"
        self._producer_id = producer_id
        self._named = named
        self._executor = executor
        self._durable = config.acks == "all"
        self._sessions: dict[str, TopicSession] = {}
        self._fenced: SparklogError | None = None

    def known(self, topic: str) -> TopicSession | None:
        """The standing in this topic, if it was opened."""
        return self._sessions.get(topic)

    def session(self, topic: str) -> TopicSession:
        """The standing in this topic, opened at first use."""
        session = self._sessions.get(topic)
        if session is None:
            session = TopicSession(self._store, self._clock, self._ids, topic)
            self._sessions[topic] = session
        return session

    def send(self, topic: str, chunks: list[Chunk]) -> None:
        """Append the chunks' records in one commit and tell the outcome. Never raises."""
        try:
            session = self.session(topic)
            deadline = self._deadline()
            table = self._columns(session, chunks)
            self._claim(session, deadline)
            placed = self._place(session, table)
            segments = self._retry(deadline, topic, lambda: self._write(session, placed))
            bases = self._commit(session, segments, deadline)
            self._complete(chunks, placed, bases)
        except Exception as error:
            if self._config.acks == "0":
                logger.error("records for topic %r were lost (acks=0): %s", topic, error)
            for chunk in chunks:
                chunk.fail(error)

    def _columns(self, session: TopicSession, chunks: list[Chunk]) -> pa.Table:
        now_ms = self._clock.now_ms()
        tables = [chunk.table(now_ms) for chunk in chunks]
        table = tables[0] if len(tables) == 1 else pa.concat_tables(tables)
        if session.table_log.state.config.timestamp_type == "LogAppendTime":
            stamps = pa.array(np.full(table.num_rows, now_ms * 1000)).cast(TIMESTAMP)
            index = table.schema.get_field_index("timestamp")
            table = table.set_column(index, "timestamp", stamps)
        return table

    def _place(self, session: TopicSession, table: pa.Table) -> Placed:
        """Choose each record's partition, and an order that keeps send order within each."""
        session.note_config()
        count = session.partitions
        given, keys = table["partition"], table["key"]
        if keys.null_count == len(keys):
            # Sticky: a batch's keyless records go to one partition, the next batch's to another.
            session.sticky = (session.sticky + 1) % count
            chosen = np.full(len(keys), session.sticky, np.int32)
        else:
            chosen = partition_for_keys(keys, count)
            if keys.null_count:
                session.sticky = (session.sticky + 1) % count
                chosen[keys.is_null().to_numpy()] = session.sticky
        if given.null_count < len(given):
            wanted = given.fill_null(-1).to_numpy()
            chosen = np.where(wanted >= 0, wanted, chosen).astype(np.int32)
        columns = table.select(["timestamp", "key", "value", "headers"])
        per_partition = np.bincount(chosen, minlength=count)
        numbers = [int(n) for n in per_partition.nonzero()[0]]
        counts = [int(per_partition[n]) for n in numbers]
        starts = np.cumsum([0, *counts[:-1]]).tolist()
        order = np.argsort(chosen, kind="stable")
        return Placed(columns, order, numbers, starts, counts)

    def _write(self, session: TopicSession, placed: Placed) -> tuple[WrittenSegment, ...]:
        standing = session.standing
        assert standing is not None
        writer = Writer("producer", self._producer_id, standing.epoch, standing.sequence)
        stamp = self._clock.now_ms()
        compression = session.table_log.state.config.compression_for(self._config.compression_type)

        def write(index: int) -> WrittenSegment:
            path = segment_path(placed.numbers[index], stamp, writer, self._ids.unique())
            rows = placed.rows(index)
            return write_segment(
                self._store, session.folder, path, rows, compression, self._durable
            )

        indexes = range(len(placed.numbers))
        if self._executor is None or placed.table.nbytes < PARALLEL_BYTES_MIN or len(indexes) == 1:
            return tuple(write(index) for index in indexes)
        return tuple(self._executor.map(write, indexes))

    def _claim(self, session: TopicSession, deadline: float) -> None:
        """Have a standing: a named producer, or one in doubt, begins a new epoch by a commit."""
        over = self._fenced or session.over
        if over is not None:
            raise type(over)(str(over)) from over
        if session.standing is not None:
            return
        known = self._app_id in session.table_log.state.txns
        if not self._named and not known and not session.in_doubt:
            session.begin(ProducerState(0, 0))
            return
        tries = session.claim = session.claim or session.begin_tries(self._ids.unique())
        now_ms = self._clock.now_ms()
        rule = claim_rule(session.topic, session.topic_id, self._app_id, now_ms, session.epoch)

        def claim() -> None:
            try:
                session.committer.commit(self._attempt("CLAIM", tries.nonce, deadline), rule)
            except ProducerFencedError as fenced:
                # The newer epoch may be the one that an earlier try began, whose outcome nobody
                # knew.
                standing = producer_state(session.table_log.state, self._app_id)
                try:
                    mine = session.find(tries)
                except OutcomeUnknownError:
                    raise fenced from None
                if standing is None or mine is None or not standing.stands_in(mine):
                    raise
            session.begin(producer_state(session.table_log.state, self._app_id))

        try:
            self._retry(deadline, session.topic, claim)
        except SparklogError as error:
            self._note_end(session, error)
            raise

    def committed(self, topic: str) -> int:
        """How many records of this producer id the topic holds; begins the epoch to be sure."""
        session = self.session(topic)
        self._claim(session, self._deadline())
        assert session.standing is not None
        return session.standing.sequence

    def _commit(
        self, session: TopicSession, segments: tuple[WrittenSegment, ...], deadline: float
    ) -> dict[int, int]:
        standing = session.standing
        assert standing is not None
        append = Append(
            session.topic,
            session.topic_id,
            self._app_id,
            standing.epoch,
            standing.sequence,
            segments,
        )
        rule = append_rule(append, self._clock.now_ms())
        tries = session.begin_tries(self._ids.unique())
        files = {segment.path for segment in segments}

        def commit() -> dict[int, int]:
            attempt = self._attempt("WRITE", tries.nonce, deadline)
            try:
                won = session.committer.commit(attempt, rule)
            except SparklogError as error:
                self._note_end(session, error)
                # Before this came about an earlier try, whose outcome nobody knew, may have won.
                mine = session.find(tries, files) if error.fatal else None
                if mine is None:
                    raise
                return base_offsets(mine)
            if won is None:
                return self._found(session, tries, files)
            self._checkpoint_if_due(session, won.commit.version)
            return base_offsets(won.commit.actions)

        try:
            bases = self._retry(deadline, session.topic, commit)
        except Exception:
            session.give_up()
            raise
        session.standing = replace(standing, sequence=standing.sequence + append.count)
        return bases

    def _deadline(self) -> float:
        return self._clock.monotonic() + self._config.delivery_timeout_ms / 1000

    def _attempt(self, operation: str, nonce: str, deadline: float) -> Attempt:
        left = max(0.0, deadline - self._clock.monotonic())
        timeout = min(left, self._config.request_timeout_ms / 1000)
        return Attempt(operation, nonce, self._durable, operation == "WRITE", timeout)

    def _found(self, session: TopicSession, tries: Tries, files: set[str]) -> dict[int, int]:
        """The offsets of an append of ours that stands already; empty if they cannot be told."""
        try:
            mine = session.find(tries, files)
        except OutcomeUnknownError:
            return {}
        return {} if mine is None else base_offsets(mine)

    def _is_over(self, topic: str) -> bool:
        return self._fenced is not None or self._sessions[topic].over is not None

    def _note_end(self, session: TopicSession, error: SparklogError) -> None:
        """Keep a fatal error in mind: what is over for this producer never begins again."""
        if isinstance(error, ProducerFencedError):
            self._fenced = error
        elif error.fatal:
            session.over = error

    def _retry(self, deadline: float, topic: str, work: Callable[[], T]) -> T:
        """Do the work; passing failures are tried again until the deadline."""
        doubt: OutcomeUnknownError | None = None
        told = False
        while True:
            try:
                return work()
            except OutcomeUnknownError as error:
                doubt, last = error, error
            except SparklogError as error:
                if doubt is not None and not error.fatal and not error.retriable:
                    raise doubt from error
                if not error.retriable:
                    raise
                last = error  # type: ignore[assignment]
            if self._clock.monotonic() >= deadline or self._is_over(topic):
                kind = StoreFullError if isinstance(last, StoreFullError) else SparklogTimeoutError
                raise doubt or kind(
                    f"topic {topic!r}: not written within delivery.timeout.ms "
                    f"({self._config.delivery_timeout_ms}): {last}"
                ) from last
            if not told:
                logger.warning("topic %r: %s; trying again", topic, last)
                told = True
            self._clock.sleep(RETRY_SECONDS * (0.5 + self._ids.uniform()))

    def _complete(self, chunks: list[Chunk], placed: Placed, bases: dict[int, int]) -> None:
        rows = len(placed.order)
        partitions = np.empty(rows, np.int32)
        offsets = np.empty(rows, np.int64)
        partitions[placed.order] = np.repeat(placed.numbers, placed.counts)
        offsets[placed.order] = np.concatenate(
            [
                np.arange(count, dtype=np.int64) + bases[number]
                if number in bases
                else np.full(count, -1, np.int64)
                for number, count in zip(placed.numbers, placed.counts, strict=True)
            ]
        )
        stamps = placed.table["timestamp"].cast(pa.int64()).to_numpy() // 1000
        start = 0
        for chunk in chunks:
            end = start + chunk.count
            chunk.complete(partitions[start:end], offsets[start:end], stamps[start:end])
            start = end

    def _checkpoint_if_due(self, session: TopicSession, version: int) -> None:
        if not session.housekeeping.due(session.table_log.state, version):
            return
        if self._executor is None:
            session.housekeeping.run()
        else:
            self._executor.submit(session.housekeeping.run)
