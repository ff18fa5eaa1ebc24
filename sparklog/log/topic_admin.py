"""Creating, changing and deleting topics: each a pure rule over the topic's state.

A table log is never deleted. Deleting a topic is a commit that removes its files and marks it
deleted; creating it again is the next commit, with a new id. Whoever slept through both finds
another id and stops.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from sparklog.config import TOPIC_CONFIG, check_topic_config
from sparklog.errors import InvalidConfigError, TopicExistsError
from sparklog.log.schema import PARTITION_COLUMNS, delta_schema_string
from sparklog.log.topic_state import PartitionOffsets, deleted_action, is_alive, require_topic
from sparklog.table.actions import Action, Metadata, Protocol, Remove
from sparklog.table.committer import Rule
from sparklog.table.table_state import TableState

PARTITIONS_MAX = 10_000


def check_partitions(partitions: object) -> int:
    """Return the number of partitions if it is possible, else raise."""
    if isinstance(partitions, bool) or not isinstance(partitions, int):
        raise InvalidConfigError(f"partitions must be a whole number, not {partitions!r}")
    if not 1 <= partitions <= PARTITIONS_MAX:
        raise InvalidConfigError(f"partitions is {partitions}; 1 to {PARTITIONS_MAX} are allowed")
    return partitions


def create_rule(
    topic: str, topic_id: str, partitions: int, config: Mapping[str, str], now_ms: int
) -> Rule:
    """Create the topic, for the first time or again."""

    def rule(state: TableState) -> Sequence[Action]:
        if is_alive(state):
            raise TopicExistsError(f"topic {topic!r} exists already; delete it first, or use it")
        return [
            Protocol(),
            Metadata(
                id=topic_id,
                name=topic,
                schema_string=delta_schema_string(),
                partition_columns=PARTITION_COLUMNS,
                configuration=dict(config),
                created_time=now_ms,
            ),
            deleted_action(False),
            PartitionOffsets.empty(partitions).to_action(),
        ]

    return rule


def delete_rule(topic: str, now_ms: int) -> Rule:
    """Remove all files and mark the topic deleted."""

    def rule(state: TableState) -> Sequence[Action]:
        require_topic(state, topic)
        removes = [Remove(path, now_ms, True) for path in state.files.paths()]
        partitions = len(PartitionOffsets.of(state).next)
        return [deleted_action(True), PartitionOffsets.empty(partitions).to_action(), *removes]

    return rule


def alter_rule(topic: str, changes: Mapping[str, object | None]) -> Rule:
    """Change configuration; None takes an override away."""
    removed = {key for key, value in changes.items() if value is None}
    wanted = {key: value for key, value in changes.items() if value is not None}

    def rule(state: TableState) -> Sequence[Action] | None:
        require_topic(state, topic)
        assert state.metadata is not None
        kept = {k: v for k, v in state.metadata.configuration.items() if k not in removed}
        # Keys are checked against each other too, so against all that will stand; a key that a
        # newer sparklog stored is left alone.
        known = {k: v for k, v in kept.items() if k in TOPIC_CONFIG}
        configuration = {**kept, **check_topic_config({**known, **wanted})}
        if configuration == dict(state.metadata.configuration):
            return None
        return [replace(state.metadata, configuration=configuration)]

    return rule


def add_partitions_rule(topic: str, total: int) -> Rule:
    """Grow the topic to `total` partitions; partitions never become fewer."""
    check_partitions(total)

    def rule(state: TableState) -> Sequence[Action] | None:
        require_topic(state, topic)
        offsets = PartitionOffsets.of(state)
        more = total - len(offsets.next)
        if more < 0:
            raise InvalidConfigError(
                f"topic {topic!r} has {len(offsets.next)} partitions; "
                f"it cannot shrink to {total}: records would lose their place"
            )
        if more == 0:
            return None
        zeros = (0,) * more
        return [PartitionOffsets(offsets.start + zeros, offsets.next + zeros).to_action()]

    return rule
