"""Competing producers on one topic; then nothing lost, nothing twice.

Two modes. One by one: every record is a commit of its own and waited for, which is contention at
its worst. Gathering: producers send as fast as they can with the default linger, so that whoever
loses a race has more to put into the next commit.
"""

from __future__ import annotations

import multiprocessing
import time
from multiprocessing.synchronize import Barrier
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

import sparklog
from bench.measure import Measure, Outcome

PRODUCERS = (1, 4, 8)
TOPIC = "orders"
NUMBER_BITS = 40  # a value is the producer's number above these, and a count in them


class Sent(NamedTuple):
    """What one producer did, and when by the machine's monotonic clock."""

    number: int
    records: int
    start: float
    end: float


def run(folder: Path, full: bool) -> Outcome:
    """Commits and records a second, all producers together; the peer is one producer."""
    seconds = 15.0 if full else 3.0
    measures: list[Measure] = []
    for gather in (False, True):
        first: list[Measure] = []
        for producers in PRODUCERS:
            root = folder / f"{'gather' if gather else 'single'}-{producers}"
            found = _measure(root, producers, seconds, gather)
            for measure, one in zip(found, first, strict=False):
                measure.compare(one)
            first = first or found
            measures += found
    return Outcome(measures, [f"{seconds:.0f} s each; no loss and no duplicate, checked"])


def _measure(root: Path, producers: int, seconds: float, gather: bool) -> list[Measure]:
    log = sparklog.connect(root)
    log.create_topic(TOPIC, 4)
    version = log.topic(TOPIC).describe().version
    context = multiprocessing.get_context("spawn")
    barrier = context.Barrier(producers)
    counts = context.Queue()
    workers = [
        context.Process(
            target=_produce, args=(str(root), n, seconds, gather, barrier, counts), daemon=True
        )
        for n in range(producers)
    ]
    for worker in workers:
        worker.start()
    sent = [counts.get(timeout=seconds + 120) for _ in workers]
    for worker in workers:
        worker.join()
    _verify(log, sent)
    took = max(s.end for s in sent) - min(s.start for s in sent)
    commits = (log.topic(TOPIC).describe().version - version) / took
    each = [s.records for s in sent]
    name = f"{producers} producer{'s' if producers > 1 else ''}"
    extra = {"fewest by one": float(min(each)), "most by one": float(max(each))}
    if not gather:
        return [Measure(name, round(commits, 1), "commits/s", "one by one", extra=extra)]
    name += ", gathering"
    return [
        Measure(name, round(sum(each) / took), "records/s", "gathering", extra=extra),
        Measure(name, round(commits, 1), "commits/s", "gathering", extra=extra),
    ]


def _produce(
    root: str, number: int, seconds: float, gather: bool, barrier: Barrier, counts: Any
) -> None:
    log = sparklog.connect(root, create=False)
    count = 0
    with log.producer(linger_ms=None if gather else 0) as producer:
        producer.committed(TOPIC)  # opens the topic before the clock starts
        barrier.wait()
        start = time.monotonic()
        while time.monotonic() < start + seconds:
            future = producer.send(TOPIC, _value(number, count))
            if not gather:
                producer.flush()
                future.result()
            count += 1
        producer.flush()
        future.result()
        end = time.monotonic()
    counts.put(Sent(number, count, start, end))


def _value(number: int, count: int) -> bytes:
    return (number << NUMBER_BITS | count).to_bytes(8, "little")


def _verify(log: sparklog.Log, sent: list[Sent]) -> None:
    arrays = [np.empty(0, np.uint64)]
    with log.consumer(TOPIC, auto_offset_reset="earliest") as consumer:
        while batches := consumer.poll_arrow():
            arrays += [_numbers(batch.column("value")) for batch in batches]
    found, times = np.unique(np.concatenate(arrays), return_counts=True)
    expected = np.concatenate(
        [np.arange(s.records, dtype=np.uint64) + np.uint64(s.number << NUMBER_BITS) for s in sent]
    )
    lost, foreign = np.setdiff1d(expected, found), np.setdiff1d(found, expected)
    twice = found[times > 1]
    if len(lost) or len(twice) or len(foreign):
        raise AssertionError(
            f"{len(lost)} lost, {len(twice)} twice, {len(foreign)} never sent: "
            f"{lost[:5]} {twice[:5]} {foreign[:5]}"
        )


def _numbers(values: pa.Array) -> np.ndarray:
    """The values of a batch as numbers; one of another length is an error."""
    fixed = values.cast(pa.binary(8))
    return np.frombuffer(fixed.buffers()[1], "<u8")[fixed.offset : fixed.offset + len(fixed)]
