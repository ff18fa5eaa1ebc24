"""The newest segments of a partition, as commits brought them, so that nobody lists files for them.

It answers for offsets from `covers_from` on; before that the table's file list does. Segments that
coalescing has replaced meanwhile may be among them: a reader that finds one gone plans again.
"""

from __future__ import annotations

from bisect import bisect_right

from sparklog.log.segment import Segment

SEGMENTS_MAX = 10_000


class SegmentTail:
    """Segments in offset order, the oldest let go when there are many."""

    def __init__(self, covers_from: int, segments_max: int = SEGMENTS_MAX) -> None:
        """Empty: the first segment to come begins at `covers_from`."""
        self.covers_from = covers_from
        self._segments_max = segments_max
        self._segments: list[Segment] = []
        self._base_offsets: list[int] = []

    def note(self, segment: Segment) -> None:
        """A commit brought a segment."""
        self._segments.append(segment)
        self._base_offsets.append(segment.base_offset)
        if len(self._segments) > self._segments_max:
            self.forget_before(self._base_offsets[len(self._segments) // 2])

    def forget_before(self, offset: int) -> None:
        """Let go of segments that end before this offset."""
        keep = max(0, bisect_right(self._base_offsets, offset) - 1)
        if keep:
            del self._segments[:keep]
            del self._base_offsets[:keep]
            self.covers_from = self._base_offsets[0]

    def between(self, start: int, end: int) -> list[Segment]:
        """Segments that hold offsets in [start, end), in order."""
        first = max(0, bisect_right(self._base_offsets, start) - 1)
        found = []
        for segment in self._segments[first:]:
            if segment.base_offset >= end:
                break
            if segment.last_offset >= start:
                found.append(segment)
        return found
