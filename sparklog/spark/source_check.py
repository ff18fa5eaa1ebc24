"""What can be said of a source's options before any record is read.

Spark asks a source for its schema at `load`: that is where a wrong option, a missing topic or an
offset out of range is told, not in a task.
"""

from __future__ import annotations

import logging

from pyspark.sql.types import StructType

from sparklog.errors import InvalidConfigError, OffsetOutOfRangeError
from sparklog.log.schema import RECORD_SCHEMA
from sparklog.spark.options import SourceOptions
from sparklog.spark.process import CLOCK, process_store
from sparklog.spark.start_point import LATEST, StartPoint, check_partitions_exist
from sparklog.spark.topic_set import TopicSet

logger = logging.getLogger("sparklog.spark")

_SPARK_TYPES = {
    "key": "binary",
    "value": "binary",
    "topic": "string",
    "partition": "int",
    "offset": "bigint",
    "timestamp": "timestamp",
    "timestampType": "int",
    "headers": "array<struct<key:string,value:binary>>",
}


def source_schema(columns: tuple[str, ...]) -> str:
    """The columns with their types, as Spark takes a schema."""
    return ", ".join(f"`{name}` {_SPARK_TYPES[name]}" for name in columns)


def open_topics(options: SourceOptions) -> TopicSet:
    """The topics that the options name."""
    return TopicSet(process_store(options.store), CLOCK, options)


def check_source(options: SourceOptions) -> None:
    """Refuse what neither a batch nor a stream could read."""
    topics = open_topics(options)
    counts = {name: len(topics.reader(name).offsets.next) for name in topics.topics()}
    for option, point in (("startingOffsets", options.starting), ("endingOffsets", options.ending)):
        if point is None:
            continue
        check_partitions_exist(point, option, counts)
        if options.fail_on_data_loss:
            _check_not_past_end(point, option, topics)


def _check_not_past_end(point: StartPoint, option: str, topics: TopicSet) -> None:
    """An offset before the start is left to the query: a restarted one does not use it."""
    for topic, offsets in point.offsets.items():
        for partition, offset in offsets.items():
            end = topics.end((topic, partition))
            if offset > end:
                raise OffsetOutOfRangeError(
                    f"option {option}: offset {offset} of topic {topic!r} partition {partition} "
                    f"is past its end, {end} (-2 is earliest, -1 is latest)"
                )


def check_batch(options: SourceOptions, topics: TopicSet) -> None:
    """Refuse what a batch cannot do."""
    if options.group is not None:
        raise InvalidConfigError(
            "option group.id is for readStream: a batch read commits no offsets. Use readStream "
            "with trigger(availableNow=True) to read what is there and commit it"
        )
    if options.starting is not None and _begins_at_end(options.starting):
        raise InvalidConfigError(
            "option startingOffsets = latest is not allowed in a batch read: there is nothing "
            "behind the end. Leave it out, or use readStream"
        )
    if options.pattern is not None and not topics.topics():
        raise InvalidConfigError(
            f"option subscribePattern = {options.pattern!r} matches no topic of the log at "
            f"{options.store.path}"
        )
    for name, value in (
        ("maxOffsetsPerTrigger", options.max_offsets),
        ("minOffsetsPerTrigger", options.min_offsets),
        ("maxBytesPerTrigger", options.max_bytes),
    ):
        if value is not None:
            logger.warning("option %s has no effect in a batch read", name)


def check_stream(options: SourceOptions) -> None:
    """Refuse what a stream cannot do."""
    if options.ending is not None:
        raise InvalidConfigError(
            "endingOffsets, endingTimestamp and endingOffsetsByTimestamp are for batch reads: a "
            "stream has no end. To read what is there and stop, use trigger(availableNow=True)"
        )


def check_given_schema(given: StructType, columns: tuple[str, ...]) -> None:
    """Refuse a schema of the user's own: the columns of a topic are fixed."""
    if [field.name for field in given] != list(columns):
        raise InvalidConfigError(
            f"the sparklog source has the columns {', '.join(columns)}, not "
            f"{', '.join(field.name for field in given)}: leave schema(...) out, and choose "
            f"among {', '.join(RECORD_SCHEMA.names)} with the option columns"
        )


def _begins_at_end(point: StartPoint) -> bool:
    return point.name == LATEST or any(
        offset == -1 for of_topic in point.offsets.values() for offset in of_topic.values()
    )
