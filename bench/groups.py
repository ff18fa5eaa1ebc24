"""Consumer groups: how soon members that join at once have settled, and offset commits a second.

Settled means that every partition has its owner and every member its share. Members are threads
of one process, in both systems; Kafka's `group.initial.rebalance.delay.ms` is 0, or its broker
would wait for three seconds by design.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, TopicPartition

import sparklog
from bench import kafka_client
from bench.kafka_server import kafka_or_not
from bench.measure import KAFKA, Measure, Outcome

TOPIC = "orders"
MEMBERS = (3, 20)
PARTITIONS = 60
GIVE_UP_SECONDS = 60.0
GROUP = "bench"


def run(folder: Path, full: bool) -> Outcome:
    """Seconds until settled, commits a second; beside Kafka's where it can be had."""
    commits = 3000 if full else 500
    log = sparklog.connect(folder / "log")
    log.create_topic(TOPIC, PARTITIONS)
    with log.producer() as producer:
        for number in range(PARTITIONS):
            producer.send(TOPIC, b"x" * 100, partition=number)
    ours = [Measure(f"{n} members settle", _settle_ours(log, n), "s", "groups") for n in MEMBERS]
    ours += [
        Measure(
            f"offset commits, {n} a commit", _commits_ours(log, n, commits), "commits/s", "groups"
        )
        for n in (1, PARTITIONS)
    ]
    theirs: list[Measure] = []
    with kafka_or_not(folder / "kafka") as peer:
        if peer.bootstrap is not None:
            theirs = _kafka(peer.bootstrap, commits)
    for mine, other in zip(ours, theirs, strict=False):
        mine.compare(other)
    notes = [
        f"{PARTITIONS} partitions, local disk; our commits are synced to disk, Kafka's are not"
    ]
    return Outcome([*ours, *theirs], notes, peer.why_not)


def _kafka(bootstrap: str, commits: int) -> list[Measure]:
    kafka_client.create_topic(bootstrap, TOPIC, PARTITIONS)
    rows = [b"x" * 100] * PARTITIONS
    keys = [b"%d" % n for n in range(PARTITIONS)]
    kafka_client.produce(bootstrap, TOPIC, keys, rows, kafka_client.PRODUCER_DEFAULTS)
    _settle_kafka(bootstrap, 1, "warm")
    found = [
        Measure(
            f"{n} members settle", _settle_kafka(bootstrap, n, f"settle{n}"), "s", "groups", KAFKA
        )
        for n in MEMBERS
    ]
    return found + [
        Measure(
            f"offset commits, {n} a commit",
            _commits_kafka(bootstrap, n, commits),
            "commits/s",
            "groups",
            KAFKA,
        )
        for n in (1, PARTITIONS)
    ]


def _settle(count: int, live: Callable[[int, list[int], threading.Event], None]) -> float:
    """Run members on threads until each partition has one owner and nobody has too many."""
    shares = [0] * count
    ended = threading.Event()
    threads = [threading.Thread(target=live, args=(n, shares, ended)) for n in range(count)]
    start = time.perf_counter()
    for thread in threads:
        thread.start()
    while sum(shares) != PARTITIONS or max(shares) - min(shares) > 1:
        if time.perf_counter() - start > GIVE_UP_SECONDS:
            ended.set()
            raise AssertionError(f"not settled: {shares}")
        time.sleep(0.001)
    seconds = time.perf_counter() - start
    ended.set()
    for thread in threads:
        thread.join()
    return round(seconds, 3)


def _settle_ours(log: sparklog.Log, count: int) -> float:
    def live(number: int, shares: list[int], ended: threading.Event) -> None:
        with log.consumer(TOPIC, group_id=f"settle{count}") as consumer:
            while not ended.is_set():
                consumer.poll(20)
                shares[number] = len(consumer.assignment())

    return _settle(count, live)


def _settle_kafka(bootstrap: str, count: int, group: str) -> float:
    def live(number: int, shares: list[int], ended: threading.Event) -> None:
        consumer = Consumer(_settings(bootstrap, group))
        consumer.subscribe([TOPIC])
        while not ended.is_set():
            consumer.poll(0.02)
            if not ended.is_set():
                shares[number] = len(consumer.assignment())
        consumer.close()

    return _settle(count, live)


def _commits_ours(log: sparklog.Log, partitions: int, commits: int) -> float:
    with log.consumer(TOPIC, group_id=f"{GROUP}{partitions}", enable_auto_commit=False) as consumer:
        consumer.poll(0)
        start = time.perf_counter()
        for number in range(commits):
            consumer.commit({(TOPIC, p): number % 2 for p in range(partitions)})
        return round(commits / (time.perf_counter() - start), 1)


def _commits_kafka(bootstrap: str, partitions: int, commits: int) -> float:
    consumer = Consumer(_settings(bootstrap, f"{GROUP}{partitions}"))
    consumer.subscribe([TOPIC])
    deadline = time.monotonic() + GIVE_UP_SECONDS
    while len(consumer.assignment()) < PARTITIONS and time.monotonic() < deadline:
        consumer.poll(0.05)
    start = time.perf_counter()
    for number in range(commits):
        offsets = [TopicPartition(TOPIC, p, number % 2) for p in range(partitions)]
        consumer.commit(offsets=offsets, asynchronous=False)
    seconds = time.perf_counter() - start
    consumer.close()
    return round(commits / seconds, 1)


def _settings(bootstrap: str, group: str) -> dict[str, Any]:
    return {
        "bootstrap.servers": bootstrap,
        "group.id": group,
        "enable.auto.commit": False,
        "partition.assignment.strategy": "cooperative-sticky",
        "auto.offset.reset": "earliest",
    }
