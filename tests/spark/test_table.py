"""Topics as tables: columns, pruning, views, time travel, and what is refused."""

from __future__ import annotations

import time
from datetime import datetime, timedelta

import pytest
from pyspark.errors import AnalysisException

from sparklog.errors import InvalidInputError, LogNotFoundError, UnknownTopicError
from sparklog.spark import create_view, table

COLUMNS = [
    "offset",
    "partition",
    "timestamp",
    "key",
    "value",
    "headers",
    "base_offset",
    "offset_delta",
]


@pytest.fixture
def root(log, tmp_path):
    """A log with a topic of two partitions and two commits in each."""
    log.create_topic("orders", partitions=2)
    for batch in range(2):
        send(log, *range(batch * 10, batch * 10 + 10))
    return tmp_path / "log"


def send(log, *numbers):
    with log.producer() as producer:
        for number in numbers:
            producer.send("orders", b"%d" % number, partition=number % 2)


def values(frame):
    return sorted(int(bytes(row.value)) for row in frame.select("value").collect())


def test_table_has_offset_first_and_dense(spark, root):
    frame = table(spark, root, "orders")
    assert frame.columns == COLUMNS
    places = sorted((row.partition, row.offset) for row in frame.collect())
    assert places == [(p, offset) for p in range(2) for offset in range(10)]
    assert values(frame) == list(range(20))


def test_table_filters_on_place_prune_files(spark, root):
    frame = table(spark, root, "orders")
    assert len(frame.inputFiles()) == 4
    pruned = frame.where("partition = 1 AND base_offset >= 5")
    assert ["/p1/" in name for name in pruned.inputFiles()] == [True]
    assert values(pruned) == [11, 13, 15, 17, 19]


def test_table_at_version_is_as_it_was(spark, log, root):
    version = log.topic("orders").describe().version
    send(log, 20, 21)
    assert values(table(spark, root, "orders", version=version)) == list(range(20))
    assert values(table(spark, root, "orders")) == list(range(22))


def test_table_at_timestamp_is_as_it_was(spark, log, root):
    time.sleep(0.05)  # a commit's time is its file's, in milliseconds
    moment = datetime.now()
    time.sleep(0.05)
    send(log, 20, 21)
    assert values(table(spark, root, "orders", timestamp=moment)) == list(range(20))
    text = moment.astimezone().isoformat()
    assert values(table(spark, root, "orders", timestamp=text)) == list(range(20))


def test_table_at_version_and_timestamp_is_refused(spark, root):
    with pytest.raises(InvalidInputError, match="not both"):
        table(spark, root, "orders", version=1, timestamp="2026-01-01")


def test_table_at_version_to_come_names_those_there_are(spark, root):
    with pytest.raises(AnalysisException, match=r"version 99.*\[0, 2\]"):
        table(spark, root, "orders", version=99)


def test_table_at_time_to_come_names_the_latest(spark, root):
    with pytest.raises(AnalysisException, match="latest version"):
        table(spark, root, "orders", timestamp=datetime.now() + timedelta(days=1))


def test_table_of_topic_that_is_not_there_names_those_that_are(spark, log, root):
    with pytest.raises(UnknownTopicError, match="'payments' does not exist.*orders"):
        table(spark, root, "payments")
    log.delete_topic("orders")
    with pytest.raises(UnknownTopicError, match="'orders' does not exist"):
        table(spark, root, "orders")


def test_table_of_root_without_log_is_refused_and_makes_none(spark, tmp_path):
    with pytest.raises(LogNotFoundError):
        table(spark, tmp_path / "nowhere", "orders")
    assert not (tmp_path / "nowhere").exists()


def test_table_root_may_be_a_file_address(spark, root):
    assert table(spark, root.as_uri(), "orders").count() == 20


def test_view_follows_the_topic(spark, log, root):
    create_view(spark, root, "orders", "orders_now")
    query = "SELECT max(offset) AS last, count(*) AS n FROM orders_now WHERE partition = 0"
    assert spark.sql(query).collect() == [(9, 10)]
    send(log, 20)
    assert spark.sql(query).collect() == [(10, 11)]


def test_view_of_a_version_stays(spark, log, root):
    version = log.topic("orders").describe().version
    create_view(spark, root, "orders", version=version)
    send(log, 20)
    assert spark.sql("SELECT count(*) FROM orders").collect() == [(20,)]
