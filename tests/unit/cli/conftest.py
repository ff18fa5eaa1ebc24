"""A log in a temporary folder, and the command that works on it."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.support.command import COMMAND, Run, environment


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "log"


@pytest.fixture
def run(root: Path, tmp_path: Path) -> Run:
    def call(
        *arguments: str, stdin: bytes = b"", code: int = 0, env: dict[str, str] | None = None
    ) -> subprocess.CompletedProcess[bytes]:
        done = subprocess.run(
            [*COMMAND, *arguments],
            input=stdin,
            capture_output=True,
            cwd=tmp_path,
            env=environment(root) if env is None else env,
            timeout=60,
        )
        assert done.returncode == code, (done.stdout, done.stderr)
        assert b"Traceback" not in done.stderr or "--debug" in arguments
        return done

    return call
