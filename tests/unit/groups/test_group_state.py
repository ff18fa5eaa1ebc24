"""State from the table log's domains and back: what is written is what is read."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sparklog import errors
from sparklog.groups import handlers
from sparklog.groups.group_state import (
    Decision,
    GroupState,
    PartitionId,
    WriterId,
    changes,
)
from sparklog.groups.handlers import NewOffset, OffsetToCommit
from sparklog.table.actions import (
    Commit,
    CommitInfo,
    DomainMetadata,
    Metadata,
    Txn,
    decode_commit,
    encode_commit,
)
from sparklog.table.table_state import TableState
from tests.unit.groups.test_handlers import NOW, a_member, group_of, seen, settled


def replayed(*states):
    """These states one after the other, through the bytes of commits."""
    table = TableState("groups/g/")
    before = GroupState("g")
    for version, state in enumerate(states):
        actions = [CommitInfo(1, "T", "n"), *changes(before, state, NOW)]
        body = encode_commit(actions)
        table.apply(Commit(version, decode_commit(body, version, "x").actions))
        before = state
    return GroupState.of(table, "g")


def same(one, two):
    return replace(one, version=0) == replace(two, version=0)


def test_every_part_of_a_state_survives_replay():
    state = group_of("a", "b", instance_id=None)
    state = settled(handlers.join(state, a_member("c", instance_id="i", client_id="C"), seen(), 9))
    wanted = {p: OffsetToCommit(7, s, "meta", "t", 12) for p, s in state.members["a"].owned.items()}
    state = handlers.commit_offsets(state, "a", wanted, NOW)
    held = Decision("transaction/x", 3, 1, frozenset({PartitionId("T1", 0)}), '{"adds":[]}')
    state = replace(
        state,
        decisions={"sparklog.decision.x": held},
        writers={"transaction/x": WriterId(3, 1), "query/q": WriterId(2, 1 << 30)},
    )
    assert same(replayed(state), state)
    assert same(replayed(group_of("a"), state), state)


def test_offset_commit_writes_only_the_offset():
    state = group_of("a", "b", partitions=12)
    partition, since = next(iter(state.members["a"].owned.items()))
    after = handlers.commit_offsets(state, "a", {partition: OffsetToCommit(1, since)}, NOW)
    (action,) = changes(state, after)
    assert (
        isinstance(action, DomainMetadata)
        and action.domain == f"sparklog.offset.T1.{partition.partition}"
    )


def test_same_state_has_no_changes():
    state = group_of("a", "b")
    assert changes(state, state) == [] and changes(state, replace(state)) == []


def test_new_group_begins_with_its_identity():
    actions = changes(GroupState("g"), group_of("a"), NOW)
    assert [a.id for a in actions if isinstance(a, Metadata)] == ["G1"]


def test_deleted_group_leaves_nothing_but_its_generation():
    state = handlers.begin(GroupState("g"), "G1", NOW)
    state = handlers.set_offsets(state, {PartitionId("T1", 0): NewOffset(3)}, NOW)
    state = replace(state, generation=9)
    gone = replayed(state, handlers.delete(state))
    assert not gone.exists and gone.generation == 9 and not gone.offsets


def test_group_begun_again_has_no_writers_of_the_old_one():
    state = replace(
        handlers.begin(GroupState("g"), "G1", NOW), writers={"transaction/x": WriterId(1, 1)}
    )
    gone = handlers.delete(state)
    anew = handlers.begin(gone, "G2", NOW)
    assert same(replayed(state, gone, anew), anew) and not anew.writers


def test_fence_is_a_txn_action():
    state = handlers.begin(GroupState("g"), "G1", NOW)
    after = replace(state, writers={"transaction/x": WriterId(2, 0)})
    assert changes(state, after, 5) == [Txn("transaction/x", 2 << 40, 5)]


def test_malformed_domain_names_the_log_and_the_version():
    table = TableState("groups/g/")
    actions = [*changes(GroupState("g"), group_of("a"), NOW)]
    actions.append(DomainMetadata("sparklog.offset.T1.0", "[]"))
    table.apply(Commit(0, tuple(actions)))
    with pytest.raises(errors.CorruptCommitError, match="groups/g/ at version 0"):
        GroupState.of(table, "g")
