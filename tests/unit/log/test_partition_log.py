"""Finding segments: the binary search against a plain walk over all of them."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparklog.errors import CorruptCommitError
from sparklog.log.partition_log import partition_logs
from sparklog.table.actions import Add, Commit, CommitInfo, Remove
from sparklog.table.table_state import TableState
from tests.support.fakes import FOLDER, table_start


def add(partition, base, count, span=None, size=10):
    """A segment at [base, base + span) that holds `count` records."""
    last = (span or count) - 1
    stats = {
        "numRecords": count,
        "minValues": {"offset_delta": 0, "timestamp": "1970-01-01T00:00:00.000Z"},
        "maxValues": {"offset_delta": last, "timestamp": "1970-01-01T00:00:00.001Z"},
    }
    values = {"partition": str(partition), "base_offset": str(base)}
    path = f"p{partition}/{base}-{partition}.parquet"
    return Add(path, values, size, 1, True, json.dumps(stats))


def state_of(*actions):
    state = TableState(FOLDER)
    state.apply(Commit(0, (CommitInfo(1, "T", "n"), *table_start(), *actions)))
    return state


# Lengths of segments and of the holes before them, in offset order.
_layouts = st.lists(st.tuples(st.integers(0, 4), st.integers(1, 5)), min_size=1, max_size=12)


def ranges(layout):
    """The [base, end) of each segment."""
    found, at = [], 0
    for hole, length in layout:
        found.append((at + hole, at + hole + length))
        at += hole + length
    return found


@given(_layouts, st.randoms(use_true_random=False), st.data())
def test_any_search_finds_what_a_linear_walk_finds(layout, random, data):
    spans = ranges(layout)
    adds = [add(0, base, 1, end - base) for base, end in spans]
    random.shuffle(adds)  # the file list has no order
    log = partition_logs(state_of(*adds))[0]
    for offset in range(spans[-1][1] + 2):
        later = [i for i, (_, end) in enumerate(spans) if end > offset]
        assert log.index_of(offset) == (later[0] if later else len(spans))
    start = data.draw(st.integers(0, spans[-1][1] + 1))
    end = data.draw(st.none() | st.integers(0, spans[-1][1] + 1))
    got = [s.base_offset for s in log.segments(start, end)]
    limit = spans[-1][1] + 1 if end is None else end
    if end is None or start < end:
        assert got == [base for base, stop in spans if stop > start and base < limit]


def test_segments_of_partitions_stay_apart_and_in_order():
    adds = [add(p, base, 2) for base in (4, 0, 2) for p in (10, 2, 0)]
    logs = partition_logs(state_of(*adds))
    assert sorted(logs) == [0, 2, 10]
    for partition, log in logs.items():
        assert [(s.partition, s.base_offset) for s in log.segments()] == [
            (partition, base) for base in (0, 2, 4)
        ]


def test_base_offsets_sort_as_numbers_and_not_as_text():
    log = partition_logs(state_of(add(0, 10, 5), add(0, 9, 1), add(0, 0, 9)))[0]
    assert [log.segment(i).base_offset for i in range(len(log))] == [0, 9, 10]


def test_offsets_beyond_32_bits_are_found():
    base = 2**62
    log = partition_logs(state_of(add(0, 0, 5), add(0, base, 5)))[0]
    assert [s.base_offset for s in log.segments(base + 4)] == [base]
    assert log.index_of(base + 5) == 2


def test_removed_segments_are_left_out_and_bytes_are_those_of_the_rest():
    adds = [add(0, 0, 2, size=100), add(0, 2, 2, size=20), add(0, 4, 2, size=3)]
    log = partition_logs(state_of(*adds, Remove(adds[1].path, 1, True)))[0]
    assert len(log) == 2 and log.bytes() == 103
    assert [s.base_offset for s in log.segments(2)] == [4]


def test_topic_without_segments_has_no_index():
    assert partition_logs(state_of()) == {}


@pytest.mark.parametrize(("start", "found"), [(0, [0]), (4, [0]), (5, []), (9, [])])
def test_search_past_the_last_segment_finds_nothing(start, found):
    log = partition_logs(state_of(add(0, 0, 5)))[0]
    assert [s.base_offset for s in log.segments(start)] == found


@pytest.mark.parametrize(
    "values",
    [
        {},
        {"partition": "0"},
        {"partition": "0", "base_offset": "x"},
        {"partition": "0", "base_offset": str(2**63)},
        {"partition": str(2**31), "base_offset": "0"},
        {"partition": "", "base_offset": "0"},
    ],
)
def test_file_with_malformed_partition_values_is_corrupt_and_the_table_named(values):
    bad = Add("p0/bad.parquet", values, 1, 1, True, "{}")
    with pytest.raises(CorruptCommitError, match=f"{FOLDER} at version 0.*malformed"):
        partition_logs(state_of(add(0, 0, 5), bad))
