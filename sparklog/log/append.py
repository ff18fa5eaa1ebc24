"""The append of a plain producer, as a pure rule over a topic's state."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sparklog.log.producer_state import ProducerState, is_duplicate, producer_state
from sparklog.log.segment import WrittenSegment
from sparklog.log.topic_state import PartitionOffsets, require_same_topic
from sparklog.table.actions import Action, Add, Txn
from sparklog.table.committer import Rule
from sparklog.table.table_state import TableState


@dataclass(frozen=True)
class Append:
    """Segments that one producer wants in one topic, at most one a partition."""

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
        offsets = PartitionOffsets.of(state)
        next_offsets = list(offsets.next)
        adds: list[Action] = []
        for segment in append.segments:
            offsets.check_partition(append.topic, segment.partition)
            adds.append(segment.to_add(next_offsets[segment.partition], now_ms))
            next_offsets[segment.partition] += segment.count
        after = ProducerState(append.epoch, append.base_sequence + append.count)
        return [
            Txn(append.app_id, after.version, now_ms),
            PartitionOffsets(offsets.start, tuple(next_offsets)).to_action(),
            *adds,
        ]

    return rule


def claim_rule(topic: str, topic_id: str, app_id: str, now_ms: int) -> Rule:
    """Begin a new epoch of a producer id: from then on older incarnations are fenced."""

    def rule(state: TableState) -> Sequence[Action]:
        require_same_topic(state, topic, topic_id)
        standing = producer_state(state, app_id)
        epoch, sequence = (standing.epoch + 1, standing.sequence) if standing else (0, 0)
        return [Txn(app_id, ProducerState(epoch, sequence).version, now_ms)]

    return rule


def base_offsets(actions: Sequence[Action]) -> dict[int, int]:
    """Where the segments of an append begin, by partition."""
    return {
        int(action.partition_values["partition"]): int(action.partition_values["base_offset"])
        for action in actions
        if isinstance(action, Add)
    }
