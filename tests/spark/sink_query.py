"""A streaming copy of JSON files into topics, in a process that a test may let die.

    python sink_query.py LOG INPUT CHECKPOINT [POINT BATCH]

At that batch driver and JVM die by SIGKILL at one of two points of the sink's commit: `committed`,
when all topics have the batch and Spark has not yet written down that it is complete; or
`between`, when the first topic has it and the second has not.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable
from typing import Any

from pyspark.sql.types import StructType

from sparklog.spark import session, sink_commit
from sparklog.spark.data_source import SparklogDataSource
from sparklog.spark.options import SinkOptions
from sparklog.spark.sink import SparklogStreamWriter

SECOND_TOPIC = "orders"


def deadly(point: str, batch: int, pids: list[int]) -> type[SparklogDataSource]:
    """The data source, but its commit of one batch is the driver's last deed."""

    def die() -> None:
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
        time.sleep(60)

    class DeadlyWriter(SparklogStreamWriter):
        def commit(self, messages: Any, batchId: int) -> None:
            if batchId == batch and point == "between":
                real = sink_commit._retry

                def retry(topic: str, work: Callable[[], None]) -> None:
                    if topic == SECOND_TOPIC:
                        die()
                    real(topic, work)

                sink_commit._retry = retry
            super().commit(messages, batchId)
            if batchId == batch:
                die()

    class DeadlySource(SparklogDataSource):
        @classmethod
        def name(cls) -> str:
            return "deadly"

        def streamWriter(self, schema: StructType, overwrite: bool) -> DeadlyWriter:
            return DeadlyWriter(schema, SinkOptions.of(dict(self.options)), overwrite)

    return DeadlySource


def main() -> None:
    """Run the query to the end of what is there, or to its death."""
    root, source, checkpoint, *death = sys.argv[1:]
    spark = session("sink-query", master="local[2]")
    spark.sparkContext.setLogLevel("ERROR")
    frame = spark.readStream.schema("key string, value string, topic string")
    frame = frame.option("maxFilesPerTrigger", 1).json(source)
    name = "sparklog"
    if death:
        jvm = spark._jvm.java.lang.ProcessHandle.current().pid()
        spark.dataSource.register(deadly(death[0], int(death[1]), [int(jvm), os.getpid()]))
        name = "deadly"
    writer = frame.writeStream.format(name).option("path", root)
    writer.option("checkpointLocation", checkpoint).trigger(availableNow=True).start()
    for query in spark.streams.active:
        query.awaitTermination()


if __name__ == "__main__":
    main()
