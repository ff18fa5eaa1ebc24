"""`df.write.format("sparklog")`: batch writes, as a consumer of the log then reads them."""

from __future__ import annotations

from collections import Counter

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import functions as F

from sparklog.log.partitioner import murmur2
from sparklog.spark import by_partition

PARTITIONS = 3


@pytest.fixture
def orders(log):
    """An empty topic."""
    log.create_topic("orders", PARTITIONS)
    return log


@pytest.fixture
def write(log):
    """Append a DataFrame with these options."""

    def append(frame, **options):
        writer = frame.write.format("sparklog").option("path", log.store.uri).mode("append")
        writer.options(**options).save()

    return append


def keyed(spark, count=100, tasks=2):
    """Rows whose values say in which order their task had them."""
    return spark.range(0, count, 1, tasks).selectExpr(
        "cast(concat('key-', id % 17) as binary) AS key", "cast(id as string) AS value"
    )


def segments(log, topic="orders"):
    """The segment files that lie in the topic's folder, named by a commit or not."""
    folders = log.store.list_folders(f"topics/{topic}/")
    return [
        info.key
        for folder in folders
        if folder.startswith("p")
        for info in log.store.list_from(f"topics/{topic}/{folder}/")
    ]


def kafka_partition(key: bytes) -> int:
    return (murmur2(key) & 0x7FFFFFFF) % PARTITIONS


def test_rows_stand_where_kafka_puts_their_keys_in_the_order_of_their_task(
    spark, orders, write, consume
):
    write(keyed(spark), topic="orders")
    records = consume("orders")
    assert sorted(int(r.value) for r in records) == list(range(100))
    assert all(r.partition == kafka_partition(r.key) for r in records)
    assert len({r.partition for r in records}) == PARTITIONS
    for partition in range(PARTITIONS):
        values = [int(r.value) for r in records if r.partition == partition]
        assert values == sorted(values)  # tasks hold ascending ids, and commit in their order


def test_batch_is_one_commit_with_a_segment_a_task_and_partition(spark, orders, write):
    before = orders.topic("orders").describe().version
    write(keyed(spark, tasks=4), topic="orders")
    described = orders.topic("orders").describe()
    assert described.version == before + 1
    assert [p.segments for p in described.partitions] == [4] * PARTITIONS


def test_string_and_binary_keys_and_values_are_the_same_bytes(spark, orders, write, consume):
    frame = spark.createDataFrame([("ключ", "значение"), (None, None)], "key string, value string")
    write(frame.limit(1), topic="orders")
    write(frame.limit(1).selectExpr("cast(key as binary) key", "cast(value as binary) value"),
          topic="orders")  # fmt: skip
    first, second = consume("orders")
    assert first.key == second.key == "ключ".encode()
    assert first.value == second.value == "значение".encode()
    assert first.partition == second.partition


def test_null_values_and_headers_arrive_as_they_were(spark, orders, write, consume):
    schema = "key string, value string, headers array<struct<key:string,value:binary>>"
    pairs = [("a", b"\x00\xff"), ("b", None), ("a", b"")]
    rows = [("1", None, pairs), ("2", "x", []), ("3", "y", None)]
    write(spark.createDataFrame(rows, schema).coalesce(1), topic="orders")
    found = {r.key: (r.value, r.headers) for r in consume("orders")}
    assert found == {b"1": (None, pairs), b"2": (b"x", []), b"3": (b"y", [])}


def test_column_topic_sends_rows_to_many_topics_one_commit_each(spark, orders, write, consume):
    orders.create_topic("bills", 2)
    frame = keyed(spark).withColumn("topic", F.expr("if(value % 3 = 0, 'bills', 'orders')"))
    write(frame)
    assert sorted(int(r.value) for r in consume("bills")) == list(range(0, 100, 3))
    assert sorted(int(r.value) for r in consume("orders")) == [i for i in range(100) if i % 3]
    assert orders.topic("bills").describe().version == 1
    assert orders.topic("orders").describe().version == 1


def test_option_topic_counts_before_the_column(spark, orders, write, consume):
    write(keyed(spark).withColumn("topic", F.lit("nowhere")), topic="orders")
    assert len(consume("orders")) == 100


def test_column_partition_counts_before_the_key_and_null_leaves_it_to_the_key(
    spark, orders, write, consume
):
    frame = keyed(spark).withColumn("partition", F.expr("if(value < 50, 2, null)"))
    write(frame, topic="orders")
    for record in consume("orders"):
        named = 2 if int(record.value) < 50 else kafka_partition(record.key)
        assert record.partition == named


def test_keyless_rows_of_a_batch_stay_together_and_spread_over_batches(
    spark, orders, write, consume
):
    spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", "10")
    try:
        write(spark.range(0, 60, 1, 1).selectExpr("cast(id as string) AS value"), topic="orders")
    finally:
        spark.conf.unset("spark.sql.execution.arrow.maxRecordsPerBatch")
    places = {int(r.value): r.partition for r in consume("orders")}
    assert all(places[i] == places[i - i % 10] for i in range(60))
    assert Counter(places.values()) == {0: 20, 1: 20, 2: 20}


def test_columns_of_the_source_can_be_written_as_they_are(spark, orders, write, consume):
    write(keyed(spark), topic="orders")
    orders.create_topic("copy", PARTITIONS)
    source = spark.read.format("sparklog").option("path", orders.store.uri)
    frame = source.option("subscribe", "orders").option("includeHeaders", "true").load()
    write(frame, topic="copy")
    assert [(r.partition, r.key, r.value) for r in consume("copy")] == [
        (r.partition, r.key, r.value) for r in consume("orders")
    ]


def test_failing_task_leaves_nothing_visible(spark, orders, write, consume):
    frame = keyed(spark, count=40_000).withColumn(
        "value", F.expr("if(value = 39999, raise_error('broken row'), value)")
    )
    with pytest.raises(PySparkException, match="broken row"):
        write(frame, topic="orders")
    assert consume("orders") == []
    assert orders.topic("orders").describe().version == 0


def test_batch_with_one_bad_row_leaves_no_file_of_the_other_tasks(spark, orders, write):
    frame = keyed(spark, count=8, tasks=8).withColumn(
        "partition", F.expr("if(value = 7, 99, null)")
    )
    with pytest.raises(PySparkException, match="no partition 99"):
        write(frame, topic="orders")
    assert segments(orders) == []


def test_version_that_stands_is_not_written_again(spark, orders, write, consume):
    for version in (7, 7, 6):
        write(keyed(spark), topic="orders", txnAppId="nightly", txnVersion=str(version))
        assert len(consume("orders")) == 100
    assert len(segments(orders)) == 2 * PARTITIONS  # what stands already costs no file either
    write(keyed(spark), topic="orders", txnAppId="nightly", txnVersion="8")
    assert len(consume("orders")) == 200


def test_batch_without_a_name_is_written_each_time(spark, orders, write, consume):
    write(keyed(spark), topic="orders")
    write(keyed(spark), topic="orders")
    assert len(consume("orders")) == 200


def test_log_made_anew_under_the_same_path_is_not_taken_for_the_old_one(
    spark, orders, write, consume, tmp_path
):
    import shutil

    import sparklog

    write(keyed(spark), topic="orders")
    shutil.rmtree(tmp_path / "log")
    sparklog.connect(tmp_path / "log").create_topic("orders", PARTITIONS)
    write(keyed(spark), topic="orders")
    assert len(consume("orders")) == 100
    assert orders.topic("orders").describe().version == 1


def test_topic_created_again_gets_the_next_batch(spark, orders, write, consume):
    write(keyed(spark), topic="orders")
    orders.delete_topic("orders")
    orders.create_topic("orders", 1)
    write(keyed(spark), topic="orders")
    assert {r.partition for r in consume("orders")} == {0}


def test_partitions_added_between_batches_are_used(spark, orders, write, consume):
    write(keyed(spark), topic="orders")
    orders.topic("orders").add_partitions(64)
    write(keyed(spark), topic="orders")
    assert max(r.partition for r in consume("orders")) > PARTITIONS


def test_many_batches_leave_checkpoints(spark, log, write):
    log.create_topic("orders", 1, {"delta.checkpointInterval": 2})
    for _ in range(3):
        write(keyed(spark, count=2, tasks=1), topic="orders")
    names = [info.key for info in log.store.list_from("topics/orders/_delta_log/")]
    assert [name for name in names if name.endswith("1.checkpoint.parquet")]
    assert [name for name in names if name.endswith("3.checkpoint.parquet")]


def test_rows_brought_together_by_partition_make_one_segment_a_partition(
    spark, orders, write, consume
):
    write(by_partition(keyed(spark, tasks=8), orders.topic("orders")), topic="orders")
    described = orders.topic("orders").describe()
    assert [p.segments for p in described.partitions] == [1] * PARTITIONS
    assert all(r.partition == kafka_partition(r.key) for r in consume("orders"))
    assert sorted(int(r.value) for r in consume("orders")) == list(range(100))


@pytest.mark.parametrize(
    ("columns", "options", "message"),
    [
        ("id", {"topic": "orders"}, "no column 'value'.*it has id"),
        ("id AS value", {"topic": "orders"}, "'value' is bigint; it must be string or binary"),
        ("'a' value, 1 key", {"topic": "orders"}, "'key' is int; it must be string or binary"),
        ("'a' value, 1L partition", {"topic": "orders"}, "'partition' is bigint; it must be int"),
        ("'a' value, 'h' headers", {"topic": "orders"}, "'headers' is string; it must be array<"),
        ("'a' value", {}, "give the option topic, or a column 'topic'"),
        ("'a' value, 7 topic", {}, "'topic' is int; it must be string"),
        ("'a' value", {"topic": "order"}, "topic 'order' does not exist"),
        ("'a' value", {"topic": "a/b"}, "illegal character"),
        ("'a' value, 'order' topic", {}, "topic 'order' does not exist"),
        ("'a' value, '../x' topic", {}, "illegal character"),
        ("'a' value, string(null) topic", {}, "column 'topic' has a null"),
        ("'a' value, 3 partition", {"topic": "orders"}, "no partition 3; it has 3"),
        ("'a' value, -1 partition", {"topic": "orders"}, "no partition -1; it has 3"),
        ("repeat('a', 2000000) value", {"topic": "orders"}, "2000024 bytes is above 1048588"),
        ("'a' value", {"topic": "orders", "topics": "x"}, "did you mean topic"),
        ("'a' value", {"topic": "orders", "txnVersion": "1"}, "txnAppId"),
        (
            "'a' value, array(named_struct('key', string(null), 'value', binary('a'))) headers",
            {"topic": "orders"},
            "a header without a key",
        ),
    ],
)
def test_bad_input_is_refused_by_name(spark, orders, write, consume, columns, options, message):
    frame = spark.range(1).selectExpr(*[f"{columns}"]) if columns == "id" else None
    frame = frame if frame is not None else spark.sql(f"SELECT {columns} FROM range(1)")
    with pytest.raises(PySparkException, match=f"(?s){message}"):
        write(frame, **options)
    assert consume("orders") == []
    assert segments(orders) == []


def test_large_headers_count_towards_the_record(spark, log, write):
    log.create_topic("small", 1, {"max.message.bytes": 100})
    header = "array(named_struct('key', 'k', 'value', binary(repeat('h', {})))) headers"
    write(spark.sql(f"SELECT 'v' value, {header.format(74)}"), topic="small")
    with pytest.raises(PySparkException, match="101 bytes is above 100"):
        write(spark.sql(f"SELECT 'v' value, {header.format(75)}"), topic="small")


def test_keyless_row_in_a_compacted_topic_is_refused(spark, log, write):
    log.create_topic("state", 1, {"cleanup.policy": "compact"})
    with pytest.raises(PySparkException, match="'state' is compacted"):
        write(spark.sql("SELECT 'v' value"), topic="state")


def test_overwrite_is_refused_with_the_way_out(spark, orders):
    writer = keyed(spark).write.format("sparklog").option("path", orders.store.uri)
    with pytest.raises(PySparkException, match="use mode\\('append'\\)"):
        writer.option("topic", "orders").mode("overwrite").save()


def test_log_that_is_not_there_is_refused(spark, tmp_path):
    writer = keyed(spark).write.format("sparklog").option("path", str(tmp_path / "nowhere"))
    with pytest.raises(PySparkException, match="there is no log at"):
        writer.option("topic", "orders").mode("append").save()
