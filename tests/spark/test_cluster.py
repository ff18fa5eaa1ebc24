"""Clusters of several processes: with the package on the workers, and with nothing on them."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

import pyspark
import pytest
from pyspark.sql import SparkSession

from sparklog.errors import InvalidConfigError, InvalidInputError
from sparklog.spark import pack_env, session
from sparklog.spark.pack_env import main, pack
from tests.spark.cluster_job import ROWS

JOB = Path(__file__).with_name("cluster_job.py")
TIMEOUT_SECONDS = 500
pytestmark = pytest.mark.timeout(600)  # three JVMs share what cores there are


@pytest.fixture(scope="module")
def archive(tmp_path_factory):
    return pack(tmp_path_factory.mktemp("packed") / "environment.tar.gz")


@pytest.fixture
def spark_home(tmp_path):
    """Spark as installed, but its workers' folder is the test's."""
    home = tmp_path / "spark"
    home.mkdir()
    for entry in Path(pyspark.__file__).parent.iterdir():
        (home / entry.name).symlink_to(entry)
    return home


def run(spark_home, *arguments):
    """The job in a process of its own, without an active virtual environment."""
    java = str(Path(shutil.which("java")).resolve().parent)
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("PYSPARK", "PYTHON", "SPARK"))}
    kept |= {"PATH": f"{java}:/usr/bin:/bin", "SPARK_HOME": str(spark_home)}
    # Short-lived JVMs: the second compiler costs more than it gives.
    quick = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
    kept |= {"SPARK_LOCAL_IP": "127.0.0.1", "JAVA_TOOL_OPTIONS": quick}
    done = subprocess.run(
        [sys.executable, str(JOB), *map(str, arguments)],
        env=kept,
        cwd=spark_home.parent,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_SECONDS,
    )
    line = next((x for x in done.stdout.splitlines() if x.startswith("found: ")), None)
    assert line and done.returncode == 0, done.stdout + done.stderr[-8000:]
    return json.loads(line.removeprefix("found: "))


def test_cluster_with_the_package_on_its_workers_copies_a_topic(spark_home, tmp_path):
    found = run(spark_home, tmp_path / "log", "local-cluster[2,1,1024]")
    assert found["ends"] == [ROWS, ROWS]
    assert found["same"]
    assert found["workers"] == [str(Path(sys.executable).resolve())]
    for message in found["refused"]:  # this Spark was started without Delta
        assert "session(delta=True)" in message


def test_cluster_with_nothing_on_its_workers_runs_the_packed_environment(
    spark_home, tmp_path, archive
):
    (tmp_path / "environment").symlink_to(sys.prefix)  # the driver's, by the workers' name
    found = run(spark_home, tmp_path / "log", "local-cluster[1,1,1024]", archive.path)
    assert found["ends"] == [ROWS, ROWS]
    assert found["same"]
    assert found["workers"]
    assert [p for p in found["workers"] if not p.startswith(f"{spark_home}/work/")] == []


def test_session_whose_workers_python_is_not_on_the_driver_says_how(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYSPARK_PYTHON", "./environment/bin/python")
    monkeypatch.setenv("PYSPARK_DRIVER_PYTHON", sys.executable)
    monkeypatch.setattr(SparkSession, "getActiveSession", lambda: None)
    with pytest.raises(InvalidConfigError, match=f"ln -s {sys.prefix} environment"):
        session(master="spark://nowhere:7077")


def test_packed_environment_runs_where_it_is_unpacked(tmp_path, archive):
    with tarfile.open(archive.path) as packed:
        packed.extractall(tmp_path / "elsewhere", filter="fully_trusted")
    code = "import sparklog, pyarrow.parquet, sys; print(sys.prefix, sparklog.__file__)"
    done = subprocess.run(
        [tmp_path / "elsewhere" / "bin" / "python", "-c", code],
        env={},
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    home = str((tmp_path / "elsewhere").resolve())
    assert [place.startswith(home) for place in done.stdout.split()] == [True, True]
    assert {"sparklog", "pyarrow", "numpy"} <= set(archive.distributions)


def test_pack_that_fails_half_way_leaves_nothing(tmp_path, monkeypatch, capsys):
    def full(*_):
        raise OSError("no space left on device")

    monkeypatch.setattr(pack_env, "_add_this_package", full)
    monkeypatch.setattr(pack_env, "_add_tree", lambda *_: None)
    assert main([str(tmp_path / "out.tar.gz")]) == 1
    assert "no space left" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_pack_of_what_is_not_installed_names_it(tmp_path, capsys):
    with pytest.raises(InvalidInputError, match="no-such-thing is not installed"):
        pack(tmp_path / "out.tar.gz", ["no-such-thing"])
    assert main([str(tmp_path / "out.tar.gz"), "--with", "no-such-thing"]) == 1
    assert "pip install no-such-thing" in capsys.readouterr().err
