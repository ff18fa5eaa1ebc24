"""How much one micro-batch takes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparklog.log.segment import Segment
from sparklog.spark.admission import Stretch, limit_bytes, limit_offsets, offsets_waiting

A, B = ("t", 0), ("t", 1)


def segment(base: int, count: int, size: int, partition: int = 0) -> Segment:
    return Segment(
        f"p{partition}/s{base}.parquet", partition, base, base + count - 1, count, size, 0, 0
    )


def test_offsets_below_the_limit_are_all_taken():
    waiting = {A: Stretch(0, 40), B: Stretch(5, 15)}
    assert limit_offsets(waiting, 50) == waiting


def test_offsets_above_the_limit_are_shared_in_proportion():
    taken = limit_offsets({A: Stretch(0, 900), B: Stretch(100, 200)}, 100)
    assert taken == {A: Stretch(0, 90), B: Stretch(100, 110)}


def test_short_partition_beside_a_long_one_moves_all_the_same():
    taken = limit_offsets({A: Stretch(0, 1_000_000), B: Stretch(7, 8)}, 10)
    assert taken[B] == Stretch(7, 8)


def test_bytes_are_cut_within_a_segment_by_its_share():
    listed = {A: [segment(0, 100, 1000), segment(100, 100, 1000)]}
    taken = limit_bytes({A: Stretch(0, 200)}, 1500, lambda place, *_: listed[place])
    assert taken == {A: Stretch(0, 150)}


def test_bytes_below_the_limit_are_all_taken():
    waiting = {A: Stretch(0, 200)}
    assert limit_bytes(waiting, 2000, lambda *_: [segment(0, 200, 2000)]) == waiting


def test_one_record_larger_than_the_byte_limit_is_taken_alone():
    taken = limit_bytes({A: Stretch(3, 9)}, 1, lambda *_: [segment(0, 10, 10_000_000)])
    assert taken == {A: Stretch(3, 4)}


def test_partitions_without_records_stay_where_they_are():
    waiting = {A: Stretch(0, 100), B: Stretch(9, 9)}
    taken = limit_bytes(waiting, 10, lambda *_: [segment(0, 100, 1000)])
    assert taken[B] == Stretch(9, 9)


@given(
    st.lists(st.tuples(st.integers(0, 10**6), st.integers(0, 10**6)), min_size=1, max_size=8),
    st.integers(1, 10**6),
)
def test_any_limit_moves_on_and_never_past_the_end(spans, limit):
    waiting = {("t", n): Stretch(start, start + length) for n, (start, length) in enumerate(spans)}
    taken = limit_offsets(waiting, limit)
    for place, stretch in taken.items():
        assert stretch.start == waiting[place].start
        assert stretch.start <= stretch.end <= waiting[place].end
        assert len(stretch) > 0 or not len(waiting[place])
    assert offsets_waiting(taken) <= max(limit, 0) + len(spans)


@pytest.mark.parametrize(("start", "end", "count"), [(0, 5, 5), (5, 5, 0), (6, 5, 0)])
def test_stretch_counts_its_offsets(start, end, count):
    assert len(Stretch(start, end)) == count
