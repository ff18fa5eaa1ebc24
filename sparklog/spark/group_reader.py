"""`readStream` with `group.id`: a query that shares its topics with the other members of a group.

    latestOffset(start): commit the batch that ends at start, if it stands
                         -> give up what must move, take over what was gained
                         -> from the group's committed offsets, as far as the limits allow
    partitions(start, end): all of the logged batch if it stands, else nothing

Guarantees:
1. A logged batch is read exactly as logged, or it is void: `stands` decides, whichever run asks.
2. A batch begins at the group's committed offset of each partition that the member owns, read
   anew each time, never at the end of the batch before: what was void is read again, by whoever
   owns it then.
3. Its offsets are committed once Spark's own commit log has the batch, the last one of an
   AvailableNow run included. A batch that is read again after its sink had it is one whose offsets
   were not committed yet: at least once, nothing lost.
4. A batch under way is never given up: a partition moves between batches, or when the member was
   silent for its session timeout.

A query that ends leaves its group, unless a batch is under way: then it stays until its session
ends, so that a restart within that time finishes the batch as logged.
"""

from __future__ import annotations

import logging
import os
import signal
import sys
from collections.abc import Mapping, Sequence
from types import FrameType
from typing import Any

from pyspark.sql.datasource import InputPartition
from pyspark.sql.streaming.datasource import ReadLimit

from sparklog.clock import SystemIds
from sparklog.errors import CommitFailedError
from sparklog.groups.group_state import GroupState, PartitionId
from sparklog.groups.handlers import OffsetToCommit
from sparklog.groups.logged_batch import LoggedBatch, LoggedRange, stands
from sparklog.groups.session import MemberSession, Subscription
from sparklog.spark.admission import Place, Stretch
from sparklog.spark.group_batch import batch_from_json, batch_to_json
from sparklog.spark.options import SourceOptions
from sparklog.spark.process import CLOCK, process_store
from sparklog.spark.source_plan import plan_range
from sparklog.spark.start_point import COMMITTED, EARLIEST, LATEST, StartPoint
from sparklog.spark.stream_base import StreamReaderBase
from sparklog.spark.task_plan import plan_tasks

logger = logging.getLogger("sparklog.spark")

_signalled: list[int] = []
SETTLE_SECONDS_MORE = 5.0
SETTLE_LOOK_SECONDS = 0.05


class GroupStreamReader(StreamReaderBase):
    """One query's source as a member of a group."""

    def __init__(self, options: SourceOptions) -> None:
        """Made by the data source; reads nothing yet."""
        super().__init__(options)
        assert options.group is not None
        self._group = options.group.settings.group
        self._joined: MemberSession | None = None
        self._under_way: dict[str, Any] | None = None
        """The batch that was given to Spark and is not known to be done."""
        self._settled = False

    def initialOffset(self) -> dict[str, Any]:
        """A new query has read nothing: where it begins is the group's to say."""
        return batch_to_json(self._group, LoggedBatch("", {}))

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        """The next micro-batch; `start` itself where there is nothing to read."""
        self._commit(start)
        session = self._session()
        topics = self._topics()
        topics.refresh()
        self._take_part(session)
        waiting = {}
        owners: dict[Place, PartitionId] = {}
        for partition, _ in sorted(session.held.items()):
            place = self._place(session.state, partition)
            committed = session.state.offsets.get(partition)
            if place is None or committed is None:
                continue
            begin = committed.offset
            owners[place] = partition
            waiting[place] = Stretch(begin, max(begin, self._end(place, begin)))
        taken = self._admit(waiting, limit)
        if taken is None:
            return start
        ranges = {
            owners[place]: LoggedRange(
                place[0], session.held[owners[place]], stretch.start, stretch.end
            )
            for place, stretch in taken.items()
            if len(stretch)
        }
        batch = LoggedBatch(session.state.group_id, ranges)
        self._under_way = batch_to_json(self._group, batch)
        return self._under_way

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:  # noqa: ARG002
        """The tasks of a micro-batch; one that is void reads nothing."""
        options = self._options
        self._under_way = end
        batch = batch_from_json(self._group, end)
        ranges = []
        if stands(self._session().coordinator.refresh(), batch):
            topics = self._topics()
            for partition, planned in batch.ranges.items():
                place = (planned.topic, partition.partition)
                ranges.append(plan_range(topics, options, place, planned.start, planned.end))
        return plan_tasks(ranges, options.min_partitions, options.max_records_per_partition)

    def prepareForTriggerAvailableNow(self) -> None:
        """From now on nothing that comes later is read; the group gets time to share out."""
        super().prepareForTriggerAvailableNow()
        self._settled = False

    def stop(self) -> None:
        """Leave the group, unless a restart is to finish a batch."""
        if self._joined is not None:
            self._joined.close(leave=self._under_way is None)
        if _signalled:
            os._exit(0)  # Spark has gone: its worker would fill the log with a broken pipe

    def _session(self) -> MemberSession:
        if self._joined is None:
            group = self._options.group
            assert group is not None
            store = process_store(self._options.store)
            self._joined = MemberSession(store, CLOCK, SystemIds(), group.settings)
            _stop_on_signals()
        return self._joined

    def _commit(self, done: dict[str, Any]) -> None:
        """Spark has this batch in its commit log: move the group's offsets behind it."""
        batch = batch_from_json(self._group, done)
        session = self._session()
        if batch.ranges and stands(session.coordinator.refresh(), batch):
            session.coordinator.commit_batch(self._with_ends(batch))
        self._under_way = None

    def _with_ends(self, batch: LoggedBatch) -> LoggedBatch:
        """The batch with each partition's end as seen now, for the history of the lag."""
        topics = self._topics()
        return LoggedBatch(
            batch.group_id,
            {
                partition: LoggedRange(
                    planned.topic,
                    planned.since,
                    planned.start,
                    planned.end,
                    max(planned.end, topics.end((planned.topic, partition.partition))),
                )
                for partition, planned in batch.ranges.items()
            },
        )

    def _take_part(self, session: MemberSession) -> None:
        """Join, and let partitions come and go; no batch is under way here."""
        if not session.subscribed:
            pattern = self._options.pattern_compiled
            session.subscribe(Subscription(self._options.topics, pattern))
        self._follow(session)
        if self._target is None or self._settled:
            return
        # A query that is to end waits for its share: others give theirs up between their batches,
        # and one that died is out after its session timeout.
        deadline = CLOCK.monotonic() + session.settings.session_timeout_ms / 1000
        deadline += SETTLE_SECONDS_MORE
        while not _has_its_share(session) and CLOCK.monotonic() < deadline:
            CLOCK.sleep(SETTLE_LOOK_SECONDS)
            self._follow(session)
        self._settled = True

    def _follow(self, session: MemberSession) -> None:
        changes = session.look()
        session.drop(changes.lost)
        if changes.to_release:
            session.release(changes.to_release)
        if changes.gained:
            try:
                self._gain(session, changes.gained)
            except CommitFailedError as error:  # lost again already: the next look says so
                logger.info("group %s: %s", self._group, error)

    def _gain(self, session: MemberSession, gained: Mapping[PartitionId, int]) -> None:
        """Begin where the group stands; a partition that it never read gets its first offset."""
        found = session.take_over(gained)
        topics = self._topics()
        topics.refresh()
        first: dict[PartitionId, OffsetToCommit] = {}
        for partition, committed in found.items():
            place = self._place(session.state, partition)
            if committed is not None or place is None:
                continue
            offset = self._first_offset(session.state, partition, place)
            first[partition] = OffsetToCommit(
                offset, gained[partition], "", place[0], topics.end(place)
            )
        if first:
            session.commit(first)
        session.hold({p: since for p, since in gained.items() if p in session.state.offsets})

    def _first_offset(self, state: GroupState, partition: PartitionId, place: Place) -> int:
        """Where the options start; a partition that a read topic got since is read from 0."""
        if any(p.topic_id == partition.topic_id for p in state.offsets):
            return self._topics().start(place)
        starting = self._options.starting or StartPoint.named(LATEST)
        if starting.name == COMMITTED:
            starting = StartPoint.named(EARLIEST)
        return starting.resolve(
            "startingOffsets",
            self._topics().reader(place[0]),
            place[1],
            strict=self._options.fail_on_data_loss,
        )

    def _place(self, state: GroupState, partition: PartitionId) -> Place | None:
        """The topic's name and the partition, if this view of the topics has them."""
        topic = state.topic_names.get(partition.topic_id)
        topics = self._topics()
        if topic is None or topic not in topics.topics():
            return None
        reader = topics.reader(topic)
        if reader.topic_id != partition.topic_id:
            return None
        return (
            (topic, partition.partition) if partition.partition < len(reader.offsets.next) else None
        )


def _stop_on_signals() -> None:
    """Spark ends a planner's process by a signal: let `stop` be called, which leaves the group."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is signal.SIG_DFL:
            signal.signal(number, _exit)


def _exit(number: int, _: FrameType | None) -> None:
    _signalled.append(number)
    for again in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(again, signal.SIG_IGN)  # a second one must not disturb the leaving
    sys.exit(128 + number)


def _has_its_share(session: MemberSession) -> bool:
    """Whether the member owns all that it is to own.

    One that is to own nothing waits too: another may be dead, and its session not ended yet.
    """
    members = session.state.members
    member = members.get(session.member_id)
    if member is None or set(member.owned) != member.target:
        return False
    return bool(member.owned) or len(members) == 1
