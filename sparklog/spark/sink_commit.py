"""The sink's commit: what tasks wrote becomes part of its topics, once.

    tasks' messages, in task order -> per topic: segments in that order -> one append a topic

Guarantees:
1. A query's batch stands in a topic at most once: `txn` of `query/<query id>` keeps the highest
   batch, and an append of it, or of an older one, has nothing to do.
2. Rows of one task keep their order; tasks come one after the other.
3. A file is deleted only where no commit can have named it: `commit` is called with the messages
   of all tasks, so a missing one proves that it was not. After a commit that failed, or whose
   outcome nobody knows, files are left for vacuum.

What it does not do: a batch over several topics is one append in each, and each stands or falls
by itself. `decide` is the one place where that is so.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from pyspark.sql.datasource import WriterCommitMessage

from sparklog.errors import (
    OutcomeUnknownError,
    ProducerFencedError,
    SparklogError,
    SparklogTimeoutError,
    TopicReplacedError,
)
from sparklog.log.append import Append, append_rule, assign_offsets
from sparklog.log.producer_state import ProducerState, producer_state
from sparklog.log.segment import Writer, WrittenSegment
from sparklog.log.topic_state import require_same_topic
from sparklog.names import topic_folder
from sparklog.spark.options import StoreOptions
from sparklog.spark.process import CLOCK
from sparklog.spark.sink_topics import IDS, SinkTopic, sink_topic
from sparklog.storage import Store
from sparklog.table.actions import Action, Txn
from sparklog.table.committer import Attempt, Rule
from sparklog.table.table_state import TableState

QUERY = "query"
COMMIT_SECONDS = 120.0
ATTEMPT_SECONDS = 30.0
RETRY_SECONDS = 0.1


@dataclass(frozen=True)
class TopicSegments:
    """Segments of one topic, in the order of their rows."""

    topic: str
    topic_id: str
    segments: tuple[WrittenSegment, ...]


@dataclass(frozen=True)
class TaskMessage(WriterCommitMessage):
    """What one task wrote, and as whom."""

    log_id: str
    writer: Writer
    topics: tuple[TopicSegments, ...]


def gather(messages: Sequence[TaskMessage]) -> list[TopicSegments]:
    """What all tasks wrote, by topic; raises if a topic was replaced between two of them."""
    ids: dict[str, str] = {}
    segments: dict[str, list[WrittenSegment]] = {}
    for message in messages:
        for written in message.topics:
            if ids.setdefault(written.topic, written.topic_id) != written.topic_id:
                raise TopicReplacedError(
                    f"topic {written.topic!r} was deleted and created again while tasks wrote to "
                    "it; nothing was committed. Write again for the new topic"
                )
            segments.setdefault(written.topic, []).extend(written.segments)
    return [TopicSegments(name, ids[name], tuple(segments[name])) for name in sorted(ids)]


def batch_stands(standing: ProducerState | None, batch_id: int) -> bool:
    """Whether the topic has this batch of the query, or a later one, whatever its epoch."""
    return standing is not None and standing.sequence >= batch_id


def query_rule(written: TopicSegments, writer: Writer, now_ms: int) -> Rule:
    """Append a query's batch; nothing to do if it stands, an error if a newer epoch began."""

    def rule(state: TableState) -> Sequence[Action] | None:
        require_same_topic(state, written.topic, written.topic_id)
        standing = producer_state(state, writer.app_id)
        if batch_stands(standing, writer.sequence):
            return None
        if standing is not None and standing.epoch > writer.epoch:
            raise ProducerFencedError(
                f"topic {written.topic!r}: {writer.app_id} has epoch {writer.epoch}, but epoch "
                f"{standing.epoch} has started: the query runs elsewhere; stop this one"
            )
        after = ProducerState(writer.epoch, writer.sequence)
        return [
            Txn(writer.app_id, after.version, now_ms),
            *assign_offsets(state, written.topic, written.segments, now_ms),
        ]

    return rule


def write_rule(written: TopicSegments, writer: Writer, now_ms: int) -> Rule:
    """Append what a writer wrote: a query's batch, or all that a job without a name has."""
    if writer.kind == QUERY:
        return query_rule(written, writer, now_ms)
    append = Append(
        written.topic,
        written.topic_id,
        writer.app_id,
        writer.epoch,
        writer.sequence,
        written.segments,
    )
    return append_rule(append, now_ms)


def decide(
    options: StoreOptions, log_id: str, writer: Writer, batch: Sequence[TopicSegments]
) -> None:
    """Make a batch stand in its topics: one append in each, idempotent by itself."""
    for written in batch:
        topic = sink_topic(options, log_id, written.topic)
        topic.catch_up()
        rule = write_rule(written, writer, CLOCK.now_ms())
        nonce = IDS.unique()

        def append(topic: SinkTopic = topic, rule: Rule = rule, nonce: str = nonce) -> None:
            attempt = Attempt("WRITE", nonce, blind_append=True, timeout_seconds=ATTEMPT_SECONDS)
            won = topic.committer.commit(attempt, rule)
            if won is not None and topic.housekeeping.due(
                topic.table_log.state, won.commit.version
            ):
                topic.housekeeping.run()

        _retry(written.topic, append)


def discard(store: Store, messages: Sequence[TaskMessage | None]) -> None:
    """Delete what tasks wrote, if no commit can have named it: then a task is missing."""
    if None not in messages:
        return
    for message in messages:
        for written in message.topics if message is not None else ():
            for segment in written.segments:
                try:
                    store.delete(topic_folder(written.topic) + segment.path)
                except SparklogError:
                    return  # vacuum takes what is left


def _retry(topic: str, work: Callable[[], None]) -> None:
    """Do the work; passing failures are tried again for a while, and doubt is never forgotten."""
    deadline = CLOCK.monotonic() + COMMIT_SECONDS
    doubt: OutcomeUnknownError | None = None
    while True:
        try:
            return work()
        except OutcomeUnknownError as error:
            doubt, last = error, error
        except SparklogError as error:
            if not error.retriable:
                if doubt is None:
                    raise
                raise doubt from error
            last = error  # type: ignore[assignment]
        if CLOCK.monotonic() >= deadline:
            raise doubt or SparklogTimeoutError(
                f"topic {topic!r}: the batch was not committed within {COMMIT_SECONDS:.0f} s; "
                f"nothing was written. Start the query again: {last}"
            ) from last
        CLOCK.sleep(RETRY_SECONDS * (0.5 + IDS.uniform()))
