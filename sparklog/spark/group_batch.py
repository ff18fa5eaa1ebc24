"""The stream offset of a query that is a member of a group: one logged batch, as JSON.

    {"group": "billing", "id": "7d0e...",
     "topics": {"orders": {"id": "0c5f...",
                           "partitions": {"0": {"since": 3, "from": 120, "to": 180}}}}}

It says what the batch reads and under which ownership, so that `stands` can judge it in any run of
the query, and the sink can decide it.
"""

from __future__ import annotations

from typing import Any

from sparklog.errors import InvalidInputError
from sparklog.groups.group_state import PartitionId
from sparklog.groups.logged_batch import LoggedBatch, LoggedRange


def batch_to_json(group: str, batch: LoggedBatch) -> dict[str, Any]:
    """As Spark keeps it; equal batches give equal text."""
    topics: dict[str, Any] = {}
    ordered = sorted(batch.ranges.items(), key=lambda item: (item[1].topic, item[0]))
    for partition, planned in ordered:
        of_topic = topics.setdefault(planned.topic, {"id": partition.topic_id, "partitions": {}})
        of_topic["partitions"][str(partition.partition)] = {
            "since": planned.since,
            "from": planned.start,
            "to": planned.end,
        }
    return {"group": group, "id": batch.group_id, "topics": topics}


def batch_from_json(group: str, body: Any) -> LoggedBatch:
    """From what Spark kept; a checkpoint of another source or group is an error that says so."""
    try:
        named = body["group"]
        batch = LoggedBatch(
            body["id"],
            {
                PartitionId(of_topic["id"], int(number)): LoggedRange(
                    topic, planned["since"], planned["from"], planned["to"]
                )
                for topic, of_topic in body["topics"].items()
                for number, planned in of_topic["partitions"].items()
            },
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise InvalidInputError(
            f"the query's checkpoint holds {body!r:.200}, which is not an offset of a member of "
            f"group {group!r}: it belongs to another query, or to this one without group.id. Give "
            "this query a checkpointLocation of its own"
        ) from error
    if named != group:
        raise InvalidInputError(
            f"the query's checkpoint is of group {named!r}, but the option group.id says "
            f"{group!r}: a query keeps its group. Give it a new checkpointLocation"
        )
    return batch
