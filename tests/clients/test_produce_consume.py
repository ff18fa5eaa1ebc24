import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pyarrow as pa
import pytest

import sparklog
from sparklog import errors


def test_records_produced_come_back_whole_and_in_order(log, consume):
    log.create_topic("orders", partitions=3)
    with log.producer() as producer:
        futures = [
            producer.send(
                "orders", value=b"v%d" % i, key=b"k%d" % (i % 7), headers=[("n", b"%d" % i)]
            )
            for i in range(500)
        ]
    places = [future.result() for future in futures]
    records = consume("orders")
    assert len(records) == 500
    by_place = {(r.partition, r.offset): r for r in records}
    for i, place in enumerate(places):
        record = by_place[place.partition, place.offset]
        assert record.value == b"v%d" % i and record.headers == [("n", b"%d" % i)]
        assert record.timestamp_ms == place.timestamp_ms
    for partition in range(3):
        offsets = [r.offset for r in records if r.partition == partition]
        assert offsets == list(range(len(offsets)))


def test_same_key_always_lands_in_the_same_partition(log, consume):
    log.create_topic("orders", partitions=5)
    for _ in range(3):
        with log.producer() as producer:
            for i in range(50):
                producer.send("orders", value=b"x", key=b"key-%d" % i)
    partitions = {}
    for record in consume("orders"):
        partitions.setdefault(record.key, set()).add(record.partition)
    assert len(partitions) == 50 and all(len(found) == 1 for found in partitions.values())


def test_null_key_and_null_value_are_kept(log, consume):
    log.create_topic("t")
    with log.producer() as producer:
        producer.send("t", value=None, key=b"gone")
        producer.send("t", value=b"", key=None)
    records = consume("t")
    assert [(r.key, r.value) for r in records] == [(b"gone", None), (None, b"")]


def test_send_arrow_and_send_keep_their_order(log, consume):
    log.create_topic("t")
    with log.producer(linger_ms=1000) as producer:
        producer.send("t", value=b"0")
        future = producer.send_arrow("t", pa.table({"value": [b"1", b"2"]}))
        producer.send("t", value=b"3")
        producer.flush()
        assert [(a.base_offset, a.records) for a in future.result()] == [(1, 2)]
    assert [r.value for r in consume("t")] == [b"0", b"1", b"2", b"3"]


def test_poll_arrow_gives_the_spark_sources_columns(log):
    log.create_topic("t", partitions=2)
    with log.producer() as producer:
        producer.send_arrow("t", pa.table({"value": ["a", "b"], "key": ["x", "y"]}))
    with log.consumer("t", auto_offset_reset="earliest") as consumer:
        table = pa.Table.from_batches(consumer.poll_arrow(timeout_ms=1000))
    assert table.column_names == [
        "key", "value", "topic", "partition", "offset", "timestamp", "timestampType", "headers",
    ]  # fmt: skip
    assert sorted(table["value"].to_pylist()) == [b"a", b"b"]


def test_max_poll_records_limits_each_poll_and_position_follows(log):
    log.create_topic("t")
    with log.producer() as producer:
        producer.send_arrow("t", pa.table({"value": [b"%d" % i for i in range(25)]}))
    with log.consumer("t", auto_offset_reset="earliest", max_poll_records=10) as consumer:
        sizes = []
        while batch := consumer.poll():
            sizes.append(len(batch))
            assert consumer.position("t", 0) == batch[-1].offset + 1
    assert sizes == [10, 10, 5]


def test_tailing_consumer_gets_new_records_and_new_partitions(log):
    log.create_topic("t")
    with log.consumer("t", auto_offset_reset="latest") as consumer, log.producer() as producer:
        assert consumer.poll() == []
        producer.send("t", value=b"1").result()
        assert [r.value for r in consumer.poll(timeout_ms=5000)] == [b"1"]
        log.topic("t").add_partitions(2)
        producer.send("t", value=b"2", partition=1).result()
        assert [(r.partition, r.value) for r in consumer.poll(timeout_ms=5000)] == [(1, b"2")]


def test_seek_pause_resume_and_timestamp_move_the_position(log):
    log.create_topic("t")
    with log.producer() as producer:
        for i in range(10):
            producer.send("t", value=b"%d" % i, timestamp_ms=1000 + i * 10)
    with log.consumer("t", auto_offset_reset="earliest") as consumer:
        consumer.seek("t", 0, 7)
        assert [r.value for r in consumer.poll()] == [b"7", b"8", b"9"]
        consumer.seek_to_beginning()
        consumer.pause(("t", 0))
        assert consumer.poll() == []
        consumer.resume(("t", 0))
        assert len(consumer.poll()) == 10
        consumer.seek_to_timestamp(1045)
        assert consumer.poll()[0].offset == 5
        consumer.seek_to_end()
        assert consumer.poll() == []
    assert log.offsets_for_times("t", 1045) == {0: 5}
    assert log.offsets_for_times("t", 99_999) == {0: None}


def test_wakeup_interrupts_a_waiting_poll(log):
    log.create_topic("t")
    consumer = log.consumer("t")
    threading.Timer(0.2, consumer.wakeup).start()
    started = time.monotonic()
    with pytest.raises(errors.WakeupError):
        consumer.poll(timeout_ms=30_000)
    assert time.monotonic() - started < 20
    consumer.close()


def test_position_out_of_range_follows_auto_offset_reset(log):
    log.create_topic("t")
    with log.producer() as producer:
        producer.send("t", value=b"1")
    with log.consumer("t", auto_offset_reset="none") as consumer:
        consumer.seek("t", 0, 99)
        with pytest.raises(errors.OffsetOutOfRangeError, match="99"):
            consumer.poll()
    with log.consumer("t", auto_offset_reset="earliest") as consumer:
        consumer.seek("t", 0, 99)
        assert [r.value for r in consumer.poll()] == [b"1"]


def test_topic_created_again_stops_sleeping_clients(log):
    log.create_topic("t")
    producer = log.producer()
    producer.send("t", value=b"old").result()
    consumer = log.consumer("t", auto_offset_reset="earliest")
    log.delete_topic("t")
    assert log.topics() == []
    log.create_topic("t", partitions=2)
    with pytest.raises(errors.TopicReplacedError):
        producer.send("t", value=b"zombie").result()
    with pytest.raises(errors.TopicReplacedError):
        consumer.poll()
    producer.close()
    consumer.close()
    assert log.end_offsets("t") == {0: 0, 1: 0}


def test_named_producer_resumes_where_its_id_was_and_fences_the_old_one(log, consume):
    log.create_topic("t")
    old = log.producer(producer_id="loader")
    assert old.committed("t") == 0
    for i in range(5):
        old.send("t", value=b"%d" % i).result()
    with log.producer(producer_id="loader") as new:
        assert new.committed("t") == 5
        with pytest.raises(errors.ProducerFencedError):
            old.send("t", value=b"zombie").result()
        new.send("t", value=b"5").result()
    old.close()
    assert [r.value for r in consume("t")] == [b"%d" % i for i in range(6)]


KILLED_PRODUCER = """
import sys, sparklog
log = sparklog.connect(sys.argv[1])
with log.producer(producer_id="p", linger_ms=0) as producer:
    i = producer.committed("t")
    while True:
        producer.send("t", value=b"%d" % i).result()
        print(i, flush=True)
        i += 1
"""


def test_killed_producer_loses_and_doubles_nothing_after_restarts(log, consume, tmp_path):
    log.create_topic("t")
    acknowledged = -1
    for round_number in range(6):
        process = subprocess.Popen(
            [sys.executable, "-c", KILLED_PRODUCER, log.store.uri], stdout=subprocess.PIPE
        )
        for _ in range(20 + round_number):
            acknowledged = int(process.stdout.readline())
        os.kill(process.pid, signal.SIGKILL)
        rest = process.stdout.read().split()
        acknowledged = int(rest[-1]) if rest else acknowledged
        process.wait()
        process.stdout.close()
    values = [int(r.value) for r in consume("t")]
    assert values == list(range(len(values)))
    assert len(values) > acknowledged


@pytest.mark.parametrize("acks", ["all", 1, 0])
def test_every_acks_level_delivers(log, consume, acks):
    log.create_topic("t")
    with log.producer(acks=acks) as producer:
        place = producer.send("t", value=b"1").result()
    assert place.offset == (-1 if acks == 0 else 0)
    assert [r.value for r in consume("t")] == [b"1"]


def test_log_append_time_replaces_the_senders_timestamp(log, consume):
    log.create_topic("t", config={"message.timestamp.type": "LogAppendTime"})
    with log.producer() as producer:
        producer.send("t", value=b"1", timestamp_ms=5)
    assert consume("t")[0].timestamp_ms > 5


def test_bad_input_is_a_typed_error_and_writes_nothing(log):
    log.create_topic("t", config={"max.message.bytes": 1000})
    for name in ("../x", "a/b", "%2e%2e", "a\0b", "x" * 250, "", ".", "_own"):
        with pytest.raises(errors.InvalidNameError):
            log.create_topic(name)
    with pytest.raises(errors.InvalidNameError, match="case"):
        log.create_topic("T")
    with pytest.raises(errors.TopicExistsError):
        log.create_topic("t")
    with pytest.raises(errors.InvalidConfigError, match="retention.ms"):
        log.create_topic("u", config={"retention.msx": 1})
    with log.producer() as producer:
        with pytest.raises(errors.UnknownTopicError, match="absent"):
            producer.send("absent", value=b"1")
        with pytest.raises(errors.UnknownPartitionError, match="7"):
            producer.send("t", value=b"1", partition=7)
        with pytest.raises(errors.RecordTooLargeError, match="1000"):
            producer.send("t", value=b"x" * 1001)
        with pytest.raises(errors.InvalidRecordError, match="encode"):
            producer.send("t", value="text")
        with pytest.raises(errors.InvalidRecordError, match="value"):
            producer.send_arrow("t", pa.table({"x": [1]}))
    with pytest.raises(errors.ClientClosedError):
        producer.send("t", value=b"1")
    with pytest.raises(errors.UnknownTopicError):
        log.consumer("absent")
    assert log.end_offsets("t") == {0: 0}


def test_corrupt_commit_and_truncated_segment_are_named(log):
    log.create_topic("t")
    with log.producer() as producer:
        producer.send("t", value=b"x" * 100)
    folder = Path(log.store.uri) / "topics" / "t"
    (segment,) = (folder / "p0").glob("*.parquet")
    whole = segment.read_bytes()
    segment.write_bytes(whole[:-7])
    with log.consumer("t", auto_offset_reset="earliest") as consumer:
        with pytest.raises(errors.CorruptSegmentError, match=segment.name):
            consumer.poll()
    flipped = bytearray(whole)
    flipped[40] ^= 0xFF
    segment.write_bytes(bytes(flipped))
    with log.consumer("t", auto_offset_reset="earliest") as consumer:
        with pytest.raises(errors.CorruptSegmentError, match=segment.name):
            consumer.poll()
    commit = folder / "_delta_log" / f"{1:020d}.json"
    commit.write_bytes(b"")
    with pytest.raises(errors.CorruptCommitError, match=commit.name):
        log.consumer("t")


def test_checkpoint_plus_tail_equals_replay(log, consume):
    log.create_topic("t", config={"delta.checkpointInterval": 5})
    with log.producer() as producer:
        for i in range(23):
            producer.send("t", value=b"%d" % i).result()
    folder = Path(log.store.uri) / "topics" / "t" / "_delta_log"
    assert list(folder.glob("*.checkpoint.parquet"))
    assert json.loads((folder / "_last_checkpoint").read_text())["version"] >= 4
    assert [r.value for r in consume("t")] == [b"%d" % i for i in range(23)]


def test_many_threads_share_one_producer(log, consume):
    log.create_topic("t", partitions=2)
    with log.producer() as producer:

        def work(name):
            for i in range(200):
                producer.send("t", key=name, value=b"%d" % i)

        threads = [threading.Thread(target=work, args=(b"t%d" % n,)) for n in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    by_key = {}
    for record in consume("t"):
        by_key.setdefault(record.key, []).append(int(record.value))
    assert by_key == {b"t%d" % n: list(range(200)) for n in range(4)}


def test_connect_without_create_refuses_an_absent_log(tmp_path):
    with pytest.raises(errors.LogNotFoundError):
        sparklog.connect(tmp_path / "none", create=False)


def test_alter_checks_changes_against_what_stands(log):
    topic = log.create_topic("t", config={"min.compaction.lag.ms": 5000})
    with pytest.raises(errors.InvalidConfigError, match="min.compaction.lag.ms"):
        topic.alter_config({"max.compaction.lag.ms": 1000})
    assert topic.describe().overrides == {"min.compaction.lag.ms": "5000"}
    topic.alter_config({"min.compaction.lag.ms": None, "max.compaction.lag.ms": 1000})
    assert topic.describe().overrides == {"max.compaction.lag.ms": "1000"}
