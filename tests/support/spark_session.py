"""The one Spark session of a test process, built as users build theirs.

A process has one JVM, and what the JVM was started with stays; so the session of all suites is the
same, with Delta. That nothing of the log needs its jars, the cluster tests show.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sparklog.spark import session

REPOSITORY = Path(__file__).parents[2]


def use_this_python() -> None:
    """Spark's Python processes are this interpreter, and they see the package and the tests."""
    venv = str(Path(sys.executable).parent)
    os.environ["PYSPARK_PYTHON"] = sys.executable
    if venv not in os.environ["PATH"].split(os.pathsep):
        os.environ["PATH"] = os.pathsep.join([venv, os.environ["PATH"]])
    above = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    if str(REPOSITORY) not in above:
        os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(REPOSITORY), *above]))


def shared_session() -> Iterator[Any]:
    """A local session with two cores; skipped only where Delta's jars cannot be had."""
    from pyspark.errors import PySparkRuntimeError

    use_this_python()
    folder = tempfile.mkdtemp(prefix="sparklog-tests-")
    settings = {
        "spark.sql.warehouse.dir": folder,
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "2",
    }
    try:
        spark = session("sparklog-tests", master="local[2]", delta=True, config=settings)
    except PySparkRuntimeError as error:
        # The gateway dies when spark-submit cannot resolve the packages.
        if os.environ.get("CI") == "true" or error.getCondition() != "JAVA_GATEWAY_EXITED":
            raise
        pytest.skip(f"delta-spark's jars cannot be resolved here (no Java or no Maven): {error}")
    spark.sparkContext.setLogLevel("ERROR")
    yield spark
    spark.stop()
    shutil.rmtree(folder, ignore_errors=True)
