"""Where a query starts or ends in each partition: what the options say, and what that means now."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from sparklog.errors import InvalidConfigError, OffsetOutOfRangeError
from sparklog.log.topic_reader import TopicReader

logger = logging.getLogger("sparklog.spark")

EARLIEST = "earliest"
LATEST = "latest"
COMMITTED = "committed"
"""Where the group stands; earliest in partitions of which it has no offset."""
EARLIEST_OFFSET = -2
LATEST_OFFSET = -1

PerPartition = Mapping[str, Mapping[int, int]]


@dataclass(frozen=True)
class StartPoint:
    """One of: a name for all partitions, an offset for each, a time for all, a time for each."""

    name: str = ""
    offsets: PerPartition = field(default_factory=dict)
    time_ms: int | None = None
    times_ms: PerPartition = field(default_factory=dict)
    strategy: str = "error"
    """What a time means that no record has reached: an error, or the end of the partition."""

    @classmethod
    def named(cls, name: str) -> StartPoint:
        """Earliest, latest or committed, everywhere."""
        return cls(name=name)

    @classmethod
    def at_offsets(cls, offsets: PerPartition) -> StartPoint:
        """An offset for each partition; -2 is earliest, -1 is latest."""
        return cls(offsets=offsets)

    @classmethod
    def at_time(cls, time_ms: int, strategy: str) -> StartPoint:
        """The first record of this time or later, everywhere."""
        return cls(time_ms=time_ms, strategy=strategy)

    @classmethod
    def at_times(cls, times_ms: PerPartition, strategy: str) -> StartPoint:
        """The first record of a partition's own time or later."""
        return cls(times_ms=times_ms, strategy=strategy)

    @property
    def explicit(self) -> PerPartition:
        """Partitions that are named one by one, if they are."""
        return self.offsets or self.times_ms

    def resolve(
        self, option: str, reader: TopicReader, partition: int, *, strict: bool = True
    ) -> int:
        """The offset that it means in this partition now.

        Unless `strict`, an offset that is gone means the nearest one that is there.
        """
        start, end = reader.offsets.start[partition], reader.offsets.next[partition]
        if self.name:
            return end if self.name == LATEST else start
        if self.time_ms is not None:
            return self._at(option, self.time_ms, reader, partition)
        value = self._explicit_of(option, reader.topic, partition)
        if self.times_ms:
            return self._at(option, value, reader, partition)
        if value == EARLIEST_OFFSET:
            return start
        if value == LATEST_OFFSET:
            return end
        if not start <= value <= end:
            if not strict:
                logger.warning(
                    "option %s: offset %d of topic %r partition %d is out of range %d to %d",
                    option,
                    value,
                    reader.topic,
                    partition,
                    start,
                    end,
                )
                return min(max(value, start), end)
            raise OffsetOutOfRangeError(
                f"option {option}: offset {value} of topic {reader.topic!r} partition {partition} "
                f"is out of range; it holds {start} to {end} (-2 is earliest, -1 is latest)"
            )
        return value

    def _explicit_of(self, option: str, topic: str, partition: int) -> int:
        try:
            return self.explicit[topic][partition]
        except KeyError:
            raise InvalidConfigError(
                f"option {option} says nothing of topic {topic!r} partition {partition}: name all "
                "partitions that are read (-2 is earliest, -1 is latest)"
            ) from None

    def _at(self, option: str, time_ms: int, reader: TopicReader, partition: int) -> int:
        found = reader.offset_for_time(partition, time_ms * 1000)
        if found is not None:
            return found[0]
        if self.strategy == "error":
            raise OffsetOutOfRangeError(
                f"option {option}: topic {reader.topic!r} partition {partition} has no record of "
                f"time {time_ms} or later. Set startingOffsetsByTimestampStrategy=latest to start "
                "such partitions at their end"
            )
        return reader.offsets.next[partition]


def check_partitions_exist(point: StartPoint, option: str, topics: Mapping[str, int]) -> None:
    """Refuse an option that names a topic or partition which is not read."""
    for topic, partitions in point.explicit.items():
        count = topics.get(topic)
        if count is None:
            raise InvalidConfigError(
                f"option {option} names topic {topic!r}, which is not read; "
                f"read are: {', '.join(sorted(topics)) or 'none'}"
            )
        for partition in partitions:
            if partition >= count:
                raise InvalidConfigError(
                    f"option {option} names partition {partition} of topic {topic!r}, which has "
                    f"{count}"
                )


def parse_offsets(text: str) -> PerPartition:
    """`{"topic":{"0":23,"1":-2}}`."""
    form = 'it must be earliest, latest or JSON like {"topic":{"0":23,"1":-2}}'
    return _parse(text, form, lowest=EARLIEST_OFFSET)


def parse_times(text: str) -> PerPartition:
    """`{"topic":{"0":1700000000000}}`."""
    return _parse(text, 'it must be JSON like {"topic":{"0":1700000000000}}', lowest=0)


def _parse(text: str, form: str, lowest: int) -> PerPartition:
    try:
        body: Any = json.loads(text)
    except ValueError as error:
        raise ValueError(f"{form} ({error})") from None
    if not isinstance(body, dict) or not body:
        raise ValueError(form)
    parsed: dict[str, dict[int, int]] = {}
    for topic, partitions in body.items():
        if not isinstance(partitions, dict) or not partitions:
            raise ValueError(form)
        for partition, number in partitions.items():
            whole = isinstance(number, int) and not isinstance(number, bool)
            if not partition.isdecimal() or not whole or number < lowest:
                raise ValueError(f"{form}; {topic} has {partition!r}: {number!r}")
            parsed.setdefault(topic, {})[int(partition)] = number
    return parsed
