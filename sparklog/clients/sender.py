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
from collections.abc import Callable, Iterator
from concurrent.futures import Executor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import NamedTuple, TypeVar

import numpy as np
import pyarrow as pa

from sparklog.clients.chunk import Chunk
from sparklog.clock import Clock, Ids
from sparklog.config import ProducerConfig
from sparklog.errors import (
    OutcomeUnknownError,
    ProducerFencedError,
    SparklogError,
    SparklogTimeoutError,
)
from sparklog.log.append import Append, append_rule, base_offsets, claim_rule
from sparklog.log.housekeeping import Housekeeping
from sparklog.log.partitioner import partition_for_keys
from sparklog.log.producer_state import ProducerState, producer_state
from sparklog.log.schema import TIMESTAMP
from sparklog.log.segment import Writer, WrittenSegment, segment_path, write_segment
from sparklog.log.topic_state import PartitionOffsets, require_topic
from sparklog.names import topic_folder
from sparklog.storage import Store
from sparklog.table.actions import Commit
from sparklog.table.committer import Attempt, Committer
from sparklog.table.table_log import TableLog

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


class Claim(NamedTuple):
    """A claim under way: the nonce of all its tries, and the first version it may stand at."""

    nonce: str
    first_version: int


class TopicSession:
    """A producer's standing in one topic: the table log it follows, its epoch and sequence."""

    def __init__(self, store: Store, clock: Clock, ids: Ids, topic: str) -> None:
        """Open the topic; UnknownTopicError if it does not stand."""
        self.topic = topic
        self.folder = topic_folder(topic)
        self.table_log = TableLog(store, self.folder, clock)
        self.table_log.refresh()
        state = self.table_log.state
        require_topic(state, topic)
        assert state.metadata is not None
        self.topic_id = state.metadata.id
        self.committer = Committer(self.table_log, clock, ids)
        self.note_config()
        self.standing: ProducerState | None = None
        self.epoch: int | None = None
        """The newest epoch that this producer held, also while it has no standing."""
        self.in_doubt = False
        """An append was given up with its outcome unknown: only a new epoch settles it."""
        self.claim: Claim | None = None
        self.over: SparklogError | None = None
        """Why this producer can append to the topic no more."""
        self.sticky = int(ids.uniform() * self.partitions)
        self.housekeeping = Housekeeping(store, self.folder, clock)

    def begin(self, standing: ProducerState | None) -> None:
        """Have this standing; nothing is in doubt any more."""
        assert standing is not None
        self.standing, self.epoch = standing, standing.epoch
        self.in_doubt, self.claim = False, None

    def give_up(self) -> None:
        """An append came to nothing, or nobody knows: only a new epoch makes sure."""
        self.standing, self.in_doubt = None, True

    def note_config(self) -> None:
        """Take over what `send` checks records against, as of the newest state that was read."""
        state = self.table_log.state
        config = state.config
        self.partitions = len(PartitionOffsets.of(state).next)
        self.max_message_bytes = config.max_message_bytes
        self.compacted = "compact" in config.cleanup_policy
        self.create_time = config.timestamp_type == "CreateTime"
        self.timestamp_after_max_ms = config.timestamp_after_max_ms
        self.timestamp_before_max_ms = config.timestamp_before_max_ms


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
        if session.claim is None:
            session.claim = Claim(self._ids.unique(), session.table_log.state.version + 1)
        nonce, first_version = session.claim
        now_ms = self._clock.now_ms()
        rule = claim_rule(session.topic, session.topic_id, self._app_id, now_ms, session.epoch)

        def claim() -> None:
            try:
                session.committer.commit(self._attempt("CLAIM", nonce, deadline), rule)
            except ProducerFencedError:
                # The newer epoch may be the one that an earlier try began, whose outcome nobody
                # knew.
                standing = producer_state(session.table_log.state, self._app_id)
                mine = self._find(session, nonce, first_version)
                if standing is None or mine is None or not standing.stands_in(mine.actions):
                    raise
            session.begin(producer_state(session.table_log.state, self._app_id))

        with self._noting_the_end(session):
            self._retry(deadline, session.topic, claim)

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
        nonce = self._ids.unique()
        first_version = session.table_log.state.version + 1

        def commit() -> dict[int, int]:
            try:
                won = session.committer.commit(self._attempt("WRITE", nonce, deadline), rule)
            except SparklogError as error:
                # Before this came about an earlier try, whose outcome nobody knew, may have won.
                mine = self._find(session, nonce, first_version) if error.fatal else None
                if mine is None:
                    raise
                return base_offsets(mine.actions)
            if won is None:
                mine = self._find(session, nonce, first_version)
                return {} if mine is None else base_offsets(mine.actions)
            self._checkpoint_if_due(session, won.commit.version)
            return base_offsets(won.commit.actions)

        try:
            with self._noting_the_end(session):
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

    def _find(self, session: TopicSession, nonce: str, version: int) -> Commit | None:
        """The commit of ours that stands under this nonce at this version or later, if any."""
        while version <= session.table_log.state.version:
            commit = session.table_log.read(version)
            if commit is not None and commit.nonce == nonce:
                return commit
            version += 1
        return None

    @contextmanager
    def _noting_the_end(self, session: TopicSession) -> Iterator[None]:
        """Keep a fatal error in mind: what is over for this producer never begins again."""
        try:
            yield
        except ProducerFencedError as error:
            self._fenced = error
            raise
        except SparklogError as error:
            if error.fatal:
                session.over = error
            raise

    def _retry(self, deadline: float, topic: str, work: Callable[[], T]) -> T:
        """Do the work; passing failures are tried again until the deadline."""
        doubt: OutcomeUnknownError | None = None
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
            if self._clock.monotonic() >= deadline:
                raise doubt or SparklogTimeoutError(
                    f"topic {topic!r}: not written within delivery.timeout.ms "
                    f"({self._config.delivery_timeout_ms}): {last}"
                ) from last
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
