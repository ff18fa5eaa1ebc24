"""Seeded runs about groups keep the invariants; broken variants of the protocol do not."""

from __future__ import annotations

import json

import pytest

from tests.simulation.group_actors import GroupHistory
from tests.simulation.group_checker import check_group
from tests.simulation.group_mutants import GROUP_MUTANTS
from tests.simulation.group_run import run_group_seed
from tests.simulation.replay import Change

SEEDS = range(60)
CAUGHT_BY = {
    "since_is_not_compared": 6,
    "commit_without_fence": 0,
    "handed_over_before_release": 0,
    "taken_without_release": 0,
    "offsets_from_an_earlier_look": 10,
    "loss_is_not_noticed": 114,
    "generation_stays_when_members_go": 0,
}
"""The first seed that catches each mutant. After a change of the code that moves the schedules,
`python -m tests.simulation.group_run --mutant NAME --count 200 --stop` finds the new one."""
SEEDS_FOR_A_MUTANT = 60


@pytest.mark.parametrize("seed", SEEDS)
def test_any_seed_keeps_the_invariants_of_groups(seed: int) -> None:
    result = run_group_seed(seed)
    assert not result.failed, f"python -m tests.simulation.group_run --seed {seed}\n{result}"


def test_same_seed_twice_takes_the_same_steps() -> None:
    assert run_group_seed(7).trace_hash == run_group_seed(7).trace_hash


def test_runs_meet_kills_stalls_expulsions_and_every_outcome() -> None:
    seen: set[str] = set()
    for seed in range(12):
        seen |= run_group_seed(seed).counts.keys()
    assert {"commit ok", "commit fail", "long pauses", "killed", "reads"} <= seen


@pytest.mark.parametrize("name", sorted(GROUP_MUTANTS))
def test_broken_variant_is_caught(name: str) -> None:
    first = CAUGHT_BY[name]
    for seed in (first, *(s for s in range(SEEDS_FOR_A_MUTANT) if s != first)):
        if run_group_seed(seed, GROUP_MUTANTS[name]).problems:
            return
    pytest.fail(f"no seed below {SEEDS_FOR_A_MUTANT} caught the mutant {name!r}")


def _member(**since: int) -> dict[str, object]:
    owned = {"T": {str(s): [int(p[1:])] for p, s in since.items()}}
    return {"owned": owned, "target": owned}


def _journal(*domains: tuple[str, str, dict[str, object]]) -> list[Change]:
    """A group's log of one domain a version: (operation, domain, body)."""
    changes = []
    for version, (operation, domain, body) in enumerate(domains):
        lines: list[dict[str, object]] = [
            {"commitInfo": {"operation": operation}},
            {
                "domainMetadata": {
                    "domain": domain,
                    "configuration": json.dumps(body),
                    "removed": False,
                }
            },
        ]
        data = "".join(json.dumps(line) + "\n" for line in lines).encode()
        changes.append(Change(version, f"groups/g/_delta_log/{version:020d}.json", data))
    return changes


def _offset(member: str, since: int, offset: int) -> dict[str, object]:
    return {"offset": offset, "metadata": f"x|{since}", "member": member}


@pytest.mark.parametrize(
    ("invariant", "journal"),
    [
        ("G", _journal(("JOIN", "sparklog.member.a", _member(p0=1)),
                       ("JOIN", "sparklog.member.b", _member(p0=2)))),
        ("I10", _journal(("JOIN", "sparklog.member.a", _member(p0=1)),
                         ("COMMIT", "sparklog.offset.T.0", _offset("b", 1, 3)))),
        ("I10", _journal(("JOIN", "sparklog.member.a", _member(p0=2)),
                         ("COMMIT", "sparklog.offset.T.0", _offset("a", 1, 3)))),
        ("I10", _journal(("JOIN", "sparklog.member.a", _member(p0=1)),
                         ("COMMIT", "sparklog.offset.T.0", _offset("a", 1, 4000)))),
        ("I16", _journal(("JOIN", "sparklog.member.a", _member(p0=1)))[:0]
                + _journal(("A", "sparklog.x", {}), ("B", "sparklog.x", {}))[1:]),
        ("I17", _journal(("JOIN", "sparklog.member.a", _member(p0=1)))),
    ],
)  # fmt: skip
def test_checker_rejects_a_bad_log(invariant: str, journal: list[Change]) -> None:
    found = {problem.invariant for problem in check_group(GroupHistory(), journal)}
    assert invariant in found
