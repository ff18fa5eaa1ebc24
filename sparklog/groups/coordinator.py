"""The coordinator: runs a group's handlers against its table log. Anyone may; the put decides.

    request --> handler(newest state) --> actions --> Committer --won--> the new state
                     ^                                   |
                     '------------- lost race -----------'

There is no coordinator process: each member, Spark query or admin holds one of these, and the
group works as long as anybody calls. `state` is the group as this view last saw it, `refresh`
costs one failed `get` when there is nothing new.

Guarantees:
1. What a method returns or raises was decided on a state that stood at the moment of the append.
2. Requests are idempotent, so that one whose outcome is unknown may be made again: the committer
   settles the first attempt before a second can win.
3. A new owner has the incomplete decisions of its partitions rolled forward before it reads their
   offsets (`take_over`), by the hook that the transactions hand in.

Safe to share between threads: one request at a time. A decision composes handlers into an append
of its own with `append`, and a Spark query judges a logged batch by `state`.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence

from sparklog.clock import Clock, Ids
from sparklog.errors import UnsupportedError
from sparklog.groups import handlers
from sparklog.groups.group_state import (
    CommittedOffset,
    Decision,
    GroupState,
    Member,
    PartitionId,
)
from sparklog.groups.handlers import Handler, NewOffset, OffsetToCommit, rule_of
from sparklog.groups.logged_batch import LoggedBatch, commit_batch
from sparklog.groups.rebalance import Seen
from sparklog.log.housekeeping import Housekeeping
from sparklog.names import check_name, group_folder
from sparklog.storage import Store
from sparklog.table.actions import Commit
from sparklog.table.committer import Attempt, Committer, Rule
from sparklog.table.table_log import TableLog

TIMEOUT_SECONDS = 30.0

RollForward = Callable[[GroupState, Decision], None]
"""Completes a decided transaction: adds to its topics, then "complete" to this group's log."""


def refuse_decisions(state: GroupState, decision: Decision) -> None:
    """The hook of a sparklog that knows no transactions: it does not pass over what it meets."""
    raise UnsupportedError(
        f"group {state.name!r} holds a decided transaction of {decision.writer!r} that is not "
        "rolled forward: open its transactional producer, which does it"
    )


class Coordinator:
    """One client's view of a group, and its way to change it."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        ids: Ids,
        group: str,
        roll_forward: RollForward = refuse_decisions,
    ) -> None:
        """A coordinator of that group, which need not exist yet. Reads nothing."""
        self.group = check_name(group, "group")
        self.folder = group_folder(group)
        self.table_log = TableLog(store, self.folder, clock)
        self._clock = clock
        self._ids = ids
        self._committer = Committer(self.table_log, clock, ids)
        self._housekeeping = Housekeeping(store, self.folder, clock)
        self._roll_forward = roll_forward
        self._lock = threading.RLock()
        self._state = GroupState(group)

    @property
    def state(self) -> GroupState:
        """The group as last seen."""
        with self._lock:
            if self._state.version != self.table_log.state.version:
                self._state = GroupState.of(self.table_log.state, self.group)
            return self._state

    def refresh(self) -> GroupState:
        """The group as it stands now."""
        with self._lock:
            self.table_log.refresh()
            return self.state

    def append(
        self, operation: str, rule: Rule, timeout_seconds: float = TIMEOUT_SECONDS
    ) -> Commit | None:
        """Append what the rule says, durably; None if it had nothing to say.

        The entrance for whoever composes an append of several parts, as a decision does:
        `rule_of` makes a rule of handlers, `changes` the actions of a changed state.
        """
        with self._lock:
            attempt = Attempt(operation, self._ids.unique(), timeout_seconds=timeout_seconds)
            won = self._committer.commit(attempt, rule)
            if won is None:
                return None
            if self._housekeeping.due(self.table_log.state, won.commit.version):
                self._housekeeping.run()
            return won.commit

    def run(
        self, operation: str, handler: Handler, timeout_seconds: float = TIMEOUT_SECONDS
    ) -> GroupState:
        """Change the group as the handler says; returns the state after it."""
        with self._lock:
            rule = rule_of(handler, self.group, self._clock.now_ms())
            self.append(operation, rule, timeout_seconds)
            return self.state

    def join(
        self, member: Member, seen: Seen, timeout_seconds: float = TIMEOUT_SECONDS
    ) -> GroupState:
        """Enter the group, which begins with its first member."""
        new_id = self._new_group_id()

        def handler(state: GroupState) -> GroupState:
            now_ms = self._clock.now_ms()
            return handlers.join(handlers.begin(state, new_id, now_ms), member, seen, now_ms)

        return self.run("JOIN GROUP", handler, timeout_seconds)

    def update(self, member_id: str, topics: Sequence[str], seen: Seen) -> GroupState:
        """Want these topics from now on, or tell the group what became of them."""
        return self.run(
            "UPDATE MEMBER", lambda state: handlers.update(state, member_id, topics, seen)
        )

    def leave(self, member_id: str, timeout_seconds: float = TIMEOUT_SECONDS) -> GroupState:
        """Leave the group; what was owned goes to the others in the same append."""
        return self._out("LEAVE GROUP", [member_id], timeout_seconds)

    def expel(self, member_ids: Iterable[str]) -> GroupState:
        """Put members out that were silent for longer than they may be."""
        return self._out("EXPEL MEMBERS", list(member_ids), TIMEOUT_SECONDS)

    def release(self, member_id: str, partitions: Mapping[PartitionId, int]) -> GroupState:
        """Give up partitions (with the `since` of each); their next owners have them at once."""
        return self.run(
            "RELEASE PARTITIONS", lambda state: handlers.release(state, member_id, partitions)
        )

    def commit_offsets(
        self,
        member_id: str,
        offsets: Mapping[PartitionId, OffsetToCommit],
        timeout_seconds: float = TIMEOUT_SECONDS,
    ) -> GroupState:
        """Commit offsets of partitions that this member owns; CommitFailedError if it does not.

        Incomplete decisions that hold any of them are rolled forward first.
        """
        with self._lock:
            self._complete(self.state, offsets)
            return self.run(
                "COMMIT OFFSETS",
                lambda state: handlers.commit_offsets(
                    state, member_id, offsets, self._clock.now_ms()
                ),
                timeout_seconds,
            )

    def commit_batch(
        self, batch: LoggedBatch, timeout_seconds: float = TIMEOUT_SECONDS
    ) -> GroupState:
        """Move the offsets behind a query's logged batch, if it stands; else nothing.

        Incomplete decisions that hold any of its partitions are rolled forward first.
        """
        with self._lock:
            self._complete(self.state, batch.ranges)
            return self.run(
                "COMMIT OFFSETS",
                lambda state: commit_batch(state, batch, self._clock.now_ms()),
                timeout_seconds,
            )

    def set_offsets(self, offsets: Mapping[PartitionId, NewOffset | None]) -> GroupState:
        """Set offsets as an admin, of a group without members; None takes one away."""
        new_id = self._new_group_id()

        def handler(state: GroupState) -> GroupState:
            now_ms = self._clock.now_ms()
            state = handlers.begin(state, new_id, now_ms)
            return handlers.set_offsets(state, offsets, now_ms)

        with self._lock:
            self._complete(self.state, offsets)
            return self.run("SET OFFSETS", handler)

    def delete(self) -> None:
        """End the group: it must have no members."""
        self.run("DELETE GROUP", handlers.delete)

    def take_over(
        self, partitions: Iterable[PartitionId]
    ) -> dict[PartitionId, CommittedOffset | None]:
        """The committed offsets of partitions that were just given to the caller.

        Every incomplete decision that has one of them is rolled forward first, so that nothing of
        the new owner can overtake what the old one had decided.
        """
        with self._lock:
            wanted = list(partitions)
            self._complete(self.refresh(), wanted)
            return {partition: self.state.offsets.get(partition) for partition in wanted}

    def _out(self, operation: str, member_ids: Sequence[str], timeout_seconds: float) -> GroupState:
        return self.run(
            operation,
            lambda state: handlers.leave(state, member_ids, self._clock.now_ms()),
            timeout_seconds,
        )

    def _complete(self, state: GroupState, partitions: Iterable[PartitionId]) -> None:
        """Roll forward the incomplete decisions that hold any of these partitions."""
        if not state.decisions:
            return
        wanted = set(partitions)
        for decision in list(state.decisions.values()):
            if wanted & decision.partitions:
                self._roll_forward(state, decision)
        self.refresh()

    def _new_group_id(self) -> str:
        digits = self._ids.unique()
        return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))
