"""Whether a query's logged batch stands, and what its commit moves."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sparklog.errors import InvalidInputError, OffsetsHeldError
from sparklog.groups.group_state import (
    CommittedOffset,
    Decision,
    GroupState,
    Member,
    PartitionId,
)
from sparklog.groups.logged_batch import LoggedBatch, LoggedRange, commit_batch, stands
from sparklog.spark.group_batch import batch_from_json, batch_to_json

A, B = PartitionId("t", 0), PartitionId("t", 1)
STATE = GroupState(
    "g",
    version=5,
    group_id="id",
    generation=4,
    members={"m": Member("m", ("orders",), owned={A: 3, B: 4}, target=frozenset({A, B}))},
    offsets={A: CommittedOffset(10), B: CommittedOffset(0)},
)
BATCH = LoggedBatch("id", {A: LoggedRange("orders", 3, 10, 15, 20)})


def owned_by(member: str, since: int) -> GroupState:
    return replace(
        STATE, members={member: Member(member, ("orders",), owned={A: since}, target=frozenset())}
    )


def test_batch_stands_while_since_and_offset_are_the_logged_ones():
    assert stands(STATE, BATCH)


def test_batch_stands_whichever_run_asks():
    """A restarted driver is not the owner, and finishes under the old since."""
    assert stands(owned_by("the old run", 3), BATCH)


@pytest.mark.parametrize(
    "state",
    [
        owned_by("m", 4),  # expelled, and given the partition again
        replace(STATE, members={}),  # nobody's
        replace(STATE, offsets={A: CommittedOffset(15)}),  # decided
        replace(STATE, offsets={}),
        replace(STATE, group_id="another"),
    ],
)
def test_batch_is_void_once_ownership_or_offset_moved(state):
    assert not stands(state, BATCH)
    assert commit_batch(state, BATCH, 1) is state


def test_batch_of_two_partitions_is_void_if_one_is():
    both = LoggedBatch("id", {**BATCH.ranges, B: LoggedRange("orders", 9, 0, 1)})
    assert not stands(STATE, both)
    assert commit_batch(STATE, both, 1) is STATE


def test_commit_moves_only_the_partitions_of_the_batch():
    after = commit_batch(STATE, BATCH, 99)
    assert after.offsets[A] == CommittedOffset(15, "", 99, "orders", 20, "m")
    assert after.offsets[B] == STATE.offsets[B]
    assert commit_batch(after, BATCH, 100) is after


def test_commit_waits_for_another_writers_decision():
    held = replace(STATE, decisions={"d": Decision("query/q", 1, 1, frozenset({A}), "")})
    with pytest.raises(OffsetsHeldError):
        commit_batch(held, BATCH, 1)
    assert commit_batch(held, BATCH, 1, decision_of="query/q").offsets[A].offset == 15


def test_batch_survives_json_without_what_only_history_needs():
    body = batch_to_json("g", BATCH)
    assert batch_from_json("g", body) == LoggedBatch(
        "id", {A: replace(BATCH.ranges[A], log_end=-1)}
    )


def test_checkpoint_of_another_group_is_refused():
    with pytest.raises(InvalidInputError, match="keeps its group"):
        batch_from_json("other", batch_to_json("g", BATCH))


@pytest.mark.parametrize("body", [{"orders": {"id": "t", "offsets": {"0": 1}}}, [], {"group": "g"}])
def test_checkpoint_without_a_group_is_refused(body):
    with pytest.raises(InvalidInputError, match=r"without group\.id"):
        batch_from_json("g", body)
