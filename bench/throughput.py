"""Rows a second, in Arrow batches and as single records, beside Kafka and plain Parquet.

The same rows for all (16-byte key, 100-byte value, 4 partitions), in turns. Making the rows and the
topic is not timed; opening the client and the last acknowledgement are.
"""

from __future__ import annotations

import gc
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import sparklog
from bench import kafka_client
from bench.kafka_server import kafka_or_not
from bench.measure import KAFKA, OURS, PARQUET, Measure, Outcome
from bench.turns import Task, best_rates, check, timed
from sparklog.clients.log import Log

PARTITIONS = 4
KEY_BYTES = 16
VALUE_BYTES = 100
BATCH_ROWS = 50_000
KAFKA_BATCH_ROWS = 10_000
WARM_UP_ROWS = 500_000
WARM_UP_ROUNDS = 3
AT_ONCE = 500  # max.poll.records; Kafka's client is slower with thousands
# A batch call fails when the queue is full, so its queue holds everything.
KAFKA_BATCHES = {**kafka_client.PRODUCER_TUNED, "queue.buffering.max.messages": 10_000_000}


@dataclass(frozen=True)
class Rows:
    """The same rows in the shapes that the clients take."""

    table: pa.Table
    keys: list[bytes]
    values: list[bytes]

    @property
    def count(self) -> int:
        """How many."""
        return len(self.keys)

    def messages(self) -> Iterator[list[dict[str, bytes]]]:
        """Batches for Kafka's produce_batch."""
        for start in range(0, self.count, KAFKA_BATCH_ROWS):
            stop = start + KAFKA_BATCH_ROWS
            pairs = zip(self.keys[start:stop], self.values[start:stop], strict=True)
            yield [{"key": key, "value": value} for key, value in pairs]


# Ours, and the peers that it is compared with.
COMPARED = {
    "send_arrow": ("Parquet write", "Kafka produce_batch, tuned", "Kafka produce, tuned"),
    "send": ("Kafka produce", "Kafka produce, tuned"),
    "poll_arrow": ("Parquet read", "Kafka consume, tuned"),
    "poll": ("Kafka consume", "Kafka consume, tuned"),
}


def make_rows(count: int) -> Rows:
    """Random letters: they compress about as text without repetition does."""
    rng = np.random.default_rng(7)
    keys, values = _letters(count, KEY_BYTES, rng), _letters(count, VALUE_BYTES, rng)
    table = pa.table({"key": pa.array(keys, pa.binary()), "value": pa.array(values, pa.binary())})
    return Rows(table, keys, values)


def _letters(count: int, width: int, rng: np.random.Generator) -> list[bytes]:
    data = rng.integers(97, 123, count * width, dtype=np.uint8).tobytes()
    return [bytes(item) for item in np.frombuffer(data, f"V{width}").tolist()]


def run(folder: Path, full: bool) -> Outcome:
    """Produce and consume; every figure in rows a second."""
    rows = make_rows(5_000_000 if full else 500_000)
    rounds = 3 if full else 2
    gc.collect()
    gc.freeze()  # else every collection walks the rows, and whoever makes most objects pays
    log = sparklog.connect(folder / "log")
    with kafka_or_not(folder / "kafka") as peer:
        tasks = [*_parquet_tasks(folder, rows), *_our_tasks(log, rows)]
        notes = [f"best of {rounds}; acks=all: ours syncs to disk, Kafka's stays in page cache"]
        if peer.bootstrap is not None:
            _warm_up(peer.bootstrap, rows)
            tasks += _kafka_tasks(peer.bootstrap, rows)
        best = best_rates(tasks, rounds)
    gc.unfreeze()
    return Outcome(_measures(tasks, best), notes, peer.why_not)


def _measures(tasks: list[Task], best: list[float]) -> list[Measure]:
    measures = [
        Measure(task.name, round(rate), "rows/s", task.panel, task.system)
        for task, rate in zip(tasks, best, strict=True)
    ]
    by_title = {measure.title: measure for measure in measures}
    for name, peers in COMPARED.items():
        for peer in peers:
            if peer in by_title:
                by_title[name].compare(by_title[peer])
    return sorted(measures, key=lambda m: (m.panel != "produce", m.system != OURS))


def _parquet_tasks(folder: Path, rows: Rows) -> list[Task]:
    def write(_: int) -> float:
        return timed(lambda: _parquet_write(folder, rows.table))

    def read(_: int) -> float:
        return timed(lambda: _parquet_read(folder, rows.count))

    return [
        Task(PARQUET, "produce", "write", rows.count, write),
        Task(PARQUET, "consume", "read", rows.count, read),
    ]


def _our_tasks(log: Log, rows: Rows) -> list[Task]:
    def send_arrow(number: int) -> float:
        log.create_topic(f"arrow-{number}", PARTITIONS)
        return timed(lambda: _send_arrow(log, f"arrow-{number}", rows.table))

    def poll_arrow(number: int) -> float:
        return timed(lambda: _poll_arrow(log, f"arrow-{number}", rows.count))

    def send(number: int) -> float:
        log.create_topic(f"single-{number}", PARTITIONS)
        return timed(lambda: _send(log, f"single-{number}", rows))

    def poll(number: int) -> float:
        return timed(lambda: _poll(log, f"single-{number}", rows.count))

    return [
        Task(OURS, "produce", "send_arrow", rows.count, send_arrow),
        Task(OURS, "consume", "poll_arrow", rows.count, poll_arrow),
        Task(OURS, "produce", "send", rows.count, send),
        Task(OURS, "consume", "poll", rows.count, poll),
    ]


def _kafka_tasks(bootstrap: str, rows: Rows) -> list[Task]:
    def produced(topic: str, send: Callable[[str], float]) -> float:
        kafka_client.create_topic(bootstrap, topic, PARTITIONS)
        seconds = send(topic)
        check(kafka_client.count(bootstrap, topic, PARTITIONS), rows.count)
        return seconds

    def produce(settings: dict[str, Any]) -> Callable[[str], float]:
        return lambda topic: kafka_client.produce(
            bootstrap, topic, rows.keys, rows.values, settings
        )

    def produce_batch(topic: str) -> float:
        batches = list(rows.messages())
        return kafka_client.produce_batches(bootstrap, topic, batches, KAFKA_BATCHES)

    def consumed(topic: str, at_once: int, settings: dict[str, Any]) -> float:
        return kafka_client.consume(bootstrap, topic, PARTITIONS, rows.count, at_once, settings)

    plain, tuned = kafka_client.PRODUCER_DEFAULTS, kafka_client.PRODUCER_TUNED
    works: list[tuple[str, str, Callable[[int], float]]] = [
        ("produce", "produce", lambda n: produced(f"plain-{n}", produce(plain))),
        ("produce", "produce, tuned", lambda n: produced(f"tuned-{n}", produce(tuned))),
        ("produce", "produce_batch, tuned", lambda n: produced(f"batch-{n}", produce_batch)),
        (
            "consume",
            "consume",
            lambda n: consumed(f"tuned-{n}", AT_ONCE, kafka_client.CONSUMER_DEFAULTS),
        ),
        (
            "consume",
            "consume, tuned",
            lambda n: consumed(f"tuned-{n}", AT_ONCE, kafka_client.CONSUMER_TUNED),
        ),
    ]
    return [Task(KAFKA, panel, name, rows.count, work) for panel, name, work in works]


def _warm_up(bootstrap: str, rows: Rows) -> None:
    """Let the broker's JVM compile what is going to be timed: its first million rows are slow."""
    count = min(WARM_UP_ROWS, rows.count)
    keys, values = rows.keys[:count], rows.values[:count]
    for number in range(WARM_UP_ROUNDS):
        topic = f"warm-{number}"
        kafka_client.create_topic(bootstrap, topic, PARTITIONS)
        kafka_client.produce(bootstrap, topic, keys, values, kafka_client.PRODUCER_TUNED)
        kafka_client.consume(
            bootstrap, topic, PARTITIONS, count, AT_ONCE, kafka_client.CONSUMER_TUNED
        )


def _parquet_write(folder: Path, table: pa.Table) -> None:
    """As many files as partitions, synced as acks=all is."""
    share = -(-table.num_rows // PARTITIONS)
    for number in range(PARTITIONS):
        part = table.slice(number * share, share)
        with (folder / f"peer-{number}.parquet").open("wb") as file:
            pq.write_table(part, file, compression="lz4", use_dictionary=False)
            file.flush()
            os.fsync(file.fileno())


def _parquet_read(folder: Path, rows: int) -> None:
    read = sum(
        pq.read_table(folder / f"peer-{number}.parquet").num_rows for number in range(PARTITIONS)
    )
    check(read, rows)


def _send_arrow(log: Log, topic: str, table: pa.Table) -> None:
    with log.producer() as producer:
        futures = [
            producer.send_arrow(topic, table.slice(start, BATCH_ROWS))
            for start in range(0, table.num_rows, BATCH_ROWS)
        ]
    check(sum(place.records for f in futures for place in f.result()), table.num_rows)


def _poll_arrow(log: Log, topic: str, rows: int) -> None:
    with log.consumer(topic, auto_offset_reset="earliest") as consumer:
        read = 0
        while batches := consumer.poll_arrow():
            read += sum(batch.num_rows for batch in batches)
    check(read, rows)


def _send(log: Log, topic: str, rows: Rows) -> None:
    with log.producer() as producer:
        for key, value in zip(rows.keys, rows.values, strict=True):
            last = producer.send(topic, value, key=key)
    last.result()


def _poll(log: Log, topic: str, rows: int) -> None:
    with log.consumer(topic, auto_offset_reset="earliest") as consumer:
        read = 0
        while records := consumer.poll():
            read += len(records)
    check(read, rows)
