"""The command `sparklog` as a child process, as people run it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

Run = Callable[..., subprocess.CompletedProcess[bytes]]
COMMAND = [sys.executable, "-m", "sparklog.cli.main"]
REPOSITORY = Path(__file__).parents[2]


def environment(root: Path | None) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if name != "SPARKLOG_ROOT"}
    kept["PYTHONPATH"] = str(REPOSITORY)
    return kept if root is None else {**kept, "SPARKLOG_ROOT": str(root)}
