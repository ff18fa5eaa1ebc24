"""Topics that our producer wrote, in three states of their table log."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import sparklog
from sparklog.clients.log import Log
from sparklog.clients.topic import Topic
from sparklog.table.clean_up import clean_up

FAR_FUTURE_MS = 4_102_444_800_000
FIRST_STAMP_MS = 1_700_000_000_000
PARTITIONS = 3
STATES = ("fresh", "checkpoint", "cleaned")

Row = tuple[int, int, bytes | None, bytes | None]


@dataclass(frozen=True)
class WrittenTopic:
    """A topic, where it stands, and what our consumer reads of it."""

    state: str
    topic: Topic
    path: Path
    rows: list[Row]
    stamps: dict[tuple[int, int], int]
    headers: dict[tuple[int, int], list[tuple[str, bytes | None]]]


@pytest.fixture(scope="session", params=STATES)
def written(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The topic in one of the states."""
    root = tmp_path_factory.mktemp(request.param)
    log = sparklog.connect(root)
    topic = log.create_topic("orders", partitions=PARTITIONS)
    sent = sum(_commit(log, number) for number in range(5))
    if request.param != "fresh":
        assert topic.checkpoint() == topic.describe().version
    if request.param == "cleaned":
        gone = clean_up(log.store, "topics/orders/_delta_log/", FAR_FUTURE_MS, 0, 0)
        assert len(gone) == topic.describe().version  # all before the checkpoint's own version
        sent += _commit(log, 5)
    records = _consume(log, sent)
    rows = sorted((r.partition, r.offset, r.key, r.value) for r in records)
    stamps = {(r.partition, r.offset): r.timestamp_ms for r in records}
    headers = {(r.partition, r.offset): r.headers for r in records}
    yield WrittenTopic(request.param, topic, root / "topics" / "orders", rows, stamps, headers)
    log.close()


def _commit(log: Log, number: int) -> int:
    """One flush: every kind of record in every partition."""
    sent = 0
    with log.producer(linger_ms=0) as producer:
        for i in range(20):
            stamp = FIRST_STAMP_MS + number * 100_000 + i * 1_000
            place = {"partition": i % PARTITIONS, "timestamp_ms": stamp}
            key, value = b"key-%d" % i, b"value-%d-%d" % (number, i)
            marks = [("trace", b"\x00\xff"), ("empty", None)]
            producer.send("orders", value, key=key, headers=marks, **place)
            producer.send("orders", value, **place)
            producer.send("orders", None, key=key, **place)
            producer.send("orders", b"", key=b"", **place)
            sent += 4
        producer.flush()
    return sent


def _consume(log: Log, expected: int) -> list[sparklog.Record]:
    records: list[sparklog.Record] = []
    with log.consumer("orders", auto_offset_reset="earliest") as consumer:
        while batch := consumer.poll():
            records += batch
    assert len(records) == expected
    return records
