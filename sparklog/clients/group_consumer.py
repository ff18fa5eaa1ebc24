"""A consumer that is a member of a group: it reads what the group gives it, and commits offsets.

    poll: callbacks of finished commits -> auto-commit -> take part in the group -> fetch
                                                           |
            lost:     stop reading, on_partitions_lost     |
            revoked:  commit, on_partitions_revoked, stop reading, release
            gained:   read from the committed offset, on_partitions_assigned

Guarantees:
1. No record of a partition is given after the poll that learnt of its loss, and a partition that
   moves was committed and released by its old owner before the new one reads its offset.
2. Every commit is fenced by (member, since): what a zombie commits is refused.
3. Partitions that stay are not disturbed by a rebalance: their cursors and buffered records stay.

Records are given at least once when they are committed after they were processed, at most once
when before. Assigned by hand (`assign`) it is no member, and may commit while the group has none.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from sparklog.clients.committing_consumer import CommittingConsumer, to_offset
from sparklog.clients.offsets import TopicPartition
from sparklog.clients.rebalance_listener import RebalanceListener
from sparklog.clock import Clock, Ids
from sparklog.config import ConsumerConfig
from sparklog.errors import (
    InvalidConfigError,
    InvalidInputError,
    TopicReplacedError,
    UnknownTopicError,
)
from sparklog.groups.group_state import PartitionId
from sparklog.groups.session import Subscription
from sparklog.names import check_name
from sparklog.storage import Store

LOOKS_MAX = 4
"""How often one poll looks at its group again after it acted on what it saw."""


class GroupConsumer(CommittingConsumer):
    """A member of a consumer group. Close it, or use `with`."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        ids: Ids,
        topics: Iterable[str],
        config: ConsumerConfig,
        background: bool = True,
    ) -> None:
        """Made by `log.consumer(..., group_id=...)`; joins at the first poll."""
        self._listener = RebalanceListener()
        super().__init__(store, clock, ids, topics, config, background)

    def subscribe(
        self,
        topics: Iterable[str] = (),
        *,
        pattern: str | re.Pattern[str] | None = None,
        listener: RebalanceListener | None = None,
    ) -> None:
        """Share these topics with the other members, or all whose whole name matches a pattern."""
        names = tuple(dict.fromkeys(check_name(topic) for topic in topics))
        if names and pattern is not None:
            raise InvalidInputError("subscribe to names or to a pattern, not to both")
        if self._by_hand:
            self._forget()
            self._by_hand = False
        self._listener = listener or RebalanceListener()
        if pattern is not None:
            self._subscribe_pattern(pattern)
        elif names:
            standing = self._session.subscribe(Subscription(names))
            missing = [name for name in names if name not in standing]
            if missing:
                self._session.subscribe(Subscription())
                raise UnknownTopicError(
                    f"topic {missing[0]!r} does not exist; create it with "
                    f"log.create_topic({missing[0]!r})"
                )
        else:
            self.unsubscribe()

    def unsubscribe(self) -> None:
        """Leave the group; the consumer may subscribe again."""
        if self._session.member_id:
            self._hand_back()
            self._session.close()
        self._session.subscribe(Subscription())

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Read exactly these partitions, from the committed offsets, without being a member."""
        self.unsubscribe()
        self._by_hand = True
        super().assign(partitions)
        committed = self.committed()
        for place in self.assignment():
            found = committed[place]
            if found is not None:
                self._place(place, found.offset)

    def close(self) -> None:
        """Commit if that is automatic, finish asynchronous commits, and leave the group."""
        if self._closed:
            return
        try:
            if self._session.member_id:
                self._hand_back()
        finally:
            self._commits.close()
            self._commits.deliver()
            super().close()
            self._session.close()

    def _refresh(self) -> None:
        """Take part in the group, then look for records of what it gave."""
        self._commits.deliver()
        if self._by_hand:
            super()._refresh()
            return
        self._auto_commit_if_due()
        self._take_part()
        for topic, reader in list(self._readers.items()):
            try:
                changed = reader.refresh()
            except TopicReplacedError:
                self._lose({p: 0 for (name, _), p in self._ids.items() if name == topic})
                self._session.look_soon()
                continue
            known = self._session.state.topics.get(topic)
            if changed and known is not None and len(reader.offsets.next) > known.partitions:
                self._session.look_soon()

    def _watched(self) -> list[str]:
        return [*super()._watched(), self._session.coordinator.table_log.log_folder]

    def _wait_seconds_max(self) -> float:
        """Until the next beat, where no thread does it; until the next look at topics."""
        if self._by_hand:
            return float("inf")
        seconds = min(self._session.seconds_to_tick(), self._session.seconds_to_look())
        if self._config.enable_auto_commit:
            seconds = min(seconds, self._auto_at - self._clock.monotonic())
        return max(seconds, 0.001)

    def _take_part(self) -> None:
        """Bring what is read into line with what the group says."""
        for _ in range(LOOKS_MAX):
            changes = self._session.look()
            if not changes and (self._session.member_id or not self._session.subscribed):
                return
            self._lose(changes.lost)
            self._revoke(changes.to_release)
            self._gain(changes.gained)

    def _lose(self, partitions: Mapping[PartitionId, int]) -> None:
        places = self._stop(partitions)
        self._session.drop(partitions)
        if places:
            self._listener.on_partitions_lost(places)

    def _revoke(self, partitions: Mapping[PartitionId, int]) -> None:
        """Finish with partitions and hand them on; also if the application's callback fails."""
        if not partitions:
            return
        held = {p for p in partitions if p in self._session.held}
        places = sorted(place for place, p in self._ids.items() if p in held)
        try:
            self._finish(places)
        finally:
            self._stop(partitions)
            self._session.release(partitions)

    def _finish(self, places: list[TopicPartition]) -> None:
        """Commit for the last time, as far as that is automatic, and tell the application."""
        if not places:
            return
        self._commits.wait()
        if self._config.enable_auto_commit:
            self._auto_commit()
        self._listener.on_partitions_revoked(places)
        self._commits.wait()
        self._commits.deliver()

    def _gain(self, partitions: Mapping[PartitionId, int]) -> None:
        """Begin to read where the group has committed."""
        if not partitions:
            return
        offsets = self._session.take_over(partitions)
        places: list[TopicPartition] = []
        for partition, since in sorted(partitions.items()):
            name = self._session.state.topic_names.get(partition.topic_id)
            if name is None or not self._opens(name, partition):
                self._session.look_soon()
                continue
            place = (name, partition.partition)
            committed = offsets[partition]
            self._take(place, self._start(place, to_offset(committed)))
            self._ids[place] = partition
            self._session.hold({partition: since})
            places.append(place)
        if places:
            self._listener.on_partitions_assigned(places)

    def _opens(self, name: str, partition: PartitionId) -> bool:
        """Whether the partition can be read: its topic stands, and is still that one."""
        try:
            if name not in self._readers:
                self._open(name)
                self._unwatch()
            reader = self._readers[name]
            if partition.partition >= len(reader.offsets.next):
                reader.refresh()
        except (UnknownTopicError, TopicReplacedError):
            return False
        return reader.topic_id == partition.topic_id and partition.partition < len(
            reader.offsets.next
        )

    def _stop(self, partitions: Iterable[PartitionId]) -> list[TopicPartition]:
        """Stop reading these, as far as they are read; readers that nothing needs are let go."""
        gone = set(partitions)
        places = sorted(place for place, p in self._ids.items() if p in gone)
        for place in places:
            del self._ids[place]
            self._drop(place)
        for topic in {topic for topic, _ in places} - {topic for topic, _ in self._cursors}:
            del self._readers[topic]
            self._unwatch()
        return places

    def _hand_back(self) -> None:
        """Before leaving: what a revocation does, for everything."""
        held = dict(self._session.held)
        places = sorted(place for place, p in self._ids.items() if p in held)
        try:
            self._finish(places)
        finally:
            self._stop(held)

    def _subscribe_pattern(self, pattern: str | re.Pattern[str]) -> None:
        try:
            compiled = re.compile(pattern)
        except re.error as error:
            raise InvalidConfigError(
                f"pattern {pattern!r} is no regular expression: {error}"
            ) from error
        if not self._session.subscribe(Subscription(pattern=compiled)):
            self._session.subscribe(Subscription())
            raise UnknownTopicError(
                f"no topic matches the pattern {compiled.pattern!r} as a whole; create one first, "
                "or correct the pattern"
            )

    def _forget(self) -> None:
        super()._forget()
        self._ids.clear()
