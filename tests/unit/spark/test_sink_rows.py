"""Rows as records: split without losing order, and checked."""

import numpy as np
import pyarrow as pa
import pytest

from sparklog.errors import InvalidRecordError, RecordTooLargeError
from sparklog.log.schema import HEADERS
from sparklog.spark.options import StoreOptions
from sparklog.spark.sink_rows import Rows, check_rows
from sparklog.spark.sink_schema import SinkColumns
from sparklog.spark.sink_topics import log_identity, sink_topic

ALL = SinkColumns(True, True, True, True)


def rows(values, **columns) -> Rows:
    kinds = {"key": pa.binary(), "headers": HEADERS, "partition": pa.int32(), "topic": pa.string()}
    arrays = {name: pa.array(column, kinds[name]) for name, column in columns.items()}
    return Rows(value=pa.array(values, pa.binary()), **arrays)


@pytest.fixture
def topic(log):
    """A topic that takes records of up to a hundred bytes."""

    def create(**config):
        names = {name.replace("_", "."): value for name, value in config.items()}
        log.create_topic("t", 1, names)
        options = StoreOptions(log.store.uri)
        return sink_topic(options, log_identity(options), "t")

    return create


def test_rows_of_a_batch_are_bytes_whatever_spark_sends():
    batch = pa.record_batch(
        {
            "key": pa.array(["ä", None], pa.large_string()),
            "value": pa.array(["x", "y"]),
            "headers": pa.array([[{"key": "h", "value": b"1"}], None], HEADERS),
            "topic": ["a", "b"],
            "partition": pa.array([1, None], pa.int32()),
            "offset": [7, 8],
        }
    )
    found = Rows.of(batch, ALL)
    assert found.key.to_pylist() == ["ä".encode(), None]
    assert found.value.to_pylist() == [b"x", b"y"]
    assert found.value.type == found.key.type == pa.binary()
    assert Rows.of(batch, SinkColumns(False, False, False, False)).key is None


def test_rows_by_partition_keep_their_order():
    some = rows([b"0", b"1", b"2", b"3", b"4"], key=[b"a", None, b"c", b"d", b"e"])
    parts = dict(some.by_partition(np.array([2, 0, 2, 0, 2], np.int32)))
    assert {n: p.value.to_pylist() for n, p in parts.items()} == {
        0: [b"1", b"3"],
        2: [b"0", b"2", b"4"],
    }
    assert parts[0].key.to_pylist() == [None, b"d"]
    assert parts[0].headers is None


@pytest.mark.parametrize("partitions", [3, 300, 70_000])
def test_rows_by_partition_are_right_for_any_number_of_partitions(partitions):
    chosen = np.random.default_rng(partitions).integers(0, partitions, 1000).astype(np.int32)
    chosen[0] = partitions - 1
    some = rows([b"%d" % i for i in range(1000)])
    for number, part in some.by_partition(chosen):
        wanted = [b"%d" % i for i in np.flatnonzero(chosen == number)]
        assert part.value.to_pylist() == wanted


def test_rows_of_one_partition_are_not_copied():
    some = rows([b"a", b"b"])
    ((number, part),) = some.by_partition(np.array([5, 5], np.int32))
    assert (number, part) == (5, some)


def test_rows_by_topic_keep_their_order():
    some = rows([b"0", b"1", b"2"], topic=["b", "a", "b"], partition=[0, 1, None])
    parts = dict(some.by_topic())
    assert parts["b"].value.to_pylist() == [b"0", b"2"]
    assert parts["b"].partition.to_pylist() == [0, None]
    assert parts["a"].value.to_pylist() == [b"1"]


def test_row_without_a_topic_is_refused():
    with pytest.raises(InvalidRecordError, match="'topic' has a null"):
        list(rows([b"0", b"1"], topic=["b", None]).by_topic())


def test_record_at_the_limit_passes_and_one_above_is_refused(topic):
    limited = topic(max_message_bytes=100)
    check_rows(limited, rows([b"v" * 70, None], key=[b"k" * 6, b"k" * 76]))
    with pytest.raises(RecordTooLargeError, match="'t': a record of 101 bytes is above 100"):
        check_rows(limited, rows([b"v" * 70, None], key=[b"k" * 7, b"k"]))


def test_longest_key_and_value_of_different_rows_are_not_one_record(topic):
    check_rows(topic(max_message_bytes=100), rows([b"v" * 76, b""], key=[b"", b"k" * 76]))


def test_headers_count_towards_the_record_they_belong_to(topic):
    limited = topic(max_message_bytes=100)
    pairs = [{"key": "ab", "value": b"x" * 37}] * 2  # 78 bytes
    passing = [[{"key": "a", "value": b"x" * 75}], [], None, [{"key": "a", "value": None}] * 76]
    check_rows(limited, rows([b""] * 4, headers=passing))
    with pytest.raises(RecordTooLargeError, match="102 bytes"):
        check_rows(limited, rows([b"", b"", b""], headers=[[], pairs, None]))
    sliced = pa.array([pairs, [], pairs], HEADERS).slice(1, 1)
    check_rows(limited, Rows(pa.array([b"v" * 76]), headers=sliced))


def test_header_without_a_key_is_refused(topic):
    taking = topic()
    for header in (None, {"key": None, "value": b""}):
        with pytest.raises(InvalidRecordError, match="a header without a key"):
            check_rows(taking, rows([b"v"], headers=[[header]]))


def test_compacted_topic_takes_only_rows_with_keys(topic):
    compacted = topic(cleanup_policy="compact,delete")
    check_rows(compacted, rows([b"v"], key=[b"k"]))
    for keyless in (rows([b"v"]), rows([b"v", b"w"], key=[b"k", None])):
        with pytest.raises(InvalidRecordError, match="'t' is compacted"):
            check_rows(compacted, keyless)
