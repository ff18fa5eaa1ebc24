"""Reading a topic: follow its table log, and read any partition from any offset.

A reader at the tail never looks at the file list: new segments come with the commits it follows.
A reader with a backlog takes the file list once and walks it. A segment that is gone (merged into
a larger one meanwhile) makes the cursor plan again from the newest state, by offset: it is data
loss only when the start offset has passed the position.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

import pyarrow as pa

from sparklog.clock import Clock
from sparklog.errors import CorruptSegmentError, ObjectNotFoundError, SparklogError
from sparklog.log.partition_log import PartitionLog, partition_logs
from sparklog.log.records import CREATE_TIME, LOG_APPEND_TIME, RecordShaper
from sparklog.log.segment import Segment, read_segment
from sparklog.log.segment_tail import SegmentTail
from sparklog.log.topic_state import PartitionOffsets, require_same_topic, require_topic
from sparklog.names import topic_folder
from sparklog.storage import Store
from sparklog.table.actions import Add
from sparklog.table.table_log import TableLog
from sparklog.table.table_state import TableState

TAIL_SEGMENTS_MAX = 10_000
REPLANS_MAX = 3


class TopicReader:
    """One client's view of one topic, pinned to the topic's id."""

    def __init__(self, store: Store, clock: Clock, topic: str) -> None:
        """Open the topic; UnknownTopicError if it does not stand."""
        self.store = store
        self.topic = topic
        self.folder = topic_folder(topic)
        self.table_log = TableLog(store, self.folder, clock)
        self.table_log.refresh()
        state = self.table_log.state
        require_topic(state, topic)
        assert state.metadata is not None
        self.topic_id = state.metadata.id
        self.offsets = PartitionOffsets.of(state)
        self._clock = clock
        self._index: dict[int, PartitionLog] = {}
        self._index_version = -1
        self._index_offsets = PartitionOffsets((), ())
        self._cursors: dict[int, PartitionCursor] = {}
        self._tails: dict[int, SegmentTail] | None = None

    def refresh(self) -> bool:
        """Follow the table log; True if anything was committed; raises if the topic is gone."""
        found = self.table_log.refresh()
        require_same_topic(self.table_log.state, self.topic, self.topic_id)
        if not found.commits and not found.reloaded:
            return False
        self.offsets = PartitionOffsets.of(self.table_log.state)
        if found.reloaded:
            self._forget_tails()
        elif self._cursors or self._tails is not None:
            try:
                for commit in found.commits:
                    for action in commit.actions:
                        if isinstance(action, Add) and action.data_change:
                            self._note(Segment.from_add(action))
            except SparklogError:
                # This commit is not seen again: whoever comes to the malformed entry must find it
                # in the file list, and not go on behind it.
                self._forget_tails()
                raise
        return True

    def _forget_tails(self) -> None:
        """Look up in the file list what comes next: commits did not bring all of it."""
        for cursor in self._cursors.values():
            cursor.replan()
        if self._tails is not None:
            self._tails.clear()

    def _note(self, segment: Segment) -> None:
        cursor = self._cursors.get(segment.partition)
        if cursor is not None:
            cursor.note(segment)
        if self._tails is not None:
            tail = self._tails.get(segment.partition)
            if tail is None:
                tail = self._tails[segment.partition] = SegmentTail(segment.base_offset)
            tail.note(segment)

    def keep_tails(self) -> None:
        """From now on keep the newest segments of every partition, for `segments`."""
        if self._tails is None:
            self._tails = {}

    def segments(self, partition: int, start: int, end: int) -> list[Segment]:
        """Segments that hold offsets in [start, end), as far as this view has seen the log.

        What new commits brought is answered without the file list, and the file list is taken
        again only for offsets that the last one did not hold yet.
        """
        tail = self._tails.get(partition) if self._tails is not None else None
        if tail is not None and tail.covers_from <= start:
            return tail.between(start, end)
        indexed_to = self._indexed_to(partition)
        if tail is None or tail.covers_from > indexed_to:
            log = self.partition_log(partition) if end > indexed_to else self._index.get(partition)
            return list(log.segments(start, end)) if log else []
        log = self._index.get(partition)
        older = list(log.segments(start, min(end, indexed_to))) if log else []
        return older + tail.between(max(start, indexed_to), end)

    def _indexed_to(self, partition: int) -> int:
        offsets = self._index_offsets.next
        return offsets[partition] if partition < len(offsets) else 0

    def partition_log(self, partition: int) -> PartitionLog | None:
        """The partition's segments in the newest state; None without any."""
        if self._index_version != self.table_log.state.version:
            state = self._state_with_files()
            self._index = partition_logs(state)
            self._index_version = state.version
            self._index_offsets = PartitionOffsets.of(state)
        return self._index.get(partition)

    def _state_with_files(self) -> TableState:
        """The state, its files included: a view that has forgotten them has another look taken."""
        if self.table_log.state.files.available():
            return self.table_log.state
        state = self._newest_with_files()
        require_same_topic(state, self.topic, self.topic_id)
        while self.table_log.state.version < state.version:
            self.refresh()  # so that no segment lies behind the end that this view knows of
        return state

    def _newest_with_files(self) -> TableState:
        for _ in range(REPLANS_MAX):
            state = TableLog(self.store, self.folder, self._clock).open()
            if state.files.available():
                break  # else clean-up was quicker, which it cannot be for ever
        return state

    def cursor(self, partition: int, position: int, verify: bool = True) -> PartitionCursor:
        """A cursor on the partition that this reader keeps supplied with new segments."""
        self.offsets.check_partition(self.topic, partition)
        cursor = PartitionCursor(self, partition, position, verify)
        self._cursors[partition] = cursor
        return cursor

    def drop_cursor(self, partition: int) -> None:
        """Stop supplying the partition's cursor."""
        cursor = self._cursors.pop(partition, None)
        if cursor is not None:
            cursor.close()

    def timestamp_type(self) -> int:
        """The topic's timestamp type, as Spark's Kafka source numbers it."""
        log_append = self.table_log.state.config.timestamp_type == "LogAppendTime"
        return LOG_APPEND_TIME if log_append else CREATE_TIME

    def offset_for_time(self, partition: int, timestamp_us: int) -> tuple[int, int] | None:
        """The first offset whose timestamp is at or after this time, and that timestamp."""
        for _ in range(REPLANS_MAX):
            try:
                return self._look_for_time(partition, timestamp_us)
            except ObjectNotFoundError as gone:
                missing = gone
                self.refresh()
        raise self.segment_missing(partition, self.offsets.start[partition], missing)

    def segment_missing(
        self, partition: int, offset: int, missing: ObjectNotFoundError
    ) -> CorruptSegmentError:
        """The error for a file that the newest state names and the store does not have."""
        return CorruptSegmentError(
            f"topic {self.topic!r} partition {partition} offset {offset}: "
            f"the table log names a segment that is not there: {missing}"
        )

    def _look_for_time(self, partition: int, timestamp_us: int) -> tuple[int, int] | None:
        log = self.partition_log(partition)
        start = self.offsets.start[partition]
        for segment in log.segments(start) if log else ():
            if segment.timestamp_max_us < timestamp_us:
                continue
            columns = ["offset_delta", "timestamp"]
            end = segment.last_offset + 1
            for table in read_segment(self.store, self.folder, segment, start, end, columns):
                stamps = table["timestamp"].cast(pa.int64()).to_numpy()
                late = (stamps >= timestamp_us).nonzero()[0]
                if len(late):
                    delta = table["offset_delta"][int(late[0])].as_py()
                    return segment.base_offset + delta, int(stamps[late[0]])
        return None


class PartitionCursor:
    """A position in one partition, and the segments that come next."""

    def __init__(self, reader: TopicReader, partition: int, position: int, verify: bool) -> None:
        """Made by `TopicReader.cursor`."""
        self.partition = partition
        self.position = position
        self._reader = reader
        self._verify = verify
        self._shaper = RecordShaper(reader.topic, partition, reader.timestamp_type())
        self._upcoming: Iterator[Segment] = iter(())
        self._tail: deque[Segment] = deque()
        self._batches: Iterator[pa.RecordBatch] = iter(())
        self._rest: pa.RecordBatch | None = None
        self._planned = position >= reader.offsets.next[partition]

    def note(self, segment: Segment) -> None:
        """A new segment was committed."""
        if not self._planned:
            return
        if len(self._tail) >= TAIL_SEGMENTS_MAX:
            self._planned = False  # too far behind to hold on to everything: plan later
            self._tail.clear()
            return
        self._tail.append(segment)

    def replan(self) -> None:
        """Forget what comes next: it is looked up by offset in the newest state."""
        self._planned = False
        self._tail.clear()
        self._upcoming = iter(())
        self._batches = iter(())

    def close(self) -> None:
        """Let go of the open segment."""
        self._batches = iter(())
        self._rest = None

    def lag(self) -> int:
        """How many offsets there are from here to the end."""
        return self._reader.offsets.next[self.partition] - self.position

    def next_batch(self, rows_max: int) -> pa.RecordBatch | None:
        """The next records, at most so many, in offset order; None at the end of the log."""
        if self._rest is None and self.lag() <= 0:
            return None
        for _ in range(REPLANS_MAX):
            try:
                batch = self._rest if self._rest is not None else self._advance()
                break
            except ObjectNotFoundError as gone:
                missing = gone
                self.replan()
                self._reader.refresh()
                if self.position < self._reader.offsets.start[self.partition]:
                    return None  # retention passed this position: the caller's reset policy decides
        else:
            raise self._reader.segment_missing(self.partition, self.position, missing)
        if batch is None:
            return None
        if batch.num_rows > rows_max:
            self._rest = batch.slice(rows_max)
            batch = batch.slice(0, rows_max)
        else:
            self._rest = None
        self.position = batch["offset"][batch.num_rows - 1].as_py() + 1
        return batch

    def _advance(self) -> pa.RecordBatch | None:
        """The next batch; after any failure the position alone says where to go on."""
        try:
            return self._next_of_segments()
        except SparklogError:
            self.replan()
            raise

    def _next_of_segments(self) -> pa.RecordBatch | None:
        while True:
            batch = next(self._batches, None)
            if batch is not None:
                return batch
            segment = self._next_segment()
            if segment is None:
                return None
            self._batches = self._read(segment)

    def _read(self, segment: Segment) -> Iterator[pa.RecordBatch]:
        reader = self._reader
        end = segment.last_offset + 1
        tables = read_segment(
            reader.store, reader.folder, segment, self.position, end, verify=self._verify
        )
        for table in tables:
            yield from self._shaper.shape(table, segment)
        self.position = max(self.position, end)

    def _next_segment(self) -> Segment | None:
        for segment in self._upcoming:
            if segment.last_offset >= self.position:
                return segment
        if not self._planned:
            self._planned = True
            log = self._reader.partition_log(self.partition)
            if log is not None:
                self._upcoming = log.segments(self.position)
                return next(self._upcoming, None)
        while self._tail:
            segment = self._tail.popleft()
            if segment.last_offset >= self.position:
                return segment
        return None
