"""Commits a second with competing producers on one topic; then nothing lost, nothing twice."""

from __future__ import annotations

import multiprocessing
import time
from collections import Counter
from multiprocessing.synchronize import Barrier
from pathlib import Path
from typing import Any

import sparklog

PRODUCERS = (1, 4, 8)


def run(folder: Path, full: bool) -> list[dict[str, Any]]:
    """Commits a second, all producers together."""
    seconds = 15.0 if full else 5.0
    rows = [_measure(folder / f"by-{number}", number, seconds) for number in PRODUCERS]
    for row in rows:
        row["ratio"] = round(row["value"] / rows[0]["value"], 3)
    return rows


def _measure(root: Path, producers: int, seconds: float) -> dict[str, Any]:
    log = sparklog.connect(root)
    log.create_topic("orders", 4)
    context = multiprocessing.get_context("spawn")
    barrier = context.Barrier(producers)
    counts = context.Queue()
    workers = [
        context.Process(target=_produce, args=(str(root), number, seconds, barrier, counts))
        for number in range(producers)
    ]
    for worker in workers:
        worker.start()
    sent = dict(counts.get(timeout=seconds + 120) for _ in workers)
    for worker in workers:
        worker.join()
    _verify(log, sent)
    return {
        "name": f"{producers} producers",
        "value": round(sum(sent.values()) / seconds, 1),
        "unit": "commits/s",
        "fewest by one": min(sent.values()),
        "most by one": max(sent.values()),
    }


def _produce(root: str, number: int, seconds: float, barrier: Barrier, counts: Any) -> None:
    log = sparklog.connect(root, create=False)
    sent = 0
    with log.producer(linger_ms=0) as producer:
        producer.committed("orders")  # opens the topic before the clock starts
        barrier.wait()
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            future = producer.send("orders", b"%d:%d" % (number, sent))
            producer.flush()
            future.result()
            sent += 1
    counts.put((number, sent))


def _verify(log: sparklog.Log, sent: dict[int, int]) -> None:
    found: Counter[bytes] = Counter()
    with log.consumer("orders", auto_offset_reset="earliest") as consumer:
        while records := consumer.poll():
            found.update(record.value for record in records)
    expected = {b"%d:%d" % (number, i) for number, count in sent.items() for i in range(count)}
    lost = expected - found.keys()
    twice = [value for value, count in found.items() if count > 1]
    if lost or twice or len(found) != len(expected):
        raise AssertionError(f"{len(lost)} lost, {len(twice)} twice: {list(lost)[:5]} {twice[:5]}")
