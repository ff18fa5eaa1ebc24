"""What the Connect test runs: everything that works through a Connect client, one line each.

connect_job.py ROOT
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from pyspark.sql import SparkSession

import sparklog
import sparklog.spark as ss
from sparklog.spark.jobs import explain


def main(root):
    log = sparklog.connect(root)
    for topic in ("orders", "copy", "streamed"):
        log.create_topic(topic, partitions=2)
    spark = SparkSession.builder.remote("local[2]").getOrCreate()
    at_log = {"path": root}
    found = {"session": ss.session() is spark, "client": type(spark).__module__}

    rows = ss.to_json_records(spark.range(100).selectExpr("id", "id * 2 AS twice"), key="id")
    rows.write.format("sparklog").options(**at_log, topic="orders").mode("append").save()
    orders = spark.read.format("sparklog").options(**at_log, subscribe="orders").load()
    typed = ss.from_json_records(orders, "twice INT").selectExpr("sum(value.twice)")
    found["batch"] = typed.first()[0]

    placed = ss.by_partition(orders.select("key", "value"), log.topic("copy"))
    placed.write.format("sparklog").options(**at_log, topic="copy").mode("append").save()
    found["by_partition"] = sum(log.end_offsets("copy").values())

    ss.register(spark)
    source = spark.readStream.format("sparklog").options(
        **at_log, subscribe="orders", startingOffsets="earliest"
    )
    sink = source.load().select("key", "value").writeStream.format("sparklog")
    sink = sink.options(
        **at_log, topic="streamed", checkpointLocation=str(Path(root, "checkpoint"))
    )
    sink.trigger(availableNow=True).start().awaitTermination()
    found["stream"] = sum(log.end_offsets("streamed").values())

    found["table"] = ss.table(spark, root, "orders").where("offset < 10").count()
    ss.create_view(spark, root, "orders")
    found["sql"] = spark.sql("SELECT count(*) FROM orders").first()[0]
    try:
        spark.read.format("sparklog").options(**at_log, subscribe="nope").load().count()
    except Exception as error:
        found["error"] = explain(error)
    spark.stop()
    print("found: " + json.dumps(found))


if __name__ == "__main__":
    main(*sys.argv[1:])
