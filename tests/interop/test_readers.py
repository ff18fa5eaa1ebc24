"""Every reader of Delta tables that we name gives the rows that our consumer gives."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import duckdb
import polars
import pyarrow as pa
import pytest
from deltalake import DeltaTable
from duckdb_extensions import import_extension

from tests.interop.conftest import FIRST_STAMP_MS, PARTITIONS, Row, WrittenTopic

pytestmark = [
    # pyspark leaves the gateway's sockets and pipes to the garbage collector.
    pytest.mark.filterwarnings("ignore:unclosed <socket.socket:ResourceWarning"),
    pytest.mark.filterwarnings("ignore:subprocess .* is still running:ResourceWarning"),
]

SQL_COLUMNS = "partition, base_offset + offset_delta, key, value"


def rows_of(data: pa.Table | pa.RecordBatch) -> list[Row]:
    """Rows as our consumer gives them, in order."""
    return sorted(
        (
            row["partition"],
            row["base_offset"] + row["offset_delta"],
            row["key"],
            row["value"],
        )
        for row in data.select(
            ["partition", "base_offset", "offset_delta", "key", "value"]
        ).to_pylist()
    )


def by_duckdb(dataset: Any) -> list[Row]:
    """The rows of a dataset, scanned by DuckDB."""
    with duckdb.connect() as connection:
        connection.register("orders", dataset)
        return sorted(connection.execute(f"SELECT {SQL_COLUMNS} FROM orders").fetchall())


def by_polars(dataset: Any) -> list[Row]:
    """The rows of a dataset, scanned by Polars."""
    return rows_of(polars.scan_pyarrow_dataset(dataset).collect().to_arrow())


def by_arrow(dataset: Any) -> list[Row]:
    """The rows of a dataset, scanned by pyarrow."""
    return rows_of(dataset.to_table())


SCANS = pytest.mark.parametrize("scan", [by_arrow, by_duckdb, by_polars])
Scan = Callable[[Any], list[Row]]


def test_delta_spark(written: WrittenTopic, spark: Any) -> None:
    frame = spark.read.format("delta").load(str(written.path))
    found = frame.selectExpr(*SQL_COLUMNS.split(", ")).collect()
    assert sorted(_plain(row) for row in found) == written.rows


def test_delta_spark_reads_headers_and_timestamps(written: WrittenTopic, spark: Any) -> None:
    frame = spark.read.format("delta").load(str(written.path))
    found = frame.selectExpr(
        "partition", "base_offset + offset_delta", "unix_millis(timestamp)", "headers"
    ).collect()
    assert {(row[0], row[1]): row[2] for row in found} == written.stamps
    assert {(row[0], row[1]): _pairs(row[3]) for row in found} == written.headers


def test_delta_spark_prunes_by_partition(written: WrittenTopic, spark: Any) -> None:
    frame = spark.read.format("delta").load(str(written.path)).where("partition = 1")
    found = frame.selectExpr(*SQL_COLUMNS.split(", "))
    assert sorted(_plain(row) for row in found.collect()) == _rows_of_partition(written, 1)
    assert all("/p1/" in name for name in found.inputFiles())


def test_delta_rs(written: WrittenTopic) -> None:
    table = DeltaTable(str(written.path))
    assert table.version() == written.topic.describe().version
    assert rows_of(pa.table(table.to_pyarrow_table())) == written.rows


def test_duckdb_delta_extension(written: WrittenTopic) -> None:
    with duckdb.connect() as connection:
        import_extension("delta", con=connection)
        connection.execute("LOAD delta")
        query = f"SELECT {SQL_COLUMNS} FROM delta_scan(?)"
        found = connection.execute(query, [str(written.path)]).fetchall()
    assert sorted(found) == written.rows


def test_polars_use_pyarrow(written: WrittenTopic) -> None:
    frame = polars.read_delta(str(written.path), use_pyarrow=True)
    assert rows_of(frame.to_arrow()) == written.rows


@SCANS
def test_dataset(written: WrittenTopic, scan: Scan) -> None:
    assert scan(written.topic.to_dataset()) == written.rows


@SCANS
@pytest.mark.parametrize("bounds", [(7, 50), (None, 9), (30, None), (0, 1), (10_000, None)])
def test_dataset_of_offsets(
    written: WrittenTopic, scan: Scan, bounds: tuple[int | None, int | None]
) -> None:
    low, high = bounds
    expected = [
        row
        for row in written.rows
        if (low is None or row[1] >= low) and (high is None or row[1] < high)
    ]
    assert scan(written.topic.to_dataset(offsets=bounds)) == expected


@SCANS
@pytest.mark.parametrize(
    "bounds", [(105_000, 207_000), (None, 1), (203_000, None), (900_000, None)]
)
def test_dataset_of_times(
    written: WrittenTopic, scan: Scan, bounds: tuple[int | None, int | None]
) -> None:
    first, end = (None if bound is None else FIRST_STAMP_MS + bound for bound in bounds)
    expected = [
        row
        for row in written.rows
        if (first is None or written.stamps[row[:2]] >= first)
        and (end is None or written.stamps[row[:2]] < end)
    ]
    assert scan(written.topic.to_dataset(timestamps_ms=(first, end))) == expected


@SCANS
@pytest.mark.parametrize("partition", range(PARTITIONS))
def test_dataset_of_partitions(written: WrittenTopic, scan: Scan, partition: int) -> None:
    dataset = written.topic.to_dataset(partitions=[partition])
    assert scan(dataset) == _rows_of_partition(written, partition)


@SCANS
def test_dataset_of_everything_at_once(written: WrittenTopic, scan: Scan) -> None:
    start = FIRST_STAMP_MS + 100_000
    dataset = written.topic.to_dataset(
        partitions=[0, 2], offsets=(5, 90), timestamps_ms=(start, start + 100_000)
    )
    expected = [
        row
        for row in written.rows
        if row[0] in (0, 2)
        and 5 <= row[1] < 90
        and start <= written.stamps[row[:2]] < start + 100_000
    ]
    assert expected
    assert scan(dataset) == expected


def _rows_of_partition(written: WrittenTopic, partition: int) -> list[Row]:
    return [row for row in written.rows if row[0] == partition]


def _plain(row: Any) -> Row:
    partition, offset, key, value = row
    return partition, offset, _bytes(key), _bytes(value)


def _bytes(data: Any) -> bytes | None:
    return None if data is None else bytes(data)


def _pairs(headers: Any) -> list[tuple[str, bytes | None]]:
    return [(pair["key"], _bytes(pair["value"])) for pair in headers or []]
