"""The demo: a producer, a consumer that tails it, and Spark on the same topic.

Works in ./data/demo, which it deletes and makes anew. Exit code 1 if Spark and the consumer differ.
"""

from __future__ import annotations

import os
import shutil
import sys
import threading
import time
from collections import Counter
from pathlib import Path

import pyarrow as pa
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

import sparklog

ROOT = Path("data/demo").resolve()
ARROW_ROWS, BATCH_ROWS, SINGLES = 200_000, 10_000, 1_000
TOTAL = ARROW_ROWS + SINGLES
QUIET_MS = 10_000
DELTA = "io.delta.sql.DeltaSparkSessionExtension", "org.apache.spark.sql.delta.catalog.DeltaCatalog"
SPARK = dict(zip(("spark.sql.extensions", "spark.sql.catalog.spark_catalog"), DELTA, strict=True))
SPARK |= {"spark.ui.enabled": "false", "spark.databricks.delta.snapshotPartitions": "2"}
console = Console()


def produce(log: sparklog.Log) -> None:
    with log.producer() as producer:
        for start in range(0, ARROW_ROWS, BATCH_ROWS):
            numbers = range(start, start + BATCH_ROWS)
            keys, values = [b"%d" % n for n in numbers], [b"order %d" % n for n in numbers]
            producer.send_arrow("orders", pa.table({"key": keys, "value": values}))
        for n in range(ARROW_ROWS, TOTAL):
            producer.send("orders", b"order %d" % n, key=b"%d" % n)


def consume(log: sparklog.Log, counts: Counter[int], progress: Progress) -> None:
    task = progress.add_task("consumed", total=TOTAL)
    with log.consumer("orders", auto_offset_reset="earliest") as consumer:
        while counts.total() < TOTAL and (batches := consumer.poll_arrow(timeout_ms=QUIET_MS)):
            for batch in batches:
                counts[batch["partition"][0].as_py()] += batch.num_rows
            progress.update(task, completed=counts.total())


def count_with_spark(path: Path) -> dict[int, int]:
    """Records by partition as Spark SQL sees the Delta table; the JVM's chatter goes nowhere."""
    from delta import configure_spark_with_delta_pip  # noqa: PLC0415
    from pyspark.sql import SparkSession  # noqa: PLC0415

    os.environ["PYSPARK_PYTHON"] = sys.executable
    stderr, null = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 2)
    try:
        builder = SparkSession.builder.master("local[2]").config(map=SPARK)
        spark = configure_spark_with_delta_pip(builder).getOrCreate()
        rows = spark.sql(f"SELECT partition, count(*) FROM delta.`{path}` GROUP BY 1").collect()
        spark.stop()
    finally:
        os.dup2(stderr, 2)
    return {row[0]: row[1] for row in rows}


def main() -> int:
    console.print(f"[bold]sparklog demo[/] in {ROOT} (deleted and made anew)")
    shutil.rmtree(ROOT, ignore_errors=True)
    log = sparklog.connect(ROOT)
    log.create_topic("orders", partitions=4)
    counts: Counter[int] = Counter()
    start = time.perf_counter()
    with Progress(console=console) as progress:
        reader = threading.Thread(target=consume, args=(log, counts, progress))
        reader.start()
        produce(log)
        reader.join()
    seconds = time.perf_counter() - start
    console.print("Reading the same topic as a Delta table with Spark (it takes a while to start)")
    by_spark = count_with_spark(ROOT / "topics" / "orders")
    table = Table("partition", "end offset", "records/s", "consumer", "Spark SQL")
    for partition, end in log.end_offsets("orders").items():
        seen, by_sql = counts[partition], by_spark.get(partition, 0)
        figures = (partition, end, int(seen / seconds), seen, by_sql)
        table.add_row(*(f"{figure:,}" for figure in figures))
    console.print(table)
    same = by_spark == dict(counts) and counts.total() == TOTAL
    console.print("[green]the counts agree[/]" if same else "[red]the counts differ[/]")
    return int(not same)


if __name__ == "__main__":
    sys.exit(main())
