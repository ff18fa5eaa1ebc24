"""The session: the one that runs is handed back, and what cannot be had is refused.

A new session without an active virtual environment, and one without Delta, are in test_cluster.
"""

from __future__ import annotations

import pytest

from sparklog.errors import InvalidConfigError
from sparklog.spark import session
from sparklog.spark.session import delta_package


def test_session_that_runs_is_handed_back(spark):
    assert session("another name") is spark
    assert session(delta=True) is spark


def test_session_that_runs_takes_what_can_change(spark):
    before = spark.conf.get("spark.sql.shuffle.partitions")
    try:
        session(config={"spark.sql.shuffle.partitions": 3})
        assert spark.conf.get("spark.sql.shuffle.partitions") == "3"
    finally:
        spark.conf.set("spark.sql.shuffle.partitions", before)


def test_session_that_runs_refuses_what_cannot_change(spark):
    with pytest.raises(InvalidConfigError, match=r"spark.ui.enabled = true cannot be set.*stop"):
        session(config={"spark.ui.enabled": True})


def test_delta_package_is_of_this_spark_and_release():
    assert delta_package() == "io.delta:delta-spark_4.2_2.13:4.4.0"
