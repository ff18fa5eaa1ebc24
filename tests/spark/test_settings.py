"""The settings: the file for spark-submit agrees with the session, and advice comes once."""

from __future__ import annotations

import logging

import pytest

from sparklog.errors import InvalidConfigError
from sparklog.spark import settings
from sparklog.spark.session import default_settings, is_local, s3a_settings
from tests.support.spark_session import REPOSITORY


class Conf:
    """The settings of a session that has only these."""

    def __init__(self, given):
        self.conf = given


@pytest.fixture
def advised(monkeypatch):
    monkeypatch.setattr(settings, "_advised", set())


def test_defaults_file_agrees_with_the_session():
    lines = (REPOSITORY / "conf" / "spark-defaults.conf").read_text().splitlines()
    pairs = [line.split() for line in lines if line.strip() and not line.startswith("#")]
    assert dict(pairs) == default_settings("local[2]")


@pytest.mark.parametrize(
    ("master", "local"),
    [("local", True), ("local[*]", True), ("local-cluster[2,1,1024]", False), ("yarn", False)],
)
def test_default_settings_of_a_cluster_leave_what_needs_one_machine(master, local):
    assert is_local(master) is local
    names = set(default_settings(master, delta=True))
    assert names >= set(settings.SETTINGS) | set(settings.DELTA_SETTINGS)
    assert (names >= set(settings.LOCAL_SETTINGS)) is local
    assert names.isdisjoint(settings.LOCAL_SETTINGS) is not local


def test_advise_without_the_settings_says_so_once(advised, caplog):
    with caplog.at_level(logging.WARNING, logger="sparklog.spark"):
        settings.advise(Conf({}))
        settings.advise(Conf({}))
    assert len(caplog.records) == 1
    assert settings.DOMAIN_SOCKET in caplog.text
    assert "\n" not in caplog.records[0].getMessage()


def test_advise_with_the_settings_is_silent(advised, caplog):
    settings.advise(Conf(settings.SETTINGS))
    assert not caplog.records


@pytest.mark.parametrize(("enabled", "said"), [("True", 0), ("false", 1), (None, 1)])
def test_advise_in_a_worker_goes_by_its_environment(advised, caplog, monkeypatch, enabled, said):
    monkeypatch.setenv("SPARK_PYTHON_RUNTIME", "PYTHON_WORKER")
    monkeypatch.delenv("PYTHON_UNIX_DOMAIN_ENABLED", raising=False)
    if enabled is not None:
        monkeypatch.setenv("PYTHON_UNIX_DOMAIN_ENABLED", enabled)
    settings.advise()
    assert len(caplog.records) == said


def test_advise_outside_of_a_worker_is_silent(advised, caplog, monkeypatch):
    monkeypatch.delenv("SPARK_PYTHON_RUNTIME", raising=False)
    settings.advise()
    assert not caplog.records


def test_s3_options_become_hadoops():
    options = {"endpoint": "http://127.0.0.1:8333", "key": "k", "secret": "s", "region": None}
    assert s3a_settings(options) == {
        "spark.hadoop.fs.s3a.endpoint": "http://127.0.0.1:8333",
        "spark.hadoop.fs.s3a.access.key": "k",
        "spark.hadoop.fs.s3a.secret.key": "s",
        "spark.hadoop.fs.s3a.path.style.access": "true",
        "spark.hadoop.fs.s3a.connection.ssl.enabled": "false",
    }
    virtual = s3a_settings({"endpoint": "https://s3.example.com", "path_style": False})
    assert virtual["spark.hadoop.fs.s3a.path.style.access"] == "false"
    assert virtual["spark.hadoop.fs.s3a.connection.ssl.enabled"] == "true"


def test_s3_option_that_is_unknown_is_refused_without_its_value():
    with pytest.raises(InvalidConfigError, match="no option 'secrets'; known: endpoint") as caught:
        s3a_settings({"secrets": "hidden"})
    assert "hidden" not in str(caught.value)
