"""The demo: Spark writes, a Spark stream copies, and a plain Python consumer reads beside it.

Works in ./data/demo, which it deletes and makes anew. Exit code 1 if the counts differ.

    rows -> Spark batches -> topic orders -> Spark stream -> topic big-orders -> Python consumer
"""

from __future__ import annotations

import os
import shutil
import sys
import threading
import time
from collections import Counter
from pathlib import Path

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from rich.console import Console
from rich.markup import escape
from rich.progress import Progress
from rich.table import Table

import sparklog
from sparklog.spark import from_json_records, session, table, to_json_records
from sparklog.spark.jobs import explain

ROOT = Path("data/demo").resolve()
BATCHES, BATCH_ROWS, PARTITIONS = 4, 50_000, 4
ROWS = BATCHES * BATCH_ROWS
BIG = 500  # an order's total is its number modulo 1,000
EXPECTED = ROWS * (1_000 - BIG) // 1_000
console = Console(highlight=False)


def start_spark() -> SparkSession:
    """A session with Delta; what the JVM has to say while it starts goes to a file."""
    stderr = os.dup(2)
    with (ROOT / "spark.log").open("wb") as chatter:
        os.dup2(chatter.fileno(), 2)
    try:
        spark = session("sparklog-demo", master="local[2]", delta=True)
        spark.sparkContext.setLogLevel("ERROR")
        return spark
    finally:
        os.dup2(stderr, 2)


def orders(spark: SparkSession, batch: int) -> DataFrame:
    """One batch of typed rows, as records."""
    numbers = spark.range(batch * BATCH_ROWS, (batch + 1) * BATCH_ROWS, 1, 2)
    rows = numbers.selectExpr(
        "id", "concat('customer-', id % 5000) AS customer", "id % 1000 AS total"
    )
    return to_json_records(rows, key=F.col("customer"))


def stream_big_orders(spark: SparkSession) -> DataFrame:
    """The stream of orders that are worth at least BIG."""
    source = spark.readStream.format("sparklog").option("path", str(ROOT))
    source = source.option("subscribe", "orders").option("startingOffsets", "earliest")
    typed = from_json_records(source.load(), "id LONG, customer STRING, total LONG")
    big = typed.where(F.col("value.total") >= BIG).select("value.*")
    return to_json_records(big, key=F.col("customer"))


def consume(
    log: sparklog.Log, counts: Counter[int], progress: Progress, failed: threading.Event
) -> None:
    """Count what arrives at the end, partition by partition, while Spark still writes."""
    task = progress.add_task("Python consumes big-orders", total=EXPECTED)
    with log.consumer("big-orders", auto_offset_reset="earliest") as consumer:
        while counts.total() < EXPECTED and not failed.is_set():
            for batch in consumer.poll_arrow(timeout_ms=500):
                counts[batch["partition"][0].as_py()] += batch.num_rows
            progress.update(task, completed=counts.total())


def produce(spark: SparkSession, batch: int) -> None:
    """Write one batch of orders, all or nothing."""
    writer = orders(spark, batch).write.format("sparklog").option("path", str(ROOT))
    writer.option("topic", "orders").mode("append").save()


def run(spark: SparkSession, log: sparklog.Log, counts: Counter[int]) -> float:
    """All three at once; the seconds until the last record was seen."""
    begin = time.perf_counter()
    failed = threading.Event()
    sink = stream_big_orders(spark).writeStream.format("sparklog").option("path", str(ROOT))
    sink = sink.option("checkpointLocation", str(ROOT / "checkpoint"))
    with Progress(console=console) as progress:
        reader = threading.Thread(target=consume, args=(log, counts, progress, failed))
        reader.start()
        query = None
        try:
            for batch in progress.track(range(BATCHES), description="Spark writes orders"):
                produce(spark, batch)
                query = query or sink.option("topic", "big-orders").start()
            query.processAllAvailable()
        except Exception:
            failed.set()
            raise
        finally:
            reader.join()
            if query is not None:
                query.stop()
    return time.perf_counter() - begin


def main() -> int:
    console.print(f"[bold]sparklog demo[/] in {ROOT} (deleted and made anew)")
    shutil.rmtree(ROOT, ignore_errors=True)
    log = sparklog.connect(ROOT)
    for topic in ("orders", "big-orders"):
        log.create_topic(topic, partitions=PARTITIONS)
    console.print("Spark starts: a few seconds")
    spark = start_spark()
    counts: Counter[int] = Counter()
    try:
        seconds = run(spark, log, counts)
    except (PySparkException, Py4JError) as error:
        console.print("[red]Spark failed:[/]", escape(explain(error)), f"(see {ROOT}/spark.log)")
        return 1
    written = sum(log.end_offsets("orders").values())
    stored = table(spark, ROOT, "big-orders").groupBy("partition").count().collect()
    by_sql = {row["partition"]: row["count"] for row in stored}
    spark.stop()
    shown = Table()
    for title in ("partition of big-orders", "end offset", "Python consumer", "Spark SQL (Delta)"):
        shown.add_column(title, justify="right")
    for partition, end in log.end_offsets("big-orders").items():
        figures = (partition, end, counts[partition], by_sql.get(partition, 0))
        shown.add_row(*(f"{figure:,}" for figure in figures))
    console.print(shown)
    console.print(f"{written:,} orders in, {counts.total():,} big ones out in {seconds:.1f} s")
    same = written == ROWS and counts.total() == EXPECTED and by_sql == dict(counts)
    console.print("[green]the counts agree[/]" if same else "[red]the counts differ[/]")
    return int(not same)


if __name__ == "__main__":
    sys.exit(main())
