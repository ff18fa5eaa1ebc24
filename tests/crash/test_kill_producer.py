"""Producers killed by SIGKILL: between any two system calls, and at random moments."""

from __future__ import annotations

import os
import random
import shutil
import signal
import time

import pytest

from tests.crash.checks import check_numbers, commits, leftovers, lines
from tests.crash.work import TRAPPED

TOTAL = 2
"""Enough for a claim, a checkpoint, a clean-up, and an append after it."""
TOTAL_AFTER = 4
CALLS_MAX = 1000


@pytest.mark.parametrize("when", ["before", "after"])
def test_producer_killed_at_every_call_loses_and_doubles_nothing(nursery, tmp_path, when):
    told = tmp_path / "told"
    left_tmp_files = 0
    for call in range(1, CALLS_MAX):
        root, acknowledged = tmp_path / f"log-{call}", tmp_path / f"acknowledged-{call}"
        task = {"root": str(root), "acknowledged": str(acknowledged)}
        trap = {"at": call, "when": when, "blow": "SIGKILL", "told": str(told)}
        outcome = nursery.run("produce", total=TOTAL, trap=trap, **task)
        where = f"killed {when} call {call}: {lines(told)[-1:]}"
        print(where)  # shown only if something below fails
        if outcome == 0:
            break
        assert outcome == -signal.SIGKILL, where
        check_numbers(root, acknowledged)
        left_tmp_files += bool(leftovers(root))
        assert nursery.run("produce", total=TOTAL_AFTER, **task) == 0, where
        check_numbers(root, acknowledged, TOTAL_AFTER)
        shutil.rmtree(root)
    else:
        raise AssertionError(f"the producer makes more than {CALLS_MAX} calls")
    check_numbers(root, acknowledged, TOTAL)
    assert lines(acknowledged) == [str(number) for number in range(TOTAL)]
    assert min(commits(root)) > 0, "no clean-up took place, so none was interrupted"
    assert {*TRAPPED, "OSFile", "write_table", "tail", "finish"} == set(lines(told))
    assert left_tmp_files > 10, "hardly any kill left a temporary file, so little was shown"


def test_threaded_producer_killed_at_random_moments_resumes_exactly(nursery, tmp_path):
    chance = random.Random(20240607)
    root, acknowledged = tmp_path / "log", tmp_path / "acknowledged"
    task = {"root": str(root), "acknowledged": str(acknowledged), "background": True, "gather": 4}
    held = 0
    for _ in range(10):
        pid = nursery.start("produce", total=1_000_000, **task)
        time.sleep(chance.uniform(0.01, 0.2))
        os.kill(pid, signal.SIGKILL)
        assert nursery.wait(pid) == -signal.SIGKILL
        now_held = check_numbers(root, acknowledged)
        assert now_held >= held
        held = now_held
    assert held > 20, "the kills came before anything was sent"
    assert nursery.run("produce", total=held + 20, **task) == 0
    check_numbers(root, acknowledged, held + 20)
    assert int(lines(acknowledged)[-1]) == held + 19
