"""From ranges to tasks."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from sparklog.log.range_reader import OffsetRange
from sparklog.log.segment import Segment
from sparklog.spark.task_plan import ONE_TASK_BYTES_MAX, plan_tasks

MB = 1 << 20


def a_range(partition: int, count: int, size: int, segments: int = 1) -> OffsetRange:
    each = count // segments
    listed = tuple(
        Segment(f"p/{n}", partition, n * each, (n + 1) * each - 1, each, size // segments, 0, 0)
        for n in range(segments)
    )
    return OffsetRange("t", "id", partition, 0, count, 0, listed)


def shape(tasks) -> list[list[tuple[int, int, int]]]:
    return [[(r.partition, r.start, r.end) for r in task.ranges] for task in tasks]


def test_small_batch_is_one_task_in_order():
    tasks = plan_tasks([a_range(p, 10, MB) for p in range(4)], None, None)
    assert shape(tasks) == [[(p, 0, 10) for p in range(4)]]


def test_large_batch_is_a_task_a_partition():
    tasks = plan_tasks([a_range(p, 10, ONE_TASK_BYTES_MAX) for p in range(3)], None, None)
    assert shape(tasks) == [[(p, 0, 10)] for p in range(3)]


def test_many_small_partitions_of_a_large_batch_share_tasks():
    tasks = plan_tasks([a_range(p, 10, MB) for p in range(40)], None, None)
    assert [len(task.ranges) for task in tasks] == [8, 8, 8, 8, 8]


def test_nothing_to_read_is_one_empty_task():
    assert shape(plan_tasks([a_range(0, 0, 0)], None, None)) == [[]]
    assert shape(plan_tasks([], 4, None)) == [[]]


def test_records_max_cuts_a_range_into_equal_parts():
    tasks = plan_tasks([a_range(0, 10, MB)], None, 4)
    assert shape(tasks) == [[(0, 0, 3)], [(0, 3, 6)], [(0, 6, 10)]]


def test_partitions_min_splits_the_longest():
    tasks = plan_tasks([a_range(0, 90, MB), a_range(1, 5, MB)], 4, None)
    assert shape(tasks) == [[(0, 0, 30)], [(0, 30, 60)], [(0, 60, 90)], [(1, 0, 5)]]


def test_partitions_min_below_what_there_is_changes_only_the_packing():
    tasks = plan_tasks([a_range(p, 10, MB) for p in range(3)], 2, None)
    assert shape(tasks) == [[(0, 0, 10)], [(1, 0, 10)], [(2, 0, 10)]]


def test_cut_keeps_only_segments_that_hold_its_offsets():
    (whole,) = plan_tasks([a_range(0, 100, MB, segments=10)], None, None)
    cut = whole.ranges[0].cut(15, 31)
    assert [s.base_offset for s in cut.segments] == [10, 20, 30]


@given(
    st.lists(st.tuples(st.integers(0, 1000), st.integers(0, 64 * MB)), max_size=8),
    st.none() | st.integers(1, 40),
    st.none() | st.integers(1, 400),
)
def test_any_plan_reads_every_offset_once_and_in_order(ranges, partitions_min, records_max):
    wanted = [a_range(p, count, size) for p, (count, size) in enumerate(ranges)]
    tasks = plan_tasks(wanted, partitions_min, records_max)
    found: dict[int, int] = {}
    for task in tasks:
        for r in task.ranges:
            assert r.start == found.get(r.partition, 0)
            assert r.end > r.start
            found[r.partition] = r.end
    assert found == {p: count for p, (count, _) in enumerate(ranges) if count}
    if records_max is not None:
        assert all(r.end - r.start <= records_max for task in tasks for r in task.ranges)
