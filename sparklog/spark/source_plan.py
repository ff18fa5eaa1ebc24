"""From stretches of offsets to what tasks read, with the truth about records that are gone.

Records that retention or a deletion removed before they were read are data loss: the query stops,
unless failOnDataLoss=false. Offsets that compaction left out are no loss: there is nothing at them.
"""

from __future__ import annotations

import logging

from sparklog.errors import OffsetOutOfRangeError
from sparklog.log.range_reader import OffsetRange, data_loss
from sparklog.spark.admission import Place
from sparklog.spark.options import SourceOptions
from sparklog.spark.topic_set import TopicSet

logger = logging.getLogger("sparklog.spark")


def plan_range(
    topics: TopicSet, options: SourceOptions, place: Place, start: int, end: int
) -> OffsetRange:
    """The range with its segments, as the newest view of the topic knows them."""
    topic, partition = place
    if topics.end(place) < end:
        topics.refresh()
    if topics.end(place) < end:
        lose(
            options,
            f"topic {topic!r} partition {partition} ends at {topics.end(place)}, but the query "
            f"was to read to {end}: the log was restored from an older copy",
        )
        end = topics.end(place)
    first = topics.start(place)
    if start < first and start < end:
        lose(options, str(data_loss(topic, partition, start, min(first, end))))
        start = min(first, end)
    reader = topics.reader(topic)
    return OffsetRange(
        topic=topic,
        topic_id=reader.topic_id,
        partition=partition,
        start=start,
        end=max(start, end),
        timestamp_type=reader.timestamp_type(),
        segments=tuple(topics.segments(place, start, end)) if start < end else (),
    )


def lose(options: SourceOptions, what: str) -> None:
    """Records are gone that the query should have read: stop, or say so and go on."""
    if options.fail_on_data_loss:
        raise OffsetOutOfRangeError(what)
    logger.warning("%s", what)
