"""From send in one process to receipt in another, at a steady rate, ours and through Kafka.

Both with acks=all and acks=1 and without lingering, one partition. The clock is CLOCK_MONOTONIC,
which is the same in all processes of a machine. Kafka's consumer takes records by `poll`: its
`consume(n)` would wait until n are there.
"""

from __future__ import annotations

import multiprocessing
import os
import struct
import time
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np
from confluent_kafka import Consumer, Producer, TopicPartition

import sparklog
from bench import kafka_client
from bench.kafka_server import kafka_or_not
from bench.measure import KAFKA, OURS, Measure, Outcome

RATE = 1_000
WARM_UP_SECONDS = 3
VALUE_BYTES = 100
QUIET_MS = 10_000
ACKS = ("all", "1")
PERCENTS = (50, 99)
TOPIC = "orders"


def run(folder: Path, full: bool) -> Outcome:
    """Percentiles for each acks, with linger_ms=0."""
    seconds = 30 if full else 6
    ours = [m for acks in ACKS for m in _ours(folder / f"acks-{acks}", acks, seconds)]
    notes = [f"{RATE:,} records/s, {seconds} s; acks=all: ours syncs to disk, Kafka's does not"]
    theirs: list[Measure] = []
    with kafka_or_not(folder / "kafka") as peer:
        if peer.bootstrap is not None:
            _kafka(peer.bootstrap, "all", 1, "warm")  # the JVM compiles
            theirs = [m for acks in ACKS for m in _kafka(peer.bootstrap, acks, seconds)]
    for mine, other in zip(ours, theirs, strict=False):
        mine.compare(other)
    return Outcome([*ours, *theirs], notes, peer.why_not)


def _ours(root: Path, acks: str, seconds: int) -> list[Measure]:
    log = sparklog.connect(root)
    log.create_topic(TOPIC)

    def produce(total: int) -> None:
        with log.producer(acks=acks, linger_ms=0) as producer:
            at_rate(total, lambda value: producer.send(TOPIC, value))

    return _measures(OURS, acks, _delays(_consume, str(root), produce, seconds))


def _kafka(bootstrap: str, acks: str, seconds: int, prefix: str = TOPIC) -> list[Measure]:
    topic = f"{prefix}-{acks}"
    kafka_client.create_topic(bootstrap, topic, 1)
    settings = {
        "bootstrap.servers": bootstrap,
        "acks": acks,
        "linger.ms": 0,
        "socket.nagle.disable": True,
    }

    def produce(total: int) -> None:
        producer = Producer(settings)

        def send(value: bytes) -> None:
            producer.produce(topic, value)
            producer.poll(0)

        at_rate(total, send)
        producer.flush(QUIET_MS / 1000)

    delays = _delays(_consume_kafka, (bootstrap, topic), produce, seconds)
    return _measures(KAFKA, acks, delays)


def _measures(system: str, acks: str, delays: np.ndarray) -> list[Measure]:
    return [
        Measure(
            f"acks={acks} p{percent}",
            round(float(np.percentile(delays, percent)), 2),
            "ms",
            "latency",
            system,
            extra={"records": len(delays)},
        )
        for percent in PERCENTS
    ]


def _delays(
    consume: Callable[[Any, int, Connection], None],
    where: Any,
    produce: Callable[[int], None],
    seconds: int,
) -> np.ndarray:
    """The delays in ms, those of the warm-up left out."""
    total = RATE * (seconds + WARM_UP_SECONDS)
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    reader = context.Process(target=consume, args=(where, total, theirs), daemon=True)
    reader.start()
    theirs.close()
    ours.recv()  # the consumer is ready
    os.sync()  # nobody pays for what another one left dirty
    produce(total)
    delays = ours.recv()
    reader.join()
    return np.array(delays[RATE * WARM_UP_SECONDS :])


def at_rate(total: int, send: Callable[[bytes], Any]) -> None:
    """Send at a steady rate values that begin with the time of their sending."""
    padding = bytes(VALUE_BYTES - 8)
    start = time.perf_counter()
    for number in range(total):
        ahead = start + number / RATE - time.perf_counter()
        if ahead > 0:
            time.sleep(ahead)
        send(struct.pack("<q", time.monotonic_ns()) + padding)


def _delay_ms(now_ns: int, value: bytes) -> float:
    return float(now_ns - struct.unpack_from("<q", value)[0]) / 1e6


def _consume(root: str, total: int, pipe: Connection) -> None:
    delays: list[float] = []
    log = sparklog.connect(root, create=False)
    with log.consumer(TOPIC, auto_offset_reset="earliest") as consumer:
        pipe.send("ready")
        while len(delays) < total:
            records = consumer.poll(timeout_ms=QUIET_MS)
            now = time.monotonic_ns()
            if not records:
                raise AssertionError(f"{len(delays)} of {total} came in {QUIET_MS} ms")
            delays += [_delay_ms(now, record.value or b"") for record in records]
    pipe.send(delays)


def _consume_kafka(where: tuple[str, str], total: int, pipe: Connection) -> None:
    delays: list[float] = []
    bootstrap, topic = where
    settings = {"bootstrap.servers": bootstrap, "socket.nagle.disable": True}
    consumer = Consumer({**settings, **kafka_client.CONSUMER_DEFAULTS})
    consumer.assign([TopicPartition(topic, 0, 0)])
    consumer.poll(1.0)  # it is connected and has a fetch under way
    pipe.send("ready")
    while len(delays) < total:
        message = consumer.poll(QUIET_MS / 1000)
        now = time.monotonic_ns()
        if message is None:
            raise AssertionError(f"{len(delays)} of {total} came in {QUIET_MS} ms from Kafka")
        kafka_client.check(message)
        delays.append(_delay_ms(now, message.value() or b""))
    consumer.close()
    pipe.send(delays)
