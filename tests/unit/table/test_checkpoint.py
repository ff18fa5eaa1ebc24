"""Checkpoints: replay equals checkpoint plus tail, and damaged ones stop the reader."""

import json
from dataclasses import replace

import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sparklog.errors import CorruptCommitError, ObjectNotFoundError, UnsupportedError
from sparklog.table.actions import (
    Commit,
    CommitInfo,
    DomainMetadata,
    Metadata,
    Protocol,
    Remove,
    Txn,
    checkpoint_name,
)
from sparklog.table.checkpoint import (
    LAST_CHECKPOINT,
    read_checkpoint,
    read_last_checkpoint,
    write_checkpoint,
)
from sparklog.table.table_log import TableLog
from sparklog.table.table_state import TableState
from tests.support.fakes import (
    FOLDER,
    LOG_FOLDER,
    CountingStore,
    FakeClock,
    an_add,
    commit_key,
    put_commit,
    table_start,
)

HINT = LOG_FOLDER + LAST_CHECKPOINT
_paths = st.sampled_from(["p0/a", "p0/b", "p1/c", "p1/d"])
_names = st.sampled_from(["x", "y", "z"])
_actions = st.one_of(
    st.builds(an_add, _paths, st.integers(0, 9), st.integers(0, 1), st.integers(1, 99)),
    st.builds(lambda path, tags: replace(an_add(path), tags=tags), _paths, st.just({"t": "x"})),
    st.builds(Remove, _paths, st.integers(999_999_000, 1_000_000_000), st.booleans()),
    st.builds(Txn, _names, st.integers(0, 2**62), st.integers(0, 5)),
    st.builds(DomainMetadata, _names, st.text(max_size=5), st.booleans()),
    st.builds(
        Metadata,
        st.sampled_from(["id", "other"]),
        st.sampled_from(["", "t"]),
        st.just("{}"),
        st.sampled_from([(), ("partition", "base_offset")]),
        st.dictionaries(_names, st.text(max_size=5), max_size=2),
        st.integers(0, 9),
    ),
)
_histories = st.lists(st.lists(_actions, max_size=4), max_size=8)


@pytest.fixture
def clock():
    return FakeClock()


@pytest.fixture
def store(clock):
    return CountingStore(clock)


def replay(history):
    """The state after these lists of actions, one a version."""
    state = TableState(FOLDER)
    for version, actions in enumerate(history):
        state.apply(Commit(version, (CommitInfo(1, "TEST", str(version)), *actions)))
    return state


def whole(state):
    """Everything that a state knows, in a form that compares."""
    adds = state.files.adds().sort_by("path").to_pylist(maps_as_pydicts="strict")
    removes = sorted((r.path, r.deletion_timestamp, r.data_change) for r in state.files.removes())
    values = (state.protocol, state.metadata, state.txns, state.domains, state.config)
    return state.version, values, state.log_retention_ms, adds, removes


@settings(max_examples=60, deadline=None)
@given(_histories, st.data())
def test_checkpoint_and_tail_of_any_history_equal_its_replay(rest, data):
    history = [table_start(), *rest]
    at = data.draw(st.integers(0, len(history) - 1))
    store = CountingStore()
    write_checkpoint(store, replay(history[: at + 1]), FakeClock())
    for version in range(at + 1, len(history)):
        put_commit(store, version, *history[version])
    opened = TableLog(store, FOLDER, FakeClock()).open()
    assert whole(opened) == whole(replay(history))


@settings(max_examples=30, deadline=None)
@given(_histories)
def test_checkpoint_of_a_state_that_came_from_a_checkpoint_is_the_same(rest):
    history = [table_start(), *rest]
    store, clock = CountingStore(), FakeClock()
    write_checkpoint(store, replay(history), clock)
    again = read_checkpoint(store, FOLDER, len(history) - 1)
    write_checkpoint(store, again, clock)
    assert whole(read_checkpoint(store, FOLDER, len(history) - 1)) == whole(replay(history))


def test_metadata_with_a_new_id_forgets_writers_and_the_same_id_keeps_them():
    kept = replay([table_start("a"), [Txn("p", 5, 0)], table_start("a")])
    assert kept.txns == {"p": Txn("p", 5, 0)}
    assert replay([table_start("a"), [Txn("p", 5, 0)], table_start("b")]).txns == {}


def test_tombstones_past_the_grace_are_dropped_and_younger_ones_kept(store, clock):
    now, hour = clock.now_ms(), 3_600_000
    state = replay(
        [
            table_start(),
            [Remove("old", now - hour, True), Remove("young", now - hour + 1, True)],
        ]
    )
    write_checkpoint(store, state, clock)
    assert [r.path for r in read_checkpoint(store, FOLDER, 1).files.removes()] == ["young"]
    clock.seconds += 1
    write_checkpoint(store, read_checkpoint(store, FOLDER, 1), clock)
    assert list(read_checkpoint(store, FOLDER, 1).files.removes()) == []


def test_tombstone_grace_is_the_tables_own(store, clock):
    configuration = {"delta.deletedFileRetentionDuration": "interval 10 seconds"}
    removed = Remove("p", clock.now_ms() - 9_999, True)
    write_checkpoint(store, replay([table_start(**configuration), [removed]]), clock)
    assert list(read_checkpoint(store, FOLDER, 1).files.removes()) == [removed]
    clock.seconds += 0.001
    write_checkpoint(store, read_checkpoint(store, FOLDER, 1), clock)
    assert list(read_checkpoint(store, FOLDER, 1).files.removes()) == []


def test_writers_rows_stand_in_a_row_group_without_files(store, clock):
    history = [table_start(), [Txn("p", 1, 0), *(an_add(f"p0/{i}") for i in range(50))]]
    write_checkpoint(store, replay(history), clock)
    file = pq.ParquetFile(store.open_input(LOG_FOLDER + checkpoint_name(1)))
    assert file.num_row_groups == 2
    first, second = (file.read_row_group(i) for i in range(2))
    assert first["add"].null_count == first.num_rows == 3
    assert second["add"].null_count == 0 and second.num_rows == 50
    assert second["txn"].null_count == second["metaData"].null_count == 50


def test_file_list_is_read_only_when_first_asked_for_and_once(store, clock):
    write_checkpoint(store, replay([table_start(), [an_add("p0/a")]]), clock)
    store.forget()
    state = read_checkpoint(store, FOLDER, 1)
    assert store.counted()["open_input"] == 1
    assert state.files.paths() == state.files.paths() == ["p0/a"]
    assert store.counted()["open_input"] == 2


def test_hint_names_the_newest_checkpoint_and_never_goes_back(store, clock):
    history = [table_start(), [Txn("p", 1, 0)], [Txn("p", 2, 0)]]
    write_checkpoint(store, replay(history), clock)
    assert json.loads(store.get(HINT)) == {"version": 2, "size": 3}
    write_checkpoint(store, replay(history[:2]), clock)
    assert read_last_checkpoint(store, LOG_FOLDER) == 2


def test_checkpoint_first_makes_durable_what_stands_in_the_page_cache(store, clock):
    state = replay([table_start()])
    info = CommitInfo(1, "WRITE", "n", tags={"sparklog.acks": "1"})
    state.apply(Commit(1, (info, an_add("p0/a"))))
    for key in (commit_key(1), FOLDER + "p0/a"):
        store.put(key, b"x")
    store.forget()
    write_checkpoint(store, state, clock)
    assert store.calls[:2] == [("sync", commit_key(1)), ("sync", FOLDER + "p0/a")]
    assert ("put", LOG_FOLDER + checkpoint_name(1)) in store.calls[2:]
    assert state.unsynced == []


def test_checkpoint_is_not_written_when_what_it_covers_cannot_be_made_durable(store, clock):
    state = replay([table_start()])
    state.apply(Commit(1, (CommitInfo(1, "WRITE", "n", tags={"sparklog.acks": "1"}),)))
    with pytest.raises(ObjectNotFoundError):
        write_checkpoint(store, state, clock)
    assert store.contents() == {} and state.unsynced == [commit_key(1)]


@pytest.mark.parametrize(
    "data", [b"", b"{", b"[]", b"null", b"{}", b'{"version":"1"}', b'{"version":-1}', b"\xff"]
)
def test_malformed_hint_stops_the_reader_and_is_named(store, clock, data):
    put_commit(store, 0, *table_start())
    store.put(HINT, data)
    with pytest.raises(CorruptCommitError, match=LAST_CHECKPOINT):
        TableLog(store, FOLDER, clock).open()


def test_absent_hint_is_none(store):
    assert read_last_checkpoint(store, LOG_FOLDER) is None


@pytest.mark.parametrize("version", [0, 1, 2, 9, 10**25])
def test_hint_naming_a_missing_checkpoint_is_only_a_hint(store, clock, version):
    history = [table_start(), [Txn("p", 1, 0)], [Txn("p", 2, 0)]]
    for at, actions in enumerate(history):
        put_commit(store, at, *actions)
    store.put(HINT, json.dumps({"version": version}).encode())
    assert whole(TableLog(store, FOLDER, clock).open()) == whole(replay(history))


@pytest.mark.parametrize("hint", [0, 2, 4])
def test_hint_naming_a_missing_checkpoint_finds_the_one_there_is(store, clock, hint):
    history = [table_start(), *([Txn("p", i, 0)] for i in range(5))]
    for at in range(3, 6):
        put_commit(store, at, *history[at])
    write_checkpoint(store, replay(history[:4]), clock)
    store.put(HINT, json.dumps({"version": hint}).encode())
    assert whole(TableLog(store, FOLDER, clock).open()) == whole(replay(history))


@pytest.mark.parametrize("keep", [0, 3, 0.5, -9, -1])
def test_truncated_checkpoint_stops_the_reader_and_is_named(store, clock, keep):
    write_checkpoint(store, replay([table_start(), [an_add("p0/a")]]), clock)
    key = LOG_FOLDER + checkpoint_name(1)
    data = store.get(key)
    cut = int(len(data) * keep) if isinstance(keep, float) else keep
    store.corrupt(key, data[:cut])
    with pytest.raises(CorruptCommitError, match=checkpoint_name(1)) as caught:
        TableLog(store, FOLDER, clock).open()
    assert "version 1" in str(caught.value)


def test_checkpoint_of_another_shape_stops_the_reader_and_is_named(store, clock):
    write_checkpoint(store, replay([table_start()]), clock)
    key = LOG_FOLDER + checkpoint_name(0)
    table = pq.read_table(store.open_input(key))
    no_metadata = table.filter(table["metaData"].is_null())
    store.write_file(key, lambda sink: pq.write_table(no_metadata, sink))
    with pytest.raises(CorruptCommitError, match=checkpoint_name(0)):
        TableLog(store, FOLDER, clock).open()


def test_checkpoint_without_a_column_stops_the_reader_and_is_named(store, clock):
    write_checkpoint(store, replay([table_start()]), clock)
    key = LOG_FOLDER + checkpoint_name(0)
    table = pq.read_table(store.open_input(key)).drop_columns(["txn"])
    store.write_file(key, lambda sink: pq.write_table(table, sink))
    with pytest.raises(CorruptCommitError, match=checkpoint_name(0)):
        TableLog(store, FOLDER, clock).open()


def test_checkpoint_without_a_file_list_stops_whoever_asks_for_it(store, clock):
    write_checkpoint(store, replay([table_start(), [an_add("p0/a")]]), clock)
    key = LOG_FOLDER + checkpoint_name(1)
    table = pq.read_table(store.open_input(key)).drop_columns(["add"])
    store.write_file(key, lambda sink: pq.write_table(table, sink))
    files = TableLog(store, FOLDER, clock).open().files
    with pytest.raises(CorruptCommitError, match=checkpoint_name(1)):
        files.paths()


def test_checkpoint_with_a_flipped_bit_stops_the_reader_and_is_named(store, clock):
    write_checkpoint(store, replay([table_start(), [Txn("producer/one", 5, 0)]]), clock)
    key = LOG_FOLDER + checkpoint_name(1)
    flipped = bytearray(store.get(key))
    flipped[flipped.index(b"producer/one")] ^= 1
    store.corrupt(key, bytes(flipped))
    with pytest.raises(CorruptCommitError, match=checkpoint_name(1)):
        TableLog(store, FOLDER, clock).open()


def test_checkpoint_of_a_newer_protocol_is_refused(store, clock):
    state = replay([table_start()])
    state.protocol = Protocol(1, 7, ("domainMetadata", "rowTracking"))
    write_checkpoint(store, state, clock)
    with pytest.raises(UnsupportedError, match="rowTracking"):
        TableLog(store, FOLDER, clock).open()
