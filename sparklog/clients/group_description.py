"""What a group looks like to a person: members, partitions, lag, and the plan of a reset."""

from __future__ import annotations

from dataclasses import dataclass

from sparklog.clients.offsets import TopicPartition

EMPTY = "Empty"
STABLE = "Stable"
REBALANCING = "Rebalancing"


@dataclass(frozen=True)
class MemberDescription:
    """One member as `describe` shows it."""

    member_id: str
    client_id: str
    instance_id: str | None
    topics: tuple[str, ...]
    assignment: tuple[TopicPartition, ...]
    """What it owns now."""
    target: tuple[TopicPartition, ...]
    """What it owns once everything that moves has moved."""


@dataclass(frozen=True)
class PartitionLag:
    """One partition as `describe` shows it."""

    topic: str
    partition: int
    offset: int | None
    """The committed offset; None without one."""
    log_start: int
    log_end: int
    lag: int
    """Records from the committed offset to the end; all there are where none is committed."""
    member_id: str | None
    """Who owns it; None while nobody does."""
    metadata: str
    committed_ms: int | None


@dataclass(frozen=True)
class GroupDescription:
    """A group as `describe` shows it."""

    name: str
    id: str
    state: str
    """Empty, Stable, or Rebalancing: some partition is not yet where it is to be."""
    generation: int
    strategy: str
    version: int
    members: tuple[MemberDescription, ...]
    partitions: tuple[PartitionLag, ...]

    @property
    def lag(self) -> int:
        """The lag of all partitions together."""
        return sum(partition.lag for partition in self.partitions)


@dataclass(frozen=True)
class OffsetChange:
    """One partition's offset before and after a reset or a copy; None is without one."""

    topic: str
    partition: int
    before: int | None
    after: int | None
