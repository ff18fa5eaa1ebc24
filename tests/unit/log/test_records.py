"""Records as readers get them."""

import pyarrow as pa
import pytest

from sparklog.log.records import CREATE_TIME, LOG_APPEND_TIME, Record, RecordShaper, to_records
from sparklog.log.schema import RECORD_SCHEMA, SEGMENT_SCHEMA
from sparklog.log.segment import Segment
from tests.support.fakes import records_table

SEGMENT = Segment("p4/x.parquet", 4, 1000, 1009, 3, 1, 0, 1)


def stored(deltas, **columns):
    """Rows as a segment file gives them."""
    table = records_table([b"v%d" % d for d in deltas], **columns)
    table = table.add_column(0, "offset_delta", pa.array(deltas, pa.int32()))
    assert table.schema.equals(SEGMENT_SCHEMA)
    return table


def shaped(table, kind=CREATE_TIME):
    return RecordShaper("orders", 4, kind).shape(table, SEGMENT)


def test_segment_rows_become_the_spark_sources_columns():
    headers = [[{"key": "h", "value": b"x"}], None, []]
    table = stored([0, 3, 9], stamps_us=[5, 6, 7], keys=[b"k", None, b""], headers=headers)
    (batch,) = shaped(table, LOG_APPEND_TIME)
    assert batch.schema.equals(RECORD_SCHEMA)
    assert batch["offset"].to_pylist() == [1000, 1003, 1009]
    assert batch["topic"].to_pylist() == ["orders"] * 3
    assert batch["partition"].to_pylist() == [4] * 3
    assert batch["timestampType"].to_pylist() == [1] * 3
    assert batch["timestamp"].cast(pa.int64()).to_pylist() == [5, 6, 7]
    assert batch["value"].to_pylist() == [b"v0", b"v3", b"v9"]
    assert batch["key"].to_pylist() == [b"k", None, b""]
    assert batch["headers"].to_pylist() == headers


def test_rows_in_several_chunks_become_several_batches_and_empty_ones_none():
    whole = stored([0, 1, 2, 3])
    table = pa.concat_tables([whole.slice(0, 1), whole.slice(1, 0), whole.slice(1)])
    assert [batch["offset"].to_pylist() for batch in shaped(table)] == [[1000], [1001, 1002, 1003]]
    assert shaped(whole.slice(0, 0)) == []


@pytest.mark.parametrize("sizes", [(1, 4, 2), (4, 1), (3, 3)])
def test_shaper_used_again_for_more_or_fewer_rows_gives_full_columns(sizes):
    shaper = RecordShaper("orders", 4, CREATE_TIME)
    for rows in sizes:
        (batch,) = shaper.shape(stored(list(range(rows))), SEGMENT)
        batch.validate(full=True)
        assert batch["topic"].to_pylist() == ["orders"] * rows
        assert batch["timestampType"].to_pylist() == [0] * rows


def test_records_one_by_one_have_plain_types_and_milliseconds():
    table = stored(
        [0, 1],
        stamps_us=[1_700_000_000_123_999, -1],
        keys=[b"k", None],
        headers=[[{"key": "a", "value": b"1"}, {"key": "a", "value": None}], None],
    )
    (batch,) = shaped(table)
    assert to_records(batch) == [
        Record("orders", 4, 1000, 1_700_000_000_123, b"k", b"v0", [("a", b"1"), ("a", None)]),
        Record("orders", 4, 1001, -1, None, b"v1", []),
    ]
    assert {type(field) for field in to_records(batch)[0][1:4]} == {int}


def test_records_without_any_headers_have_lists_of_their_own():
    (batch,) = shaped(stored([0, 1]))
    first, second = to_records(batch)
    first.headers.append(("mine", b""))
    assert second.headers == []


def test_records_of_a_slice_are_those_of_the_slice():
    (batch,) = shaped(stored([0, 1, 2], keys=[b"a", b"b", b"c"]))
    assert [(r.offset, r.key) for r in to_records(batch.slice(1, 1))] == [(1001, b"b")]
    assert to_records(batch.slice(0, 0)) == []
