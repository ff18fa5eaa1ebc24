"""Rows a second through Arrow batches and single records, beside plain Parquet of the same rows."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import sparklog
from sparklog.clients.log import Log

PARTITIONS = 4
KEY_BYTES = 16
VALUE_BYTES = 100
BATCH_ROWS = 50_000


def _column(rows: int, width: int, rng: np.random.Generator) -> pa.Array:
    """Random letters: they compress about as text without repetition does."""
    data = rng.integers(97, 123, rows * width, dtype=np.uint8).tobytes()
    return pa.array(np.frombuffer(data, f"V{width}").tolist(), pa.binary())


def make_table(rows: int) -> pa.Table:
    """Keys and values of the sizes that all figures are about."""
    rng = np.random.default_rng(7)
    columns = {"key": _column(rows, KEY_BYTES, rng), "value": _column(rows, VALUE_BYTES, rng)}
    return pa.table(columns)


def run(folder: Path, full: bool) -> list[dict[str, Any]]:
    """Produce and consume; every figure in rows a second."""
    table = make_table(5_000_000 if full else 1_000_000)
    singles = table.slice(0, 300_000 if full else 100_000)
    log = sparklog.connect(folder / "log")
    measures = {
        "Parquet write (peer)": _rate(table, lambda: _parquet_write(folder, table)),
        "Parquet read (peer)": _rate(table, lambda: _parquet_read(folder, table.num_rows)),
        "produce, send_arrow": _rate(table, lambda: _send_arrow(log, table)),
        "consume, poll_arrow": _rate(table, lambda: _poll_arrow(log, table.num_rows)),
        "produce, send": _rate(singles, lambda: _send(log, singles)),
        "consume, poll": _rate(singles, lambda: _poll(log, singles.num_rows)),
    }
    write, read = measures["Parquet write (peer)"], measures["Parquet read (peer)"]
    return [
        {
            "name": name,
            "value": round(rate),
            "unit": "rows/s",
            "ratio": round(rate / (write if "write" in name or "produce" in name else read), 3),
        }
        for name, rate in measures.items()
    ]


def _rate(table: pa.Table, work: Any) -> float:
    start = time.perf_counter()
    work()
    return table.num_rows / (time.perf_counter() - start)


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
    _check(read, rows)


def _send_arrow(log: Log, table: pa.Table) -> None:
    log.create_topic("arrow", PARTITIONS)
    with log.producer() as producer:
        futures = [
            producer.send_arrow("arrow", table.slice(start, BATCH_ROWS))
            for start in range(0, table.num_rows, BATCH_ROWS)
        ]
    _check(sum(place.records for f in futures for place in f.result()), table.num_rows)


def _poll_arrow(log: Log, rows: int) -> None:
    with log.consumer("arrow", auto_offset_reset="earliest") as consumer:
        read = 0
        while batches := consumer.poll_arrow():
            read += sum(batch.num_rows for batch in batches)
    _check(read, rows)


def _send(log: Log, table: pa.Table) -> None:
    log.create_topic("single", PARTITIONS)
    keys, values = table["key"].to_pylist(), table["value"].to_pylist()
    with log.producer() as producer:
        for key, value in zip(keys, values, strict=True):
            last = producer.send("single", value, key=key)
    last.result()


def _poll(log: Log, rows: int) -> None:
    with log.consumer("single", auto_offset_reset="earliest") as consumer:
        read = 0
        while records := consumer.poll():
            read += len(records)
    _check(read, rows)


def _check(found: int, expected: int) -> None:
    if found != expected:
        raise AssertionError(f"{found} rows, expected {expected}")
