"""A handle on one consumer group: look at it, move its offsets, end it.

What changes offsets needs a group without members, so that no running member's positions can
contradict what is committed. Each such change takes `dry_run=True`, which only says what it would
do. Lag is counted to the end of the log as it is at the call.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial

import pyarrow as pa

from sparklog.clients.group_description import (
    EMPTY,
    REBALANCING,
    STABLE,
    GroupDescription,
    MemberDescription,
    OffsetChange,
    PartitionLag,
)
from sparklog.clients.group_history import read_history
from sparklog.clients.offsets import TopicPartition
from sparklog.clients.reset_target import ResetTarget
from sparklog.clock import Clock, Ids
from sparklog.config import check_group_config
from sparklog.errors import InvalidInputError, UnknownGroupError, UnknownTopicError
from sparklog.groups import handlers
from sparklog.groups.coordinator import Coordinator
from sparklog.groups.group_state import GroupState, PartitionId
from sparklog.groups.handlers import NewOffset
from sparklog.log.topic_reader import TopicReader
from sparklog.names import check_name
from sparklog.storage import Store


class Group:
    """A consumer group of a log; made by `log.group`. It need not exist yet."""

    def __init__(self, store: Store, clock: Clock, ids: Ids, name: str) -> None:
        """Reads nothing."""
        self.name = name
        self._store = store
        self._clock = clock
        self._ids = ids
        self._coordinator = Coordinator(store, clock, ids, name)

    def describe(self) -> GroupDescription:
        """Members, assignment, offsets and lag as of now; UnknownGroupError without the group."""
        state = self._state()
        readers = self._readers(state)
        ids = {reader.topic_id: name for name, reader in readers.items()}
        status = EMPTY
        if state.members:
            status = STABLE if state.settled else REBALANCING
        members = tuple(
            MemberDescription(
                member.member_id,
                member.client_id,
                member.instance_id,
                member.topics,
                _places(ids, member.owned),
                _places(ids, member.target),
            )
            for _, member in sorted(state.members.items())
        )
        partitions = tuple(
            _partition_lag(state, reader, number)
            for _, reader in sorted(readers.items())
            for number in range(len(reader.offsets.next))
            if _concerns(state, PartitionId(reader.topic_id, number))
        )
        return GroupDescription(
            self.name,
            state.group_id,
            status,
            state.generation,
            state.strategy,
            state.version,
            members,
            partitions,
        )

    def lag(self) -> dict[TopicPartition, int]:
        """How many records each partition has behind the committed offset, all if none is."""
        return {(p.topic, p.partition): p.lag for p in self.describe().partitions}

    def offsets(self) -> dict[TopicPartition, int]:
        """The committed offsets."""
        found = self.describe().partitions
        return {(p.topic, p.partition): p.offset for p in found if p.offset is not None}

    def history(self) -> pa.Table:
        """Every offset commit that the group's log still holds, with its time and its lag then."""
        self._state()
        return read_history(self._coordinator.table_log)

    def reset_offsets(
        self,
        topic: str | None = None,
        partitions: Iterable[int] | None = None,
        *,
        to: str | int | None = None,
        to_timestamp_ms: int | None = None,
        shift_by: int | None = None,
        by_duration_ms: int | None = None,
        dry_run: bool = False,
    ) -> list[OffsetChange]:
        """Move offsets of an empty group; without a topic those of all it has committed.

        Exactly one of: `to` "earliest", "latest" or an offset; `to_timestamp_ms`; `shift_by` so
        many records, either way; `by_duration_ms`, to so long before now. A group that does not
        exist begins with the offsets that are set for it.
        """
        target = ResetTarget.of(to, to_timestamp_ms, shift_by, by_duration_ms)
        state = self._coordinator.refresh()
        if state.exists:
            handlers.require_empty(state)
        changes: list[OffsetChange] = []
        wanted: dict[PartitionId, NewOffset | None] = {}
        now_ms = self._clock.now_ms()
        for reader, number in self._to_reset(state, topic, partitions):
            partition = PartitionId(reader.topic_id, number)
            known = state.offsets.get(partition)
            before = None if known is None else known.offset
            after = target.resolve(reader, number, before, now_ms)
            changes.append(OffsetChange(reader.topic, number, before, after))
            end = reader.offsets.next[number]
            wanted[partition] = NewOffset(after, topic=reader.topic, log_end=end)
        if not dry_run and wanted:
            self._coordinator.set_offsets(wanted)
        return changes

    def copy_offsets_to(
        self, other: str, topics: Iterable[str] | None = None, *, dry_run: bool = False
    ) -> list[OffsetChange]:
        """Give another group, which must have no members, this one's offsets, all or of topics."""
        if other == self.name:
            raise InvalidInputError(f"group {other!r} cannot be copied to itself")
        names = None if topics is None else set(topics)
        there = Coordinator(self._store, self._clock, self._ids, other)
        before = there.refresh().offsets
        if there.state.exists:
            handlers.require_empty(there.state)
        wanted: dict[PartitionId, NewOffset | None] = {}
        changes: list[OffsetChange] = []
        for partition, found in sorted(self._state().offsets.items()):
            if names is not None and found.topic not in names:
                continue
            wanted[partition] = NewOffset(found.offset, found.metadata, found.topic, found.log_end)
            known = before.get(partition)
            changes.append(
                OffsetChange(
                    found.topic,
                    partition.partition,
                    None if known is None else known.offset,
                    found.offset,
                )
            )
        if not dry_run and wanted:
            there.set_offsets(wanted)
        return changes

    def alter_config(self, changes: Mapping[str, object | None]) -> None:
        """Set configuration values, also while there are members; None is the default again."""
        for retention_ms in check_group_config(changes).values():
            self._coordinator.run(
                "SET GROUP CONFIG", partial(handlers.keep_offsets_for, retention_ms=retention_ms)
            )

    def delete(self) -> None:
        """End the group: one append. It must have no members; its offsets are gone."""
        self._state()
        self._coordinator.delete()

    def exists(self) -> bool:
        """Whether the group stands."""
        return self._coordinator.refresh().exists

    def _state(self) -> GroupState:
        state = self._coordinator.refresh()
        if not state.exists:
            raise UnknownGroupError(
                f"group {self.name!r} does not exist in {self._store.uri}; it begins with its "
                "first member, or with the first offset that is set for it"
            )
        return state

    def _readers(self, state: GroupState) -> dict[str, TopicReader]:
        """The topics that the group wants or has offsets of, as far as they still stand."""
        names = {name for member in state.members.values() for name in member.topics}
        names |= {found.topic for found in state.offsets.values() if found.topic}
        readers: dict[str, TopicReader] = {}
        for name in sorted(names):
            try:
                readers[name] = TopicReader(self._store, self._clock, name)
            except UnknownTopicError:
                continue
        return readers

    def _to_reset(
        self, state: GroupState, topic: str | None, partitions: Iterable[int] | None
    ) -> list[tuple[TopicReader, int]]:
        if topic is not None:
            reader = TopicReader(self._store, self._clock, check_name(topic))
            numbers = range(len(reader.offsets.next)) if partitions is None else list(partitions)
            for number in numbers:
                reader.offsets.check_partition(topic, number)
            return [(reader, number) for number in numbers]
        if partitions is not None:
            raise InvalidInputError("partitions need a topic: give both, or neither")
        self._state()
        return [
            (reader, number)
            for reader in self._readers(state).values()
            for number in range(len(reader.offsets.next))
            if PartitionId(reader.topic_id, number) in state.offsets
        ]


def _concerns(state: GroupState, partition: PartitionId) -> bool:
    return partition in state.offsets or partition in state.targets or partition in state.owners


def _partition_lag(state: GroupState, reader: TopicReader, number: int) -> PartitionLag:
    partition = PartitionId(reader.topic_id, number)
    committed = state.offsets.get(partition)
    owner = state.owners.get(partition)
    start, end = reader.offsets.start[number], reader.offsets.next[number]
    # What retention has taken cannot be read any more, so it is no lag.
    position = start if committed is None else max(start, committed.offset)
    return PartitionLag(
        reader.topic,
        number,
        None if committed is None else committed.offset,
        start,
        end,
        max(0, end - position),
        None if owner is None else owner.member_id,
        "" if committed is None else committed.metadata,
        None if committed is None else committed.time_ms,
    )


def _places(names: dict[str, str], partitions: Iterable[PartitionId]) -> tuple[TopicPartition, ...]:
    return tuple(
        sorted((names[p.topic_id], p.partition) for p in partitions if p.topic_id in names)
    )
