"""Offsets as a consumer names them: by topic and number, with metadata of the caller's own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from sparklog.errors import InvalidInputError
from sparklog.groups.group_state import PartitionId
from sparklog.groups.handlers import OffsetToCommit

TopicPartition: TypeAlias = tuple[str, int]


class OffsetAndMetadata(NamedTuple):
    """Where to go on: the offset of the next record, and what its committer wrote beside it."""

    offset: int
    metadata: str = ""


@dataclass(frozen=True)
class GroupOffsets:
    """A consumer's positions, with all that fences them: what a transaction decides on."""

    group: str
    group_id: str
    member_id: str
    offsets: Mapping[PartitionId, OffsetToCommit]


def parse_offsets(
    offsets: Mapping[TopicPartition, object],
) -> dict[TopicPartition, OffsetAndMetadata]:
    """Offsets as callers write them: a number, or a pair of number and metadata."""
    parsed: dict[TopicPartition, OffsetAndMetadata] = {}
    for place, wanted in offsets.items():
        if isinstance(wanted, tuple) and 1 <= len(wanted) <= 2:
            found = OffsetAndMetadata(*wanted)
        else:
            found = OffsetAndMetadata(wanted)  # type: ignore[arg-type]
        if isinstance(found.offset, bool) or not isinstance(found.offset, int) or found.offset < 0:
            raise InvalidInputError(
                f"{place}: an offset to commit is a whole number from 0, alone or with metadata, "
                f"not {wanted!r}"
            )
        parsed[place] = found
    return parsed
