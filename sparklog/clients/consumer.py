"""The consumer: reads partitions in offset order, as records or as Arrow batches.

It reads what it is told to: all partitions of its topics, or those it was assigned; a member of
a group (`GroupConsumer`) is told by its group. It waits for new records without spinning (inotify
on a local disk), and it never skips: a position that retention has passed is dealt with by
`auto.offset.reset`.

One thread at a time, except `wakeup`, which may come from any.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from types import TracebackType

import pyarrow as pa

from sparklog.clients.async_commits import CommitCallback
from sparklog.clients.offsets import GroupOffsets, OffsetAndMetadata, TopicPartition
from sparklog.clients.rebalance_listener import RebalanceListener
from sparklog.clock import Clock
from sparklog.config import ConsumerConfig
from sparklog.errors import (
    ClientClosedError,
    InvalidInputError,
    OffsetOutOfRangeError,
    SparklogError,
    UnsupportedError,
    WakeupError,
)
from sparklog.log.records import Record, to_records
from sparklog.log.topic_reader import PartitionCursor, TopicReader
from sparklog.names import check_name
from sparklog.storage import Store, Watcher

ARROW_ROWS_MAX = 131_072


class Consumer:
    """Reads topics. Close it, or use `with`."""

    def __init__(
        self, store: Store, clock: Clock, topics: Iterable[str], config: ConsumerConfig
    ) -> None:
        """Made by `log.consumer`."""
        self._store = store
        self._clock = clock
        self._config = config
        self._readers: dict[str, TopicReader] = {}
        self._cursors: dict[TopicPartition, PartitionCursor] = {}
        self._turn: deque[TopicPartition] = deque()
        self._paused: set[TopicPartition] = set()
        self._whole_topics: set[str] = set()
        self._watcher: Watcher | None = None
        self._woken = False
        self._closed = False
        self.subscribe(topics)

    def subscribe(
        self,
        topics: Iterable[str] = (),
        *,
        pattern: str | re.Pattern[str] | None = None,
        listener: RebalanceListener | None = None,
    ) -> None:
        """Read all partitions of these topics, those added later included.

        In a group: share them with the other members. A pattern and a listener need a group.
        """
        if pattern is not None or listener is not None:
            raise self._no_group("subscribe by a pattern, or with a listener,")
        self._forget()
        for topic in topics:
            reader = self._open(topic)
            self._whole_topics.add(topic)
            for partition in range(len(reader.offsets.next)):
                self._take((topic, partition))

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Read exactly these partitions."""
        self._forget()
        for topic, partition in partitions:
            self._open(topic).offsets.check_partition(topic, partition)
            self._take((topic, partition))

    def assignment(self) -> list[TopicPartition]:
        """What this consumer reads."""
        return sorted(self._cursors)

    def poll(self, timeout_ms: float = 0) -> list[Record]:
        """The next records, at most max.poll.records; an empty list after the timeout."""
        most = self._config.max_poll_records
        batches = self._fetch(timeout_ms, most, most)
        return [record for batch in batches for record in to_records(batch)]

    def poll_arrow(self, timeout_ms: float = 0) -> list[pa.RecordBatch]:
        """The next records as batches, about fetch.max.bytes; an empty list after the timeout."""
        return self._fetch(timeout_ms, ARROW_ROWS_MAX, None)

    def __iter__(self) -> Iterator[Record]:
        """Records one by one, for ever: waits at the end of the log."""
        while True:
            yield from self.poll(timeout_ms=1000)

    def position(self, topic: str, partition: int) -> int:
        """The offset of the next record that poll will give."""
        return self._cursor(topic, partition).position

    def seek(self, topic: str, partition: int, offset: int) -> None:
        """Go on from this offset."""
        self._cursor(topic, partition)
        if isinstance(offset, bool) or not isinstance(offset, int) or offset < 0:
            raise InvalidInputError(f"offset must be a whole number from 0, not {offset!r}")
        self._place((topic, partition), offset)

    def seek_to_beginning(self, *partitions: TopicPartition) -> None:
        """Go back to the first record there is; without arguments in all partitions."""
        self._seek_each(partitions, "earliest")

    def seek_to_end(self, *partitions: TopicPartition) -> None:
        """Go to where the next record will stand; without arguments in all partitions."""
        self._seek_each(partitions, "latest")

    def seek_to_timestamp(self, timestamp_ms: int, *partitions: TopicPartition) -> None:
        """Go to the first record of this time or later; to the end where there is none."""
        for topic, partition in partitions or self.assignment():
            reader = self._cursor_reader(topic, partition)
            found = reader.offset_for_time(partition, timestamp_ms * 1000)
            offset = reader.offsets.next[partition] if found is None else found[0]
            self._place((topic, partition), offset)

    def pause(self, *partitions: TopicPartition) -> None:
        """Stop giving records of these partitions; their positions stay."""
        for topic, partition in partitions:
            self._cursor(topic, partition)
            self._paused.add((topic, partition))

    def resume(self, *partitions: TopicPartition) -> None:
        """Give records of these partitions again."""
        self._paused.difference_update(partitions)

    def paused(self) -> list[TopicPartition]:
        """What is paused."""
        return sorted(self._paused)

    def lag(self, topic: str, partition: int) -> int:
        """How many offsets there are from the position to the end, as last seen."""
        return self._cursor(topic, partition).lag()

    def commit(
        self,
        offsets: Mapping[TopicPartition, object] | None = None,  # noqa: ARG002
    ) -> None:
        """Commit the positions, or these offsets, to the group, and wait until it is done."""
        raise self._no_group("commit")

    def commit_async(
        self,
        offsets: Mapping[TopicPartition, object] | None = None,  # noqa: ARG002
        callback: CommitCallback | None = None,  # noqa: ARG002
    ) -> None:
        """Commit beside the work; a later poll, commit or close calls `callback`."""
        raise self._no_group("commit_async")

    def committed(
        self,
        *partitions: TopicPartition,  # noqa: ARG002
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        """What the group has committed; without arguments for what this consumer reads."""
        raise self._no_group("committed")

    def seek_to_committed(self, *partitions: TopicPartition) -> None:  # noqa: ARG002
        """Go back to what the group has committed; without arguments in all partitions."""
        raise self._no_group("seek_to_committed")

    def group_offsets(self) -> GroupOffsets:
        """The positions with all that fences them: what a transaction sends to its group."""
        raise self._no_group("group_offsets")

    def wakeup(self) -> None:
        """Make the poll of another thread, or the next one, raise WakeupError."""
        self._woken = True
        watcher = self._watcher
        if watcher is not None:
            watcher.wake()

    def close(self) -> None:
        """Let go of files and watches; a member leaves its group."""
        self._forget()
        self._closed = True

    def __enter__(self) -> Consumer:
        """Use with `with`."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close."""
        self.close()

    def _fetch(
        self, timeout_ms: float, rows_each: int, rows_all: int | None
    ) -> list[pa.RecordBatch]:
        self._check_open()
        deadline = self._clock.monotonic() + timeout_ms / 1000
        while True:
            self._raise_if_woken()
            self._refresh()
            batches = self._collect(rows_each, rows_all)
            left = deadline - self._clock.monotonic()
            if batches and self._watcher is not None:
                self._watcher.reset()
            if batches or left <= 0:
                return batches
            if self._watcher is None:
                self._watcher = self._store.watch(self._watched())
                continue  # look once more: a commit may have come before the watch
            self._watcher.wait(min(left, self._wait_seconds_max()))

    def _collect(self, rows_each: int, rows_all: int | None) -> list[pa.RecordBatch]:
        """Batches of the assigned partitions in turn, within the limits."""
        batches: list[pa.RecordBatch] = []
        bytes_left = self._config.fetch_max_bytes
        rows_left = rows_all
        for _ in range(len(self._turn)):
            place = self._turn[0]
            self._turn.rotate(-1)
            if place in self._paused:
                continue
            self._reset_if_out_of_range(place)
            cursor = self._cursors[place]
            while bytes_left > 0 and (rows_left is None or rows_left > 0):
                try:
                    batch = cursor.next_batch(min(rows_each, rows_left or rows_each))
                except SparklogError:
                    if batches:
                        return batches  # their positions have moved; the error comes next time
                    raise
                if batch is None:
                    break
                batches.append(batch)
                bytes_left -= batch.nbytes
                rows_left = None if rows_left is None else rows_left - batch.num_rows
            if bytes_left <= 0 or rows_left == 0:
                break
        return batches

    def _watched(self) -> list[str]:
        """The folders in which something may appear that a waiting poll must see."""
        return [reader.table_log.log_folder for reader in self._readers.values()]

    def _wait_seconds_max(self) -> float:
        """How long a poll may wait before it looks again, whatever is watched."""
        return float("inf")

    def _refresh(self) -> None:
        for topic, reader in self._readers.items():
            if reader.refresh() and topic in self._whole_topics:
                for partition in range(len(reader.offsets.next)):
                    if (topic, partition) not in self._cursors:
                        self._take((topic, partition), 0)

    def _reset_if_out_of_range(self, place: TopicPartition) -> None:
        topic, partition = place
        offsets = self._readers[topic].offsets
        position = self._cursors[place].position
        start, end = offsets.start[partition], offsets.next[partition]
        if start <= position <= end:
            return
        if self._config.auto_offset_reset == "none":
            raise OffsetOutOfRangeError(
                f"topic {topic!r} partition {partition}: offset {position} is out of range; it "
                f"holds {start} to {end}. Seek, or set auto_offset_reset"
            )
        self._place(place, start if self._config.auto_offset_reset == "earliest" else end)

    def _take(self, place: TopicPartition, offset: int | None = None) -> None:
        topic, partition = place
        offsets = self._readers[topic].offsets
        if offset is None:
            latest = self._config.auto_offset_reset == "latest"
            offset = offsets.next[partition] if latest else offsets.start[partition]
        self._turn.append(place)
        self._place(place, offset)

    def _place(self, place: TopicPartition, offset: int) -> None:
        topic, partition = place
        reader = self._readers[topic]
        reader.drop_cursor(partition)
        self._cursors[place] = reader.cursor(partition, offset, self._config.check_crcs)

    def _seek_each(self, partitions: tuple[TopicPartition, ...], where: str) -> None:
        for topic, partition in partitions or self.assignment():
            reader = self._cursor_reader(topic, partition)
            offsets = reader.offsets
            offset = offsets.start[partition] if where == "earliest" else offsets.next[partition]
            self._place((topic, partition), offset)

    def _cursor_reader(self, topic: str, partition: int) -> TopicReader:
        self._cursor(topic, partition)
        reader = self._readers[topic]
        reader.refresh()
        return reader

    def _cursor(self, topic: str, partition: int) -> PartitionCursor:
        cursor = self._cursors.get((topic, partition))
        if cursor is None:
            raise InvalidInputError(
                f"topic {topic!r} partition {partition} is not assigned to this consumer; "
                f"assigned: {self.assignment()}"
            )
        return cursor

    def _open(self, topic: str) -> TopicReader:
        if topic not in self._readers:
            self._readers[topic] = TopicReader(self._store, self._clock, check_name(topic))
        return self._readers[topic]

    def _check_open(self) -> None:
        if self._closed:
            raise ClientClosedError("the consumer is closed; open a new one")

    def _no_group(self, what: str) -> UnsupportedError:
        return UnsupportedError(
            f"{what} needs a consumer group: open the consumer with group_id=..."
        )

    def _drop(self, place: TopicPartition) -> None:
        """Stop reading a partition."""
        self._readers[place[0]].drop_cursor(place[1])
        del self._cursors[place]
        self._turn.remove(place)
        self._paused.discard(place)

    def _forget(self) -> None:
        for topic, partition in self._cursors:
            self._readers[topic].drop_cursor(partition)
        self._readers.clear()
        self._cursors.clear()
        self._turn.clear()
        self._paused.clear()
        self._whole_topics.clear()
        self._unwatch()

    def _unwatch(self) -> None:
        """What is to be watched has changed: the next wait watches anew."""
        watcher, self._watcher = self._watcher, None
        if watcher is not None:
            watcher.close()

    def _raise_if_woken(self) -> None:
        if self._woken:
            self._woken = False
            raise WakeupError("wakeup() was called")
