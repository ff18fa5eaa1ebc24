"""Zombies: a producer is stopped, another with the same id takes over, and the first wakes up."""

from __future__ import annotations

import os
import random
import signal
import time

from tests.crash.checks import check_numbers, commits, lines, read
from tests.crash.work import TOPIC

STOP_FROM = 3
SUCCESSOR_TOTAL = 6
ZOMBIE_TOTAL = 1000
CALLS_MAX = 100
APP_ID = "producer/p"
EPOCH_SHIFT = 40


def epochs(root):
    """The epoch of every commit of the producer's, in version order."""
    return [
        action["txn"]["version"] >> EPOCH_SHIFT
        for actions in commits(root).values()
        for action in actions
        if "txn" in action and action["txn"]["appId"] == APP_ID
    ]


def take_over(nursery, root, acknowledged, zombie):
    """A successor finishes while the zombie is stopped; then the zombie wakes and ends."""
    task = {"root": str(root), "acknowledged": str(acknowledged), "clean_up_late_ms": 0}
    assert nursery.run("produce", total=SUCCESSOR_TOTAL, **task) == 0
    check_numbers(root, acknowledged, SUCCESSOR_TOTAL)
    before = commits(root)
    os.kill(zombie, signal.SIGCONT)
    assert nursery.wait(zombie) == 0
    return before


def test_zombie_stopped_at_every_call_of_a_send_is_fenced(nursery, tmp_path):
    for call in range(1, CALLS_MAX):
        root, fenced = tmp_path / f"log-{call}", tmp_path / f"fenced-{call}"
        theirs, ours = tmp_path / f"zombie-{call}", tmp_path / f"successor-{call}"
        told = tmp_path / f"told-{call}"
        zombie = nursery.start(
            "produce_until_fenced",
            fenced=str(fenced),
            root=str(root),
            total=ZOMBIE_TOTAL,
            acknowledged=str(theirs),
            trap={"at": call, "when": "before", "blow": "SIGSTOP", "told": str(told)},
            armed_from=STOP_FROM,
            clean_up_late_ms=0,
        )
        assert nursery.wait(zombie) == "stopped"
        print(f"stopped before call {call}: {lines(told)}")  # shown only if something fails
        if len(lines(theirs)) > STOP_FROM:
            os.kill(zombie, signal.SIGKILL)
            nursery.wait(zombie)
            break  # one whole send, with a checkpoint, has been gone through
        before = take_over(nursery, root, ours, zombie)
        (message,) = lines(fenced)
        assert APP_ID in message
        check_numbers(root, ours, SUCCESSOR_TOTAL)
        assert commits(root) == before, "the zombie changed the table log"
        assert epochs(root) == sorted(epochs(root))
        held = {int(number) for number in lines(theirs)}
        assert held | {int(number) for number in lines(ours)} >= set(range(STOP_FROM))
    else:
        raise AssertionError(f"one send makes more than {CALLS_MAX} calls")
    assert call > 10


def test_zombie_stopped_while_it_gathers_is_fenced(nursery, tmp_path):
    chance = random.Random(7)
    for turn in range(4):
        root, fenced = tmp_path / f"log-{turn}", tmp_path / f"fenced-{turn}"
        theirs, ours = tmp_path / f"zombie-{turn}", tmp_path / f"successor-{turn}"
        zombie = nursery.start(
            "produce_until_fenced",
            fenced=str(fenced),
            root=str(root),
            total=1_000_000,
            acknowledged=str(theirs),
            background=True,
            gather=3,
            clean_up_late_ms=0,
        )
        while len(lines(theirs)) < STOP_FROM:
            time.sleep(0.001)
        time.sleep(chance.uniform(0, 0.02))
        os.kill(zombie, signal.SIGSTOP)
        assert nursery.wait(zombie) == "stopped"
        held = check_numbers(root, theirs)
        task = {"root": str(root), "acknowledged": str(ours), "clean_up_late_ms": 0}
        assert nursery.run("produce", total=held + 10, background=True, **task) == 0
        before = commits(root)
        os.kill(zombie, signal.SIGCONT)
        assert nursery.wait(zombie) == 0
        assert len(lines(fenced)) == 1
        check_numbers(root, ours, held + 10)
        assert commits(root) == before


def test_zombie_whose_slot_was_cleaned_and_opened_again_is_fenced(nursery, tmp_path):
    root, fenced, ours = tmp_path / "log", tmp_path / "fenced", tmp_path / "successor"
    task = {"root": str(root), "clean_up_late_ms": 0, "log_retention": "interval 1 second"}
    zombie = nursery.start(
        "produce_until_fenced",
        fenced=str(fenced),
        total=ZOMBIE_TOTAL,
        acknowledged=str(tmp_path / "zombie"),
        trap={
            "at": 1,
            "when": "before",
            "blow": "SIGSTOP",
            "told": str(tmp_path / "told"),
            "only": "link",
        },
        armed_from=STOP_FROM,
        **task,
    )
    assert nursery.wait(zombie) == "stopped"
    slot = root / "topics" / TOPIC / "_delta_log" / f"{max(commits(root)) + 1:020d}.json"
    for total in (STOP_FROM + 3, STOP_FROM + 7):
        assert nursery.run("produce", total=total, acknowledged=str(ours), **task) == 0
        time.sleep(1.1)
    assert nursery.run("produce", total=STOP_FROM + 11, acknowledged=str(ours), **task) == 0
    assert not slot.exists(), "the slot was not opened again"
    os.kill(zombie, signal.SIGCONT)
    assert nursery.wait(zombie) == 0
    assert slot.exists() and len(lines(fenced)) == 1
    numbers = range(STOP_FROM + 11)
    assert read(root) == [(0, number, str(number)) for number in numbers]


def test_zombie_that_sends_on_after_the_fence_stays_fenced(nursery, tmp_path):
    root, outcomes = tmp_path / "log", tmp_path / "outcomes"
    theirs, ours = tmp_path / "zombie", tmp_path / "successor"
    zombie = nursery.start(
        "produce",
        root=str(root),
        total=STOP_FROM + 5,
        acknowledged=str(theirs),
        trap={"at": 1, "when": "before", "blow": "SIGSTOP", "told": str(tmp_path / "told")},
        armed_from=STOP_FROM,
        clean_up_late_ms=0,
        stubborn=str(outcomes),
    )
    assert nursery.wait(zombie) == "stopped"
    before = take_over(nursery, root, ours, zombie)
    assert lines(outcomes) == ["ProducerFencedError"] * 5
    check_numbers(root, ours, SUCCESSOR_TOTAL)
    assert commits(root) == before
