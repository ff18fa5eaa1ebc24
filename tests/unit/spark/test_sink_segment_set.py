"""The segments that one task writes at a time: bounded in memory and in open files."""

import pyarrow as pa
import pytest

from sparklog.clock import SystemIds
from sparklog.log.segment import Writer, segment_path
from sparklog.log.segment_writer import SegmentWriter
from sparklog.spark import segment_set
from sparklog.spark.segment_set import SegmentSet
from tests.support.fakes import records_table

WRITER = Writer("query", "q", 0, 0)


class Begun:
    """Begins segments, and keeps which."""

    def __init__(self, store) -> None:
        self.store = store
        self.places: list[tuple[str, int]] = []

    def __call__(self, topic: str, partition: int) -> SegmentWriter:
        self.places.append((topic, partition))
        path = segment_path(partition, 1, WRITER, SystemIds().unique())
        return SegmentWriter(self.store, f"topics/{topic}/", path, "lz4")


@pytest.fixture
def begun(log):
    return Begun(log.store)


@pytest.fixture
def segments(log, begun):
    return SegmentSet(log.store, begun)


def some(first: int, count: int) -> pa.RecordBatch:
    values = [b"%d" % i for i in range(first, first + count)]
    return records_table(values).combine_chunks().to_batches()[0]


def files(log) -> list[str]:
    keys = [info.key for p in (0, 1, 2) for info in log.store.list_from(f"topics/t/p{p}/")]
    return sorted(keys)


def read(log, written) -> list[bytes]:
    """The values of a partition's segments, one after the other."""
    import pyarrow.parquet as pq

    tables = [
        pq.read_table(log.store.open_input(f"topics/t/{segment.path}")) for segment in written
    ]
    return [value for table in tables for value in table["value"].to_pylist()]


def test_each_place_gets_one_segment_with_its_records_in_order(log, segments, begun):
    for first in range(0, 40, 10):
        segments.append(("t", first // 10 % 2), some(first, 10))
    assert begun.places == []  # nothing is open before it has to be
    written = segments.finish()
    assert {place: [s.count for s in found] for place, found in written.items()} == {
        ("t", 0): [20],
        ("t", 1): [20],
    }
    assert read(log, written["t", 0]) == [b"%d" % i for i in (*range(10), *range(20, 30))]
    assert [s.partition for s in written["t", 1]] == [1]


def test_partition_that_fills_a_row_group_is_written_at_once(log, segments, begun, monkeypatch):
    monkeypatch.setattr(segment_set, "ROW_GROUP_ROWS", 15)
    segments.append(("t", 0), some(0, 10))
    assert begun.places == []
    segments.append(("t", 0), some(10, 10))
    assert begun.places == [("t", 0)]
    assert read(log, segments.finish()["t", 0]) == [b"%d" % i for i in range(20)]


def test_memory_is_bounded_by_writing_the_largest_partition(log, segments, begun, monkeypatch):
    monkeypatch.setattr(segment_set, "WAITING_BYTES_MAX", 10_000)
    for first in range(0, 4000, 100):
        segments.append(("t", 1 if first % 400 == 0 else 2), some(first, 100))
        waiting = sum(batch.nbytes for slot in segments._slots.values() for batch in slot.waiting)
        assert waiting <= 10_000 + some(0, 100).nbytes
    assert begun.places[0] == ("t", 2)
    written = segments.finish()
    assert [len(found) for found in written.values()] == [1, 1]
    assert read(log, written["t", 2]) == [b"%d" % i for i in range(4000) if i // 100 % 4]


def test_open_files_are_bounded_and_a_closed_partition_goes_on_in_another(
    log, segments, monkeypatch
):
    monkeypatch.setattr(segment_set, "OPEN_FILES_MAX", 2)
    monkeypatch.setattr(segment_set, "ROW_GROUP_ROWS", 1)
    for first in range(0, 60, 10):
        segments.append(("t", first // 10 % 3), some(first, 10))
        assert len(segments._open) <= 2
    written = segments.finish()
    assert [len(found) for found in written.values()] == [2, 2, 2]
    assert read(log, written["t", 1]) == [b"%d" % i for i in (*range(10, 20), *range(40, 50))]


def test_discarded_set_leaves_no_file(log, segments, monkeypatch):
    monkeypatch.setattr(segment_set, "OPEN_FILES_MAX", 1)
    monkeypatch.setattr(segment_set, "ROW_GROUP_ROWS", 1)
    for partition in (0, 1, 0):
        segments.append(("t", partition), some(0, 10))
    assert len(files(log)) == 3
    segments.discard()
    assert files(log) == []
