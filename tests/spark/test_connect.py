"""Spark Connect: a client without a JVM of its own does all that a classic session does."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from sparklog.spark.session import default_settings, delta_package
from sparklog.spark.settings import DELTA_EXCLUDED

pytest.importorskip("grpc", reason="Spark Connect's client needs pyspark[connect]")
JOB = Path(__file__).with_name("connect_job.py")


def test_connect_client_reads_writes_streams_and_queries(tmp_path):
    settings = default_settings("local[2]", delta=True)
    settings["spark.jars.excludes"] = ",".join(f"{group}:*" for group in DELTA_EXCLUDED)
    server = [word for pair in settings.items() for word in ("--conf", "=".join(pair))]
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("PYSPARK", "SPARK"))}
    kept |= {"PYSPARK_PYTHON": sys.executable, "PYSPARK_DRIVER_PYTHON": sys.executable}
    words = ["--packages", delta_package(), *server, "pyspark-shell"]
    kept["PYSPARK_SUBMIT_ARGS"] = " ".join(words)
    done = subprocess.run(
        [sys.executable, str(JOB), str(tmp_path / "log")],
        env=kept,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=280,
    )
    line = next((x for x in done.stdout.splitlines() if x.startswith("found: ")), None)
    assert line and done.returncode == 0, done.stdout + done.stderr[-8000:]
    found = json.loads(line.removeprefix("found: "))
    assert "'nope'" in found.pop("error")
    assert found == {
        "session": True,
        "client": "pyspark.sql.connect.session",
        "batch": sum(range(100)) * 2,
        "by_partition": 100,
        "stream": 100,
        "table": 20,
        "sql": 100,
    }
