"""A warmed-up process without threads that forks children on request, so that each costs little.

The test process holds a `Nursery`; `python -m tests.crash.nursery` is the process behind it. They
talk in lines of JSON. Children live as long as they want, or as the nursery does: when its input
ends, it kills and reaps whatever is left, by process id.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import traceback
from pathlib import Path
from typing import Any

from tests.crash import work

REPOSITORY = Path(__file__).parents[2]
WAIT_SECONDS_MAX = 60.0
POLL_SECONDS = 0.0005
WITHOUT_THREADS = {"OPENBLAS_NUM_THREADS": "1", "JE_ARROW_MALLOC_CONF": "background_thread:false"}
"""Keeps NumPy and Arrow from starting threads when they are imported."""


class Nursery:
    """The test's end: start children, wait for what becomes of them."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.crash.nursery"],
            cwd=REPOSITORY,
            env=os.environ | WITHOUT_THREADS,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )

    def start(self, task: str, **arguments: Any) -> int:
        """Fork a child that does this task of `tests.crash.work`; returns its process id."""
        return int(self._ask({"start": task, "arguments": arguments}))

    def wait(self, pid: int, seconds: float = WAIT_SECONDS_MAX) -> int | str:
        """The child's exit code, minus the signal that ended it, or "stopped"."""
        outcome = self._ask({"wait": pid, "seconds": seconds})
        assert outcome != "running", f"process {pid} still runs after {seconds} s"
        return outcome

    def run(self, task: str, **arguments: Any) -> int | str:
        """Start a child and wait for it."""
        return self.wait(self.start(task, **arguments))

    def close(self) -> None:
        """End the nursery and every child that is left."""
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait(WAIT_SECONDS_MAX)
        self._process.stdout.close()

    def _ask(self, request: dict[str, Any]) -> Any:
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(json.dumps(request).encode() + b"\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        assert answer, "the nursery is gone"
        return json.loads(answer)


def serve() -> None:
    """Answer requests until the input ends; then leave nobody behind."""
    work.warm_up()
    children: set[int] = set()
    try:
        while line := sys.stdin.readline():
            request = json.loads(line)
            if "start" in request:
                answer: object = _fork(request["start"], request["arguments"])
                children.add(int(str(answer)))
            else:
                answer = _outcome(request["wait"], request["seconds"])
                if isinstance(answer, int):
                    children.discard(request["wait"])
            print(json.dumps(answer), flush=True)
    finally:
        for pid in children:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)


def _fork(task: str, arguments: dict[str, Any]) -> int:
    threads = list(Path("/proc/self/task").iterdir())
    assert len(threads) == 1, f"a fork from {len(threads)} threads is not safe"
    pid = os.fork()
    if pid:
        return pid
    code = 1
    try:
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(2, 1)  # the answers' pipe is not the child's
        getattr(work, task)(**arguments)
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(code)


def _outcome(pid: int, seconds: float) -> int | str:
    deadline = time.monotonic() + seconds
    while True:
        found, status = os.waitpid(pid, os.WNOHANG | os.WUNTRACED)
        if found:
            stopped = os.WIFSTOPPED(status)
            return "stopped" if stopped else os.waitstatus_to_exitcode(status)
        if time.monotonic() > deadline:
            return "running"
        time.sleep(POLL_SECONDS)


if __name__ == "__main__":
    serve()
