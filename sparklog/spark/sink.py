"""The sink of `format("sparklog")`: what Spark calls, for batches and for streams.

Spark builds a writer to plan a write, and for a stream again for each commit. It is pickled to the
tasks, so it holds what to do and where, and nothing that is open.

    planning: schema and topic checked -> tasks: segments -> commit: one append a topic

A stream's batch is written as `query/<query id>` with the batch's number, which a restart keeps:
so it stands exactly once. A batch job is a new producer each time, unless it names itself by
`txnAppId` and `txnVersion`: then a version that stands, or an older one, is not written again.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)
from pyspark.sql.types import StructType

from sparklog.errors import InvalidConfigError, SparklogError, UnsupportedError
from sparklog.log.segment import Writer
from sparklog.spark.options import SinkOptions
from sparklog.spark.process import process_store
from sparklog.spark.sink_commit import QUERY, TaskMessage, decide, discard, gather
from sparklog.spark.sink_schema import check_schema
from sparklog.spark.sink_topics import IDS, log_identity, sink_topic
from sparklog.spark.task_writer import write_task

logger = logging.getLogger("sparklog.spark")

QUERY_ID = "sql.streaming.queryId"
BATCH_ID = "streaming.sql.batchId"


class _Sink:
    """What batch and stream have in common."""

    def __init__(self, schema: StructType, options: SinkOptions) -> None:
        """Check the schema, and that the log and the topic are there."""
        self._options = options
        self._columns = check_schema(schema, options.topic)
        log_id = log_identity(options.store)
        if options.topic is not None:
            sink_topic(options.store, log_id, options.topic)

    def _commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        written = [message for message in messages if isinstance(message, TaskMessage)]
        if len(written) != len(messages):
            raise SparklogError("Spark asked to commit a batch of which tasks are missing")
        if not written:
            return
        batch = gather(written)
        files = sum(len(topic.segments) for topic in batch)
        if files > self._options.max_files_per_batch:
            logger.warning(
                "a batch of %d tasks wrote %d segments to %s, above maxFilesPerBatch = %d: each "
                "task writes one for every topic-partition that it holds. Have fewer tasks "
                "(coalesce), or bring each partition's rows together first: "
                "sparklog.spark.by_partition(df, topic)",
                len(written),
                files,
                ", ".join(topic.topic for topic in batch),
                self._options.max_files_per_batch,
            )
        decide(self._options.store, written[0].log_id, written[0].writer, batch)

    def _abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        known = [message if isinstance(message, TaskMessage) else None for message in messages]
        discard(process_store(self._options.store), known)


class SparklogWriter(_Sink, DataSourceArrowWriter):
    """A batch write: all of it becomes visible at once, per topic, or nothing."""

    def __init__(self, schema: StructType, options: SinkOptions, overwrite: bool) -> None:
        """Made when the write is planned; tasks and commit get copies."""
        if overwrite:
            raise UnsupportedError(
                "mode('overwrite') is not for a log, to which records are only appended: use "
                "mode('append'), or delete the topic and create it again"
            )
        super().__init__(schema, options)
        if options.txn_app_id is not None and options.txn_version is not None:
            self._writer = Writer(QUERY, options.txn_app_id, 0, options.txn_version)
        else:
            self._writer = Writer("producer", IDS.unique(), 0, 0)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Write one task's rows."""
        return write_task(self._options, self._columns, self._writer, iterator)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Make what all tasks wrote visible."""
        self._commit(messages)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Give up."""
        self._abort(messages)


class SparklogStreamWriter(_Sink, DataSourceStreamArrowWriter):
    """A stream's writes: each batch stands exactly once. Complete mode appends each result."""

    def __init__(self, schema: StructType, options: SinkOptions, overwrite: bool) -> None:  # noqa: ARG002
        """Made anew for each batch and for each commit."""
        if options.txn_app_id is not None:
            raise InvalidConfigError(
                "options txnAppId and txnVersion are for batch writes: a stream is known by its "
                "checkpoint; leave them out"
            )
        super().__init__(schema, options)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Write one task's rows of a batch."""
        return write_task(self._options, self._columns, _query_writer(), iterator)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: ARG002
        """Make what all tasks wrote visible, unless the batch stands already."""
        self._commit(messages)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: ARG002
        """Give up."""
        self._abort(messages)


def _query_writer() -> Writer:
    """The query and the batch of which this process runs a task."""
    context = TaskContext.get()
    query_id = context.getLocalProperty(QUERY_ID) if context is not None else None
    batch_id = context.getLocalProperty(BATCH_ID) if context is not None else None
    if query_id is None or batch_id is None:
        raise UnsupportedError(
            f"this Spark does not tell its tasks the query ({QUERY_ID}) and the batch "
            f"({BATCH_ID}), without which nothing is exactly once; use the pyspark that sparklog "
            "is pinned to"
        )
    return Writer(QUERY, query_id, 0, int(batch_id))
