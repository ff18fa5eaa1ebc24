"""A topic as a table: SQL, time travel and joins through delta-spark.

A topic's table is complete at every commit, so what is read is one version of the topic, whole.
`offset` comes first; filters on `partition` and `base_offset` drop segments before they are opened,
filters on `timestamp` drop them by their bounds, and filters on `offset` read them.

What it does not do: it needs Delta on the session (`session(delta=True)`), and it never writes;
nothing but sparklog may write to a topic.
"""

from __future__ import annotations

import os
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.errors import AnalysisException

import sparklog
from sparklog.errors import InvalidInputError, UnknownTopicError, UnsupportedError
from sparklog.names import check_name, topic_folder
from sparklog.spark.settings import has_delta

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

OFFSET = "base_offset + offset_delta AS offset"
_COLUMNS = ("partition", "timestamp", "key", "value", "headers")
_PLACE = ("base_offset", "offset_delta")


def table(
    spark: SparkSession,
    root: str | os.PathLike[str],
    topic: str,
    version: int | None = None,
    timestamp: str | datetime | None = None,
) -> DataFrame:
    """The topic as it is, or as it was at a version of its table or at a time.

    A time is a datetime, or a text that Spark casts to a timestamp.
    """
    if version is not None and timestamp is not None:
        raise InvalidInputError("give version or timestamp, not both")
    if not has_delta(spark):
        raise UnsupportedError(
            f"topic {topic!r} cannot be read as a table: this session has no Delta. Build it with "
            "sparklog.spark.session(delta=True), or see docs/howto/spark.md for spark-submit"
        )
    path = table_path(root, topic)
    reader = spark.read.format("delta")
    if version is not None:
        reader = reader.option("versionAsOf", version)
    if timestamp is not None:
        reader = reader.option("timestampAsOf", _time_text(timestamp))
    try:
        stored = reader.load(path)
    except AnalysisException as error:
        if error.getCondition() in ("DELTA_PATH_DOES_NOT_EXIST", "DELTA_MISSING_DELTA_TABLE"):
            raise UnknownTopicError(f"topic {topic!r} does not exist in {root}") from None
        raise
    return stored.selectExpr(OFFSET, *_COLUMNS, *_PLACE)


def create_view(
    spark: SparkSession,
    root: str | os.PathLike[str],
    topic: str,
    name: str | None = None,
    version: int | None = None,
    timestamp: str | datetime | None = None,
) -> DataFrame:
    """Name the topic as a view of this session for SQL; without a name, the topic's own.

    Each query of the view sees the topic as it is then, unless a version or a time is given.
    """
    view = table(spark, root, topic, version, timestamp)
    view.createOrReplaceTempView(topic if name is None else name)
    return view


def table_path(root: str | os.PathLike[str], topic: str) -> str:
    """Where Spark finds the topic's table. A local topic that does not stand is an error here."""
    check_name(topic)
    text = os.fspath(root)
    if text.startswith("s3://"):
        return f"s3a://{text.removeprefix('s3://').rstrip('/')}/{topic_folder(topic)}".rstrip("/")
    log = sparklog.connect(text, create=False)
    try:
        log.topic(topic)
    finally:
        log.close()
    local = Path(text.removeprefix("file://")).resolve()
    return (local / topic_folder(topic)).as_uri()


def _time_text(timestamp: str | datetime) -> str:
    """A datetime without a zone is local time, as everywhere in Python."""
    if isinstance(timestamp, datetime):
        return timestamp.astimezone().isoformat(sep=" ")
    return timestamp
