"""`spark.read.format("sparklog")`."""

from __future__ import annotations

import json
from datetime import datetime, timezone

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import functions as F

from tests.support.retention import move_start

STAMP_MS = 1_767_268_800_000  # 2026-01-01 12:00 UTC


@pytest.fixture
def orders(log):
    """Thirty records, in three segments a partition; the values say where they stand."""
    log.create_topic("orders", 3)
    with log.producer() as producer:
        for first in (0, 5, 8):
            for offset in range(first, {0: 5, 5: 8, 8: 10}[first]):
                for partition in range(3):
                    producer.send(
                        "orders",
                        key=b"k%d" % offset if offset % 2 else None,
                        value=b"%d:%d" % (partition, offset),
                        headers=[("n", b"%d" % offset)] if offset == 9 else None,
                        partition=partition,
                        timestamp_ms=STAMP_MS + offset * 1000,
                    )
            producer.flush()
    return log


@pytest.fixture
def load(spark, log):
    """Read with these options."""

    def read(**options):
        reader = spark.read.format("sparklog").option("path", log.store.uri)
        return reader.options(**{"subscribe": "orders", **options}).load()

    return read


def places(frame) -> list[tuple[int, int]]:
    return sorted((row.partition, row.offset) for row in frame.collect())


def everything(partitions=(0, 1, 2), start=0, end=10) -> list[tuple[int, int]]:
    return [(p, offset) for p in partitions for offset in range(start, end)]


def test_all_records_come_with_the_columns_of_the_kafka_source(orders, load):
    frame = load(includeHeaders="true")
    assert frame.dtypes == [
        ("key", "binary"),
        ("value", "binary"),
        ("topic", "string"),
        ("partition", "int"),
        ("offset", "bigint"),
        ("timestamp", "timestamp"),
        ("timestampType", "int"),
        ("headers", "array<struct<key:string,value:binary>>"),
    ]
    rows = {(row.partition, row.offset): row for row in frame.collect()}
    assert sorted(rows) == everything()
    for (partition, offset), row in rows.items():
        assert bytes(row.value) == b"%d:%d" % (partition, offset)
        assert row.key == (bytearray(b"k%d" % offset) if offset % 2 else None)
        assert row.topic == "orders" and row.timestampType == 0
    last = rows[2, 9]
    assert [(h.key, bytes(h.value)) for h in last.headers] == [("n", b"9")]
    assert rows[0, 0].headers is None
    seconds = load().where("offset = 3").select(F.unix_seconds("timestamp")).first()[0]
    assert seconds == STAMP_MS // 1000 + 3


def test_topic_partition_is_read_in_offset_order_within_a_task(orders, load):
    frame = load().withColumn("at", F.monotonically_increasing_id())
    rows = sorted(frame.collect(), key=lambda row: row.at)
    for partition in range(3):
        assert [row.offset for row in rows if row.partition == partition] == list(range(10))


def test_offsets_bound_each_partition(orders, load):
    starting = json.dumps({"orders": {"0": 3, "1": -2, "2": -2}})
    ending = json.dumps({"orders": {"0": 9, "1": -1, "2": 0}})
    found = places(load(startingOffsets=starting, endingOffsets=ending))
    assert found == everything((0,), 3, 9) + everything((1,))


def test_times_bound_each_partition(orders, load):
    frame = load(startingTimestamp=str(STAMP_MS + 2500), endingTimestamp=str(STAMP_MS + 7000))
    assert places(frame) == everything(start=3, end=7)


def test_times_by_partition_bound_each(orders, load):
    times = json.dumps({"orders": {"0": STAMP_MS + 9000, "1": 0, "2": STAMP_MS + 99_000}})
    with pytest.raises(PySparkException, match="partition 2 has no record of time"):
        load(startingOffsetsByTimestamp=times).collect()
    found = places(
        load(startingOffsetsByTimestamp=times, startingOffsetsByTimestampStrategy="latest")
    )
    assert found == [(0, 9), *everything((1,))]


def test_assigned_partitions_only_are_read(orders, load, spark, log):
    reader = spark.read.format("sparklog").option("path", log.store.uri)
    frame = reader.option("assign", '{"orders":[2,0]}').load()
    assert places(frame) == everything((0, 2))


def test_pattern_reads_all_topics_that_match(orders, spark, log):
    for name in ("orders-eu", "returns"):
        log.create_topic(name)
        with log.producer() as producer:
            producer.send(name, value=name.encode())
    reader = spark.read.format("sparklog").option("path", log.store.uri)
    counts = reader.option("subscribePattern", "orders.*").load().groupBy("topic").count()
    assert {row.topic: row["count"] for row in counts.collect()} == {"orders": 30, "orders-eu": 1}


def test_chosen_columns_come_alone_and_in_order(orders, load):
    frame = load(columns="offset,key")
    assert frame.columns == ["offset", "key"]
    assert frame.count() == 30
    assert frame.where("key is not null").count() == 15


def test_columns_without_any_stored_one_still_count(orders, load):
    assert load(columns="topic").count() == 30


def test_min_partitions_and_records_max_make_more_tasks(orders, load):
    assert load().rdd.getNumPartitions() == 1
    assert load(minPartitions="6").rdd.getNumPartitions() == 6
    frame = load(maxRecordsPerPartition="4")
    assert frame.rdd.getNumPartitions() == 9
    assert places(frame) == everything()


def test_filters_on_place_and_time_give_the_same_with_and_without_pushdown(orders, load, spark):
    noon = datetime(2026, 1, 1, 12, 0, 4, tzinfo=timezone.utc)
    wanted = [(1, offset) for offset in (4, 5, 6)]
    for pushdown in ("true", "false"):
        spark.conf.set("spark.sql.python.filterPushdown.enabled", pushdown)
        try:
            frame = load().where((F.col("partition") == 1) & (F.col("offset") < 7))
            frame = frame.where(F.col("timestamp") >= F.lit(noon))
            assert places(frame) == wanted
            assert load().where("topic = 'other'").count() == 0
            plan = frame._jdf.queryExecution().executedPlan().toString()
            assert ("(partition#" in plan) == (pushdown == "false")
        finally:
            spark.conf.unset("spark.sql.python.filterPushdown.enabled")


def test_read_sees_one_moment_whatever_is_produced_meanwhile(orders, load, log):
    frame = load()
    seen = frame.select("offset")
    assert seen.count() == 30
    with log.producer() as producer:
        producer.send("orders", b"late")
    assert load().count() == 31


def test_segment_that_was_merged_after_planning_is_planned_again(spark, tmp_path, log):
    """A reader that finds a file gone reads the same offsets from what stands now."""
    log.create_topic("orders")
    with log.producer() as producer:
        producer.send_arrow("orders", pa.table({"value": [b"a", b"b", b"c"]})).result()
    frame = spark.read.format("sparklog").option("path", log.store.uri)
    frame = frame.option("subscribe", "orders").load()
    path = next((tmp_path / "log" / "topics" / "orders" / "p0").glob("*.parquet"))
    path.unlink()
    with pytest.raises(PySparkException, match="names a segment that is not there"):
        frame.collect()


def test_records_that_retention_removed_are_data_loss(orders, load, log):
    starting = json.dumps({"orders": {"0": 1, "1": -2, "2": -2}})
    move_start(log, "orders", 0, 5)
    with pytest.raises(PySparkException, match="partition 0.*out of range.*5 to 10"):
        load(startingOffsets=starting).collect()
    found = places(load(startingOffsets=starting, failOnDataLoss="false"))
    assert found == everything((0,), 5) + everything((1, 2))
    assert places(load()) == everything((0,), 5) + everything((1, 2))


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"subscribe": "nothing"}, "topic 'nothing' does not exist"),
        ({"subscribe": "or/ders"}, "illegal character"),
        ({"startingOffset": "latest"}, "did you mean startingOffsets"),
        ({"startingOffsets": "{"}, "startingOffsets"),
        ({"startingOffsets": '{"orders":{"7":0}}'}, "partition 7 of topic 'orders', which has 3"),
        ({"endingOffsets": '{"orders":{"0":99}}'}, "offset 99.*partition 0.*past its end, 10"),
        ({"path": "no/such/log"}, "there is no log at"),
    ],
)
def test_mistake_is_told_at_load(orders, load, options, says):
    with pytest.raises(PySparkException, match=says):
        load(**options)


def test_partitions_that_are_left_out_are_told(orders, load):
    with pytest.raises(PySparkException, match="says nothing of topic 'orders' partition 1"):
        load(startingOffsets='{"orders":{"0":0}}').collect()


def test_latest_as_a_start_makes_no_sense_in_a_batch(orders, load):
    with pytest.raises(PySparkException, match="startingOffsets = latest is not allowed"):
        load(startingOffsets="latest").collect()


def test_schema_of_ones_own_is_refused(orders, spark, log):
    reader = spark.read.format("sparklog").schema("value string").option("path", log.store.uri)
    with pytest.raises(PySparkException, match="leave schema"):
        reader.option("subscribe", "orders").load().collect()


def test_empty_topic_is_an_empty_frame(spark, log):
    log.create_topic("orders", 2)
    reader = spark.read.format("sparklog").option("path", log.store.uri)
    frame = reader.option("subscribe", "orders").load()
    assert frame.count() == 0 and frame.columns[0] == "key"
