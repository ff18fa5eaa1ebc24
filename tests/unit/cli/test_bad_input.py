"""What the command says of bad input and of damage: one line, exit code 1, and nothing written."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import sparklog
from tests.support.command import Run

CONSUME = ("consume", "t")


@pytest.fixture
def topic(root: Path) -> Path:
    """The folder of a topic with one partition and one record."""
    log = sparklog.connect(root)
    log.create_topic("t")
    with log.producer() as producer:
        producer.send("t", value=b"0")
    return root / "topics" / "t"


def complain(run: Run, *arguments: str, stdin: bytes = b"") -> str:
    """What the command says on standard error: one line, and nothing on standard output."""
    done = run(*arguments, stdin=stdin, code=1)
    lines = done.stderr.decode().splitlines()
    assert done.stdout == b"" and len(lines) == 1, done
    assert lines[0].startswith("sparklog: ")
    return lines[0]


@pytest.mark.parametrize("name", ["a/b", ".."])
def test_illegal_topic_name_is_said_and_nothing_made(run: Run, root: Path, name: str) -> None:
    assert "topic name" in complain(run, "topics", "create", name)
    assert not (root / "topics").exists()


def test_missing_topic_names_those_there_are(run: Run, topic: Path) -> None:
    assert "'nope' does not exist" in complain(run, "consume", "nope")


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (b'{"value":"x","partition":7}', "record 2: topic 't' has no partition 7"),
        (b'{"value":"%s"}' % (b"x" * 1_100_000), "record 2: topic 't': a record of 1100024 bytes"),
    ],
    ids=["partition", "too large"],
)
def test_bad_record_is_named_by_its_number_and_those_before_it_stay(
    run: Run,
    topic: Path,
    line: bytes,
    words: str,
) -> None:
    stdin = b'{"value":"1"}\n' + line + b'\n{"value":"2"}\n'
    assert words in complain(run, "produce", "t", "--json", stdin=stdin)
    assert run(*CONSUME).stdout == b"0\n1\n"


def test_corrupt_commit_is_named(run: Run, topic: Path) -> None:
    name = "00000000000000000001.json"
    commit = topic / "_delta_log" / name
    commit.write_bytes(commit.read_bytes()[:-20])
    assert name in complain(run, *CONSUME)
    assert name in complain(run, "produce", "t", stdin=b"x\n")
    assert sorted(path.name for path in topic.glob("_delta_log/*"))[-1] == name


def test_missing_commit_is_named(run: Run, topic: Path) -> None:
    (topic / "_delta_log" / "00000000000000000000.json").unlink()
    assert "00000000000000000000.json" in complain(run, *CONSUME)


@pytest.mark.parametrize("damage", ["truncated", "gone", "flipped"])
def test_damaged_segment_is_named(run: Run, topic: Path, damage: str) -> None:
    (segment,) = topic.glob("p0/*.parquet")
    data = segment.read_bytes()
    if damage == "gone":
        segment.unlink()
    else:
        segment.write_bytes(data[:-10] if damage == "truncated" else data[:-60] + bytes(60))
    assert segment.name in complain(run, *CONSUME)


@pytest.mark.parametrize("identity", ["x", "[]", '{"format":1,"id":5}', "[" * 9999])
def test_malformed_identity_of_a_log_is_named(run: Run, topic: Path, identity: str) -> None:
    (topic.parents[1] / "_sparklog" / "log.json").write_text(identity)
    assert "_sparklog/log.json is malformed" in complain(run, "topics", "list")


def test_log_of_a_newer_format_is_refused(run: Run, topic: Path) -> None:
    (topic.parents[1] / "_sparklog" / "log.json").write_text(json.dumps({"format": 2, "id": "x"}))
    assert "upgrade sparklog" in complain(run, "topics", "list")
