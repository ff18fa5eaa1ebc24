"""A query's stream offset: how far it has come in each partition, as Spark's checkpoint keeps it.

    {"orders": {"id": "0c5f...", "offsets": {"0": 120, "1": 98}}}

It carries topic ids, so that a query that slept while its topic was deleted and created again
finds out, and never takes the new topic's records for the old one's.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from sparklog.errors import InvalidInputError

StreamOffset: TypeAlias = "Mapping[str, TopicOffsets]"


@dataclass(frozen=True)
class TopicOffsets:
    """The next offset to read of each partition of one topic, and the topic's id."""

    topic_id: str
    next: Mapping[int, int] = field(default_factory=dict)


def to_json(offset: StreamOffset) -> dict[str, Any]:
    """As Spark keeps it; equal offsets give equal text."""
    return {
        topic: {
            "id": of_topic.topic_id,
            "offsets": {str(p): of_topic.next[p] for p in sorted(of_topic.next)},
        }
        for topic, of_topic in sorted(offset.items())
    }


def from_json(body: Any) -> StreamOffset:
    """From what Spark kept; a checkpoint of another source is an error that says so."""
    try:
        return {
            topic: TopicOffsets(
                str(of_topic["id"]),
                {int(p): int(offset) for p, offset in of_topic["offsets"].items()},
            )
            for topic, of_topic in body.items()
        }
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise InvalidInputError(
            f"the query's checkpoint holds {body!r:.200}, which is not an offset of the sparklog "
            "source: it belongs to another query. Give this query a checkpointLocation of its own"
        ) from error
