"""What a group's state becomes by each request."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sparklog import errors
from sparklog.groups import handlers
from sparklog.groups.group_state import (
    CommittedOffset,
    Decision,
    GroupState,
    Member,
    Owner,
    PartitionId,
    TopicSeen,
)
from sparklog.groups.handlers import NewOffset, OffsetToCommit
from sparklog.groups.rebalance import Seen

NOW = 1_000


def pids(*numbers, topic_id="T1"):
    return [PartitionId(topic_id, n) for n in numbers]


def seen(partitions=4, topic_id="T1", topic="t"):
    return Seen({topic: TopicSeen(topic_id, partitions)})


def a_member(member_id, **fields):
    return Member(member_id, fields.pop("topics", ("t",)), **fields)


def group_of(*member_ids, partitions=4, settle=True, **fields):
    """A group that these members joined one by one, everything released and taken."""
    state = handlers.begin(GroupState("g"), "G1", NOW)
    for member_id in member_ids:
        state = handlers.join(state, a_member(member_id, **fields), seen(partitions), NOW)
        state = settled(state) if settle else state
    return state


def settled(state):
    """Every member releases what it must."""
    while not state.settled:
        for member_id, member in state.members.items():
            if member.to_release:
                state = handlers.release(state, member_id, member.to_release)
                break
        else:
            raise AssertionError(f"stuck: {state}")
    return state


def owned(state, member_id):
    return sorted(p.partition for p in state.members[member_id].owned)


def to_commit(state, member_id, offset=5):
    return {p: OffsetToCommit(offset, s) for p, s in state.members[member_id].owned.items()}


def test_first_member_owns_everything_at_once():
    state = group_of("a")
    assert owned(state, "a") == [0, 1, 2, 3] and state.generation == 1 and state.settled


def test_second_member_gets_a_partition_only_after_its_owner_released_it():
    state = group_of("a")
    state = handlers.join(state, a_member("b"), seen(), NOW)
    assert owned(state, "a") == [0, 1, 2, 3] and owned(state, "b") == []
    leaving = state.members["a"].to_release
    assert len(leaving) == 2
    state = handlers.release(state, "a", leaving)
    assert len(owned(state, "a")) == len(owned(state, "b")) == 2
    assert {state.owners[p] for p in leaving} == {Owner("b", state.generation)}


def test_partitions_that_stay_keep_their_since():
    before = group_of("a")
    after = settled(handlers.join(before, a_member("b"), seen(), NOW))
    for partition, since in after.members["a"].owned.items():
        assert before.members["a"].owned[partition] == since


def test_release_of_what_is_owned_anew_is_passed_over():
    state = group_of("a", "b")
    partition = next(iter(state.members["a"].owned))
    assert handlers.release(state, "a", {partition: 99}) is state
    assert handlers.release(state, "b", {partition: state.owners[partition].since}) is state


def test_leave_hands_everything_to_those_who_stay():
    state = handlers.leave(group_of("a", "b"), ["a"], NOW)
    assert owned(state, "b") == [0, 1, 2, 3] and state.settled


def test_leave_of_nobody_changes_nothing():
    state = group_of("a")
    assert handlers.leave(state, ["x"], NOW) is state


def test_last_leave_leaves_the_group_empty_with_its_offsets():
    state = group_of("a")
    state = handlers.commit_offsets(state, "a", to_commit(state, "a"), NOW)
    state = handlers.leave(state, ["a"], 77)
    assert not state.members and state.empty_since_ms == 77 and len(state.offsets) == 4


def test_join_twice_changes_nothing():
    state = group_of("a")
    assert handlers.join(state, a_member("a"), seen(), NOW) is state


def test_grown_topic_gives_the_new_partitions_to_members():
    state = handlers.update(group_of("a", "b"), "a", ("t",), seen(partitions=6))
    assert state.settled and len(state.owners) == 6


def test_topic_seen_smaller_than_known_is_an_old_view_and_changes_nothing():
    state = group_of("a", partitions=4)
    assert handlers.update(state, "a", ("t",), seen(partitions=2)) is state


def test_topic_created_again_takes_its_partitions_from_all_owners():
    state = handlers.update(group_of("a", "b"), "a", ("t",), seen(topic_id="T2"))
    assert {p.topic_id for p in state.owners} == {"T2"} and state.settled


def test_topic_deleted_has_no_owners():
    state = handlers.update(group_of("a"), "a", ("t",), Seen({"t": None}))
    assert not state.owners and not state.targets


def test_member_that_wants_a_topic_no_more_must_release_it():
    state = handlers.update(group_of("a"), "a", (), Seen())
    assert len(state.members["a"].to_release) == 0 and not state.owners, "nobody wants the topic"
    both = handlers.update(group_of("a", "b"), "a", (), Seen())
    assert len(both.members["a"].to_release) == 2 and owned(both, "a") != []


def test_member_with_the_instance_id_of_another_takes_its_place_and_nobody_else_moves():
    state = group_of("a")
    state = settled(handlers.join(state, a_member("b", instance_id="i"), seen(), NOW))
    others, place = state.members["a"].owned, set(state.members["b"].owned)
    after = handlers.join(state, a_member("c", instance_id="i"), seen(), NOW)
    assert "b" not in after.members and after.members["a"].owned == others
    assert set(after.members["c"].owned) == place and after.settled
    assert set(after.members["c"].owned.values()) == {after.generation}
    with pytest.raises(errors.MemberFencedError, match="'i'"):
        handlers.require_instance(after, "b", "i")


def test_commit_of_another_members_partition_is_refused_by_name():
    state = group_of("a", "b")
    with pytest.raises(errors.StaleOwnerError, match=r"'t' partition .* 'b'"):
        handlers.commit_offsets(state, "a", to_commit(state, "b"), NOW)


def test_commit_under_an_old_since_is_refused():
    state = group_of("a")
    old = to_commit(state, "a")
    state = handlers.leave(state, ["a"], NOW)
    state = handlers.join(state, a_member("a"), seen(), NOW)
    with pytest.raises(errors.StaleOwnerError, match="had it since generation 1"):
        handlers.commit_offsets(state, "a", old, NOW)


def test_commit_of_a_member_that_is_out_is_refused():
    state = handlers.leave(group_of("a", "b"), ["a"], NOW)
    with pytest.raises(errors.UnknownMemberError, match="'a'"):
        handlers.commit_offsets(state, "a", {}, NOW)


def test_commit_is_all_or_none():
    state = group_of("a", "b")
    mixed = {**to_commit(state, "a"), **to_commit(state, "b")}
    with pytest.raises(errors.StaleOwnerError):
        handlers.commit_offsets(state, "a", mixed, NOW)
    assert state.offsets == {}


def test_rebalance_that_does_not_touch_a_partition_does_not_fail_its_commit():
    state = group_of("a", "b")
    wanted = to_commit(state, "a")
    state = handlers.leave(handlers.join(state, a_member("c"), seen(), NOW), ["b"], NOW)
    kept = {p: o for p, o in wanted.items() if p in state.members["a"].owned}
    assert kept
    assert handlers.commit_offsets(state, "a", kept, NOW).offsets


def test_incomplete_decision_blocks_others_commits_but_not_its_own_writers():
    state = group_of("a")
    held = Decision("transaction/x", 3, 1, frozenset(pids(1)), "{}")
    state = replace(state, decisions={"sparklog.decision.x": held})
    wanted = to_commit(state, "a")
    with pytest.raises(errors.OffsetsHeldError, match="transaction/x"):
        handlers.commit_offsets(state, "a", wanted, NOW)
    assert handlers.commit_offsets(state, "a", wanted, NOW, decision_of="transaction/x").offsets
    free = {p: o for p, o in wanted.items() if p.partition != 1}
    assert handlers.commit_offsets(state, "a", free, NOW).offsets


@pytest.mark.parametrize("offset", [-1, True, 1.5, "3"])
def test_commit_of_something_that_is_no_offset_is_refused(offset):
    state = group_of("a")
    with pytest.raises(errors.InvalidInputError, match="whole number"):
        handlers.commit_offsets(state, "a", to_commit(state, "a", offset), NOW)


def test_metadata_that_is_too_long_is_refused():
    state = group_of("a")
    with pytest.raises(errors.InvalidInputError, match="4096"):
        wanted = {p: OffsetToCommit(1, 1, "x" * 5000) for p in pids(0)}
        handlers.commit_offsets(state, "a", wanted, NOW)


def test_admin_may_not_touch_a_group_with_members():
    state = group_of("a")
    with pytest.raises(errors.GroupNotEmptyError, match="1 members"):
        handlers.set_offsets(state, {pids(0)[0]: NewOffset(3)}, NOW)
    with pytest.raises(errors.GroupNotEmptyError):
        handlers.delete(state)


def test_admin_sets_and_takes_away_offsets_of_an_empty_group():
    state = handlers.begin(GroupState("g"), "G1", NOW)
    one, two = pids(0, 1)
    state = handlers.set_offsets(state, {one: NewOffset(3, topic="t"), two: NewOffset(4)}, NOW)
    state = handlers.set_offsets(state, {two: None}, NOW)
    assert state.offsets == {one: CommittedOffset(3, "", NOW, "t")}


def test_group_with_an_incomplete_decision_is_not_deleted():
    state = handlers.begin(GroupState("g"), "G1", NOW)
    held = Decision("transaction/x", 3, 1, frozenset(), "{}")
    with pytest.raises(errors.GroupNotEmptyError, match="rolled forward"):
        handlers.delete(replace(state, decisions={"d": held}))


def test_deleted_group_begins_again_under_another_id_and_a_later_generation():
    state = handlers.leave(group_of("a"), ["a"], NOW)
    gone = handlers.delete(state)
    assert not gone.exists
    with pytest.raises(errors.UnknownGroupError, match="'g'"):
        handlers.set_offsets(gone, {}, NOW)
    anew = handlers.begin(gone, "G2", NOW)
    assert anew.group_id == "G2" and anew.generation == state.generation and not anew.offsets
    with pytest.raises(errors.GroupReplacedError, match="G2"):
        handlers.require_same_group(anew, "G1")


def test_offsets_expire_only_when_the_group_was_empty_for_so_long():
    state = group_of("a")
    state = handlers.commit_offsets(state, "a", to_commit(state, "a"), NOW)
    late = NOW + state.offsets_retention_ms + 1
    assert handlers.expire_offsets(state, late) is state, "it has a member"
    state = handlers.leave(state, ["a"], NOW)
    assert handlers.expire_offsets(state, late - 1) is state
    assert handlers.expire_offsets(state, late).offsets == {}
    assert handlers.join(state, a_member("b"), seen(), late - 1).offsets
    assert not handlers.join(state, a_member("b"), seen(), late).offsets


def test_join_without_a_strategy_in_common_is_refused():
    state = group_of("a", strategies=("range",))
    with pytest.raises(errors.InconsistentStrategyError, match="a: range"):
        handlers.join(state, a_member("b", strategies=("sticky",)), seen(), NOW)
