"""A consumer that commits offsets to a group, under the ownership that fences them.

It knows how offsets are named, checked, fenced and committed: at once, beside the work, or from
time to time. What it reads, and when partitions come and go, is its subclass's business.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping

from sparklog.clients.async_commits import AsyncCommits, CommitCallback
from sparklog.clients.consumer import Consumer
from sparklog.clients.offsets import (
    GroupOffsets,
    OffsetAndMetadata,
    TopicPartition,
    parse_offsets,
)
from sparklog.clock import Clock, Ids
from sparklog.config import ConsumerConfig
from sparklog.errors import (
    InvalidInputError,
    OffsetOutOfRangeError,
    SparklogError,
    StaleOwnerError,
    UnknownTopicError,
)
from sparklog.groups.coordinator import Coordinator
from sparklog.groups.group_state import CommittedOffset, PartitionId
from sparklog.groups.handlers import NewOffset, OffsetToCommit
from sparklog.groups.session import MemberSession, SessionSettings
from sparklog.storage import Store

logger = logging.getLogger(__name__)


class CommittingConsumer(Consumer):
    """A consumer with a group to commit to."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        ids: Ids,
        topics: Iterable[str],
        config: ConsumerConfig,
        background: bool = True,
    ) -> None:
        """With a session in the group, which is not joined yet."""
        assert config.group_id is not None
        self.group_id = config.group_id
        settings = SessionSettings(
            group=config.group_id,
            strategies=config.partition_assignment_strategy,
            client_id=config.client_id,
            instance_id=config.group_instance_id,
            session_timeout_ms=config.session_timeout_ms,
            heartbeat_interval_ms=config.heartbeat_interval_ms,
            max_poll_interval_ms=config.max_poll_interval_ms,
            metadata_max_age_ms=config.metadata_max_age_ms,
        )
        self._session = MemberSession(store, clock, ids, settings, background=background)
        self._ids: dict[TopicPartition, PartitionId] = {}
        self._by_hand = False
        beside = Coordinator(store, clock, ids, config.group_id)
        self._commits = AsyncCommits(
            lambda member, offsets: self._session.commit_by(beside, member, offsets), background
        )
        self._auto_seconds = config.auto_commit_interval_ms / 1000
        self._auto_at = clock.monotonic() + self._auto_seconds
        super().__init__(store, clock, topics, config)

    @property
    def member_id(self) -> str:
        """The id under which it is in the group now; empty while it is not."""
        return self._session.member_id

    def commit(self, offsets: Mapping[TopicPartition, object] | None = None) -> None:
        """Commit the positions, or these offsets, and wait; CommitFailedError if one was lost."""
        self._check_open()
        self._commits.wait()
        self._commits.deliver()
        wanted = self._offsets_to_commit(offsets)
        if not wanted:
            return
        if self._by_hand:
            self._session.coordinator.set_offsets(
                {p: NewOffset(o.offset, o.metadata, o.topic, o.log_end) for p, o in wanted.items()}
            )
        else:
            self._session.commit(wanted)

    def commit_async(
        self,
        offsets: Mapping[TopicPartition, object] | None = None,
        callback: CommitCallback | None = None,
    ) -> None:
        """Commit beside the work; a later poll, commit or close calls `callback`."""
        self._check_open()
        wanted = self._offsets_to_commit(offsets)
        names = {partition: place for place, partition in self._ids.items()}
        shown = {names[p]: OffsetAndMetadata(o.offset, o.metadata) for p, o in wanted.items()}
        self._commits.submit(self._session.member_id, wanted, shown, callback)

    def committed(
        self, *partitions: TopicPartition
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        """What the group has committed; without arguments for what this consumer reads."""
        self._check_open()
        places = list(partitions) or self.assignment()
        seen = self._session.topics.look(sorted({topic for topic, _ in places}))
        stored = self._session.coordinator.refresh().offsets
        found: dict[TopicPartition, OffsetAndMetadata | None] = {}
        for place in places:
            topic = seen[place[0]]
            if topic is None:
                raise UnknownTopicError(f"topic {place[0]!r} does not exist")
            found[place] = to_offset(stored.get(PartitionId(topic.topic_id, place[1])))
        return found

    def seek_to_committed(self, *partitions: TopicPartition) -> None:
        """Go back to what the group has committed; else as `auto.offset.reset` says."""
        for place in partitions or self.assignment():
            self._cursor(*place)
            self._place(place, self._start(place, self.committed(place)[place]))

    def group_offsets(self) -> GroupOffsets:
        """The positions with all that fences them: what a transaction sends to its group."""
        if not self._session.member_id:
            raise InvalidInputError(
                f"group {self.group_id!r}: this consumer is no member now; poll joins the group"
            )
        wanted = self._offsets_to_commit(None, also_unchanged=True)
        group_id = self._session.state.group_id
        return GroupOffsets(self.group_id, group_id, self._session.member_id, wanted)

    def _start(self, place: TopicPartition, committed: OffsetAndMetadata | None) -> int:
        """Where to read: from the committed offset, else as auto.offset.reset says."""
        if committed is not None:
            return committed.offset
        offsets = self._readers[place[0]].offsets
        if self._config.auto_offset_reset == "none":
            raise OffsetOutOfRangeError(
                f"group {self.group_id!r} has no committed offset of topic {place[0]!r} partition "
                f"{place[1]}, and auto.offset.reset is none: set one with "
                "log.group(...).reset_offsets, or set auto_offset_reset"
            )
        latest = self._config.auto_offset_reset == "latest"
        return offsets.next[place[1]] if latest else offsets.start[place[1]]

    def _auto_commit_if_due(self) -> None:
        if not self._config.enable_auto_commit or self._clock.monotonic() < self._auto_at:
            return
        self._auto_at = self._clock.monotonic() + self._auto_seconds
        self._auto_commit()

    def _auto_commit(self) -> None:
        """Commit what polls have given; a failure costs duplicates at most, so it is only told."""
        if not self._session.held:
            return
        try:
            self._session.commit(self._offsets_to_commit(None))
        except SparklogError as error:
            logger.warning("group %s: automatic offset commit failed: %s", self.group_id, error)

    def _offsets_to_commit(
        self, offsets: Mapping[TopicPartition, object] | None, *, also_unchanged: bool = False
    ) -> dict[PartitionId, OffsetToCommit]:
        """Offsets with the ownership that fences them; positions that moved by default."""
        if self._by_hand:
            self._name_by_hand()
        found: dict[PartitionId, OffsetToCommit] = {}
        if offsets is None:
            stored = self._session.coordinator.refresh().offsets
            for place, partition in self._ids.items():
                position = self._cursors[place].position
                known = stored.get(partition)
                if also_unchanged or known is None or known.offset != position:
                    found[partition] = self._fenced(place, OffsetAndMetadata(position))
            return found
        for place, wanted in parse_offsets(offsets).items():
            fenced = self._fenced(place, wanted)
            self._check_end(place, wanted.offset)
            found[self._ids[place]] = fenced
        return found

    def _name_by_hand(self) -> None:
        for topic, partition in self._cursors:
            self._ids[topic, partition] = PartitionId(self._readers[topic].topic_id, partition)

    def _fenced(self, place: TopicPartition, wanted: OffsetAndMetadata) -> OffsetToCommit:
        partition = self._ids.get(place)
        since = None if partition is None else self._session.held.get(partition, 0)
        if since is None:
            raise StaleOwnerError(
                f"group {self.group_id!r}: topic {place[0]!r} partition {place[1]} is not assigned "
                f"to this consumer, so it cannot commit its offset; assigned: {self.assignment()}"
            )
        end = self._readers[place[0]].offsets.next[place[1]]
        return OffsetToCommit(wanted.offset, since, wanted.metadata, place[0], end)

    def _check_end(self, place: TopicPartition, offset: int) -> None:
        """A committed offset past the end would skip records that are still to come."""
        reader = self._readers[place[0]]
        if offset > reader.offsets.next[place[1]]:
            reader.refresh()
        end = reader.offsets.next[place[1]]
        if offset > end:
            raise OffsetOutOfRangeError(
                f"group {self.group_id!r}: offset {offset} of topic {place[0]!r} partition "
                f"{place[1]} is past its end {end}; commit at most the end"
            )


def to_offset(committed: CommittedOffset | None) -> OffsetAndMetadata | None:
    return None if committed is None else OffsetAndMetadata(committed.offset, committed.metadata)
