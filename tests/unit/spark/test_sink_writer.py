"""The writers as Spark uses them, without Spark: pickled, written with, committed, aborted."""

import pickle

import pyarrow as pa
import pytest
from pyspark.sql.types import StringType, StructField, StructType

from sparklog.errors import (
    InvalidConfigError,
    OutcomeUnknownError,
    UnknownTopicError,
    UnsupportedError,
)
from sparklog.spark import sink_topics
from sparklog.spark.options import SinkOptions
from sparklog.spark.sink import SparklogStreamWriter, SparklogWriter
from sparklog.table.committer import Committer

SCHEMA = StructType([StructField("key", StringType()), StructField("value", StringType())])


@pytest.fixture
def orders(log):
    log.create_topic("orders", 4)
    return log


@pytest.fixture
def build(log):
    """A batch writer, as it comes out of the process that planned it."""

    def make(schema=SCHEMA, **options):
        given = SinkOptions.of({"path": log.store.uri, "topic": "orders", **options})
        return pickle.loads(pickle.dumps(SparklogWriter(schema, given, False)))

    return make


def rows(count, first=0):
    values = [str(i) for i in range(first, first + count)]
    return pa.record_batch({"key": [f"k{v}" for v in values], "value": values})


def task(writer, *batches):
    """A task in another process: message and writer are pickled."""
    return pickle.loads(pickle.dumps(pickle.loads(pickle.dumps(writer)).write(iter(batches))))


def test_tasks_stand_in_their_order_and_empty_ones_do_nothing(orders, build, consume):
    writer = build()
    messages = [task(writer, rows(50)), task(writer), task(writer, rows(50, 50), rows(0))]
    assert consume("orders") == []
    writer.commit(messages)
    for partition in range(4):
        values = [int(r.value) for r in consume("orders") if r.partition == partition]
        assert values == sorted(values)
    assert len(consume("orders")) == 100
    assert orders.topic("orders").describe().version == 1


def test_write_without_rows_commits_nothing(orders, build):
    writer = build()
    writer.commit([task(writer), task(writer)])
    writer.commit([])
    assert orders.topic("orders").describe().version == 0


def test_job_that_is_committed_twice_stands_once(orders, build, consume):
    writer = build()
    messages = [task(writer, rows(10))]
    writer.commit(messages)
    writer.commit(messages)
    assert len(consume("orders")) == 10


def test_aborted_job_leaves_no_file(orders, build, log):
    writer = build()
    told = task(writer, rows(100))
    writer.abort([told, None])
    assert not [i for p in range(4) for i in log.store.list_from(f"topics/orders/p{p}/")]


def test_failed_commit_followed_by_abort_keeps_the_files_of_a_commit_in_doubt(
    orders, build, consume, monkeypatch
):
    writer = build()
    messages = [task(writer, rows(100))]
    real = Committer.commit

    def in_doubt(self, attempt, rule):
        real(self, attempt, rule)
        raise OutcomeUnknownError("perhaps")

    monkeypatch.setattr(Committer, "commit", in_doubt)
    monkeypatch.setattr("sparklog.spark.sink_commit.COMMIT_SECONDS", 0.0)
    with pytest.raises(OutcomeUnknownError):
        writer.commit(messages)
    writer.abort(messages)
    assert len(consume("orders")) == 100


def test_commit_in_doubt_is_tried_again_and_stands_once(orders, build, consume, monkeypatch):
    writer = build()
    messages = [task(writer, rows(100))]
    real = Committer.commit
    doubts = []

    def in_doubt_once(self, attempt, rule):
        won = real(self, attempt, rule)
        if not doubts:
            doubts.append(attempt)
            raise OutcomeUnknownError("perhaps")
        return won

    monkeypatch.setattr(Committer, "commit", in_doubt_once)
    writer.commit(messages)
    assert doubts
    assert len(consume("orders")) == 100
    assert orders.topic("orders").describe().version == 1


def test_too_many_files_are_told_once_a_batch_with_the_numbers_and_the_way_out(
    orders, build, caplog
):
    writer = build(maxFilesPerBatch="7")
    writer.commit([task(writer, rows(100)), task(writer, rows(100))])
    (record,) = caplog.records
    assert "2 tasks wrote 8 segments to orders, above maxFilesPerBatch = 7" in record.getMessage()
    assert "by_partition" in record.getMessage()
    caplog.clear()
    writer = build(maxFilesPerBatch="8")
    writer.commit([task(writer, rows(100)), task(writer, rows(100))])
    assert not caplog.records


def test_compression_of_the_option_counts_where_the_topic_leaves_it(log, build):
    import pyarrow.parquet as pq

    log.create_topic("orders", 1)
    writer = build(compression="gzip")
    writer.commit([task(writer, rows(10))])
    (info,) = log.store.list_from("topics/orders/p0/")
    file = pq.ParquetFile(log.store.open_input(info.key))
    assert file.metadata.row_group(0).column(3).compression == "GZIP"


def test_commit_after_many_commits_of_others_opens_the_topic_anew(log, build, consume, monkeypatch):
    log.create_topic("orders", 1, {"delta.checkpointInterval": 10})
    writer = build()
    writer.commit([task(writer, rows(1))])
    with log.producer(linger_ms=0) as producer:
        for _ in range(25):
            producer.send("orders", b"x", key=b"k").result()
    monkeypatch.setattr(sink_topics, "LOOK_SECONDS", -1.0)
    writer = build()
    read = []
    real = sink_topics.TableLog.read
    monkeypatch.setattr(
        sink_topics.TableLog,
        "read",
        lambda self, version: read.append(version) or real(self, version),
    )
    writer.commit([task(writer, rows(1))])
    assert min(read) > 15
    assert len(consume("orders")) == 27


def test_topic_that_is_not_there_is_refused_when_the_write_is_planned(log, build):
    with pytest.raises(UnknownTopicError, match="topic 'orders' does not exist"):
        build()


def test_log_of_a_newer_format_is_refused(orders, build, log):
    log.store.put("_sparklog/log.json", b'{"id":"x","format":2}')
    with pytest.raises(UnsupportedError, match="format 2.*upgrade"):
        build()


def test_stream_refuses_the_name_of_a_batch(orders, log):
    given = {"path": log.store.uri, "topic": "orders", "txnAppId": "a", "txnVersion": "1"}
    with pytest.raises(InvalidConfigError, match="for batch writes"):
        SparklogStreamWriter(SCHEMA, SinkOptions.of(given), False)


def test_stream_outside_of_a_query_is_refused(orders, log):
    given = SinkOptions.of({"path": log.store.uri, "topic": "orders"})
    with pytest.raises(UnsupportedError, match="sql.streaming.queryId"):
        SparklogStreamWriter(SCHEMA, given, False).write(iter([rows(1)]))
