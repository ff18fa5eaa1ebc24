"""Filters that Spark pushes into a batch read: which records need not be read at all.

Filters on topic, partition and offset are exact here, because rows are cut to them; a filter on
timestamp only leaves out segments and row groups, so Spark applies it again. All others are left
to Spark.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, TypeAlias

from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    LessThan,
    LessThanOrEqual,
)

from sparklog.log.segment_footer import datetime_us

Bounds: TypeAlias = tuple[int | None, int | None]
"""Lowest and highest value, both inclusive; None is open."""

OPEN: Bounds = (None, None)
_NEVER_NULL = ("topic", "partition", "offset", "timestamp", "timestampType")


@dataclass(frozen=True)
class Pushed:
    """What is left to read after the filters."""

    topics: frozenset[str] | None = None
    partitions: Bounds = OPEN
    partition_set: frozenset[int] | None = None
    offsets: Bounds = OPEN
    times_us: Bounds = OPEN

    def takes(self, topic: str, partition: int) -> bool:
        """Whether records of this partition may pass."""
        return (
            (self.topics is None or topic in self.topics)
            and (self.partition_set is None or partition in self.partition_set)
            and _within(partition, self.partitions)
        )

    def cut(self, start: int, end: int) -> tuple[int, int]:
        """The part of offsets [start, end) that passes; empty if it ends before it starts."""
        low, high = self.offsets
        return (
            start if low is None else max(start, low),
            end if high is None else min(end, high + 1),
        )


def push(filters: Iterable[Filter]) -> tuple[Pushed, list[Filter]]:
    """What the filters leave to read, and those that Spark must apply itself."""
    pushed, rest = Pushed(), []
    for one in filters:
        found = _push_one(pushed, one)
        if found is None:
            rest.append(one)
            continue
        pushed = found
        if _column(one) == "timestamp" and not isinstance(one, IsNotNull):
            rest.append(one)
    return pushed, rest


def _push_one(pushed: Pushed, one: Filter) -> Pushed | None:
    name = _column(one)
    if name not in _NEVER_NULL:
        return None
    if isinstance(one, IsNotNull):
        return pushed
    if name == "topic":
        return _push_topic(pushed, one)
    if isinstance(one, In):
        if name != "partition" or not all(_is_int(value) for value in one.value):
            return None
        return replace(pushed, partition_set=_common(pushed.partition_set, one.value))
    bounds = _bounds(one, name)
    if bounds is None:
        return None
    if name == "partition":
        return replace(pushed, partitions=_narrow(pushed.partitions, bounds))
    if name == "offset":
        return replace(pushed, offsets=_narrow(pushed.offsets, bounds))
    if name == "timestamp":
        return replace(pushed, times_us=_narrow(pushed.times_us, bounds))
    return None


def _push_topic(pushed: Pushed, one: Filter) -> Pushed | None:
    values: list[Any] = []
    if isinstance(one, In):
        values = list(one.value)
    elif isinstance(one, (EqualTo, EqualNullSafe)):
        values = [one.value]
    if not values or not all(isinstance(value, str) for value in values):
        return None
    return replace(pushed, topics=_common(pushed.topics, values))


def _bounds(one: Filter, name: str) -> Bounds | None:
    """What the comparison allows; times to the microsecond, which is all that a timestamp has."""
    value = getattr(one, "value", None)
    if name == "timestamp":
        if not isinstance(value, datetime) or value.tzinfo is None:
            return None
        value = datetime_us(value)
    if not isinstance(value, int) or isinstance(value, bool):
        return None
    number = value
    if isinstance(one, (EqualTo, EqualNullSafe)):
        return number, number
    if isinstance(one, GreaterThan):
        return number + 1, None
    if isinstance(one, GreaterThanOrEqual):
        return number, None
    if isinstance(one, LessThan):
        return None, number - 1
    if isinstance(one, LessThanOrEqual):
        return None, number
    return None


def _column(one: Filter) -> str:
    """The top-level column that the filter looks at, or nothing."""
    attribute: tuple[str, ...] = getattr(one, "attribute", ())
    return attribute[0] if len(attribute) == 1 else ""


def _is_int(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _narrow(old: Bounds, new: Bounds) -> Bounds:
    lows = [bound for bound in (old[0], new[0]) if bound is not None]
    highs = [bound for bound in (old[1], new[1]) if bound is not None]
    return max(lows, default=None), min(highs, default=None)


def _common(old: frozenset[Any] | None, new: Iterable[Any]) -> frozenset[Any]:
    return frozenset(new) if old is None else old & frozenset(new)


def _within(value: int, bounds: Bounds) -> bool:
    low, high = bounds
    return (low is None or value >= low) and (high is None or value <= high)
