"""How much of what is there one micro-batch takes: pure functions over stretches of offsets.

Limits are shared out in proportion to what each partition has waiting, as Kafka's source does, so
that a long backlog in one partition does not starve the others. Every partition with records
waiting moves by one record at least, so a query always comes to the end.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from sparklog.log.range_reader import bytes_between
from sparklog.log.segment import Segment

Place: TypeAlias = tuple[str, int]
"""A topic and a partition."""
SegmentsOf: TypeAlias = Callable[[Place, int, int], list[Segment]]


@dataclass(frozen=True)
class Stretch:
    """Offsets [start, end) that wait to be read."""

    start: int
    end: int

    def __len__(self) -> int:
        """How many offsets there are."""
        return max(0, self.end - self.start)


Waiting: TypeAlias = Mapping[Place, Stretch]


def offsets_waiting(waiting: Waiting) -> int:
    """How many offsets there are in all."""
    return sum(map(len, waiting.values()))


def limit_offsets(waiting: Waiting, offsets_max: int) -> dict[Place, Stretch]:
    """At most about so many offsets, in proportion to what waits."""
    total = offsets_waiting(waiting)
    if total <= offsets_max:
        return dict(waiting)
    return {
        place: Stretch(stretch.start, stretch.start + _share(len(stretch), total, offsets_max))
        for place, stretch in waiting.items()
    }


def limit_bytes(waiting: Waiting, bytes_max: int, segments: SegmentsOf) -> dict[Place, Stretch]:
    """At most about so many bytes of segments, in proportion to what waits."""
    found = {place: segments(place, s.start, s.end) for place, s in waiting.items() if len(s)}
    sizes = {
        place: bytes_between(listed, waiting[place].start, waiting[place].end)
        for place, listed in found.items()
    }
    total = sum(sizes.values())
    if total <= bytes_max:
        return dict(waiting)
    limited = dict(waiting)
    for place, listed in found.items():
        allowed = _share(sizes[place], total, bytes_max)
        limited[place] = _up_to_bytes(waiting[place], listed, allowed)
    return limited


def _share(size: int, total: int, limit: int) -> int:
    share = limit * size / total
    return min(size, math.ceil(share) if share < 1 else math.floor(share))


def _up_to_bytes(stretch: Stretch, segments: list[Segment], allowed: int) -> Stretch:
    """The part of the stretch that takes so many bytes, one record at least."""
    for segment in segments:
        start, end = max(stretch.start, segment.base_offset), min(stretch.end, segment.end)
        size = bytes_between([segment], start, end)
        if size >= allowed:
            offsets = (end - start) * allowed // max(1, size)
            return Stretch(stretch.start, max(start + offsets, stretch.start + 1))
        allowed -= size
    return stretch
