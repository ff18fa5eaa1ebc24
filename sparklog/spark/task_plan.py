"""From ranges of offsets to Spark tasks: a pure plan, made by bytes.

A Python task costs 20 to 30 ms whatever it reads, so a small batch is one task that reads several
topic-partitions, each in offset order; a large one is spread, a topic-partition never over two
tasks unless `minPartitions` or `maxRecordsPerPartition` asks for it, as Kafka's source does.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from pyspark.sql.datasource import InputPartition

from sparklog.log.range_reader import OffsetRange

ONE_TASK_BYTES_MAX = 32 << 20
TASK_BYTES_MIN = 8 << 20


@dataclass
class TaskRanges(InputPartition):
    """What one Spark task reads, in this order."""

    ranges: tuple[OffsetRange, ...]


def plan_tasks(
    ranges: Iterable[OffsetRange], partitions_min: int | None, records_max: int | None
) -> list[TaskRanges]:
    """The tasks that read these ranges; at least one, which may be empty."""
    todo = [r for r in ranges if r.start < r.end]
    if records_max is not None:
        todo = [part for r in todo for part in _split(r, -(-(r.end - r.start) // records_max))]
    if partitions_min is not None and todo:
        todo = _split_to(todo, partitions_min)
    if partitions_min is not None or records_max is not None:
        return [TaskRanges((part,)) for part in todo] or [TaskRanges(())]
    return _pack(todo)


def _pack(ranges: Sequence[OffsetRange]) -> list[TaskRanges]:
    if sum(r.bytes for r in ranges) <= ONE_TASK_BYTES_MAX:
        return [TaskRanges(tuple(ranges))]
    tasks: list[TaskRanges] = []
    gathered: list[OffsetRange] = []
    size = 0
    for part in ranges:
        gathered.append(part)
        size += part.bytes
        if size >= TASK_BYTES_MIN:
            tasks.append(TaskRanges(tuple(gathered)))
            gathered, size = [], 0
    if gathered:
        tasks.append(TaskRanges(tuple(gathered)))
    return tasks


def _split_to(ranges: Sequence[OffsetRange], partitions_min: int) -> list[OffsetRange]:
    """Split the largest ranges until there are at least so many, as far as offsets go."""
    if len(ranges) >= partitions_min:
        return list(ranges)
    average = sum(r.end - r.start for r in ranges) / partitions_min
    # Ranges below the average stay whole; the others share what is left of the wanted number.
    large = [r.end - r.start for r in ranges if r.end - r.start > average]
    wanted = max(1, partitions_min - (len(ranges) - len(large)))
    parts: list[OffsetRange] = []
    for r in ranges:
        count = r.end - r.start
        parts += _split(r, -(-count * wanted // sum(large))) if count > average else [r]
    return parts


def _split(whole: OffsetRange, parts: int) -> list[OffsetRange]:
    count = whole.end - whole.start
    parts = max(1, min(parts, count))
    bounds = [whole.start + count * number // parts for number in range(parts + 1)]
    return [whole.cut(start, end) for start, end in pairwise(bounds)]
