"""What must hold of a topic on disk, looked at from outside and through a consumer."""

from __future__ import annotations

import json
from pathlib import Path

import sparklog
from sparklog.errors import UnknownTopicError
from tests.crash.work import TOPIC


def commits(root: Path, topic: str = TOPIC) -> dict[int, list[dict]]:
    """Every commit file, parsed without sparklog: whole lines of JSON, versions contiguous."""
    folder = root / "topics" / topic / "_delta_log"
    found = {}
    for path in sorted(folder.glob("*.json")):
        text = path.read_text()
        assert text.endswith("\n"), f"{path} is torn"
        found[int(path.stem)] = [json.loads(line) for line in text.splitlines()]
    versions = list(found)
    assert versions == list(range(versions[0], versions[-1] + 1)) if versions else True
    if versions and versions[0]:
        checkpoints = [int(path.name[:20]) for path in folder.glob("*.checkpoint.parquet")]
        assert max(checkpoints) >= versions[0] - 1, "cleaned commits that no checkpoint covers"
    return found


def check_files(root: Path, topic: str = TOPIC) -> None:
    """Every segment that a commit names stands there with the size that it says."""
    for actions in commits(root, topic).values():
        for action in actions:
            if "add" in action:
                path = root / "topics" / topic / action["add"]["path"]
                assert path.stat().st_size == action["add"]["size"], path


def read(root: Path, topic: str = TOPIC) -> list[tuple[int, int, str]]:
    """All records as (partition, offset, value), through a new client."""
    log = sparklog.connect(root, create=False)
    try:
        consumer = log.consumer(topic, auto_offset_reset="earliest")
    except UnknownTopicError:
        return []
    records = []
    with consumer:
        while batch := consumer.poll():
            records += [(r.partition, r.offset, r.value.decode()) for r in batch]
        assert not any(consumer.lag(*place) for place in consumer.assignment())
    return records


def check_numbers(root: Path, acknowledged: Path, total: int | None = None) -> int:
    """The topic holds 0, 1, 2, ... at just these offsets, and everything acknowledged."""
    commits(root)
    check_files(root)
    there = (root / "_sparklog" / "log.json").exists()
    records = read(root) if there else []
    expected = len(records) if total is None else total
    assert records == [(0, number, str(number)) for number in range(expected)]
    numbers = lines(acknowledged)
    assert numbers == sorted(set(numbers), key=int), "acknowledged twice: it had been lost"
    assert not numbers or int(numbers[-1]) < len(records), "acknowledged, and not there"
    return len(records)


def lines(path: Path) -> list[str]:
    """The lines of a file that a child wrote; none if it wrote nothing."""
    return path.read_text().splitlines() if path.exists() else []


def leftovers(root: Path) -> list[Path]:
    """Temporary files that nobody removed."""
    return list((root / "_sparklog" / "tmp").glob("*"))
