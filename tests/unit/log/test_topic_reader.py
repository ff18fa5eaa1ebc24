"""Reading a topic from any offset while it grows, is merged, cut short, or replaced."""

import json
from dataclasses import replace

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sparklog.clock import SystemIds
from sparklog.errors import (
    CorruptSegmentError,
    TopicReplacedError,
    UnknownPartitionError,
    UnknownTopicError,
)
from sparklog.log import topic_reader
from sparklog.log.segment import read_segment, write_segment
from sparklog.log.topic_reader import TopicReader
from sparklog.log.topic_state import PartitionOffsets
from sparklog.table.actions import Remove, checkpoint_name
from sparklog.table.clean_up import clean_up
from sparklog.table.committer import Attempt, Committer
from sparklog.table.table_log import TableLog
from tests.support.fakes import (
    FOLDER,
    LOG_FOLDER,
    CountingStore,
    FakeClock,
    commit_key,
    open_log,
    records_table,
)


class World:
    """A topic `t` in memory, and what others do to it."""

    def __init__(self, partitions=1):
        self.store, self.clock, self.log = open_log()
        self.log.create_topic("t", partitions)
        self.producer = self.log.producer(background=False)

    def send(self, *values, partition=0, stamps=None):
        """One commit with these values."""
        for i, value in enumerate(values):
            stamp = None if stamps is None else stamps[i]
            self.producer.send("t", value=value, partition=partition, timestamp_ms=stamp)
        self.producer.flush()

    def reader(self):
        return TopicReader(self.store, self.clock, "t")

    def commit(self, actions):
        view = TableLog(self.store, FOLDER, self.clock)
        view.open()
        committer = Committer(view, self.clock, SystemIds())
        committer.commit(Attempt("TEST", SystemIds().unique()), lambda _: actions)

    def segments(self, partition=0):
        log = self.reader().partition_log(partition)
        return list(log.segments()) if log else []

    def merge(self):
        """Merge all segments of partition 0 into one, and delete the small files."""
        old = self.segments()
        tables = [
            table
            for s in old
            for table in read_segment(self.store, FOLDER, s, s.base_offset, s.last_offset + 1)
        ]
        records = pa.concat_tables(tables).drop_columns(["offset_delta"])
        path = f"p0/merged-{SystemIds().unique()}.parquet"
        written = write_segment(self.store, FOLDER, path, records, "lz4", True)
        added = replace(written.to_add(old[0].base_offset, 0), data_change=False)
        self.commit([added, *(Remove(s.path, self.clock.now_ms(), False) for s in old)])
        for segment in old:
            self.store.delete(FOLDER + segment.path)

    def cut_before(self, start):
        """Retention: the log starts later, and files before it are gone."""
        gone = [s for s in self.segments() if s.last_offset < start]
        offsets = PartitionOffsets.of(TableLog(self.store, FOLDER, self.clock).open())
        moved = PartitionOffsets((start, *offsets.start[1:]), offsets.next)
        self.commit([moved.to_action(), *(Remove(s.path, 1, True) for s in gone)])
        for segment in gone:
            self.store.delete(FOLDER + segment.path)


@pytest.fixture
def world():
    return World()


def drain(cursor, rows_max=1000):
    values = []
    while (batch := cursor.next_batch(rows_max)) is not None:
        assert 0 < batch.num_rows <= rows_max
        values += zip(batch["offset"].to_pylist(), batch["value"].to_pylist(), strict=True)
    return values


def numbered(first, end):
    return [(i, b"%d" % i) for i in range(first, end)]


def fill(world, *counts):
    """Commits of so many records each; a record's value is its offset."""
    at = 0
    for count in counts:
        world.send(*(b"%d" % i for i in range(at, at + count)))
        at += count
    return at


@pytest.mark.parametrize("rows_max", [1, 2, 3, 100])
@pytest.mark.parametrize("start", range(11))
def test_cursor_from_any_offset_reads_the_rest_in_order(world, start, rows_max):
    end = fill(world, 3, 1, 4, 2)
    cursor = world.reader().cursor(0, start)
    assert drain(cursor, rows_max) == numbered(start, end)
    assert cursor.position == max(start, end) and cursor.lag() == 0


def test_cursor_position_follows_what_was_given(world):
    fill(world, 5)
    cursor = world.reader().cursor(0, 1)
    assert (cursor.position, cursor.lag()) == (1, 4)
    cursor.next_batch(2)
    assert (cursor.position, cursor.lag()) == (3, 2)


def test_cursor_on_a_partition_that_is_not_there_is_refused(world):
    with pytest.raises(UnknownPartitionError, match="no partition 1"):
        world.reader().cursor(1, 0)


def test_cursors_read_their_own_partition_only():
    world = World(partitions=2)
    world.send(b"a", partition=0)
    world.send(b"b", partition=1)
    reader = world.reader()
    assert [drain(reader.cursor(p, 0)) for p in range(2)] == [[(0, b"a")], [(0, b"b")]]


def test_tailing_cursor_reads_new_segments_without_the_file_list(world):
    fill(world, 3)
    reader = world.reader()
    cursor = reader.cursor(0, 3)
    world.send(b"3", b"4")
    world.send(b"5")
    reader.partition_log = None  # the file list is out of reach
    assert cursor.next_batch(10) is None, "nothing is known before the next look"
    assert reader.refresh()
    assert drain(cursor) == numbered(3, 6)
    assert not reader.refresh()


def test_cursor_with_a_backlog_reads_what_came_meanwhile_once(world):
    fill(world, 3, 3)
    reader = world.reader()
    cursor = reader.cursor(0, 0)
    got = [cursor.next_batch(2)["offset"].to_pylist()]
    world.send(b"6")
    reader.refresh()
    world.send(b"7")
    reader.refresh()
    assert got + [[offset] for offset, _ in drain(cursor)] == [[0, 1], *([i] for i in range(2, 8))]


def test_tailing_cursor_that_falls_far_behind_plans_anew(world, monkeypatch):
    monkeypatch.setattr(topic_reader, "TAIL_SEGMENTS_MAX", 2)
    reader = world.reader()
    cursor = reader.cursor(0, 0)
    for i in range(6):
        world.send(b"%d" % i)
        reader.refresh()
    assert drain(cursor) == numbered(0, 6)


def test_dropped_cursor_is_not_supplied_any_more(world):
    reader = world.reader()
    cursor = reader.cursor(0, 0)
    reader.drop_cursor(0)
    world.send(b"0")
    reader.refresh()
    assert not cursor._tail


@pytest.mark.parametrize("read_first", [0, 1, 3, 5])
def test_segments_merged_under_a_reader_are_found_again_by_offset(world, read_first):
    fill(world, 2, 2, 2)
    cursor = world.reader().cursor(0, 0)
    got = []
    for _ in range(read_first):
        got += cursor.next_batch(1)["offset"].to_pylist()
    world.merge()
    assert got + [offset for offset, _ in drain(cursor)] == list(range(6))


def test_segments_merged_under_a_tailing_reader_are_found_again_by_offset(world):
    reader = world.reader()
    cursor = reader.cursor(0, 0)
    fill(world, 2, 2)
    reader.refresh()
    world.merge()
    assert drain(cursor) == numbered(0, 4)
    world.send(b"4")
    reader.refresh()
    assert drain(cursor) == numbered(4, 5)


def test_merge_that_changes_no_data_is_not_read_twice(world):
    fill(world, 2, 2)
    reader = world.reader()
    cursor = reader.cursor(0, 0)
    assert drain(cursor) == numbered(0, 4)
    world.merge()
    assert reader.refresh()
    assert drain(cursor) == []


def test_segment_gone_without_a_successor_is_corrupt_and_never_skipped(world):
    fill(world, 2, 2)
    lost = world.segments()[0]
    world.store.delete(FOLDER + lost.path)
    cursor = world.reader().cursor(0, 0)
    for _ in range(2):
        with pytest.raises(CorruptSegmentError, match=lost.path):
            cursor.next_batch(10)
        assert cursor.position == 0


def test_segment_removed_by_retention_ends_the_read_and_not_with_later_records(world):
    fill(world, 2, 2)
    reader = world.reader()
    cursor = reader.cursor(0, 0)
    world.cut_before(2)
    assert cursor.next_batch(10) is None
    assert cursor.position == 0 and reader.offsets.start == (2,)
    assert drain(reader.cursor(0, 2)) == numbered(2, 4)


def test_failed_read_is_taken_up_where_it_broke(world):
    fill(world, 2, 2)
    cursor = world.reader().cursor(0, 0)
    segment = world.segments()[1]
    good = world.store.get(FOLDER + segment.path)
    assert cursor.next_batch(10)["offset"].to_pylist() == [0, 1]
    world.store.corrupt(FOLDER + segment.path, good[:-1])
    with pytest.raises(CorruptSegmentError):
        cursor.next_batch(10)
    world.store.corrupt(FOLDER + segment.path, good)
    assert drain(cursor) == numbered(2, 4)


def test_malformed_entry_at_the_tail_is_never_jumped_over(world):
    reader = world.reader()
    cursor = reader.cursor(0, 0)
    world.send(b"0")
    lines = world.store.get(commit_key(1)).splitlines()
    bad = [json.loads(line) for line in lines]
    bad[-1]["add"]["stats"] = "{}"
    world.store.corrupt(commit_key(1), b"".join(json.dumps(b).encode() + b"\n" for b in bad))
    with pytest.raises(CorruptSegmentError):
        reader.refresh()
    world.send(b"1")
    try:
        reader.refresh()
        given_out = drain(cursor)
    except CorruptSegmentError:
        given_out = []
    assert given_out == [], "offset 0 was never given"


def test_reader_of_a_topic_that_does_not_stand_is_refused():
    store, clock, log = open_log()
    with pytest.raises(UnknownTopicError, match="'t'"):
        TopicReader(store, clock, "t")
    log.create_topic("t")
    log.delete_topic("t")
    with pytest.raises(UnknownTopicError, match="'t'"):
        TopicReader(store, clock, "t")


def test_topic_deleted_or_created_again_stops_the_reader(world):
    fill(world, 2)
    first, second = world.reader(), world.reader()
    world.log.delete_topic("t")
    with pytest.raises(TopicReplacedError, match="deleted"):
        first.refresh()
    world.log.create_topic("t")
    with pytest.raises(TopicReplacedError, match="created again"):
        second.refresh()


def test_topic_created_again_stops_the_reader_each_time_it_looks(world):
    reader = world.reader()
    world.log.delete_topic("t")
    world.log.create_topic("t")
    for _ in range(3):
        with pytest.raises(TopicReplacedError):
            reader.refresh()


def test_reader_that_slept_through_a_replacement_and_a_clean_up_notices(world):
    reader = world.reader()
    world.log.delete_topic("t")
    world.log.create_topic("t")
    world.log.topic("t").checkpoint()
    world.clock.seconds += 3600
    clean_up(world.store, LOG_FOLDER, world.clock.now_ms(), 0, 0)
    with pytest.raises(TopicReplacedError):
        reader.refresh()


def test_reader_that_slept_past_clean_up_goes_on_at_its_position(world):
    fill(world, 2)
    reader = world.reader()
    cursor = reader.cursor(0, 0)
    assert len(drain(cursor)) == 2
    for i in range(2, 6):
        world.send(b"%d" % i)
    world.log.topic("t").checkpoint()
    world.clock.seconds += 3600
    assert clean_up(world.store, LOG_FOLDER, world.clock.now_ms(), 0, 0)
    assert reader.refresh()
    assert drain(cursor) == numbered(2, 6)


def test_follower_reads_from_the_start_after_its_own_checkpoint_was_cleaned(world):
    fill(world, 2)
    world.log.topic("t").checkpoint()
    reader = world.reader()
    for i in range(2, 6):
        world.clock.seconds += 1500
        world.send(b"%d" % i)
        reader.refresh()
    world.log.topic("t").checkpoint()
    gone = clean_up(world.store, LOG_FOLDER, world.clock.now_ms(), 0, 0)
    assert LOG_FOLDER + checkpoint_name(1) in gone
    assert drain(reader.cursor(0, 0)) == numbered(0, 6)


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.lists(st.integers(0, 30), min_size=1, max_size=5), min_size=1, max_size=5),
    st.integers(0, 6),
)
def test_offset_for_any_time_is_what_a_linear_walk_finds(commits, start):
    """Timestamps in any order; a start offset that may lie inside a segment."""
    world = World()
    for stamps in commits:
        world.send(*([b"x"] * len(stamps)), stamps=stamps)
    flat = [stamp for stamps in commits for stamp in stamps]
    start = min(start, len(flat) - 1)
    world.cut_before(start)
    reader = world.reader()
    for wanted in range(-1, 32):
        found = [(i, s * 1000) for i, s in enumerate(flat) if i >= start and s >= wanted]
        assert reader.offset_for_time(0, wanted * 1000) == (found[0] if found else None)


def test_offset_for_time_tells_microseconds_apart(world):
    stamps = [5_000_001, 5_000_500, 5_000_999]
    records = records_table([b"x"] * 3, stamps)
    written = write_segment(world.store, FOLDER, "p0/x.parquet", records, "lz4", True)
    world.commit([written.to_add(0, 0), PartitionOffsets((0,), (3,)).to_action()])
    reader = world.reader()
    for offset, stamp in enumerate(stamps):
        assert reader.offset_for_time(0, stamp) == (offset, stamp)
    assert reader.offset_for_time(0, 5_001_000) is None


def test_offset_for_time_plans_again_when_a_segment_was_merged(world):
    world.send(b"0", b"1", stamps=[10, 20])
    world.send(b"2", stamps=[30])
    reader = world.reader()
    reader.partition_log(0)
    world.merge()
    assert reader.offset_for_time(0, 20_000) == (1, 20_000)


def test_log_append_time_is_told_with_each_record():
    store, clock, log = open_log(CountingStore(FakeClock()))
    log.create_topic("t", config={"message.timestamp.type": "LogAppendTime"})
    log.producer(background=False).send("t", value=b"x").result()
    batch = TopicReader(store, clock, "t").cursor(0, 0).next_batch(1)
    assert batch["timestampType"].to_pylist() == [1]
