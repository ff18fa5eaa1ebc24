"""What a group's state becomes by a request: pure functions, state in, state out.

                        join: into the group, share the partitions out anew
        not a member ------------------------------------------------------> member
              ^                                                                |
              '---- leave (its own append) or expel (anyone's, silence) <------'

        a partition:   free --settle: its target is a member--> owned (member, since)
                        ^                                          |
                        '-- release (its owner's own append), leave, expel

Guarantees:
1. A partition has at most one owner, and moves only when that owner released it by an append of
   its own, left, or was expelled: whoever gets it finds all that the old owner could commit.
2. Every append that moves a partition or changes the members begins a new generation, so
   (member, since) is never the same twice.
3. Only partitions whose target changed are released; the others stay as they are, `since` included.
4. An offset moves by its owner alone, or by an admin while the group has no members.

Each handler raises the reason why it may not be, and returns the same object where there is
nothing to do. `rule_of` makes one a rule of the committer; several can be put into one append by
calling one after the other.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from sparklog.errors import (
    GroupNotEmptyError,
    GroupReplacedError,
    InvalidInputError,
    MemberFencedError,
    OffsetsHeldError,
    StaleOwnerError,
    UnknownGroupError,
    UnknownMemberError,
)
from sparklog.groups.assignors.choose import choose_strategy
from sparklog.groups.group_state import (
    CommittedOffset,
    GroupState,
    Member,
    Owner,
    PartitionId,
    changes,
)
from sparklog.groups.rebalance import (
    Seen,
    look,
    next_generation,
    retarget,
    settle,
    strategies_of,
)
from sparklog.table.actions import Action
from sparklog.table.committer import Rule
from sparklog.table.table_state import TableState

Handler = Callable[[GroupState], GroupState]

METADATA_LENGTH_MAX = 4096


@dataclass(frozen=True)
class OffsetToCommit:
    """An offset, and the ownership under which its records were read."""

    offset: int
    since: int
    metadata: str = ""
    topic: str = ""
    log_end: int = -1


@dataclass(frozen=True)
class NewOffset:
    """An offset that an admin sets."""

    offset: int
    metadata: str = ""
    topic: str = ""
    log_end: int = -1


def rule_of(handler: Handler, name: str, now_ms: int) -> Rule:
    """The committer's rule for a handler: the actions by which the state changes, if it does."""

    def rule(table_state: TableState) -> Sequence[Action] | None:
        before = GroupState.of(table_state, name)
        return changes(before, handler(before), now_ms) or None

    return rule


def begin(state: GroupState, new_group_id: str, now_ms: int) -> GroupState:
    """A group stands: the one that is there, or a new and empty one."""
    if state.exists:
        return state
    return GroupState(
        name=state.name,
        version=state.version,
        group_id=new_group_id,
        generation=state.generation,
        empty_since_ms=now_ms,
    )


def join(state: GroupState, member: Member, seen: Seen, now_ms: int) -> GroupState:
    """Let a member in and share the partitions out anew.

    A member with the instance id of another takes its place, and all that it owned at once, under
    a new `since`: nobody else has to give up anything. One that is in already only updates what
    it wants. The first member of a group that was empty for longer than its offsets are kept
    finds none.
    """
    _require_group(state)
    known = state.members.get(member.member_id)
    if known is not None:
        return update(state, member.member_id, member.topics, seen)
    choose_strategy({**strategies_of(state), member.member_id: member.strategies})
    state = expire_offsets(state, now_ms)
    members = dict(state.members)
    place = _place_of_instance(state, member.instance_id)
    if place is not None:
        del members[place.member_id]
        since = dict.fromkeys(place.owned, state.generation + 1)
        member = replace(member, owned=since, target=place.target)
    members[member.member_id] = member
    state = replace(state, members=members, empty_since_ms=None)
    return next_generation(retarget(look(state, seen)))


def update(state: GroupState, member_id: str, topics: Sequence[str], seen: Seen) -> GroupState:
    """A member wants other topics, or saw topics that changed; else nothing happens."""
    member = require_member(state, member_id)
    after = state
    if tuple(sorted(topics)) != tuple(sorted(member.topics)):
        after = _put(state, replace(member, topics=tuple(sorted(topics))))
    after = look(after, seen)
    if after is state:
        return state
    return next_generation(retarget(after))


def leave(state: GroupState, member_ids: Sequence[str], now_ms: int) -> GroupState:
    """Members are out, by themselves or expelled; what they owned goes to the others at once."""
    members = {m: member for m, member in state.members.items() if m not in member_ids}
    if len(members) == len(state.members):
        return state
    state = replace(state, members=members, empty_since_ms=None if members else now_ms)
    return next_generation(retarget(state))


def release(state: GroupState, member_id: str, partitions: Mapping[PartitionId, int]) -> GroupState:
    """A member gives up partitions that it owned since then; their new owners have them at once.

    What it does not own any more, or owns anew, is passed over.
    """
    member = require_member(state, member_id)
    owned = {p: since for p, since in member.owned.items() if partitions.get(p) != since}
    if len(owned) == len(member.owned):
        return state
    return next_generation(settle(_put(state, replace(member, owned=owned))))


def commit_offsets(
    state: GroupState,
    member_id: str,
    offsets: Mapping[PartitionId, OffsetToCommit],
    now_ms: int,
    decision_of: str | None = None,
) -> GroupState:
    """Move offsets that this member owns, all or none.

    A decision calls this too: incomplete decisions of its own writer (`decision_of`) do not hold
    the partitions against it.
    """
    require_member(state, member_id)
    moved = dict(state.offsets)
    for partition, wanted in offsets.items():
        require_owner(state, partition, member_id, wanted.since, wanted.topic)
        require_not_held(state, partition, decision_of)
        _check_offset(wanted.offset, wanted.metadata)
        moved[partition] = CommittedOffset(
            wanted.offset, wanted.metadata, now_ms, wanted.topic, wanted.log_end, member_id
        )
    return replace(state, offsets=moved) if offsets else state


def set_offsets(
    state: GroupState, offsets: Mapping[PartitionId, NewOffset | None], now_ms: int
) -> GroupState:
    """An admin moves offsets, or takes them away (None), of a group without members."""
    require_empty(state)
    moved = dict(state.offsets)
    for partition, wanted in offsets.items():
        require_not_held(state, partition)
        if wanted is None:
            moved.pop(partition, None)
            continue
        _check_offset(wanted.offset, wanted.metadata)
        moved[partition] = CommittedOffset(
            wanted.offset, wanted.metadata, now_ms, wanted.topic, wanted.log_end
        )
    return replace(state, offsets=moved)


def expire_offsets(state: GroupState, now_ms: int) -> GroupState:
    """Forget the offsets of a group that was empty for longer than they are kept."""
    if (
        state.members
        or state.decisions
        or state.empty_since_ms is None
        or not state.offsets
        or now_ms - state.empty_since_ms <= state.offsets_retention_ms
    ):
        return state
    return replace(state, offsets={})


def keep_offsets_for(state: GroupState, retention_ms: int) -> GroupState:
    """Keep the offsets of the group, once it is empty, for so long."""
    _require_group(state)
    if retention_ms == state.offsets_retention_ms:
        return state
    return replace(state, offsets_retention_ms=retention_ms)


def delete(state: GroupState) -> GroupState:
    """End a group that has no members and no incomplete decisions; its generation lives on."""
    require_empty(state)
    if state.decisions:
        raise GroupNotEmptyError(
            f"group {state.name!r} has {len(state.decisions)} decided transactions that are not "
            "rolled forward yet: roll them forward first, by opening their producers"
        )
    return GroupState(state.name, state.version, generation=state.generation)


def require_member(state: GroupState, member_id: str) -> Member:
    """The member, or UnknownMemberError; MemberFencedError if its instance id was taken over."""
    _require_group(state)
    member = state.members.get(member_id)
    if member is None:
        raise UnknownMemberError(
            f"group {state.name!r} has no member {member_id!r} in generation {state.generation}: "
            "it left, or was silent for session.timeout.ms and was expelled; poll to join again"
        )
    return member


def require_instance(state: GroupState, member_id: str, instance_id: str | None) -> None:
    """MemberFencedError if another member has this instance id now."""
    place = _place_of_instance(state, instance_id)
    if place is not None and place.member_id != member_id:
        raise MemberFencedError(
            f"group {state.name!r}: member {place.member_id!r} has joined with the same "
            f"group.instance.id {instance_id!r} as {member_id!r}; close this one, and give each "
            "running member an instance id of its own"
        )


def require_owner(
    state: GroupState, partition: PartitionId, member_id: str, since: int, topic: str = ""
) -> None:
    """StaleOwnerError unless this member owns the partition, and has since that generation."""
    owner = state.owners.get(partition)
    if owner == Owner(member_id, since):
        return
    name = topic or state.topic_names.get(partition.topic_id, partition.topic_id)
    now = "nobody's" if owner is None else f"{owner.member_id!r}'s since generation {owner.since}"
    raise StaleOwnerError(
        f"group {state.name!r}, topic {name!r} partition {partition.partition}: member "
        f"{member_id!r} had it since generation {since}, but in generation {state.generation} it "
        f"is {now}; its owner goes on from the committed offset. Poll to see what was lost"
    )


def require_not_held(
    state: GroupState, partition: PartitionId, decision_of: str | None = None
) -> None:
    """OffsetsHeldError if an incomplete decision of another writer has the partition."""
    for decision in state.holders(partition):
        if decision.writer != decision_of:
            raise OffsetsHeldError(
                f"group {state.name!r}: the offset of partition {partition.partition} of topic id "
                f"{partition.topic_id} is held by a decided transaction of {decision.writer!r} "
                f"(epoch {decision.epoch}, sequence {decision.sequence}) that is not rolled "
                "forward yet; try again"
            )


def require_empty(state: GroupState) -> None:
    """GroupNotEmptyError unless the group stands and has no members."""
    _require_group(state)
    if state.members:
        raise GroupNotEmptyError(
            f"group {state.name!r} has {len(state.members)} members "
            f"({', '.join(sorted(state.members)[:3])}): close them first, or wait until they go"
        )


def require_same_group(state: GroupState, group_id: str) -> None:
    """GroupReplacedError unless it is still the very group that was joined."""
    if state.group_id != group_id:
        raise GroupReplacedError(
            f"group {state.name!r} (id {group_id}) was deleted"
            + (f", and created again with id {state.group_id}" if state.exists else "")
            + "; poll to join the new one"
        )


def _require_group(state: GroupState) -> None:
    if not state.exists:
        raise UnknownGroupError(
            f"group {state.name!r} does not exist; it begins with its first member, or with the "
            "first offset that is set for it"
        )


def _place_of_instance(state: GroupState, instance_id: str | None) -> Member | None:
    if instance_id is None:
        return None
    return next((m for m in state.members.values() if m.instance_id == instance_id), None)


def _put(state: GroupState, member: Member) -> GroupState:
    return state.with_members({**state.members, member.member_id: member})


def _check_offset(offset: object, metadata: object) -> None:
    if isinstance(offset, bool) or not isinstance(offset, int) or offset < 0:
        raise InvalidInputError(
            f"an offset to commit must be a whole number from 0, not {offset!r}"
        )
    if not isinstance(metadata, str) or len(metadata) > METADATA_LENGTH_MAX:
        raise InvalidInputError(
            f"the metadata of an offset must be a string of at most {METADATA_LENGTH_MAX} "
            f"characters, not {str(metadata)[:40]!r}"
        )
