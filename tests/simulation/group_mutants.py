"""Broken variants of the group protocol, each of which the simulation must catch."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import TypeAlias
from unittest import mock

from sparklog.errors import StaleOwnerError
from sparklog.groups import handlers, rebalance
from sparklog.groups.coordinator import Coordinator
from sparklog.groups.group_state import CommittedOffset, GroupState, Member, PartitionId
from sparklog.groups.session import Changes, MemberSession

GroupMutant: TypeAlias = Callable[[], AbstractContextManager[None]]


@contextlib.contextmanager
def since_is_not_compared() -> Iterator[None]:
    """A member that lost a partition and has it again commits what it read before (5)."""

    def require_owner(
        state: GroupState, partition: PartitionId, member_id: str, since: int, topic: str = ""
    ) -> None:
        owner = state.owners.get(partition)
        if owner is None or owner.member_id != member_id:
            raise StaleOwnerError("another's")

    with mock.patch.object(handlers, "require_owner", require_owner):
        yield


@contextlib.contextmanager
def commit_without_fence() -> Iterator[None]:
    """Whoever is a member commits what it likes."""
    with mock.patch.object(handlers, "require_owner", lambda *_: None):
        yield


@contextlib.contextmanager
def handed_over_before_release() -> Iterator[None]:
    """A rebalance gives partitions to their new owners at once."""

    def settle(state: GroupState) -> GroupState:
        since = state.generation + 1
        members = {}
        for member_id, member in state.members.items():
            gained = dict.fromkeys(sorted(p for p in member.target if p not in member.owned), since)
            members[member_id] = replace(member, owned={**member.owned, **gained})
        return state.with_members(members)

    with _patched("settle", settle):
        yield


@contextlib.contextmanager
def taken_without_release() -> Iterator[None]:
    """A rebalance takes partitions away from owners that did not give them up."""
    real = rebalance.retarget

    def retarget(state: GroupState) -> GroupState:
        state = real(state)
        return state.with_members(
            {
                m: replace(x, owned={p: s for p, s in x.owned.items() if p in x.target})
                for m, x in state.members.items()
            }
        )

    with _patched("retarget", retarget):
        yield


@contextlib.contextmanager
def offsets_from_an_earlier_look() -> Iterator[None]:
    """A new owner starts from the offset that it saw when it first looked at the group."""
    real = Coordinator.take_over
    seen: dict[tuple[int, PartitionId], CommittedOffset | None] = {}

    def take_over(
        self: Coordinator, partitions: Iterable[PartitionId]
    ) -> dict[PartitionId, CommittedOffset | None]:
        found = real(self, partitions)
        return {p: seen.setdefault((id(self), p), offset) for p, offset in found.items()}

    with mock.patch.object(Coordinator, "take_over", take_over):
        yield


@contextlib.contextmanager
def loss_is_not_noticed() -> Iterator[None]:
    """A member that has a partition again, under a new `since`, reads on as if nothing was."""

    def compare(self: MemberSession, member: Member) -> Changes:
        owned, held = member.owned, self.held
        return Changes(
            {p: since for p, since in held.items() if p not in owned},
            member.to_release,
            {p: s for p, s in owned.items() if p not in held and p in member.target},
        )

    def thrown_out(self: MemberSession, state: GroupState) -> dict[PartitionId, int]:
        self.member_id = ""
        return {}

    with (
        mock.patch.object(MemberSession, "_compare", compare),
        mock.patch.object(MemberSession, "_thrown_out", thrown_out),
    ):
        yield


@contextlib.contextmanager
def generation_stays_when_members_go() -> Iterator[None]:
    """Putting members out does not begin a new generation, so that `since` may come twice."""
    real = handlers.leave

    def leave(state: GroupState, member_ids: list[str], now_ms: int) -> GroupState:
        generation = state.generation
        return replace(real(state, member_ids, now_ms), generation=generation)

    with mock.patch.object(handlers, "leave", leave):
        yield


def _patched(
    name: str, broken: Callable[[GroupState], GroupState]
) -> AbstractContextManager[object]:
    """Put a broken rule wherever it is used."""
    stack = contextlib.ExitStack()
    for module in (handlers, rebalance):
        stack.enter_context(mock.patch.object(module, name, broken))
    return stack


GROUP_MUTANTS: dict[str, GroupMutant] = {
    "since_is_not_compared": since_is_not_compared,
    "commit_without_fence": commit_without_fence,
    "handed_over_before_release": handed_over_before_release,
    "taken_without_release": taken_without_release,
    "offsets_from_an_earlier_look": offsets_from_an_earlier_look,
    "loss_is_not_noticed": loss_is_not_noticed,
    "generation_stays_when_members_go": generation_stays_when_members_go,
}
