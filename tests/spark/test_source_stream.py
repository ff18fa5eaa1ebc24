"""`spark.readStream.format("sparklog")`."""

from __future__ import annotations

import json
import time
from contextlib import contextmanager

import pytest
from pyspark.errors import StreamingQueryException

import sparklog
from tests.support.retention import move_start

WAIT_SECONDS = 60


class Stream:
    """Queries over one log, each with a checkpoint, into files that are read back."""

    def __init__(self, spark, log, folder):
        self.spark, self.log, self.folder = spark, log, folder
        self.checkpoint = str(folder / "checkpoint")

    def source(self, **options):
        given = {"path": self.log.store.uri, "startingOffsets": "earliest", **options}
        if not {"subscribePattern", "assign"} & set(given):
            given.setdefault("subscribe", "orders")
        return self.spark.readStream.format("sparklog").options(**given).load()

    def start(self, options=None, **trigger):
        writer = self.source(**options or {}).select("topic", "partition", "offset", "value")
        writer = writer.writeStream.format("parquet").option("path", str(self.folder / "out"))
        writer = writer.option("checkpointLocation", self.checkpoint)
        return writer.trigger(**trigger or {"processingTime": "0 seconds"}).start()

    def run(self, options=None, **trigger):
        """Until what is there is read; returns the progress of the batches with rows."""
        query = self.start(options, **trigger or {"availableNow": True})
        query.awaitTermination()
        return [p for p in query.recentProgress if p.numInputRows]

    @contextmanager
    def running(self, options=None):
        query = self.start(options)
        try:
            yield query
        finally:
            query.stop()

    def places(self):
        rows = self.spark.read.parquet(str(self.folder / "out")).collect()
        return sorted((row.topic, row.partition, row.offset) for row in rows)

    def wait_for(self, query, count):
        """Until so many records have come; they are what `places` finds."""
        deadline = time.monotonic() + WAIT_SECONDS
        while time.monotonic() < deadline:
            if query.exception() is not None:
                raise query.exception()
            if sum(p.numInputRows for p in query.recentProgress) >= count:
                query.processAllAvailable()
                return
            time.sleep(0.05)
        raise AssertionError(
            f"no {count} records: {[p.numInputRows for p in query.recentProgress]}"
        )


@pytest.fixture
def stream(spark, log, tmp_path):
    log.create_topic("orders", 2)
    return Stream(spark, log, tmp_path)


def produce(log, count, topic="orders", partitions=2):
    with log.producer() as producer:
        for n in range(count):
            producer.send(topic, b"%d" % n, partition=n % partitions)


def wanted(count, topic="orders", start=0):
    return [(topic, p, offset) for p in (0, 1) for offset in range(start, start + count // 2)]


def test_available_now_reads_what_was_there_and_ends(stream, log):
    produce(log, 20)
    (progress,) = stream.run()
    assert progress.numInputRows == 20
    assert stream.places() == wanted(20)
    assert json.loads(progress.sources[0].endOffset)["orders"]["offsets"] == {"0": 10, "1": 10}
    assert stream.run() == []
    produce(log, 4)
    assert [p.numInputRows for p in stream.run()] == [4]
    assert stream.places() == wanted(24)


def test_offsets_per_trigger_bound_each_batch_and_progress_shows_the_lag(stream, log):
    produce(log, 40)
    batches = stream.run({"maxOffsetsPerTrigger": "10"})
    assert [p.numInputRows for p in batches] == [10, 10, 10, 10]
    latest = json.loads(batches[0].sources[0].latestOffset)["orders"]["offsets"]
    assert latest == {"0": 20, "1": 20}
    assert stream.places() == wanted(40)


def test_bytes_per_trigger_bound_each_batch(stream, log):
    produce(log, 40)
    sizes = sum(p.bytes for p in log.topic("orders").describe().partitions)
    batches = stream.run({"maxBytesPerTrigger": str(sizes // 4)})
    assert len(batches) >= 4 and max(p.numInputRows for p in batches) <= 12
    assert stream.places() == wanted(40)


def test_once_takes_everything_whatever_the_limit(stream, log):
    produce(log, 40)
    (progress,) = stream.run({"maxOffsetsPerTrigger": "10"}, once=True)
    assert progress.numInputRows == 40


def test_fewest_offsets_hold_a_batch_back_until_the_delay(stream, log):
    options = {"minOffsetsPerTrigger": "10", "maxTriggerDelay": "1h"}
    produce(log, 4)
    with stream.running(options) as query:
        stream.wait_for(query, 4)  # the first batch does not wait
        produce(log, 8)
        query.processAllAvailable()
        assert sum(p.numInputRows for p in query.recentProgress) == 4
        produce(log, 2)
        stream.wait_for(query, 14)
    produce(log, 2)
    stream.run(options)  # with an end in sight nothing is held back
    assert stream.places() == wanted(16)


def test_fewest_offsets_wait_no_longer_than_the_delay(stream, log):
    produce(log, 2)
    with stream.running({"minOffsetsPerTrigger": "10", "maxTriggerDelay": "1s"}) as query:
        stream.wait_for(query, 2)
        produce(log, 2)
        stream.wait_for(query, 4)


def test_stream_starts_at_the_end_unless_told(stream, log, spark, tmp_path):
    produce(log, 6)
    reader = spark.readStream.format("sparklog").option("path", log.store.uri)
    frame = reader.option("subscribe", "orders").load()
    query = (
        frame.writeStream.format("memory")
        .queryName("from_the_end")
        .option("checkpointLocation", str(tmp_path / "other"))
        .start()
    )
    try:
        query.processAllAvailable()
        produce(log, 2)
        query.processAllAvailable()
        assert spark.table("from_the_end").count() == 2
    finally:
        query.stop()


def test_new_partitions_and_new_topics_are_picked_up_while_running(stream, log):
    produce(log, 4)
    with stream.running({"subscribePattern": "orders.*"}) as query:
        stream.wait_for(query, 4)
        log.topic("orders").add_partitions(3)
        log.create_topic("orders-eu")
        with log.producer() as producer:
            producer.send("orders", b"new partition", partition=2)
            producer.send("orders-eu", b"new topic")
        stream.wait_for(query, 6)
    assert stream.places() == sorted([*wanted(4), ("orders", 2, 0), ("orders-eu", 0, 0)])


def test_pattern_that_matches_nothing_yet_waits(stream, log):
    with stream.running({"subscribePattern": "later.*"}) as query:
        query.processAllAvailable()
        log.create_topic("later-1")
        with log.producer() as producer:
            producer.send("later-1", b"v")
        stream.wait_for(query, 1)
    assert stream.places() == [("later-1", 0, 0)]


def test_restarted_query_repeats_a_logged_batch_exactly(stream, log, tmp_path):
    """A batch that was logged and not done is read again with its own bounds, not newer ones."""
    batches = []

    def run():
        query = (
            stream.source()
            .writeStream.foreachBatch(lambda frame, n: batches.append((n, frame.count())))
            .option("checkpointLocation", stream.checkpoint)
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()

    for _ in range(2):
        produce(log, 4)
        run()
    commits = tmp_path / "checkpoint" / "commits"
    (commits / "1").unlink()
    (commits / ".1.crc").unlink(missing_ok=True)
    produce(log, 8)
    run()
    assert batches == [(0, 4), (1, 4), (1, 4), (2, 8)]


def test_records_that_retention_removed_stop_the_query_or_are_skipped(stream, log):
    produce(log, 10)
    stream.run()
    produce(log, 10)
    move_start(log, "orders", 0, 7)
    with pytest.raises(StreamingQueryException, match="partition 0: offsets 5 to 6 were removed"):
        stream.run()
    stream.run({"failOnDataLoss": "false"})
    lost = {("orders", 0, 5), ("orders", 0, 6)}
    assert set(wanted(20)) - set(stream.places()) == lost


def test_topic_created_again_stops_the_query_or_is_read_from_its_start(stream, log):
    produce(log, 10)
    stream.run()
    log.delete_topic("orders")
    log.create_topic("orders", 2)
    produce(log, 4)
    with pytest.raises(StreamingQueryException, match="was deleted since"):
        stream.run()
    (progress,) = stream.run({"failOnDataLoss": "false"})
    assert progress.numInputRows == 4


def test_topic_deleted_while_the_query_runs_stops_it(stream, log):
    produce(log, 4)
    query = stream.start()
    try:
        stream.wait_for(query, 4)
        log.delete_topic("orders")
        with pytest.raises(StreamingQueryException, match="'orders'.*was deleted"):
            query.awaitTermination(WAIT_SECONDS)
    finally:
        query.stop()


def test_subscription_that_drops_a_topic_says_so(stream, log):
    log.create_topic("returns", 2)
    produce(log, 2)
    produce(log, 2, "returns")
    stream.run({"subscribe": "orders,returns"})
    produce(log, 2)
    with pytest.raises(StreamingQueryException, match="'returns'.*is not read any more"):
        stream.run({"subscribe": "orders"})
    stream.run({"subscribe": "orders", "failOnDataLoss": "false"})
    assert stream.places() == sorted(wanted(4) + wanted(2, "returns"))


def test_checkpoint_of_another_source_is_refused(stream, spark, log, tmp_path):
    rate = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", "1").load()
    query = (
        rate.writeStream.format("noop")
        .option("checkpointLocation", stream.checkpoint)
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    with pytest.raises(StreamingQueryException, match="checkpointLocation of its own"):
        stream.run()


def test_end_makes_no_sense_for_a_stream(stream, log):
    with pytest.raises(Exception, match="a stream has no end"):
        stream.run({"endingOffsets": "latest"})


def test_tail_of_many_commits_is_read_without_the_file_list(stream, log, monkeypatch):
    """Records keep their order over many small segments and batches."""
    with stream.running() as query:
        for n in range(30):
            with sparklog.connect(log.store.uri).producer(linger_ms=0) as producer:
                producer.send("orders", b"%d" % n, partition=0).result()
        stream.wait_for(query, 30)
    assert stream.places() == [("orders", 0, offset) for offset in range(30)]
