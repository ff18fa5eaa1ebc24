"""The peer's clients: confluent-kafka, the fastest Kafka client that Python has.

Its settings are what a person who cares would choose. Keys are placed by murmur2, as ours are. On
one broker acks=all leaves records in the page cache: Kafka's durability is replication, so ours,
which syncs to disk, does more.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from confluent_kafka import Consumer, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

CONSUME_SECONDS = 60.0
PRODUCE_SECONDS = 120.0
SERVE_EVERY = 1_000

PRODUCER_DEFAULTS: dict[str, Any] = {
    "acks": "all",
    "compression.type": "lz4",
    "partitioner": "murmur2_random",
}
PRODUCER_TUNED: dict[str, Any] = {
    **PRODUCER_DEFAULTS,
    "linger.ms": 20,
    "batch.size": 1 << 20,
    "batch.num.messages": 100_000,
    "queue.buffering.max.messages": 2_000_000,
    "queue.buffering.max.kbytes": 1 << 20,
}
CONSUMER_DEFAULTS: dict[str, Any] = {"group.id": "bench", "enable.auto.commit": False}
CONSUMER_TUNED: dict[str, Any] = {
    **CONSUMER_DEFAULTS,
    "queued.min.messages": 1_000_000,
    "queued.max.messages.kbytes": 1 << 20,
}


def create_topic(bootstrap: str, topic: str, partitions: int) -> None:
    """Create a topic and wait until it is there."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(topic, partitions, 1)])[topic].result(30)
    deadline = time.monotonic() + 30
    while topic not in admin.list_topics(timeout=10).topics:
        if time.monotonic() > deadline:
            raise AssertionError(f"Kafka topic {topic!r} did not appear")
        time.sleep(0.05)


def produce(
    bootstrap: str,
    topic: str,
    keys: Sequence[bytes],
    values: Sequence[bytes],
    settings: dict[str, Any],
) -> float:
    """Send record by record and flush; the seconds it took."""
    start = time.perf_counter()
    producer = Producer({"bootstrap.servers": bootstrap, **settings})
    send, serve = producer.produce, producer.poll
    for number, (key, value) in enumerate(zip(keys, values, strict=True)):
        if number % SERVE_EVERY == 0:
            serve(0)
        while True:
            try:
                send(topic, value, key)
                break
            except BufferError:
                serve(0.01)
    _flush(producer)
    return time.perf_counter() - start


def produce_batches(
    bootstrap: str, topic: str, batches: Sequence[list[dict[str, Any]]], settings: dict[str, Any]
) -> float:
    """Send whole batches with produce_batch and flush; the seconds it took."""
    start = time.perf_counter()
    producer = Producer({"bootstrap.servers": bootstrap, **settings})
    for batch in batches:
        if producer.produce_batch(topic, batch) != len(batch):
            raise AssertionError("Kafka's producer did not take all: raise its queue")
        producer.poll(0)
    _flush(producer)
    return time.perf_counter() - start


def consume(
    bootstrap: str, topic: str, partitions: int, rows: int, at_once: int, settings: dict[str, Any]
) -> float:
    """Read all partitions from the start; the seconds until the last record came."""
    start = time.perf_counter()
    consumer = Consumer({"bootstrap.servers": bootstrap, **settings})
    consumer.assign([TopicPartition(topic, number, 0) for number in range(partitions)])
    read = 0
    while read < rows:
        messages = consumer.consume(min(at_once, rows - read), timeout=CONSUME_SECONDS)
        if not messages:
            raise AssertionError(f"Kafka gave {read} of {rows} rows in {CONSUME_SECONDS} s")
        check(messages[-1])
        read += len(messages)
    seconds = time.perf_counter() - start
    consumer.close()
    return seconds


def count(bootstrap: str, topic: str, partitions: int) -> int:
    """How many records the topic holds: what tells that all were taken."""
    consumer = Consumer({"bootstrap.servers": bootstrap, **CONSUMER_DEFAULTS})
    places = [TopicPartition(topic, number) for number in range(partitions)]
    ends = [consumer.get_watermark_offsets(place, timeout=30)[1] for place in places]
    consumer.close()
    return sum(ends)


def check(message: Message) -> None:
    """Raise what came instead of a record."""
    if message.error() is not None:
        raise AssertionError(f"Kafka: {message.error()}")


def _flush(producer: Producer) -> None:
    left = producer.flush(PRODUCE_SECONDS)
    if left:
        raise AssertionError(f"Kafka's producer kept {left} records for {PRODUCE_SECONDS} s")
