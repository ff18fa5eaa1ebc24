"""Fixtures that every suite may use."""

from __future__ import annotations

import pytest

import sparklog


@pytest.fixture(scope="session")
def spark():
    """The one Spark session of the process."""
    from tests.support.spark_session import shared_session

    yield from shared_session()


@pytest.fixture
def log(tmp_path):
    """A fresh log on local disk."""
    log = sparklog.connect(tmp_path / "log")
    yield log
    log.close()


def read_all(log, topic, **config):
    """All records of a topic through a consumer from the start."""
    with log.consumer(topic, auto_offset_reset="earliest", **config) as consumer:
        records = []
        while batch := consumer.poll(timeout_ms=0):
            records += batch
        return records


@pytest.fixture
def consume(log):
    """All records of a topic of the fixture's log."""
    return lambda topic, **config: read_all(log, topic, **config)
