"""Seeded runs keep the invariants; broken variants of the protocol do not."""

from __future__ import annotations

import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.simulation.checker import check
from tests.simulation.history import ConsumerSession, History, Read, Send, Status
from tests.simulation.mutants import MUTANTS
from tests.simulation.replay import Change
from tests.simulation.run import run_seed

SEEDS = range(100)
CAUGHT_BY = {
    "rename_instead_of_link": 0,
    "no_read_back": 17,
    "absent_is_not_applied": 2,
    "no_nonce": 1,
    "duplicate_sequence_accepted": 1,
}
"""The first seed that catches each mutant. After a change of the code that moves the schedules,
`python -m tests.simulation.run --mutant NAME --count 200 --stop` finds the new one."""
SEEDS_FOR_A_MUTANT = 60


@pytest.mark.parametrize("seed", SEEDS)
def test_any_seed_keeps_the_invariants(seed: int) -> None:
    result = run_seed(seed)
    assert not result.failed, f"replay with: make simulate SEED={seed}\n{result}"


def test_same_seed_twice_takes_the_same_steps() -> None:
    assert run_seed(7).trace_hash == run_seed(7).trace_hash


def test_runs_meet_every_fault_and_outcome() -> None:
    faults: set[str] = set()
    seen: set[str] = set()
    kills = stalls = 0
    for seed in range(25):
        result = run_seed(seed)
        faults |= {name for name, count in result.faults.items() if count}
        seen |= {name for name, count in result.counts.items() if count}
        kills, stalls = kills + result.kills, stalls + result.stalls
    assert {"ok", "fail", "unknown", "reads", "deleted", "created", "grown", "altered"} <= seen
    assert {"put_lost", "put_unanswered", "put_later", "put_retried", "put_conflict"} <= faults
    assert {"full", "read", "storm", "write_lost", "write_unanswered"} <= faults
    assert kills and stalls


@pytest.mark.parametrize("name", sorted(MUTANTS))
def test_broken_variant_is_caught(name: str) -> None:
    first = CAUGHT_BY[name]
    for seed in (first, *(s for s in range(SEEDS_FOR_A_MUTANT) if s != first)):
        if run_seed(seed, MUTANTS[name]).problems:
            return
    pytest.fail(f"no seed below {SEEDS_FOR_A_MUTANT} caught the mutant {name!r}")


def _commit(version: int, *actions: dict[str, object]) -> Change:
    body = "".join(json.dumps(action) + "\n" for action in actions).encode()
    return Change(version, f"topics/t/_delta_log/{version:020d}.json", body)


def _segment(path: str, base: int, values: list[bytes]) -> tuple[Change, dict[str, object]]:
    """A segment of partition 0, and the action that names it."""
    sink = pa.BufferOutputStream()
    deltas = pa.array(range(len(values)), pa.int32())
    pq.write_table(pa.table({"offset_delta": deltas, "value": values}), sink)
    data = sink.getvalue().to_pybytes()
    add = {
        "path": path,
        "partitionValues": {"partition": "0", "base_offset": str(base)},
        "size": len(data),
        "dataChange": True,
        "stats": json.dumps({"numRecords": len(values)}),
    }
    return Change(0, f"topics/t/{path}", data), {"add": add}


def _journal(*bases: int) -> list[Change]:
    """A topic of one commit a base, each with one record `v<n>`, the last says what comes next."""
    changes = [_commit(0, {"metaData": {"id": "one"}})]
    for number, base in enumerate(bases, start=1):
        segment, add = _segment(f"p0/{number}.parquet", base, [b"v%d" % number])
        offsets = {"start": [0], "next": [base + 1]}
        domain = {
            "domain": "sparklog.offsets",
            "configuration": json.dumps(offsets),
            "removed": False,
        }
        changes += [segment, _commit(number, add, {"domainMetadata": domain})]
    return changes


def _sent(value: bytes, index: int, status: Status, offset: int = -1) -> Send:
    return Send("s", "s", "t", index, value, 0, False, status, 0, offset, 1)


def _problems(history: History, journal: list[Change]) -> set[str]:
    return {problem.invariant for problem in check(history, journal)}


def test_checker_accepts_a_good_history() -> None:
    history = History(
        sends=[_sent(b"v1", 0, Status.OK, 0), _sent(b"v2", 1, Status.OK, 1)],
        reads=[Read("c", "t", 0, 0, b"v1", 5), Read("c", "t", 0, 1, b"v2", 6)],
        consumers=[ConsumerSession("c", "t", 0, drained=True)],
    )
    assert not _problems(history, _journal(0, 1))


@pytest.mark.parametrize(
    ("invariant", "history", "journal"),
    [
        ("I1", History(), _journal(0, 0)),
        ("I1", History(reads=[Read("c", "t", 0, 0, b"other", 5)]), _journal(0)),
        ("I1", History(sends=[_sent(b"v1", 0, Status.OK, 7)]), _journal(0)),
        ("I2", History(), _journal(0, 2)),
        ("I4", History(sends=[_sent(b"v1", 1, Status.OK, 0), _sent(b"v2", 0, Status.OK, 1)]),
         _journal(0, 1)),
        ("I5", History(sends=[_sent(b"gone", 0, Status.OK, 0)]), _journal(0)),
        ("I6", History(sends=[_sent(b"v1", 0, Status.FAIL)]), _journal(0)),
        ("I9", History(reads=[Read("c", "t", 0, 1, b"v2", 5)]), _journal(0, 1)),
        ("I9", History(consumers=[ConsumerSession("c", "t", 0, drained=True)]), _journal(0)),
        ("I16", History(), [c for c in _journal(0, 1) if not c.key.endswith(f"{1:020d}.json")]),
        ("I16", History(), [c for c in _journal(0) if not c.key.endswith("1.parquet")]),
    ],
)  # fmt: skip
def test_checker_rejects_a_bad_history(
    invariant: str, history: History, journal: list[Change]
) -> None:
    assert invariant in _problems(history, journal)
