"""A topic's state, read from its table's state: identity, partitions, offsets, configuration."""

from __future__ import annotations

import json
from dataclasses import dataclass

from sparklog.errors import (
    CorruptCommitError,
    TopicReplacedError,
    UnknownPartitionError,
    UnknownTopicError,
)
from sparklog.table.actions import DomainMetadata
from sparklog.table.table_state import TableState

OFFSETS_DOMAIN = "sparklog.offsets"
TOPIC_DOMAIN = "sparklog.topic"


@dataclass(frozen=True)
class PartitionOffsets:
    """Start (first readable) and next (to be given) offset of every partition."""

    start: tuple[int, ...]
    next: tuple[int, ...]

    @classmethod
    def empty(cls, partitions: int) -> PartitionOffsets:
        """Those of a new topic."""
        return cls((0,) * partitions, (0,) * partitions)

    @classmethod
    def of(cls, state: TableState) -> PartitionOffsets:
        """As the newest commit states them."""
        try:
            body = json.loads(state.domains[OFFSETS_DOMAIN])
            start, end = tuple(body["start"]), tuple(body["next"])
            if len(start) != len(end) or not {*map(type, start + end)} <= {int}:
                raise ValueError(state.domains[OFFSETS_DOMAIN])
            return cls(start, end)
        except (KeyError, ValueError, TypeError, RecursionError) as error:
            raise _malformed(state, OFFSETS_DOMAIN, error) from error

    def to_action(self) -> DomainMetadata:
        """As a commit carries them."""
        body = {"start": self.start, "next": self.next}
        return DomainMetadata(OFFSETS_DOMAIN, json.dumps(body, separators=(",", ":")))

    def check_partition(self, topic: str, partition: int) -> None:
        """Raise unless the topic has this partition."""
        if not 0 <= partition < len(self.next):
            raise UnknownPartitionError(
                f"topic {topic!r} has no partition {partition}; it has {len(self.next)} "
                f"(0 to {len(self.next) - 1})"
            )


def deleted_action(deleted: bool) -> DomainMetadata:
    """The action that marks the topic deleted, or alive again."""
    return DomainMetadata(TOPIC_DOMAIN, json.dumps({"deleted": deleted}))


def is_alive(state: TableState) -> bool:
    """Whether a topic stands here: created, and not deleted since."""
    if not state.exists:
        return False
    try:
        deleted = json.loads(state.domains[TOPIC_DOMAIN])["deleted"]
        if type(deleted) is not bool:
            raise ValueError(state.domains[TOPIC_DOMAIN])
    except (KeyError, ValueError, TypeError, RecursionError) as error:
        raise _malformed(state, TOPIC_DOMAIN, error) from error
    return not deleted


def _malformed(state: TableState, domain: str, error: Exception) -> CorruptCommitError:
    return CorruptCommitError(
        f"table log {state.folder} at version {state.version}: domain {domain} is missing or "
        f"malformed: {error!r}"
    )


def require_topic(state: TableState, topic: str) -> None:
    """Raise unless the topic stands."""
    if not is_alive(state):
        raise UnknownTopicError(
            f"topic {topic!r} does not exist; create it with log.create_topic({topic!r}) "
            f"or `sparklog topics create {topic}`"
        )


def require_same_topic(state: TableState, topic: str, topic_id: str) -> None:
    """Raise unless the topic is still the very one that was opened."""
    if not is_alive(state):
        raise TopicReplacedError(f"topic {topic!r} (id {topic_id}) was deleted; open a new client")
    if state.metadata is None or state.metadata.id != topic_id:
        raise TopicReplacedError(
            f"topic {topic!r} was deleted and created again: this client opened id {topic_id}; "
            "open a new client for the new topic"
        )
