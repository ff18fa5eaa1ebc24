"""The append of a plain producer, as a pure rule over a topic's state."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sparklog.log.producer_state import (
    ProducerState,
    check_not_fenced,
    is_duplicate,
    producer_state,
)
from sparklog.log.segment import WrittenSegment
from sparklog.log.topic_state import PartitionOffsets, require_same_topic
from sparklog.table.actions import Action, Add, Txn
from sparklog.table.committer import Rule
from sparklog.table.table_state import TableState


@dataclass(frozen=True)
class Append:
    """Segments that one producer wants in one topic, in the order of their records."""

    topic: str
    topic_id: str
    app_id: str
    epoch: int
    base_sequence: int
    segments: tuple[WrittenSegment, ...]

    @property
    def count(self) -> int:
        """How many records they hold."""
        return sum(segment.count for segment in self.segments)


def append_rule(append: Append, now_ms: int) -> Rule:
    """Give the segments the next offsets; nothing to do if they stand already."""

    def rule(state: TableState) -> Sequence[Action] | None:
        require_same_topic(state, append.topic, append.topic_id)
        standing = producer_state(state, append.app_id)
        if is_duplicate(standing, append.app_id, append.epoch, append.base_sequence, append.count):
            return None
        after = ProducerState(append.epoch, append.base_sequence + append.count)
        return [
            Txn(append.app_id, after.version, now_ms),
            *assign_offsets(state, append.topic, append.segments, now_ms),
        ]

    return rule


def assign_offsets(
    state: TableState, topic: str, segments: Sequence[WrittenSegment], now_ms: int
) -> list[Action]:
    """Give the segments the next offsets of their partitions, in this order."""
    offsets = PartitionOffsets.of(state)
    next_offsets = list(offsets.next)
    adds: list[Action] = []
    for segment in segments:
        offsets.check_partition(topic, segment.partition)
        adds.append(segment.to_add(next_offsets[segment.partition], now_ms))
        next_offsets[segment.partition] += segment.count
    return [PartitionOffsets(offsets.start, tuple(next_offsets)).to_action(), *adds]


def claim_rule(
    topic: str, topic_id: str, app_id: str, now_ms: int, held: int | None = None
) -> Rule:
    """Begin a new epoch of a producer id: from then on older incarnations are fenced.

    A producer that held an epoch before begins the next one only if nobody else did meanwhile.
    """

    def rule(state: TableState) -> Sequence[Action]:
        require_same_topic(state, topic, topic_id)
        standing = producer_state(state, app_id)
        if held is not None:
            check_not_fenced(standing, app_id, held)
        epoch, sequence = (standing.epoch + 1, standing.sequence) if standing else (0, 0)
        return [Txn(app_id, ProducerState(epoch, sequence).version, now_ms)]

    return rule


def base_offsets(actions: Sequence[Action]) -> dict[int, int]:
    """Where the segments of an append begin, by partition: the first one of each."""
    found: dict[int, int] = {}
    for action in actions:
        if isinstance(action, Add):
            base = int(action.partition_values["base_offset"])
            found.setdefault(int(action.partition_values["partition"]), base)
    return found
