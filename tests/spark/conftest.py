"""One Spark session for the process, without Delta's jars: nothing of the log needs one."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

REPOSITORY = Path(__file__).parents[2]

SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.sql.shuffle.partitions": "2",
    "spark.python.unix.domain.socket.enabled": "true",
    "spark.sql.session.timeZone": "UTC",
}


def use_this_python() -> None:
    """Spark's Python processes are this interpreter, and they see the package and the tests."""
    venv = str(Path(sys.executable).parent)
    os.environ["PYSPARK_PYTHON"] = sys.executable
    if venv not in os.environ["PATH"].split(os.pathsep):
        os.environ["PATH"] = os.pathsep.join([venv, os.environ["PATH"]])
    above = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    if str(REPOSITORY) not in above:
        os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(REPOSITORY), *above]))


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A local session with two cores."""
    use_this_python()
    builder = SparkSession.builder.master("local[2]").appName("sparklog-tests")
    for name, value in SETTINGS.items():
        builder = builder.config(name, value)
    warehouse = tmp_path_factory.mktemp("warehouse")
    session = builder.config("spark.sql.warehouse.dir", str(warehouse)).getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    yield session
    session.stop()
