"""A driver of its own: one query of a group into a file, that kills itself where it is told.

`python -m tests.spark.group_driver ROOT CHECKPOINT OUT KILL_AT WHERE`: in batch KILL_AT it dies
before or after it wrote the batch's rows to OUT; -1 for never. With WHERE `end` it is a query that
reads what is there and ends.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path

from sparklog.spark import session
from tests.support.spark_session import use_this_python

SESSION_MS = "8000"


def main() -> None:
    root, checkpoint, out, kill_at, where = sys.argv[1:]
    use_this_python()
    spark = session("group-driver", master="local[2]")
    spark.sparkContext.setLogLevel("ERROR")

    def write(frame, number: int) -> None:
        rows = [(r.partition, r.offset) for r in frame.select("partition", "offset").collect()]
        if number == int(kill_at) and where == "before":
            os.kill(os.getpid(), signal.SIGKILL)
        with Path(out).open("a") as sink:
            sink.write(json.dumps({"batch": number, "rows": rows, "pid": os.getpid()}) + "\n")
            sink.flush()
            os.fsync(sink.fileno())
        if number == int(kill_at) and where == "after":
            os.kill(os.getpid(), signal.SIGKILL)

    source = spark.readStream.format("sparklog").option("path", root).option("subscribe", "orders")
    source = source.option("group.id", "billing").option("startingOffsets", "committed")
    source = source.option("session.timeout.ms", SESSION_MS).option("heartbeat.interval.ms", "500")
    writer = source.option("maxOffsetsPerTrigger", "100").load().writeStream.foreachBatch(write)
    writer = writer.option("checkpointLocation", checkpoint)
    trigger = {"availableNow": True} if where == "end" else {"processingTime": "0 seconds"}
    writer.trigger(**trigger).start().awaitTermination()
    spark.stop()


if __name__ == "__main__":
    main()
