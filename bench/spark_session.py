"""Spark sessions for the benchmarks: the same for both systems, each in a JVM of its own.

Two kinds. *Advised* has the settings that `sparklog.spark.session()` gives; those that the Kafka
connector can use (the checkpoint's file manager) serve it as well. *Default* has none of them. What
keeps a benchmark small and quiet (memory, UI, partitions of a shuffle) is in both.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pyspark import SparkContext
from pyspark.sql import SparkSession

from sparklog.spark.session import default_settings

CORES = 2
PROGRESS_KEPT = 10_000

ADVISED = default_settings(f"local[{CORES}]")
DEFAULT: dict[str, str] = {}

_COMMON = {
    "spark.driver.memory": "3g",
    "spark.driver.host": "127.0.0.1",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.shuffle.partitions": str(CORES),
    "spark.sql.streaming.numRecentProgressUpdates": str(PROGRESS_KEPT),
    "spark.log.level": "ERROR",
}


@contextmanager
def spark_session(
    settings: dict[str, str], jars: list[str], folder: Path
) -> Iterator[SparkSession]:
    """A session in a new JVM, which ends with the block."""
    # The source is found by the python3 of the PATH, which must be the one that runs this.
    os.environ["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = SparkSession.builder.master(f"local[{CORES}]").appName("bench")
    places = {
        "spark.jars": ",".join(jars),
        "spark.local.dir": str(folder / "local"),
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
    }
    for name, value in {**settings, **_COMMON, **places}.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    try:
        yield spark
    finally:
        spark.stop()
        _end_jvm()


def _end_jvm() -> None:
    """Else the next session would share the JVM, with what it has compiled and kept."""
    gateway = SparkContext._gateway
    if gateway is None:
        return
    gateway.shutdown()
    gateway.proc.stdin.close()
    gateway.proc.wait()
    SparkContext._gateway = None
    SparkContext._jvm = None
