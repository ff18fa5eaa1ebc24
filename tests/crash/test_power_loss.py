"""Power cuts, by a model of what was synced: whatever was acknowledged must be in what is left.

A power cut cannot be made here; that a SIGKILL loses nothing proves nothing about it.
"""

from __future__ import annotations

import itertools

import pytest

import sparklog
from sparklog.clients import sender
from sparklog.errors import SparklogError, StoreError, TopicExistsError
from tests.crash.checks import commits, read
from tests.crash.power_loss import PowerLoss
from tests.crash.work import TOPIC

LOG = "data/log"
SENDS = 3
SYNCS_MAX = 200


def connect(base, config=None):
    """A log with a topic, tried again as a person would whose disk fails now and then."""
    for _ in range(3):
        try:
            log = sparklog.connect(base / LOG)
            log.create_topic(TOPIC, partitions=2, config=config or {})
        except TopicExistsError:
            return log
        except StoreError as error:
            assert str(base) in str(error), "the error does not name the file"
            continue
        return log
    raise AssertionError("one failure of the disk spoilt three tries")


def values_left(power, target):
    """The values that a new client finds after a power cut at this moment."""
    power.leave(target)
    commits(target / LOG)
    return {value for _, _, value in read(target / LOG)}


@pytest.mark.parametrize("background", [False, True])
def test_power_loss_after_any_acknowledgement_keeps_the_record(tmp_path, monkeypatch, background):
    base = tmp_path / "disk"
    base.mkdir()
    power = PowerLoss(monkeypatch, base)
    log = connect(base, {"delta.checkpointInterval": 3})
    acknowledged = set()
    with log.producer(background=background, linger_ms=0) as producer:
        for number in range(7):
            producer.send(TOPIC, value=b"%d" % number, partition=number % 2).result()
            acknowledged.add(str(number))
            assert values_left(power, tmp_path / f"left-{number}") >= acknowledged


def test_power_loss_after_durable_append_keeps_what_it_stands_on(tmp_path, monkeypatch):
    base = tmp_path / "disk"
    base.mkdir()
    power = PowerLoss(monkeypatch, base)
    log = connect(base)
    with log.producer(acks=1, background=False) as lax:
        for number in range(3):
            lax.send(TOPIC, value=b"%d" % number, partition=number % 2).result()
    assert values_left(power, tmp_path / "left-lax") == set(), "the model keeps too much"
    with log.producer(background=False) as strict:
        strict.send(TOPIC, value=b"3").result()
    assert values_left(power, tmp_path / "left-strict") == {"0", "1", "2", "3"}


def test_one_failed_sync_anywhere_never_costs_an_acknowledged_record(tmp_path, monkeypatch):
    broken = []
    for failing in range(1, SYNCS_MAX):
        reached, lost = run_with_one_failed_sync(tmp_path, monkeypatch, failing)
        if not reached:
            break
        broken += lost
    assert failing > 20
    assert broken == []


def test_one_failed_sync_of_a_file_or_standing_folder_costs_nothing(tmp_path, monkeypatch):
    """As above, but the folders stand already, so that no sync is one of a new folder."""
    for failing in range(1, SYNCS_MAX):
        reached, lost = run_with_one_failed_sync(tmp_path, monkeypatch, failing, after=2)
        assert lost == []
        if not reached:
            break
    assert failing > 10


def run_with_one_failed_sync(tmp_path, monkeypatch, failing, after=0):
    """Let the n-th sync fail, counted from when some records stand; returns what was lost."""
    base = tmp_path / f"disk-{failing}"
    base.mkdir()
    failed = []
    counter = itertools.count(1)

    def fault(path):
        if not counting or next(counter) != failing:
            return False
        failed.append(path.removeprefix(str(base)))
        return True

    lost = []
    with monkeypatch.context() as patch:
        patch.setattr(sender, "RETRY_SECONDS", 0.001)
        counting = after == 0
        power = PowerLoss(patch, base, fault)
        log = connect(base, {"delta.checkpointInterval": 3})
        with log.producer(background=False) as producer:
            acknowledged = set()
            for number in range(after + SENDS):
                counting = counting or number >= after
                value = b"%d" % number
                try:
                    producer.send(TOPIC, value=value, partition=number % 2).result()
                except SparklogError as error:
                    raise AssertionError(f"one failed sync of {failed} fails a record") from error
                acknowledged.add(str(number))
                try:
                    left = values_left(power, tmp_path / f"left-{failing}-{number}")
                except (SparklogError, AssertionError) as error:
                    left = {repr(error)}
                if not left >= acknowledged:
                    lost.append((failed, acknowledged - left))
    numbers = sorted(int(value) for _, _, value in read(base / LOG))
    assert numbers == list(range(after + SENDS))
    return bool(failed), lost
