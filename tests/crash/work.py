"""What the children of the crash tests do, and the trap that ends or stops them.

A child acknowledges a record by a line in a file, written after `future.result()` returned. The
trap counts the system calls by which a log changes, and strikes at the n-th: before or after it.
Only the child that does the work is changed in this way; the store is the real one.
"""

from __future__ import annotations

import functools
import json
import os
import signal
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

import sparklog
from sparklog.errors import ProducerFencedError, SparklogError, TopicExistsError
from sparklog.log import housekeeping
from sparklog.storage.local_store import LocalOutputFile
from sparklog.table.clean_up import clean_up

TOPIC = "t"
CHECKPOINT_INTERVAL = 3
VERSIONS_KEPT = 0
TWO_HOURS_MS = 2 * 3600 * 1000
TRAPPED = ("open", "write", "fsync", "link", "unlink", "replace", "mkdir")

_os_write = os.write
_os_open = os.open


class Trap:
    """Strikes at the n-th call, counted from when it is armed."""

    def __init__(self, at: int, when: str, blow: str, told: str, only: str | None = None) -> None:
        """`blow` is the signal's name, `told` a file that says where it struck."""
        self._only = only
        self._left = at
        self._when = when
        self._blow = signal.Signals[blow]
        self._told = told
        self.armed = False
        for name in TRAPPED:
            setattr(os, name, self._watched(name, getattr(os, name)))
        pa.OSFile = self._watched("OSFile", pa.OSFile)
        pq.write_table = self._watched("write_table", pq.write_table)
        for name in ("tail", "finish"):
            setattr(LocalOutputFile, name, self._watched(name, getattr(LocalOutputFile, name)))

    def _watched(self, name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(call)
        def watched(*arguments: Any, **options: Any) -> Any:
            mine = False
            if self.armed and self._only in (None, name):
                self._left -= 1
                mine = self._left == 0
            if mine and self._when == "before":
                self._strike(name)
            try:
                return call(*arguments, **options)
            finally:
                if mine and self._when == "after":
                    self._strike(name)

        return watched

    def _strike(self, name: str) -> None:
        append_line(self._told, name)
        os.kill(os.getpid(), self._blow)


def append_line(path: str, line: str) -> None:
    """Add a line to a file, by calls that no trap sees."""
    fd = _os_open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o666)
    _os_write(fd, f"{line}\n".encode())
    os.close(fd)


def warm_up() -> None:
    """Do a bit of everything once, so that no child has to load what is loaded at first use."""
    with tempfile.TemporaryDirectory() as root:
        log = sparklog.connect(root)
        log.create_topic(TOPIC, config={"delta.checkpointInterval": 2})
        with log.producer(background=False) as producer:
            producer.send(TOPIC, value=b"x").result()


def produce(
    root: str,
    total: int,
    acknowledged: str,
    trap: dict[str, Any] | None = None,
    armed_from: int = -1,
    background: bool = False,
    gather: int = 1,
    stubborn: str | None = None,
    clean_up_late_ms: int = TWO_HOURS_MS,
    log_retention: str = "interval 1 hour",
) -> None:
    """Send values up to `total`, resuming where the id "p" stands; acknowledge each.

    Checkpoints are frequent, and each is followed by a clean-up that keeps no version for its
    number and takes itself to be late. That is allowed only while nobody else is at work: where a
    second producer sleeps, `clean_up_late_ms` must be 0.
    A `stubborn` producer tries on after it was fenced, and writes each outcome to that file.
    """
    housekeeping.CHECKPOINTS_PER_CLEAN_UP = 1
    housekeeping.clean_up = functools.partial(_clean_up, clean_up_late_ms)  # type: ignore[attr-defined]
    config = {
        "delta.checkpointInterval": CHECKPOINT_INTERVAL,
        "delta.logRetentionDuration": log_retention,
    }
    laid = Trap(**trap) if trap else None
    if laid and armed_from < 0:
        laid.armed = True
    log = sparklog.connect(root)
    try:
        log.create_topic(TOPIC, config=config)
    except TopicExistsError:
        pass
    with log.producer(producer_id="p", background=background, linger_ms=0) as producer:
        index = producer.committed(TOPIC)
        while index < total:
            if laid and index >= armed_from:
                laid.armed = True
            numbers = range(index, min(index + gather, total))
            futures = [producer.send(TOPIC, value=b"%d" % number) for number in numbers]
            for number, future in zip(numbers, futures, strict=True):
                try:
                    future.result()
                except SparklogError as error:
                    if stubborn is None:
                        raise
                    append_line(stubborn, type(error).__name__)
                else:
                    append_line(acknowledged, str(number))
            index = numbers[-1] + 1


def produce_until_fenced(fenced: str, **arguments: Any) -> None:
    """Like `produce`, but expect another producer to take over, and write down its message."""
    try:
        produce(**arguments)
    except ProducerFencedError as error:
        append_line(fenced, str(error))


def compete(root: str, name: str, commits: int, gate: str) -> None:
    """Once the gate is there, make so many commits of one record, in two partitions in turn."""
    log = sparklog.connect(root)
    while not Path(gate).exists():
        time.sleep(0.001)
    with log.producer(background=False, linger_ms=0) as producer:
        for index in range(commits):
            value = f"{name} {index}".encode()
            producer.send(TOPIC, value=value, partition=index % 2).result()


def attempt_unprivileged(root: str, told: str) -> None:
    """As nobody: connect, and send to the topic if there is one; write down the error."""
    if os.getuid() == 0:
        os.setgroups([])
        os.setgid(65534)
        os.setuid(65534)
    error: SparklogError | None = None
    try:
        log = sparklog.connect(root)
        with log.producer(background=False) as producer:
            producer.send(TOPIC, value=b"x").result()
    except SparklogError as caught:
        error = caught
    Path(told).write_text(json.dumps([type(error).__name__, str(error)]))


def _clean_up(
    late_ms: int, store: Any, log_folder: str, now_ms: int, retention_ms: int
) -> list[str]:
    return clean_up(store, log_folder, now_ms + late_ms, retention_ms, VERSIONS_KEPT)
