"""`sparklog consume --group`: read as a member of a consumer group.

It starts at the committed offsets, shares the partitions with the group's other members, and
commits what it has printed: at least once. `--from` only says where to start in a partition that
the group has no offset of.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from sparklog.clients.consumer import Consumer
    from sparklog.clients.log import Log
    from sparklog.log.records import Record

POLL_MS = 1000
RECORDS_EACH_MAX = 500


def open_member(
    log: Log,
    topic: str,
    group: str,
    partition: int | None,
    where: tuple[str, int],
    most: int | None,
) -> Consumer:
    """A member of the group that reads this topic."""
    if partition is not None:
        raise typer.BadParameter(
            "the group says who reads which partition", param_hint="--partition"
        )
    if where[0] not in ("earliest", "latest"):
        raise typer.BadParameter(
            "a group starts at its committed offsets, else at earliest or latest; to move them "
            "use `sparklog groups reset-offsets`",
            param_hint="--from",
        )
    each = RECORDS_EACH_MAX if most is None else max(1, min(RECORDS_EACH_MAX, most))
    return log.consumer(
        topic,
        group_id=group,
        auto_offset_reset=where[0],
        enable_auto_commit=False,
        max_poll_records=each,
    )


def group_batches(
    consumer: Consumer, ends: dict[int, int] | None, most: int | None
) -> Iterator[list[Record]]:
    """Records poll by poll; what was given is committed when the next is asked for.

    Without `ends` for ever; else until what this member has is read up to there.
    """
    left = most
    while left is None or left > 0:
        records = consumer.poll(POLL_MS)
        if not records and ends is not None and _caught_up(consumer, ends):
            return
        if left is not None and len(records) > left:
            for record in reversed(records[left:]):
                consumer.seek(record.topic, record.partition, record.offset)
            records = records[:left]
        if records:
            yield records
            consumer.commit()
            left = None if left is None else left - len(records)
            if ends is not None and _caught_up(consumer, ends):
                return


def _caught_up(consumer: Consumer, ends: dict[int, int]) -> bool:
    places = consumer.assignment()
    return all(consumer.position(*place) >= ends.get(place[1], 0) for place in places)
