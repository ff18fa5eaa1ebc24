"""Streaming queries as members of a consumer group."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest
from pyspark.errors import PySparkException, StreamingQueryException

from tests.spark.conftest import REPOSITORY

WAIT_SECONDS = 120
RECORDS = 1_000
PARTITIONS = 4


def produce(log, count=RECORDS):
    with log.producer() as producer:
        for n in range(count):
            producer.send("orders", b"%d" % n, partition=n % PARTITIONS)


@pytest.fixture
def orders(log):
    log.create_topic("orders", PARTITIONS)
    produce(log)
    return log


class Query:
    """One query of the group into a list, run to the end of what is there."""

    def __init__(self, spark, log, checkpoint):
        self.spark, self.log, self.checkpoint = spark, log, str(checkpoint)
        self.seen: list[tuple[int, int]] = []

    def run(self, **options):
        given = {"path": self.log.store.uri, "subscribe": "orders", "group.id": "billing"}
        given |= {"startingOffsets": "earliest", "session.timeout.ms": "8000"}
        frame = self.spark.readStream.format("sparklog").options(**given | options).load()

        def note(batch, _):
            rows = batch.select("partition", "offset").collect()
            self.seen += [(row.partition, row.offset) for row in rows]

        writer = frame.writeStream.foreachBatch(note).option("checkpointLocation", self.checkpoint)
        query = writer.trigger(availableNow=True).start()
        query.awaitTermination()
        return query


def lag(log):
    return sum(p.lag for p in log.group("billing").describe().partitions)


def wait_until(what, met):
    deadline = time.monotonic() + WAIT_SECONDS
    while not met():
        assert time.monotonic() < deadline, what
        time.sleep(0.05)


def test_available_now_commits_its_last_batch_and_leaves(spark, orders, tmp_path):
    query = Query(spark, orders, tmp_path / "cp")
    query.run(maxOffsetsPerTrigger="300")
    assert len(query.seen) == len(set(query.seen)) == RECORDS
    assert lag(orders) == 0
    wait_until("the query leaves", lambda: not orders.group("billing").describe().members)
    produce(orders, 20)
    assert lag(orders) == 20


def test_another_checkpoint_goes_on_where_the_group_stands(spark, orders, tmp_path):
    first, second = (Query(spark, orders, tmp_path / name) for name in ("a", "b"))
    first.run()
    produce(orders, 40)
    second.run(startingOffsets="committed")
    assert len(second.seen) == 40
    assert not set(first.seen) & set(second.seen)


def test_starting_offsets_count_only_where_the_group_has_none(spark, orders, tmp_path):
    Query(spark, orders, tmp_path / "a").run(startingOffsets="latest")
    assert lag(orders) == 0
    produce(orders, 8)
    orders.topic("orders").add_partitions(PARTITIONS + 1)
    with orders.producer() as producer:
        producer.send("orders", b"new partition", partition=PARTITIONS)
    query = Query(spark, orders, tmp_path / "b")
    query.run(startingOffsets="latest")
    assert len(query.seen) == 9 and (PARTITIONS, 0) in query.seen


def test_python_consumer_goes_on_after_a_query(spark, orders, tmp_path):
    Query(spark, orders, tmp_path / "a").run()
    produce(orders, 12)
    with orders.consumer("orders", group_id="billing", auto_offset_reset="none") as consumer:
        found = []
        wait_until("twelve", lambda: len(found) >= 12 or found.extend(consumer.poll(200)))
        assert len(found) == 12


def test_checkpoint_keeps_its_group(spark, orders, tmp_path):
    Query(spark, orders, tmp_path / "cp").run()
    with pytest.raises(StreamingQueryException, match="keeps its group"):
        Query(spark, orders, tmp_path / "cp").run(**{"group.id": "other"})


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"subscribe": "orders", "startingOffsets": "committed"}, "set group.id"),
        ({"assign": '{"orders":[0]}', "group.id": "g"}, "assign does not go with group.id"),
        ({"subscribe": "orders", "group.id": "_g"}, "reserved"),
        ({"subscribe": "orders", "session.timeout.ms": "9000"}, "set group.id too"),
        (
            {"subscribe": "orders", "group.id": "g", "heartbeat.interval.ms": "90000"},
            "lower than session.timeout.ms",
        ),
    ],
)
def test_mistake_is_told_at_load(spark, orders, options, says):
    reader = spark.readStream.format("sparklog").option("path", orders.store.uri)
    with pytest.raises(PySparkException, match=says):
        reader.options(**options).load()


def test_batch_read_is_no_member(spark, orders):
    reader = spark.read.format("sparklog").option("path", orders.store.uri)
    with pytest.raises(PySparkException, match="group.id is for readStream"):
        reader.option("subscribe", "orders").option("group.id", "g").load().collect()


class Driver:
    """A query in a process of its own."""

    def __init__(self, log, folder: Path, name: str, kill_at: int = -1, where: str = "never"):
        self.out = folder / f"{name}.jsonl"
        checkpoint = folder / f"checkpoint-{name}"
        command = [sys.executable, "-m", "tests.spark.group_driver", log.store.uri]
        command += [str(checkpoint), str(self.out), str(kill_at), where]
        with (folder / f"{name}.log").open("a") as output:
            self.process = subprocess.Popen(
                command, cwd=REPOSITORY, stdout=output, stderr=output, start_new_session=True
            )

    def lines(self):
        if not self.out.exists():
            return []
        return [json.loads(line) for line in self.out.read_text().splitlines()]

    def rows(self):
        return [tuple(row) for line in self.lines() for row in line["rows"]]

    def stop(self):
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


@pytest.fixture
def start(orders, tmp_path):
    drivers = []

    def begin(name, *args):
        drivers.append(Driver(orders, tmp_path, name, *args))
        return drivers[-1]

    yield begin
    for driver in drivers:
        driver.stop()


@pytest.mark.parametrize("where", ["before", "after"])
def test_two_queries_share_and_one_that_dies_is_replaced(orders, start, where):
    """Nothing is lost; only a batch that the sink had, and the group had not, comes twice."""
    doomed, other = start("doomed", 2, where), start("other")
    wait_until("the kill", lambda: doomed.process.poll() is not None)
    produce(orders)
    wanted = Counter({(n % PARTITIONS, n // PARTITIONS): 1 for n in range(2 * RECORDS)})

    def all_there():
        assert other.process.poll() is None, "the other query ended"
        return set(doomed.rows() + other.rows()) >= set(wanted)

    wait_until("all records", all_there)
    wait_until("the lag to be gone", lambda: lag(orders) == 0)
    found = Counter(doomed.rows() + other.rows())
    twice = {place for place, count in found.items() if count > 1}
    assert not set(found) - set(wanted)
    if where == "before":
        assert not twice
    else:
        last = doomed.lines()[-1]
        assert last["batch"] == 2
        assert twice == {tuple(row) for row in last["rows"]}


def test_query_restarted_within_its_session_finishes_the_batch_as_logged(orders, start):
    """It is read again with the same rows under the same number: a sink by number drops it."""
    first = start("one", 1, "after")
    wait_until("the kill", lambda: first.process.poll() is not None)
    produce(orders)
    second = start("one", -1, "end")
    assert second.process.wait(WAIT_SECONDS) == 0
    by_run: dict[int, dict[int, list]] = {}
    for line in second.lines():
        by_run.setdefault(line["pid"], {})[line["batch"]] = sorted(map(tuple, line["rows"]))
    old, new = by_run.values()
    assert old[1] == new[1] and old[1]
    rows = Counter(
        row
        for run in (old, {n: r for n, r in new.items() if n > 1})
        for batch in run.values()
        for row in batch
    )
    assert rows == Counter({(n % PARTITIONS, n // PARTITIONS): 1 for n in range(2 * RECORDS)})
