"""Sharing a group's partitions out anew: pure functions that the handlers are made of.

`retarget` asks the assignor who is to own what; `settle` gives what nobody owns to whom it is to
be. Between the two lies the release of what must move, which only its owner can append.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from sparklog.groups.assignors.choose import ASSIGNORS, choose_strategy
from sparklog.groups.assignors.problem import Problem
from sparklog.groups.group_state import GroupState, PartitionId, TopicSeen


@dataclass(frozen=True)
class Seen:
    """Topics as the asker saw them just now: None where no topic of that name stands."""

    topics: Mapping[str, TopicSeen | None] = field(default_factory=dict)


def strategies_of(state: GroupState) -> dict[str, Sequence[str]]:
    """The strategies that each member has."""
    return {member_id: member.strategies for member_id, member in state.members.items()}


def look(state: GroupState, seen: Seen) -> GroupState:
    """Take over what was seen of topics that members want; the same object if nothing is new."""
    wanted = {topic for member in state.members.values() for topic in member.topics}
    topics = {name: topic for name, topic in state.topics.items() if name in wanted}
    for name, topic in seen.topics.items():
        if name not in wanted:
            continue
        known = topics.get(name)
        if topic is None:
            topics.pop(name, None)
        elif (
            known is None or known.topic_id != topic.topic_id or known.partitions < topic.partitions
        ):
            topics[name] = topic
    return state if topics == state.topics else replace(state, topics=topics)


def retarget(state: GroupState) -> GroupState:
    """Ask the assignor who is to own what; partitions of topics that are gone have no owner."""
    if not state.members:
        return replace(state, strategy="", topics={})
    state = look(state, Seen())
    strategy = choose_strategy(strategies_of(state))
    ids = {name: seen.topic_id for name, seen in state.topics.items()}
    names = state.topic_names
    standing = {
        PartitionId(seen.topic_id, n)
        for seen in state.topics.values()
        for n in range(seen.partitions)
    }
    problem = Problem(
        subscriptions={m.member_id: frozenset(m.topics) for m in state.members.values()},
        partitions={name: seen.partitions for name, seen in state.topics.items()},
        owned={
            m.member_id: frozenset(
                (names[p.topic_id], p.partition) for p in m.owned if p in standing
            )
            for m in state.members.values()
        },
        ranks={m.member_id: m.instance_id for m in state.members.values() if m.instance_id},
    )
    assignment = ASSIGNORS[strategy](problem)
    members = {}
    for member_id, member in state.members.items():
        target = frozenset(PartitionId(ids[topic], n) for topic, n in assignment[member_id])
        owned = {p: since for p, since in member.owned.items() if p in standing}
        if target != member.target or len(owned) != len(member.owned):
            member = replace(member, owned=owned, target=target)
        members[member_id] = member
    return replace(state, strategy=strategy, members=members)


def settle(state: GroupState) -> GroupState:
    """Give every free partition to the member that is to own it, from the next generation on."""
    owners = state.owners
    since = state.generation + 1
    members = dict(state.members)
    for member_id, member in state.members.items():
        gained = dict.fromkeys(sorted(p for p in member.target if p not in owners), since)
        if gained:
            members[member_id] = replace(member, owned={**member.owned, **gained})
    return state.with_members(members)


def next_generation(state: GroupState) -> GroupState:
    """Hand out what is free, and begin the next generation."""
    return replace(settle(state), generation=state.generation + 1)
