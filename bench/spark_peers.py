"""The two systems as Spark sees them: topics to create, and the options to reach them.

Both classes have the same shape. The Kafka connector also comes tuned: its defaults fetch 1 MiB and
poll 500 records at a time, and write batches of 16 KiB without compression. Ours has no such
variant: what is right for it is its default.
"""

from __future__ import annotations

import itertools
import shutil
from pathlib import Path
from typing import Protocol

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient

import sparklog
from bench import kafka_client
from bench.latency import at_rate
from bench.measure import KAFKA, OURS

PARTITIONS = 4
FLUSH_SECONDS = 30
LOG_ERRORS = 3

KAFKA_SOURCE_TUNED = {
    "kafka.max.poll.records": "10000",
    "kafka.max.partition.fetch.bytes": str(16 << 20),
    "kafka.fetch.max.bytes": str(256 << 20),
    "kafka.receive.buffer.bytes": str(1 << 20),
}
KAFKA_SINK_TUNED = {
    "kafka.compression.type": "lz4",
    "kafka.linger.ms": "20",
    "kafka.batch.size": str(1 << 20),
    "kafka.buffer.memory": str(256 << 20),
}


class System(Protocol):
    """Where topics are made, for Spark to write and to read."""

    system: str
    format: str

    def create(self, topic: str) -> None:
        """An empty topic."""
        ...

    def source(self, topic: str, tuned: bool = False) -> dict[str, str]:
        """Options to read it from its start, or for a stream from where it starts."""
        ...

    def sink(self, topic: str, tuned: bool = False) -> dict[str, str]:
        """Options to write to it."""
        ...

    def count(self, topic: str) -> int:
        """How many records it holds."""
        ...

    def remove(self, topic: str) -> None:
        """Free its place."""
        ...

    def send_steadily(self, topic: str, total: int) -> None:
        """Send single records at the steady rate to each partition in turn, with the defaults."""
        ...


class Sparklog:
    """A log for each topic, so that a topic is removed with its files."""

    system = OURS
    format = "sparklog"

    def __init__(self, folder: Path) -> None:
        """Logs stand in this folder."""
        self._folder = folder

    def root(self, topic: str) -> str:
        """The log of a topic."""
        return str(self._folder / topic)

    def create(self, topic: str) -> None:
        """An empty topic."""
        sparklog.connect(self.root(topic)).create_topic(topic, PARTITIONS)

    def source(self, topic: str, tuned: bool = False) -> dict[str, str]:
        """Options to read it."""
        if tuned:
            raise AssertionError("sparklog has no tuned variant")
        return {"path": self.root(topic), "subscribe": topic, "startingOffsets": "earliest"}

    def sink(self, topic: str, tuned: bool = False) -> dict[str, str]:
        """Options to write to it."""
        if tuned:
            raise AssertionError("sparklog has no tuned variant")
        return {"path": self.root(topic), "topic": topic}

    def count(self, topic: str) -> int:
        """How many records it holds."""
        return sum(sparklog.connect(self.root(topic), create=False).end_offsets(topic).values())

    def remove(self, topic: str) -> None:
        """Free its place."""
        shutil.rmtree(self.root(topic))

    def send_steadily(self, topic: str, total: int) -> None:
        """Send single records at the steady rate to each partition in turn, with the defaults."""
        turn = itertools.cycle(range(PARTITIONS))
        with sparklog.connect(self.root(topic), create=False).producer() as producer:
            at_rate(total, lambda value: producer.send(topic, value, partition=next(turn)))


class Kafka:
    """Topics on one broker."""

    system = KAFKA
    format = "kafka"

    def __init__(self, bootstrap: str) -> None:
        """The broker's address."""
        self.bootstrap = bootstrap

    def create(self, topic: str) -> None:
        """An empty topic."""
        kafka_client.create_topic(self.bootstrap, topic, PARTITIONS)

    def source(self, topic: str, tuned: bool = False) -> dict[str, str]:
        """Options to read it."""
        return {
            "kafka.bootstrap.servers": self.bootstrap,
            "subscribe": topic,
            "startingOffsets": "earliest",
            **(KAFKA_SOURCE_TUNED if tuned else {}),
        }

    def sink(self, topic: str, tuned: bool = False) -> dict[str, str]:
        """Options to write to it."""
        return {
            "kafka.bootstrap.servers": self.bootstrap,
            "topic": topic,
            **(KAFKA_SINK_TUNED if tuned else {}),
        }

    def count(self, topic: str) -> int:
        """How many records it holds."""
        return kafka_client.count(self.bootstrap, topic, PARTITIONS)

    def remove(self, topic: str) -> None:
        """Free its place; the broker deletes the files a minute later."""
        settings: dict[str, str | int | float | bool] = {
            "bootstrap.servers": self.bootstrap,
            "log_level": LOG_ERRORS,
        }
        admin = AdminClient(settings)  # it must outlive the answer
        admin.delete_topics([topic])[topic].result(30)

    def send_steadily(self, topic: str, total: int) -> None:
        """Send single records at the steady rate to each partition in turn, with the defaults."""
        turn = itertools.cycle(range(PARTITIONS))
        producer = Producer({"bootstrap.servers": self.bootstrap})

        def send(value: bytes) -> None:
            producer.produce(topic, value, partition=next(turn))
            producer.poll(0)

        at_rate(total, send)
        producer.flush(FLUSH_SECONDS)
