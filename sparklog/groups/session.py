"""A member's session: one participant's place in a group, whatever it is that reads.

    look() --> Changes(lost, to_release, gained) --> the participant acts --> release / hold

Python consumers and Spark queries are members through this one class. It joins when it is not in
(also after it was expelled), keeps its heart beating, tells the group what it sees of its topics,
and compares what the group says that it owns with what its participant holds. It never acts on
partitions by itself: the participant stops reading what was lost, commits and then releases what
must move, and reads from `take_over`'s offsets what it gained.

`held` is what the participant may read and commit: each partition with the `since` that fences it.
One owner, one thread; only the keeper works beside it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from sparklog.clock import Clock, Ids
from sparklog.errors import StoreError, UnknownMemberError
from sparklog.groups import handlers
from sparklog.groups.coordinator import Coordinator, RollForward, refuse_decisions
from sparklog.groups.group_state import CommittedOffset, GroupState, Member, PartitionId
from sparklog.groups.handlers import OffsetToCommit
from sparklog.groups.heartbeats import Heartbeats
from sparklog.groups.keeper import Keeper
from sparklog.groups.rebalance import Seen
from sparklog.groups.topic_views import TopicViews
from sparklog.storage import Store

CHEAP_STORE_LINGER_MS_MAX = 50
LEAVE_SECONDS = 5.0

_NOT_LEGAL = re.compile(r"[^a-zA-Z0-9.-]")


@dataclass(frozen=True)
class Subscription:
    """What a member wants: topics by name, or all that a pattern matches."""

    topics: tuple[str, ...] = ()
    pattern: re.Pattern[str] | None = None


@dataclass(frozen=True)
class SessionSettings:
    """How a member takes part; the names are those of the consumer's configuration."""

    group: str
    strategies: tuple[str, ...] = ("cooperative-sticky",)
    client_id: str = ""
    instance_id: str | None = None
    session_timeout_ms: int = 45_000
    heartbeat_interval_ms: int = 3000
    max_poll_interval_ms: int = 300_000
    metadata_max_age_ms: int = 5000


@dataclass(frozen=True)
class Changes:
    """What became different between what the participant holds and what the group says."""

    lost: Mapping[PartitionId, int] = field(default_factory=dict)
    """Held, but no longer owned: stop reading; there is nothing to commit any more."""
    to_release: Mapping[PartitionId, int] = field(default_factory=dict)
    """Owned, but to be another's: stop reading, commit, then `release`."""
    gained: Mapping[PartitionId, int] = field(default_factory=dict)
    """Owned and not held yet: read from what `take_over` says, then `hold`."""

    def __bool__(self) -> bool:
        """Whether there is anything to do."""
        return bool(self.lost or self.to_release or self.gained)


class MemberSession:
    """One participant's membership in one group."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        ids: Ids,
        settings: SessionSettings,
        *,
        background: bool = True,
        roll_forward: RollForward = refuse_decisions,
    ) -> None:
        """Not in the group before the first `look` after `subscribe`.

        Without `background` the heart beats in `look`, which then must be called often enough.
        """
        self.settings = settings
        self.coordinator = Coordinator(store, clock, ids, settings.group, roll_forward)
        self.topics = TopicViews(store, clock)
        self.held: dict[PartitionId, int] = {}
        self.member_id = ""
        """The id under which it is in the group; a new one for each time it joins."""
        self._group_id = ""
        self._clock = clock
        self._ids = ids
        self._background = background
        self._subscription = Subscription()
        self._wanted: tuple[str, ...] = ()
        self._joining = ""
        self._metadata_at = float("-inf")
        self._heartbeats = Heartbeats(store, clock, settings.group)
        self._keeper = Keeper(
            self.coordinator,
            Heartbeats(store, clock, settings.group),
            clock,
            settings.heartbeat_interval_ms,
            settings.max_poll_interval_ms,
            looks_are_cheap=store.linger_ms_default <= CHEAP_STORE_LINGER_MS_MAX,
        )

    @property
    def state(self) -> GroupState:
        """The group as last seen."""
        return self.coordinator.state

    @property
    def subscribed(self) -> bool:
        """Whether it wants anything."""
        return self._subscription != Subscription()

    def subscribe(self, subscription: Subscription) -> list[str]:
        """Want these topics from the next `look` on; returns those that stand now."""
        self._subscription = subscription
        self._metadata_at = float("-inf")
        return [name for name, seen in self._see().topics.items() if seen is not None]

    def look_soon(self) -> None:
        """Topics have changed: look at them in the next `look`, whatever their age."""
        self._metadata_at = float("-inf")

    def look(self) -> Changes:
        """Take part: join if need be, and see what the group says."""
        self._keeper.note_poll()
        state = self.coordinator.refresh()
        if self.member_id and not self._still_in(state):
            return Changes(lost=self._thrown_out(state))
        if not self.subscribed:
            return Changes()
        if not self.member_id:
            state = self._join()
        elif self._clock.monotonic() >= self._metadata_at:
            seen = self._see()
            try:
                state = self.coordinator.update(self.member_id, self._wanted, seen)
            except UnknownMemberError:
                return Changes(lost=self._thrown_out(self.coordinator.state))
        if not self._background:
            self._keeper.tick()
        return self._compare(state.members[self.member_id])

    def seconds_to_tick(self) -> float:
        """How long until `look` must be called again, where no thread keeps the heart beating."""
        if self._background or not self.member_id:
            return float("inf")
        return max(0.0, self._keeper.tick() - self._clock.monotonic())

    def seconds_to_look(self) -> float:
        """How long until topics are to be looked at again."""
        return max(0.0, self._metadata_at - self._clock.monotonic())

    def take_over(
        self, partitions: Mapping[PartitionId, int]
    ) -> dict[PartitionId, CommittedOffset | None]:
        """Where to go on in partitions that were gained; never kept from an earlier time."""
        return self.coordinator.take_over(partitions)

    def hold(self, partitions: Mapping[PartitionId, int]) -> None:
        """The participant reads these from now on."""
        self.held.update(partitions)

    def drop(self, partitions: Mapping[PartitionId, int]) -> None:
        """The participant has stopped reading these."""
        for partition in partitions:
            self.held.pop(partition, None)

    def release(self, partitions: Mapping[PartitionId, int]) -> None:
        """Give up what the participant has stopped reading: its next owner has it at once."""
        self.drop(partitions)
        try:
            self.coordinator.release(self.member_id, partitions)
        except UnknownMemberError:
            pass  # expelled meanwhile: there is nothing left to give up, and the next look says so

    def commit(self, offsets: Mapping[PartitionId, OffsetToCommit]) -> None:
        """Commit offsets, each fenced by the `since` in it; CommitFailedError if one was lost."""
        self.commit_by(self.coordinator, self.member_id, offsets)

    def commit_by(
        self,
        coordinator: Coordinator,
        member_id: str,
        offsets: Mapping[PartitionId, OffsetToCommit],
    ) -> None:
        """The same through another view of the group: for a thread that commits beside."""
        if not member_id:
            raise UnknownMemberError(
                f"group {self.settings.group!r}: nothing can be committed while this is no member "
                "of the group; poll joins it"
            )
        try:
            coordinator.commit_offsets(member_id, offsets)
        except UnknownMemberError:
            handlers.require_instance(coordinator.state, member_id, self.settings.instance_id)
            raise

    def close(self, *, leave: bool = True) -> None:
        """Leave the group, so that others need not wait for the session's end.

        A static member stays: it is expected back within its session timeout.
        """
        self._keeper.stop()
        self._keeper.keep("", static=False)
        if not self.member_id:
            return
        member_id, self.member_id = self.member_id, ""
        self.held.clear()
        if leave and self.settings.instance_id is None:
            self.coordinator.leave(member_id, LEAVE_SECONDS)
            self._heartbeats.remove(member_id)

    def _still_in(self, state: GroupState) -> bool:
        return state.group_id == self._group_id and self.member_id in state.members

    def _thrown_out(self, state: GroupState) -> dict[PartitionId, int]:
        """Expelled, or the group is another: all is lost, and the next look joins anew."""
        self._keeper.keep("", static=False)
        member_id = self.member_id
        lost, self.held, self.member_id = self.held, {}, ""
        if state.group_id == self._group_id:
            try:
                handlers.require_instance(state, member_id, self.settings.instance_id)
            except Exception:
                self._subscription = Subscription()  # fenced for good: it must not join again
                raise
        return lost

    def _join(self) -> GroupState:
        # An attempt whose outcome was unknown is repeated under the same id: it may have won.
        settings = self.settings
        self._joining = self._joining or self._new_member_id()
        seen = self._see()
        member = Member(
            member_id=self._joining,
            topics=self._wanted,
            strategies=settings.strategies,
            session_timeout_ms=settings.session_timeout_ms,
            instance_id=settings.instance_id,
            client_id=settings.client_id,
        )
        before = self.coordinator.state
        state = self.coordinator.join(member, seen)
        self.member_id, self._joining = self._joining, ""
        self._group_id = state.group_id
        self._keeper.keep(self.member_id, settings.instance_id is not None)
        if self._background:
            self._keeper.start()
        if settings.instance_id is not None:
            self._tidy_up(before.members.keys() - state.members.keys())
        return state

    def _tidy_up(self, member_ids: Iterable[str]) -> None:
        """Remove the heartbeats of those whose place was taken; a failure only leaves them."""
        for member_id in sorted(member_ids):
            try:
                self._heartbeats.remove(member_id)
            except StoreError:
                return

    def _new_member_id(self) -> str:
        name = _NOT_LEGAL.sub("-", self.settings.client_id)[:100] or "member"
        return f"{name}-{self._ids.unique()}"

    def _see(self) -> Seen:
        """Look at the topics that are wanted; a pattern is matched anew."""
        now = self._clock.monotonic()
        subscription = self._subscription
        names = subscription.topics
        if subscription.pattern is not None:
            names = tuple(self.topics.matching(subscription.pattern))
        seen = self.topics.look(names)
        self._wanted = tuple(sorted(names))
        self._metadata_at = now + self.settings.metadata_max_age_ms / 1000
        return Seen(seen)

    def _compare(self, member: Member) -> Changes:
        owned, held = member.owned, self.held
        lost = {p: since for p, since in held.items() if owned.get(p) != since}
        to_release = member.to_release
        gained = {
            p: since for p, since in owned.items() if held.get(p) != since and p not in to_release
        }
        return Changes(lost, to_release, gained)
