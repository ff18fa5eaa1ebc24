"""Many producer processes compete for the versions of one topic."""

from __future__ import annotations

import sparklog
from tests.crash.checks import check_files, commits, read
from tests.crash.work import TOPIC

PROCESSES = 8
COMMITS = 50


def test_competing_processes_lose_nothing_and_double_nothing(nursery, tmp_path):
    root, gate = tmp_path / "log", tmp_path / "gate"
    log = sparklog.connect(root)
    log.create_topic(TOPIC, partitions=2, config={"delta.checkpointInterval": 20})
    names = [f"w{number}" for number in range(PROCESSES)]
    task = {"root": str(root), "commits": COMMITS, "gate": str(gate)}
    pids = [nursery.start("compete", name=name, **task) for name in names]
    gate.touch()
    assert [nursery.wait(pid) for pid in pids] == [0] * PROCESSES

    records = read(root)
    assert len(records) == PROCESSES * COMMITS
    for partition in (0, 1):
        offsets = [offset for number, offset, _ in records if number == partition]
        assert offsets == list(range(PROCESSES * COMMITS // 2))
    for name in names:
        for partition in (0, 1):
            sent = [value for number, _, value in records if number == partition]
            mine = [value for value in sent if value.startswith(f"{name} ")]
            assert mine == [f"{name} {index}" for index in range(partition, COMMITS, 2)]

    check_files(root)
    found = commits(root)
    assert list(found) == list(range(PROCESSES * COMMITS + 1))
    nonces = [actions[0]["commitInfo"]["txnId"] for actions in found.values()]
    assert len(set(nonces)) == len(nonces)
    assert list((root / "topics" / TOPIC / "_delta_log").glob("*.checkpoint.parquet"))
    competed = {value.partition(" ")[0] for _, offset, value in records if offset < COMMITS}
    assert len(competed) > 1, "the processes ran one after the other"
