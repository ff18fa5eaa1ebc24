"""A Spark query's micro-batch as its checkpoint logged it, judged against the group's state.

A logged batch is read and decided exactly as logged, or it is void. It stands as long as every
partition in it is owned since the logged generation and its committed offset is where the batch
begins, whichever run of the query asks: a driver that was restarted within its old member's
session finishes under the old `since`. Once a batch does not stand it never will again, because
`since` only grows and an offset that its owner moved does not come back under the same `since`;
its records are read again by whoever owns the partitions then.

Pure functions: state in, state out.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from sparklog.groups.group_state import CommittedOffset, GroupState, PartitionId
from sparklog.groups.handlers import require_not_held


@dataclass(frozen=True)
class LoggedRange:
    """Offsets [start, end) of one partition, and the ownership under which they were planned."""

    topic: str
    since: int
    start: int
    end: int
    log_end: int = -1


@dataclass(frozen=True)
class LoggedBatch:
    """What one micro-batch of a query reads as a member of a group."""

    group_id: str
    ranges: Mapping[PartitionId, LoggedRange]


def stands(state: GroupState, batch: LoggedBatch) -> bool:
    """Whether the batch may still be read and decided."""
    if state.group_id != batch.group_id:
        return False
    return all(
        partition in state.owners
        and state.owners[partition].since == planned.since
        and partition in state.offsets
        and state.offsets[partition].offset == planned.start
        for partition, planned in batch.ranges.items()
    )


def commit_batch(
    state: GroupState, batch: LoggedBatch, now_ms: int, decision_of: str | None = None
) -> GroupState:
    """Move the offsets behind the batch if it stands; else the same state: it is void."""
    if not batch.ranges or not stands(state, batch):
        return state
    moved = dict(state.offsets)
    for partition, planned in batch.ranges.items():
        require_not_held(state, partition, decision_of)
        moved[partition] = CommittedOffset(
            planned.end,
            "",
            now_ms,
            planned.topic,
            planned.log_end,
            state.owners[partition].member_id,
        )
    return replace(state, offsets=moved)
