"""Where an admin's reset puts an offset: one of the ways that Kafka's tool knows."""

from __future__ import annotations

from dataclasses import dataclass

from sparklog.errors import InvalidInputError, OffsetOutOfRangeError
from sparklog.log.topic_reader import TopicReader

EARLIEST = "earliest"
LATEST = "latest"


@dataclass(frozen=True)
class ResetTarget:
    """One way, and its number."""

    way: str
    number: int = 0

    @classmethod
    def of(
        cls,
        to: str | int | None = None,
        to_timestamp_ms: int | None = None,
        shift_by: int | None = None,
        by_duration_ms: int | None = None,
    ) -> ResetTarget:
        """The one that was given; InvalidInputError if it is not exactly one."""
        numbers = {"time": to_timestamp_ms, "shift": shift_by, "duration": by_duration_ms}
        given = {way: number for way, number in numbers.items() if number is not None}
        if (to is not None) + len(given) != 1:
            raise InvalidInputError(
                "a reset needs exactly one of to (earliest, latest or an offset), "
                "to_timestamp_ms, shift_by and by_duration_ms"
            )
        if to in (EARLIEST, LATEST):
            return cls(str(to))
        way, number = ("offset", to) if to is not None else next(iter(given.items()))
        if isinstance(number, bool) or not isinstance(number, int):
            raise InvalidInputError(
                f"a reset to {number!r} is not possible: give earliest, latest or a whole number"
            )
        if way in ("offset", "duration") and number < 0:
            raise InvalidInputError(f"a reset by {way} needs a number from 0, not {number}")
        return cls(way, number)

    def resolve(self, reader: TopicReader, partition: int, before: int | None, now_ms: int) -> int:
        """The offset in this partition. A shift stops at the ends; an offset must lie between."""
        start, end = reader.offsets.start[partition], reader.offsets.next[partition]
        if self.way == EARLIEST:
            return start
        if self.way == LATEST:
            return end
        if self.way == "shift":
            if before is None:
                raise InvalidInputError(
                    f"topic {reader.topic!r} partition {partition} has no committed offset to "
                    "shift: reset it to earliest or latest first"
                )
            return min(max(before + self.number, start), end)
        if self.way in ("time", "duration"):
            moment = self.number if self.way == "time" else now_ms - self.number
            found = reader.offset_for_time(partition, moment * 1000)
            return end if found is None else found[0]
        if not start <= self.number <= end:
            raise OffsetOutOfRangeError(
                f"topic {reader.topic!r} partition {partition}: offset {self.number} is out of "
                f"range; it holds {start} to {end}"
            )
        return self.number
