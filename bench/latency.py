"""From send in one process to poll in another, at a steady rate, on a local disk."""

from __future__ import annotations

import multiprocessing
import struct
import time
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np

import sparklog

RATE = 1_000
WARM_UP_SECONDS = 1
VALUE_BYTES = 100
QUIET_MS = 10_000


def run(folder: Path, full: bool) -> list[dict[str, Any]]:
    """Percentiles for acks=all and acks=1, with linger_ms=0."""
    seconds = 30 if full else 8
    rows = []
    for acks in ("all", "1"):
        delays = np.sort(_measure(folder / f"acks-{acks}", acks, seconds))
        for percent in (50, 99):
            rows.append(
                {
                    "name": f"acks={acks} p{percent}",
                    "value": round(float(np.percentile(delays, percent)), 2),
                    "unit": "ms",
                    "records": len(delays),
                }
            )
    return rows


def _measure(root: Path, acks: str, seconds: int) -> np.ndarray:
    log = sparklog.connect(root)
    log.create_topic("orders")
    total = RATE * (seconds + WARM_UP_SECONDS)
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    reader = context.Process(target=_consume, args=(str(root), total, theirs))
    reader.start()
    theirs.close()
    ours.recv()  # the consumer stands at the end of the log
    with log.producer(acks=acks, linger_ms=0) as producer:
        start = time.perf_counter()
        padding = bytes(VALUE_BYTES - 8)
        for number in range(total):
            ahead = start + number / RATE - time.perf_counter()
            if ahead > 0:
                time.sleep(ahead)
            producer.send("orders", struct.pack("<q", time.monotonic_ns()) + padding)
    delays = ours.recv()
    reader.join()
    return np.array(delays[RATE * WARM_UP_SECONDS :])


def _consume(root: str, total: int, pipe: Connection) -> None:
    """Delays in ms; CLOCK_MONOTONIC is the same clock in all processes of a machine."""
    delays: list[float] = []
    log = sparklog.connect(root, create=False)
    with log.consumer("orders", auto_offset_reset="earliest") as consumer:
        pipe.send("ready")
        while len(delays) < total:
            records = consumer.poll(timeout_ms=QUIET_MS)
            now = time.monotonic_ns()
            if not records:
                raise AssertionError(f"{len(delays)} of {total} came in {QUIET_MS} ms")
            delays += [(now - struct.unpack_from("<q", r.value)[0]) / 1e6 for r in records]
    pipe.send(delays)
