"""The demo runs from an empty folder, and its readers agree."""

from __future__ import annotations

import subprocess
import sys

from tests.support.spark_session import REPOSITORY


def test_demo_in_an_empty_folder_agrees(tmp_path):
    done = subprocess.run(
        [sys.executable, str(REPOSITORY / "jobs" / "demo.py")],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=280,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "200,000 orders in, 100,000 big ones out" in done.stdout
    assert "the counts agree" in done.stdout
    assert [entry.name for entry in tmp_path.iterdir()] == ["data"]
