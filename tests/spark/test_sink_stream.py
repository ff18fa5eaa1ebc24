"""`df.writeStream.format("sparklog")`: each batch stands exactly once, whatever happens."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from pyspark.errors import PySparkException

from tests.spark.conftest import REPOSITORY, use_this_python

SCHEMA = "key string, value string, topic string, partition int"
ROWS = 40
FILES = 3


@pytest.fixture
def orders(log):
    """Two empty topics."""
    log.create_topic("orders", 2)
    log.create_topic("bills", 2)
    return log


@pytest.fixture
def source(tmp_path):
    """A folder with a file of JSON lines for each batch; values count up."""
    folder = tmp_path / "input"
    folder.mkdir()
    for number in range(FILES):
        add_file(folder, number)
    return folder


def add_file(folder: Path, number: int, **columns: object) -> None:
    lines = []
    for value in range(number * ROWS, (number + 1) * ROWS):
        topic = "bills" if value % 4 == 0 else "orders"
        row = {"key": f"k{value % 7}", "value": str(value), "topic": topic, **columns}
        lines.append(json.dumps(row))
    hidden = folder / f".{number}"
    hidden.write_text("\n".join(lines))
    os.utime(hidden, (number + 1, number + 1))  # files are taken in the order of their times
    hidden.rename(folder / f"{number}.json")


@pytest.fixture
def copy(spark, log, tmp_path, source):
    """Stream what is there into topics, a file a batch; a query each time, of one checkpoint."""

    def run(columns="key, value, topic", mode="append", frame=None, **options):
        if frame is None:
            files = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1)
            frame = files.json(str(source)).selectExpr(*columns.split(", "))
        writer = frame.writeStream.format("sparklog").option("path", log.store.uri)
        writer = writer.option("checkpointLocation", str(tmp_path / "checkpoint")).outputMode(mode)
        query = writer.options(**options).trigger(availableNow=True).start()
        query.awaitTermination()
        return query

    return run


def values(records) -> list[int]:
    return sorted(int(record.value) for record in records)


def expected(topic: str, files: int = FILES) -> list[int]:
    return [v for v in range(files * ROWS) if (v % 4 == 0) == (topic == "bills")]


def segment_count(log, topic: str) -> int:
    """How many segment files lie in the topic's folder, named by a commit or not."""
    folder = Path(log.store.uri) / "topics" / topic
    return len(list(folder.glob("p*/*.parquet")))


def forget_last_batch(checkpoint: Path) -> None:
    """What a driver leaves that dies before it notes its last batch as complete."""
    last = max((p for p in (checkpoint / "commits").iterdir() if p.name.isdigit()),
               key=lambda p: int(p.name))  # fmt: skip
    last.unlink()
    (last.parent / f".{last.name}.crc").unlink(missing_ok=True)


def test_each_batch_is_one_commit_a_topic_and_all_rows_arrive_once(orders, copy, consume):
    copy()
    for topic in ("orders", "bills"):
        assert values(consume(topic)) == expected(topic)
        assert orders.topic(topic).describe().version == FILES


def test_rows_of_a_key_keep_their_order_over_batches(orders, copy, consume):
    copy("key, value", topic="orders")
    for key in {r.key for r in consume("orders")}:
        found = [int(r.value) for r in consume("orders") if r.key == key]
        assert found == sorted(found)
        assert len({r.partition for r in consume("orders") if r.key == key}) == 1


def test_restarted_query_goes_on_with_what_is_new(orders, copy, consume, source):
    copy()
    add_file(source, FILES)
    copy()
    assert values(consume("orders")) == expected("orders", FILES + 1)
    assert orders.topic("orders").describe().version == FILES + 1


def test_replayed_batch_changes_nothing_and_costs_no_file(orders, copy, consume, tmp_path):
    copy()
    before = {t: (segment_count(orders, t), consume(t)) for t in ("orders", "bills")}
    forget_last_batch(tmp_path / "checkpoint")
    query = copy()
    assert query.lastProgress["batchId"] == FILES - 1  # it did run again
    for topic, standing in before.items():
        assert (segment_count(orders, topic), consume(topic)) == standing
        assert orders.topic(topic).describe().version == FILES


def test_two_queries_of_the_same_input_each_write_it(orders, copy, consume, tmp_path):
    copy("key, value", topic="orders")
    copy("key, value", topic="orders", checkpointLocation=str(tmp_path / "other"))
    assert values(consume("orders")) == sorted(2 * list(range(FILES * ROWS)))


def test_failed_batch_is_invisible_and_stands_once_its_cause_is_gone(orders, copy, consume, source):
    add_file(source, FILES, partition=5)
    with pytest.raises(PySparkException, match="topic 'orders' has no partition 5; it has 2"):
        copy("key, value, partition", topic="orders")
    assert values(consume("orders")) == list(range(FILES * ROWS))
    orders.topic("orders").add_partitions(6)
    copy("key, value, partition", topic="orders")
    assert values(consume("orders")) == list(range((FILES + 1) * ROWS))
    assert {r.partition for r in consume("orders") if int(r.value) >= FILES * ROWS} == {5}


def test_complete_mode_appends_each_result(spark, orders, copy, consume, source):
    files = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).json(str(source))
    counts = files.groupBy("topic").count()
    frame = counts.selectExpr("topic AS key", "cast(count AS string) AS value")
    copy(mode="complete", frame=frame, topic="orders")
    found = [int(r.value) for r in consume("orders") if r.key == b"bills"]
    assert found == [10, 20, 30]


def test_topic_created_again_under_a_query_gets_the_next_batch(orders, copy, consume, source):
    copy()
    orders.delete_topic("orders")
    orders.create_topic("orders", 1)
    add_file(source, FILES)
    copy()
    new = [v for v in expected("orders", FILES + 1) if v >= FILES * ROWS]
    assert values(consume("orders")) == new


@pytest.mark.parametrize(
    ("columns", "options", "message"),
    [
        ("key, topic", {}, "no column 'value'"),
        ("key, value", {}, "give the option topic, or a column 'topic'"),
        ("key, value", {"topic": "order"}, "topic 'order' does not exist"),
        ("key, value", {"topic": "orders", "txnAppId": "a", "txnVersion": "1"}, "for batch writes"),
        ("key, value", {"topic": "orders", "txnAppIds": "a"}, "did you mean txnAppId"),
        ("key, value, string(null) AS topic", {}, "column 'topic' has a null"),
    ],
)
def test_bad_input_ends_the_query_by_name(orders, copy, consume, columns, options, message):
    with pytest.raises(PySparkException, match=message):
        copy(columns, **options)
    assert consume("orders") == []


@pytest.mark.timeout(600)
@pytest.mark.parametrize("point", ["committed", "between"])
def test_driver_killed_in_the_commit_neither_loses_nor_doubles(
    orders, consume, source, tmp_path, point
):
    use_this_python()
    checkpoint = tmp_path / "checkpoint"
    program = [sys.executable, str(REPOSITORY / "tests" / "spark" / "sink_query.py")]
    command = [*program, orders.store.uri, str(source), str(checkpoint)]
    died = subprocess.run([*command, point, "1"], capture_output=True, text=True)
    assert died.returncode == -signal.SIGKILL, died.stderr
    done = sorted(p.name for p in (checkpoint / "commits").iterdir() if p.name.isdigit())
    assert done == ["0"]
    assert orders.topic("bills").describe().version == 2
    assert orders.topic("orders").describe().version == (2 if point == "committed" else 1)
    files = segment_count(orders, "bills")

    again = subprocess.run(command, capture_output=True, text=True)
    assert again.returncode == 0, again.stderr
    for topic in ("orders", "bills"):
        assert values(consume(topic)) == expected(topic)
        assert orders.topic(topic).describe().version == FILES
    third = len(orders.topic("bills").describe().partitions)
    assert segment_count(orders, "bills") <= files + third  # batch 1 wrote no file again
