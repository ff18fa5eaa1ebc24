"""Bring the rows of each topic-partition together before they are written.

The sink never shuffles: each task writes a segment for every topic-partition that it holds. Where
many tasks hold a few rows of many partitions, files are many and small; then a shuffle by Kafka's
own placement is worth what it costs, and this is it.

Rows that one task had keep their order within a partition; which task's rows come first is not
said, as with any shuffle.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.functions import arrow_udf
from pyspark.sql.types import IntegerType

import sparklog
from sparklog.errors import InvalidInputError
from sparklog.log.partitioner import partition_for_keys

if TYPE_CHECKING:
    from sparklog.clients.topic import Topic


def by_partition(
    df: DataFrame,
    topic: Topic | str,
    path: str | None = None,
    storage_options: Mapping[str, Any] | None = None,
) -> DataFrame:
    """`df` with a column `partition`, all rows of a partition in one task.

    `topic` is a handle (`log.topic("orders")`), or a name with the `path` of its log. Rows whose
    `partition` is given keep it; those without a key go where others of their task go.
    """
    if isinstance(topic, str):
        if path is None:
            raise InvalidInputError(
                f"by_partition does not know where topic {topic!r} is: give path=, or a handle "
                "such as log.topic('orders')"
            )
        topic = sparklog.connect(path, storage_options, create=False).topic(topic)
    count = len(topic.describe().partitions)
    placed = df.withColumn("partition", _placement(df, count))
    return placed.repartitionById(count, "partition")


def _placement(df: DataFrame, count: int) -> Column:
    """The partition of a row, as an expression."""
    place = F.pmod(F.spark_partition_id(), F.lit(count)).cast(IntegerType())
    if "key" in df.columns:
        hashed = _kafka_partition(count)(F.col("key"))
        place = F.when(F.col("key").isNull(), place).otherwise(hashed)
    return F.coalesce(F.col("partition"), place) if "partition" in df.columns else place


def _kafka_partition(count: int) -> Any:
    def place(keys: pa.Array) -> pa.Array:
        return pa.array(partition_for_keys(keys, count))

    as_udf: Any = arrow_udf  # pyspark's stubs ask for the type that the hints give
    return as_udf(place, IntegerType())
