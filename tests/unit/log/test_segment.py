"""Segment files: what is written, what is read back, and damage that must never pass."""

import json
import os
import struct
import zlib
from dataclasses import replace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sparklog.errors import CorruptSegmentError, ObjectNotFoundError
from sparklog.log import segment as segment_module
from sparklog.log.schema import SEGMENT_SCHEMA
from sparklog.log.segment import Segment, Writer, read_segment, segment_path, write_segment
from sparklog.log.segment_footer import ALL_TIMES, FOOTER_BYTES_LIKELY, row_groups
from sparklog.log.segment_writer import SegmentWriter
from sparklog.storage.memory_store import MemoryStore
from sparklog.table.actions import Add
from tests.support.fakes import FOLDER, records_table

PATH = "p3/a.parquet"
KEY = FOLDER + PATH
BASE = 1000
ROWS = 10


@pytest.fixture
def store():
    return MemoryStore()


@pytest.fixture
def small_groups(monkeypatch):
    """Four rows a row group, so that ten rows have three."""
    monkeypatch.setattr(segment_module, "ROW_GROUP_ROWS", 4)


def ten_records():
    return records_table(
        [b"v%d" % i if i != 5 else None for i in range(ROWS)],
        stamps_us=[1_700_000_000_000_001 + i for i in range(ROWS)],
        keys=[None if i % 3 == 0 else b"k%d" % i for i in range(ROWS)],
        headers=[None, [], [{"key": "h", "value": b"x"}, {"key": "h", "value": None}], *[None] * 7],
    )


def write(store, records, compression="lz4"):
    written = write_segment(store, FOLDER, PATH, records, compression, True)
    return Segment.from_add(written.to_add(BASE, 5))


def read(store, segment, first=BASE, end=BASE + ROWS, **options):
    tables = list(read_segment(store, FOLDER, segment, first, end, **options))
    return pa.concat_tables(tables) if tables else SEGMENT_SCHEMA.empty_table()


def test_records_written_read_back_whole(store):
    records = ten_records()
    table = read(store, write(store, records))
    assert table.schema.equals(SEGMENT_SCHEMA)
    assert table["offset_delta"].to_pylist() == list(range(ROWS))
    assert table.drop_columns(["offset_delta"]).to_pylist() == records.to_pylist()


@settings(max_examples=40, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.integers(-(2**53), 2**53),
            st.none() | st.binary(max_size=8),
            st.none() | st.binary(max_size=8),
            st.none()
            | st.lists(
                st.fixed_dictionaries(
                    {"key": st.text(max_size=3), "value": st.none() | st.binary(max_size=3)}
                ),
                max_size=2,
            ),
        ),
        min_size=1,
        max_size=8,
    ),
    st.sampled_from(["none", "lz4", "zstd", "snappy", "gzip"]),
)
def test_any_records_read_back_under_any_compression(rows, compression):
    stamps, keys, values, headers = (list(column) for column in zip(*rows, strict=True))
    records = records_table(values, stamps, keys, headers)
    store = MemoryStore()
    segment = write(store, records, compression)
    table = read(store, segment, BASE, BASE + len(rows))
    assert table.drop_columns(["offset_delta"]).to_pylist() == records.to_pylist()
    assert segment.timestamp_min_us <= min(stamps) and segment.timestamp_max_us >= max(stamps)
    assert max(stamps) - 1000 < segment.timestamp_max_us < max(stamps) + 1000


@pytest.mark.parametrize("first", range(-2, ROWS + 2))
@pytest.mark.parametrize("end", [-1, 0, 1, 3, 4, 5, 8, 9, 10, 12])
def test_any_range_reads_exactly_its_records(store, small_groups, first, end):
    segment = write(store, ten_records())
    got = read(store, segment, BASE + first, BASE + end)["offset_delta"].to_pylist()
    assert got == [i for i in range(ROWS) if first <= i < end]


@pytest.mark.parametrize(
    ("first", "end", "groups"),
    [(0, 10, [0, 1, 2]), (0, 4, [0]), (4, 5, [1]), (3, 5, [0, 1]), (9, 99, [2]), (10, 99, [])],
)
def test_row_groups_outside_the_range_are_not_read(
    store, small_groups, monkeypatch, first, end, groups
):
    segment = write(store, ten_records())
    touched = []
    real = pq.ParquetFile.read_row_group

    def spy(self, index, *args, **kwargs):
        touched.append(index)
        return real(self, index, *args, **kwargs)

    monkeypatch.setattr(pq.ParquetFile, "read_row_group", spy)
    read(store, segment, BASE + first, BASE + end)
    assert touched == groups


def test_row_groups_with_holes_are_trimmed_by_offset(store, small_groups):
    """A compacted segment: deltas only grow, but some are gone."""
    segment = write(store, ten_records())
    deltas = [0, 3, 4, 7, 9, 20, 21, 30]
    table = read(store, segment).slice(0, len(deltas))
    table = table.set_column(0, SEGMENT_SCHEMA.field(0), pa.array(deltas, pa.int32()))
    size = store.write_file(KEY, lambda sink: pq.write_table(table, sink, row_group_size=3))
    holed = Segment(PATH, 3, BASE, BASE + 30, len(deltas), size, 0, 1)
    for first, end in [(0, 31), (1, 5), (8, 9), (10, 20), (20, 21), (22, 40)]:
        got = read(store, holed, BASE + first, BASE + end)["offset_delta"].to_pylist()
        assert got == [d for d in deltas if first <= d < end]


def test_chosen_columns_are_the_only_ones_read(store):
    table = read(store, write(store, ten_records()), columns=["offset_delta", "timestamp"])
    assert table.column_names == ["offset_delta", "timestamp"]


def test_segment_that_is_gone_is_not_found_rather_than_corrupt(store):
    segment = write(store, ten_records())
    store.delete(KEY)
    with pytest.raises(ObjectNotFoundError):
        read(store, segment)


@pytest.mark.parametrize("change", [b"", b"x", None])
def test_file_of_the_wrong_size_is_corrupt_and_named(store, change):
    segment = write(store, ten_records())
    data = store.get(KEY)
    store.corrupt(KEY, {b"": b"", b"x": data + b"x", None: data[:-1]}[change])
    with pytest.raises(CorruptSegmentError, match=KEY) as caught:
        read(store, segment)
    assert f"{BASE}..{BASE + ROWS - 1}" in str(caught.value) and str(len(data)) in str(caught.value)


def test_file_with_another_number_of_records_is_corrupt_and_named(store):
    segment = write(store, ten_records())
    lied = Segment(**{**vars(segment), "count": ROWS + 1})
    with pytest.raises(CorruptSegmentError, match=f"{KEY} holds 10 records.*says 11"):
        read(store, lied)


@pytest.mark.parametrize("cut", [1, 7, 8, 9, 200])
def test_truncated_file_of_the_right_size_is_corrupt(store, cut):
    segment = write(store, ten_records())
    data = store.get(KEY)
    store.corrupt(KEY, data[:-cut] + bytes(cut))
    with pytest.raises(CorruptSegmentError, match=KEY):
        read(store, segment)


def footer_start(data):
    return len(data) - 8 - struct.unpack("<I", data[-8:-4])[0]


@pytest.mark.parametrize("compression", ["none", "lz4"])
def test_any_flipped_bit_in_a_page_is_an_error_or_changes_nothing(store, small_groups, compression):
    segment = write(store, ten_records(), compression)
    good = store.get(KEY)
    want = read(store, segment).to_pylist()
    caught = 0
    for place in range(footer_start(good)):
        flipped = bytearray(good)
        flipped[place] ^= 1 << place % 8
        store.corrupt(KEY, bytes(flipped))
        try:
            assert read(store, segment).to_pylist() == want
        except CorruptSegmentError as error:
            assert KEY in str(error)
            caught += 1
    assert caught > footer_start(good) // 2


def test_flipped_value_passes_only_where_checksums_are_not_verified(store):
    segment = write(store, ten_records(), "none")
    data = store.get(KEY)
    store.corrupt(KEY, data.replace(b"v7", b"v8"))
    with pytest.raises(CorruptSegmentError, match=KEY):
        read(store, segment)
    assert read(store, segment, verify=False)["value"].to_pylist()[7] == b"v8"


@pytest.mark.parametrize("length", [0, 1, 2**31 - 1, 2**32 - 1])
def test_footer_that_lies_about_its_own_size_is_corrupt(store, length):
    segment = write(store, ten_records())
    data = store.get(KEY)
    store.corrupt(KEY, data[:-8] + struct.pack("<I", length) + data[-4:])
    with pytest.raises(CorruptSegmentError, match=KEY):
        read(store, segment)


def swap_file(store, segment, other, **options):
    """Put another table in the segment's place, as a writer would that gets it wrong itself."""
    options = {"row_group_size": 4, **options}
    size = store.write_file(KEY, lambda sink: pq.write_table(other, sink, **options))
    return replace(segment, size=size, count=other.num_rows, footer="")


def with_deltas(table, deltas):
    return table.set_column(0, SEGMENT_SCHEMA.field(0), pa.array(deltas, pa.int32()))


@pytest.mark.parametrize(
    "deltas",
    [range(100, 110), range(-1, 9), [0, 1, 2, 3, 3, 4, 5, 6, 7, 8], [4, 5, 6, 7, 0, 1, 2, 3, 8, 9]],
    ids=["past the end", "before the start", "twice", "backwards"],
)
@pytest.mark.parametrize(("first", "end"), [(0, ROWS), (0, 1), (9, ROWS)])
def test_footer_whose_bounds_of_offset_delta_lie_leaves_no_silent_gap(
    store, small_groups, deltas, first, end
):
    segment = write(store, ten_records())
    lied = swap_file(store, segment, with_deltas(read(store, segment), deltas))
    with pytest.raises(CorruptSegmentError, match=f"{KEY}.*row group"):
        read(store, lied, BASE + first, BASE + end)


def test_footer_whose_row_groups_hold_fewer_rows_than_it_says_is_corrupt(store, small_groups):
    segment = write(store, ten_records())
    metadata = pq.ParquetFile(store.open_input(KEY)).metadata

    class Lying:
        num_row_groups, num_rows, row_group = 2, metadata.num_rows, metadata.row_group

    with pytest.raises(ValueError, match="8 of its 10 rows"):
        list(row_groups(Lying, 0, ROWS, ROWS - 1, ALL_TIMES))
    assert len(read(store, segment)) == ROWS


def test_footer_with_other_columns_is_corrupt(store):
    segment = write(store, ten_records())
    renamed = swap_file(store, segment, read(store, segment).rename_columns(list("abcde")))
    with pytest.raises(CorruptSegmentError, match=f"{KEY}.*columns.*a, b, c, d, e"):
        read(store, renamed)


def test_file_with_the_columns_of_a_segment_in_another_parquet_form_is_read(store):
    segment = write(store, ten_records())
    table = read(store, segment)
    assert read(store, swap_file(store, segment, table, use_compliant_nested_type=False)) == table


@pytest.mark.parametrize("checksum", ["", "x", "8:", "8", "-1:00000000", "99999999:00000000"])
def test_entry_with_a_malformed_checksum_is_corrupt(store, checksum):
    segment = replace(write(store, ten_records()), footer=checksum)
    if checksum == "":
        assert len(read(store, segment)) == ROWS, "files without one are read unchecked"
        return
    with pytest.raises(CorruptSegmentError, match=KEY):
        read(store, segment)


def test_footer_of_very_many_row_groups_has_its_checksum_too(store, monkeypatch):
    monkeypatch.setattr(segment_module, "ROW_GROUP_ROWS", 1)
    segment = write(store, records_table([b"x"] * 40))
    assert int(segment.footer.partition(":")[0]) > FOOTER_BYTES_LIKELY
    assert len(read(store, segment, BASE, BASE + 40)) == 40


def test_segment_written_bit_by_bit_has_the_checksum_of_its_end(store, small_groups):
    records = ten_records()
    with SegmentWriter(store, FOLDER, PATH, "lz4") as writer:
        for batch in records.to_batches(max_chunksize=3):
            writer.append(batch)
        segment = Segment.from_add(writer.finish().to_add(BASE, 5))
    data = store.get(KEY)
    length, _, checksum = segment.footer.partition(":")
    assert len(data) - int(length) == footer_start(data)
    assert int(checksum, 16) == zlib.crc32(data[footer_start(data) :])
    store.corrupt(KEY, data[:-20] + bytes(12) + data[-8:])
    with pytest.raises(CorruptSegmentError, match=f"{KEY}.*checksum"):
        read(store, segment)


def outcome_in_a_child(store, segment, want):
    """Read in a child process, because pyarrow may end the process: 0 is as it should be."""
    child = os.fork()
    if child == 0:
        os.close(2)
        try:
            table = read(store, segment)
            same = table.schema.equals(SEGMENT_SCHEMA) and table.to_pylist() == want
            os._exit(0 if same else 1)
        except CorruptSegmentError:
            os._exit(0)
        except BaseException:
            os._exit(2)
    return os.waitpid(child, 0)[1]


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_flipped_bits_in_the_footer_are_errors_or_change_nothing(store, small_groups):
    segment = write(store, ten_records())
    good = store.get(KEY)
    want = read(store, segment).to_pylist()
    places = range(footer_start(good), len(good), 3)
    for place in places:
        flipped = bytearray(good)
        flipped[place] ^= 1 << place % 8
        store.corrupt(KEY, bytes(flipped))
        assert outcome_in_a_child(store, segment, want) == 0, f"byte {place}"


def test_stats_hold_bounds_of_offset_and_time_and_nothing_of_keys_and_values(store):
    records = records_table([b"SECRET-VALUE"] * 2, [1_999, 5_001], [b"SECRET-KEY"] * 2)
    add = write_segment(store, FOLDER, PATH, records, "lz4", True).to_add(7, 99)
    assert json.loads(add.stats) == {
        "numRecords": 2,
        "minValues": {"offset_delta": 0, "timestamp": "1970-01-01T00:00:00.001Z"},
        "maxValues": {"offset_delta": 1, "timestamp": "1970-01-01T00:00:00.006Z"},
        "nullCount": {"offset_delta": 0, "timestamp": 0},
    }
    assert add.partition_values == {"partition": "3", "base_offset": "7"}
    assert (add.path, add.size, add.modification_time) == (PATH, len(store.get(KEY)), 99)
    assert "SECRET" not in repr(add)


def test_written_file_has_the_encodings_statistics_and_codec_of_the_design(store):
    write(store, ten_records(), "zstd")
    group = pq.ParquetFile(store.open_input(KEY)).metadata.row_group(0)
    columns = {group.column(i).path_in_schema: group.column(i) for i in range(group.num_columns)}
    headers = "headers.list.element."
    assert set(columns) == {
        "offset_delta", "timestamp", "key", "value", headers + "key", headers + "value",
    }  # fmt: skip
    for name, column in columns.items():
        packed = name in ("offset_delta", "timestamp")
        assert ("DELTA_BINARY_PACKED" in column.encodings) == packed
        assert ("PLAIN" in column.encodings) == (not packed)
        assert not any("DICTIONARY" in encoding for encoding in column.encodings)
        assert (column.statistics is not None) == packed, name
        assert column.compression == "ZSTD"


@pytest.mark.parametrize(
    ("codec", "stored"),
    [("none", "UNCOMPRESSED"), ("lz4", "LZ4"), ("snappy", "SNAPPY"), ("gzip", "GZIP")],
)
def test_compression_is_the_one_asked_for(store, codec, stored):
    write(store, ten_records(), codec)
    group = pq.ParquetFile(store.open_input(KEY)).metadata.row_group(0)
    assert {group.column(i).compression for i in range(group.num_columns)} == {stored}


def test_name_carries_partition_stamp_writer_and_uniqueness():
    writer = Writer("producer", "loader.1-x", 3, 42)
    path = segment_path(12, 1_700_000_000_123, writer, "0123456789abcdef" * 2)
    assert path == "p12/1700000000123-producer.loader.1-x.3.42-0123456789abcdef.parquet"
    assert writer.app_id == "producer/loader.1-x"
    assert segment_path(0, 5, writer, "u") < segment_path(0, 10, writer, "u"), "stamps sort"


@pytest.mark.parametrize(
    "stats", ["", "{}", "[]", '{"numRecords":1}', '{"numRecords":"x","minValues":{}}', "null"]
)
def test_entry_with_malformed_stats_is_corrupt_and_named(stats):
    add = Add("p0/x.parquet", {"partition": "0", "base_offset": "0"}, 1, 1, True, stats)
    with pytest.raises(CorruptSegmentError, match="p0/x.parquet"):
        Segment.from_add(add)


@pytest.mark.parametrize(
    "path",
    [
        "../x.parquet",
        "p0/../../x.parquet",
        "/etc/x.parquet",
        "file:///p0/x.parquet",
        "p0/x",
        "p0/a/x.parquet",
        "x.parquet",
        "px/x.parquet",
        "p0/%2e%2e.parquet",
    ],
)
def test_entry_with_a_path_that_is_no_segments_is_not_followed(path):
    with pytest.raises(CorruptSegmentError, match="not followed"):
        Segment.from_add(Add(path, {"partition": "0", "base_offset": "0"}, 1, 1, True, "{}"))
