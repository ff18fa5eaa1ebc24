"""The Spark settings that sparklog was measured to need, and advice where they are missing.

`conf/spark-defaults.conf` carries the same for spark-submit; a test holds the two together.

What is not here: memory, cores and shuffle settings of a cluster, which depend on the cluster.
"""

from __future__ import annotations

import logging
import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

logger = logging.getLogger("sparklog.spark")

DOMAIN_SOCKET = "spark.python.unix.domain.socket.enabled"
PUSHDOWN = "spark.sql.python.filterPushdown.enabled"
CHECKPOINT_MANAGER = "spark.sql.streaming.checkpointFileManagerClass"

SETTINGS = {
    # Over TCP each Python task waits on delayed acknowledgements: the socket halves its cost.
    DOMAIN_SOCKET: "true",
    # Off by default: filters on partition, offset and timestamp would read everything.
    PUSHDOWN: "true",
    # Writing hands rows to Python in batches: larger ones than 10,000 rows cost a fifth less, and
    # a bound by bytes keeps those of large records small.
    "spark.sql.execution.arrow.maxRecordsPerBatch": "65536",
    "spark.sql.execution.arrow.maxBytesPerBatch": "16m",
}
"""Right on every machine and cluster."""

LOCAL_SETTINGS = {
    # The default manager costs as much as a small batch does. This one is as safe where one driver
    # at a time uses a checkpoint; a cluster that may start two keeps the default.
    CHECKPOINT_MANAGER: (
        "org.apache.spark.sql.execution.streaming.checkpointing."
        "FileSystemBasedCheckpointFileManager"
    ),
    "spark.sql.shuffle.partitions": "4",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}
"""Right where driver and workers are one machine (master local[n])."""

DELTA_SETTINGS = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
}
"""What reading topics as Delta tables needs, besides the jars."""

LOCAL_DELTA_SETTINGS = {
    # Delta spreads even a tiny snapshot over 50 tasks.
    "spark.databricks.delta.snapshotPartitions": "2",
}
"""Delta's, where driver and workers are one machine."""

# Hadoop and Parquet, which Spark brings itself, and what they need: 26 of the 33 jars that Delta's
# packages name, and most of what its start costs.
DELTA_EXCLUDED = (
    "com.fasterxml.jackson.core",
    "com.fasterxml.jackson.datatype",
    "com.fasterxml.jackson.module",
    "com.github.luben",
    "com.google.code.findbugs",
    "commons-logging",
    "commons-pool",
    "io.airlift",
    "javax.annotation",
    "org.apache.hadoop",
    "org.apache.logging.log4j",
    "org.apache.parquet",
    "org.locationtech.jts",
    "org.roaringbitmap",
    "org.slf4j",
    "org.xerial.snappy",
)

_advised: set[str] = set()


def advise(spark: SparkSession | None = None) -> None:
    """One line in the log, once a process, if a setting that matters is missing.

    Without a session, as in Spark's Python workers, it goes by the worker's environment.
    """
    if "settings" in _advised:
        return
    if spark is None:
        missing = [] if _worker_has_socket() else [DOMAIN_SOCKET]
    else:
        missing = [name for name in SETTINGS if spark.conf.get(name, None) != SETTINGS[name]]
    if missing:
        _advised.add("settings")
        pairs = ", ".join(f"{name}={SETTINGS[name]}" for name in missing)
        logger.warning(
            "small batches would cost half as much, and filters leave out more, with %s: use "
            "sparklog.spark.session(), or spark-submit --properties-file conf/spark-defaults.conf",
            pairs,
        )


def has_delta(spark: SparkSession) -> bool:
    """Whether the session reads Delta tables: it was told to, and the classes are there."""
    extension = DELTA_SETTINGS["spark.sql.extensions"]
    if extension not in (spark.conf.get("spark.sql.extensions", None) or ""):
        return False
    jvm = getattr(spark, "_jvm", None)  # a Connect session has none: its server has the classes
    return jvm is None or bool(jvm.org.apache.spark.util.Utils.classIsLoadable(extension))


def _worker_has_socket() -> bool:
    """Whether Spark talks to this worker through a socket; True outside of a worker."""
    if os.environ.get("SPARK_PYTHON_RUNTIME") != "PYTHON_WORKER":
        return True
    return os.environ.get("PYTHON_UNIX_DOMAIN_ENABLED", "false").lower() == "true"
