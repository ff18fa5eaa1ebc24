"""A topic of many versions: the time and memory to open it, and the time of one commit on it."""

from __future__ import annotations

import multiprocessing
import statistics
import time
from multiprocessing.connection import Connection
from pathlib import Path

import sparklog
from bench.measure import Measure, Outcome

COMMITS_TIMED = 20


def run(folder: Path, full: bool) -> Outcome:
    """Opened in a new process, so that its memory is its own."""
    versions = 100_000 if full else 5_000
    log = sparklog.connect(folder)
    log.create_topic("orders", 4)
    with log.producer(acks="1", linger_ms=0) as producer:
        for number in range(versions - 1):
            producer.send("orders", b"value", partition=number % 4)
            producer.flush()
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    worker = context.Process(target=_open, args=(str(folder), theirs))
    worker.start()
    theirs.close()
    version, open_ms, grown_mib, commit_ms = ours.recv()
    worker.join()
    name = f"{version:,} versions"
    measures = [
        Measure(f"open, {name}", round(open_ms, 1), "ms", "versions"),
        Measure(f"peak RSS growth of open, {name}", round(grown_mib, 1), "MiB", "versions"),
        Measure(f"commit acks=all, {name}", round(commit_ms, 2), "ms", "versions"),
    ]
    return Outcome(measures, ["opened in a new process; the commit is a median; no peer"])


def _open(root: str, pipe: Connection) -> None:
    log = sparklog.connect(root, create=False)
    log.create_topic("warm")  # imports and threads are paid for here
    with log.producer(linger_ms=0) as producer:
        producer.send("warm", b"value")
        producer.flush()
    before = _peak_mib()
    start = time.perf_counter()
    consumer = log.consumer("orders")
    open_ms = (time.perf_counter() - start) * 1000
    grown = _peak_mib() - before
    consumer.close()
    times = []
    with log.producer(linger_ms=0) as producer:
        producer.committed("orders")
        for _ in range(COMMITS_TIMED):
            start = time.perf_counter()
            producer.send("orders", b"value").result()
            times.append((time.perf_counter() - start) * 1000)
    version = log.topic("orders").describe().version - COMMITS_TIMED
    pipe.send((version, open_ms, grown, statistics.median(times)))


def _peak_mib() -> float:
    """VmHWM: getrusage's peak would be inherited from the parent."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) / 1024
    raise AssertionError("no VmHWM in /proc/self/status")
