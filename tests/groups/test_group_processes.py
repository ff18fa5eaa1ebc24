"""Members in processes of their own, one of which is killed or stopped."""

from __future__ import annotations

import itertools
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import sparklog

REPOSITORY = Path(__file__).parents[2]
SESSION_MS = 3000
PARTITIONS = 12
CONFIG = {"group_id": "g", "session_timeout_ms": SESSION_MS, "heartbeat_interval_ms": 300}
SLACK_SECONDS = 1.0
"""What the group may take beyond the session timeout to move a dead member's partitions."""


class Worker:
    """A member's process and what it says."""

    def __init__(self, root, told, config):
        self.told = told
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.groups.worker", root, told, json.dumps(config)],
            cwd=REPOSITORY,
        )

    def said(self, what):
        try:
            lines = Path(self.told).read_text().splitlines()
        except FileNotFoundError:
            return []
        return [told for told in map(json.loads, lines) if told["what"] == what]

    def places(self, what):
        return [tuple(place) for told in self.said(what) for place in told["places"]]

    def end(self, signal_number=signal.SIGKILL):
        os.kill(self.process.pid, signal_number)
        self.process.wait(30)


@pytest.fixture
def start(tmp_path):
    log = sparklog.connect(tmp_path / "log")
    log.create_topic("orders", partitions=PARTITIONS)
    workers = []

    def start_workers(count):
        for _ in range(count):
            told = str(tmp_path / f"told{len(workers)}")
            workers.append(Worker(str(tmp_path / "log"), told, CONFIG))
        wait_for(lambda: shares(log) == [PARTITIONS // len(workers)] * len(workers))
        return log, workers

    yield start_workers
    for worker in workers:
        if worker.process.poll() is None:
            os.kill(worker.process.pid, signal.SIGCONT)
            worker.end()


def wait_for(done, seconds=60.0):
    deadline = time.monotonic() + seconds
    while not done():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.02)


def shares(log):
    state = log.group("g")._coordinator.refresh()
    return sorted(len(member.owned) for member in state.members.values())


def send(log, numbers):
    with log.producer() as producer:
        for number in numbers:
            producer.send("orders", b"%d" % number, partition=number % PARTITIONS)


def keep_sending(log, until, step=PARTITIONS):
    """Produce one record a partition again and again until something has happened."""
    sent = 0
    deadline = time.monotonic() + 60
    while not until():
        send(log, range(sent, sent + step))
        sent += step
        assert time.monotonic() < deadline
        time.sleep(0.02)
    return sent


def test_killed_members_partitions_move_in_time_and_nothing_is_lost(start):
    log, workers = start(3)
    victim, *others = workers
    sent = keep_sending(log, lambda: all(len(w.said("committed")) > 5 for w in workers))
    owned = {p for told in victim.said("assigned") for p in told["partitions"]}
    owned -= {p for told in victim.said("revoked") for p in told["partitions"]}
    victim.end()
    killed_at = time.monotonic()
    moved = lambda: sum(shares(log)) == PARTITIONS and len(shares(log)) == 2  # noqa: E731
    sent = send_on(log, sent, moved)
    took = time.monotonic() - killed_at
    assert took <= SESSION_MS / 1000 + SLACK_SECONDS, took
    wait_for(lambda: sum(log.group("g").lag().values()) == 0)

    everything = {(n % PARTITIONS, n // PARTITIONS) for n in range(sent)}
    read = [place for w in workers for place in w.places("read")]
    assert set(read) == everything, "nothing is lost"
    twice = {place for place in read if read.count(place) > 1}
    uncertain = set(victim.places("read")) - set(victim.places("committed"))
    assert twice <= uncertain, "duplicates are only what was not committed"
    # The others' own partitions never stopped: no gap of theirs is as long as the outage.
    for other in others:
        kept = {p for told in other.said("assigned")[:1] for p in told["partitions"]} - owned
        kept -= {p for told in other.said("revoked") for p in told["partitions"]}
        times = [t["at"] for t in other.said("read") if {p for p, _ in t["places"]} & kept]
        gaps = [b - a for a, b in itertools.pairwise(times)]
        assert kept and max(gaps) < SESSION_MS / 1000, max(gaps)


def send_on(log, sent, until):
    deadline = time.monotonic() + 60
    while not until():
        send(log, range(sent, sent + PARTITIONS))
        sent += PARTITIONS
        assert time.monotonic() < deadline
        time.sleep(0.02)
    return sent


def test_stopped_member_that_goes_on_commits_nothing_of_what_it_lost(start):
    log, workers = start(2)
    zombie, heir = workers
    send(log, range(PARTITIONS * 10))
    wait_for(lambda: sum(log.group("g").lag().values()) == 0)
    os.kill(zombie.process.pid, signal.SIGSTOP)
    wait_for(lambda: shares(log) == [PARTITIONS])
    send(log, range(PARTITIONS * 5))
    wait_for(lambda: sum(log.group("g").lag().values()) == 0)
    os.kill(zombie.process.pid, signal.SIGCONT)
    wait_for(lambda: zombie.said("lost"))
    wait_for(lambda: shares(log) == [PARTITIONS // 2] * 2)
    history = log.group("g").history().to_pylist()
    for partition in range(PARTITIONS):
        offsets = [row["offset"] for row in history if row["partition"] == partition]
        assert offsets == sorted(offsets), "no commit of the zombie went back"
    read = zombie.places("committed") + heir.places("committed")
    assert len(read) == len(set(read)) == PARTITIONS * 15
