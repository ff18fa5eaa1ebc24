"""What the cluster tests submit: stream a topic into another, and say who worked.

cluster_job.py ROOT MASTER [ARCHIVE]
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import sparklog
from sparklog.errors import UnsupportedError
from sparklog.spark import session, table

ROWS = 1000


def workers(home: Path) -> list[str]:
    """The interpreters that run in the executors' folders now: Spark keeps them for a while."""
    found = set()
    for process in Path("/proc").glob("[0-9]*"):
        try:
            folder, program = (str((process / name).readlink()) for name in ("cwd", "exe"))
        except OSError:
            continue  # it has ended
        if folder.startswith(f"{home}/work/") and "python" in Path(program).name:
            found.add(program)
    return sorted(found)


def refusal(function, *arguments, **named):
    try:
        function(*arguments, **named)
    except UnsupportedError as error:
        return str(error)


def values(log, topic):
    with log.consumer(topic, auto_offset_reset="earliest") as consumer:
        found = set()
        while batch := consumer.poll(timeout_ms=0):
            found |= {record.value for record in batch}
    return found


def main(root, master, *archives):
    log = sparklog.connect(root)
    for topic in ("orders", "copy"):
        log.create_topic(topic, partitions=4)
    config = {"spark.ui.enabled": "false"}
    if archives:
        os.environ["PYSPARK_PYTHON"] = "./environment/bin/python"
        config["spark.archives"] = f"{archives[0]}#environment"
    spark = session(master=master, config=config)
    with log.producer() as producer:
        for number in range(ROWS):
            producer.send("orders", b"%d" % number, key=b"%d" % number)
    source = spark.readStream.format("sparklog").options(
        path=root, subscribe="orders", startingOffsets="earliest", minPartitions=4
    )
    sink = source.load().select("key", "value").writeStream.format("sparklog")
    sink = sink.options(path=root, topic="copy", checkpointLocation=str(Path(root, "checkpoint")))
    sink.trigger(availableNow=True).start().awaitTermination()
    found = {
        "refused": [refusal(session, delta=True), refusal(table, spark, root, "orders")],
        "workers": workers(Path(os.environ["SPARK_HOME"])),
        "same": values(log, "orders") == values(log, "copy"),
        "ends": [sum(log.end_offsets(topic).values()) for topic in ("orders", "copy")],
    }
    spark.stop()
    print("found: " + json.dumps(found))


if __name__ == "__main__":
    main(*sys.argv[1:])
