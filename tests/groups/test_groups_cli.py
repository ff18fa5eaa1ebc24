"""`sparklog groups` and `sparklog consume --group`, by their arguments."""

from __future__ import annotations

import json

import pytest

import sparklog
from sparklog.cli.main import main


@pytest.fixture
def run(tmp_path, monkeypatch, capfdbinary):
    root = tmp_path / "log"
    log = sparklog.connect(root)
    log.create_topic("orders", partitions=2)
    with log.producer() as producer:
        for number in range(6):
            producer.send("orders", b"%d" % number, partition=number % 2)

    monkeypatch.setenv("SPARKLOG_ROOT", str(root))

    def call(*arguments, code=0):
        monkeypatch.setattr("sys.argv", ["sparklog", *arguments])
        try:
            ended = main()
        except SystemExit as exit:
            ended = exit.code or 0
        shown = capfdbinary.readouterr()
        assert ended == code, shown
        return (shown.err if code else shown.out).decode()

    return call


def test_consume_as_a_member_goes_on_where_the_group_was(run):
    first = run("consume", "orders", "--group", "g", "--max", "4").split()
    second = run("consume", "orders", "--group", "g").split()
    assert len(first) == 4 and sorted(first + second) == list("012345")
    assert run("consume", "orders", "--group", "g") == ""


def test_groups_are_listed_described_reset_copied_and_deleted(run):
    run("consume", "orders", "--group", "g")
    (listed,) = json.loads(run("groups", "list", "--json"))
    assert listed == {"name": "g", "state": "Empty", "members": 0, "lag": 0}
    plan = json.loads(run("groups", "reset-offsets", "g", "--to", "earliest", "--json"))
    assert not plan["executed"] and [c["after"] for c in plan["changes"]] == [0, 0]
    assert "nothing was changed" in run("groups", "reset-offsets", "g", "--to", "0")
    assert json.loads(run("groups", "describe", "g", "--json"))["lag"] == 0
    run("groups", "reset-offsets", "g", "--shift-by", "-1", "--execute")
    described = run("groups", "describe", "g")
    assert "Empty" in described and "lag         2" in described
    run("groups", "copy-offsets", "g", "h", "--execute")
    assert json.loads(run("groups", "describe", "h", "--json"))["lag"] == 2
    assert "orders" in run("groups", "history", "g")
    last = run("groups", "history", "g", "--json", "--last", "1").splitlines()
    assert json.loads(last[0])["lag"] == 1
    run("groups", "delete", "g", "--yes")
    assert [g["name"] for g in json.loads(run("groups", "list", "--json"))] == ["h"]
    assert {"group", "state", "members", "lag"} <= set(run("groups", "list").split())


@pytest.mark.parametrize(
    ("arguments", "code", "text"),
    [
        (("groups", "describe", "nope"), 1, "'nope' does not exist"),
        (("groups", "delete", "nope", "--yes"), 1, "'nope' does not exist"),
        (("groups", "delete", "nope"), 2, "--yes"),
        (("groups", "reset-offsets", "g"), 2, "exactly one"),
        (("groups", "reset-offsets", "g", "--to", "1", "--shift-by", "1"), 2, "exactly one"),
        (("groups", "reset-offsets", "g", "--to", "99", "--topic", "orders"), 1, "out of range"),
        (("consume", "orders", "--group", "../x"), 1, "group.id"),
        (("consume", "orders", "--group", "g", "--from", "3"), 2, "reset-offsets"),
        (("consume", "orders", "--group", "g", "--partition", "1"), 2, "--partition"),
    ],
)
def test_what_cannot_be_is_said_in_one_line(run, arguments, code, text):
    assert text in run(*arguments, code=code)
