"""Filters that prune a read."""

from __future__ import annotations

from datetime import datetime, timezone

from pyspark.sql.datasource import (
    EqualTo,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    LessThan,
    LessThanOrEqual,
    Not,
    StringContains,
)

from sparklog.spark.pushdown import Pushed, push

NOON = datetime(2026, 1, 1, 12, tzinfo=timezone.utc)
NOON_US = 1_767_268_800_000_000


def test_offsets_are_exact_and_spark_need_not_look_again():
    pushed, rest = push([GreaterThan(("offset",), 10), LessThanOrEqual(("offset",), 20)])
    assert rest == []
    assert pushed.cut(0, 100) == (11, 21)
    assert pushed.cut(15, 18) == (15, 18)


def test_partitions_and_topics_choose_what_is_read():
    pushed, rest = push([In(("partition",), (1, 2, 3)), LessThan(("partition",), 3)])
    assert rest == []
    assert [p for p in range(5) if pushed.takes("t", p)] == [1, 2]
    pushed, rest = push([EqualTo(("topic",), "a")])
    assert rest == [] and pushed.takes("a", 0) and not pushed.takes("b", 0)


def test_contradiction_reads_nothing():
    pushed, _ = push([EqualTo(("topic",), "a"), In(("topic",), ("b",))])
    assert not pushed.takes("a", 0) and not pushed.takes("b", 0)
    pushed, _ = push([EqualTo(("offset",), 5), EqualTo(("offset",), 6)])
    start, end = pushed.cut(0, 100)
    assert start >= end


def test_timestamps_prune_but_spark_looks_again():
    bounds = [GreaterThanOrEqual(("timestamp",), NOON), LessThan(("timestamp",), NOON)]
    pushed, rest = push(bounds)
    assert rest == bounds
    assert pushed.times_us == (NOON_US, NOON_US - 1)


def test_time_without_zone_is_left_to_spark():
    one = EqualTo(("timestamp",), NOON.replace(tzinfo=None))
    assert push([one]) == (Pushed(), [one])


def test_columns_that_are_never_null_pass_is_not_null():
    assert push([IsNotNull(("offset",)), IsNotNull(("timestamp",))]) == (Pushed(), [])


def test_everything_else_is_left_to_spark():
    others = [
        IsNotNull(("key",)),
        EqualTo(("value",), b"v"),
        EqualTo(("headers", "key"), "h"),
        Not(EqualTo(("partition",), 1)),
        StringContains(("topic",), "a"),
        GreaterThan(("topic",), "a"),
        EqualTo(("offset",), True),
        In(("partition",), ("x",)),
        In(("offset",), (1, 2)),
    ]
    assert push(others) == (Pushed(), others)
