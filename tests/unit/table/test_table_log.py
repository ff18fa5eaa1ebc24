"""Opening and following a table log: what it costs, and what makes it stop."""

import pytest

from sparklog.errors import (
    CorruptCommitError,
    StoreUnavailableError,
    TableNotFoundError,
    UnsupportedError,
)
from sparklog.table.actions import (
    DomainMetadata,
    Protocol,
    Txn,
    checkpoint_name,
    commit_name,
)
from sparklog.table.checkpoint import LAST_CHECKPOINT, write_checkpoint
from sparklog.table.table_log import TableLog
from tests.support.fakes import (
    FOLDER,
    LOG_FOLDER,
    CountingStore,
    FakeClock,
    HidingStore,
    commit_key,
    put_commit,
    table_start,
)

RETENTION_SECONDS = 3600


@pytest.fixture
def clock():
    return FakeClock()


@pytest.fixture
def store(clock):
    return HidingStore(clock)


def fill(store, newest, checkpoint=None, cleaned=0):
    """A table with versions 0 to `newest`; those before `cleaned` are gone again."""
    put_commit(store, 0, *table_start())
    for version in range(1, newest + 1):
        put_commit(store, version, Txn("p", version, 0))
    if checkpoint is not None:
        clock = FakeClock()
        view = CountingStore(clock)
        for version in range(checkpoint + 1):
            view.put(commit_key(version), store.get(commit_key(version)))
        write_checkpoint(view, TableLog(view, FOLDER, clock).open(), clock)
        for name in (checkpoint_name(checkpoint), LAST_CHECKPOINT):
            store.put(LOG_FOLDER + name, view.get(LOG_FOLDER + name))
    for version in range(cleaned):
        store.delete(commit_key(version))
    store.forget()


def table_log(store, clock):
    return TableLog(store, FOLDER, clock)


@pytest.mark.parametrize("newest", [20, 200])
def test_open_costs_the_hint_one_listing_the_checkpoint_and_the_tail(store, clock, newest):
    fill(store, newest, checkpoint=newest - 3)
    state = table_log(store, clock).open()
    assert state.version == newest and state.txns["p"].version == newest
    assert store.calls == [
        ("get", LOG_FOLDER + LAST_CHECKPOINT),
        ("list_from", LOG_FOLDER),
        ("open_input", LOG_FOLDER + checkpoint_name(newest - 3)),
        *(("get", commit_key(newest - 2 + i)) for i in range(3)),
    ]


def test_open_without_a_checkpoint_reads_each_commit_once(store, clock):
    fill(store, 4)
    assert table_log(store, clock).open().version == 4
    assert store.counted() == {"get": 6, "list_from": 1}


def test_open_where_nothing_was_committed_is_not_found(store, clock):
    with pytest.raises(TableNotFoundError, match=FOLDER):
        table_log(store, clock).open()


def test_refresh_with_nothing_new_is_exactly_one_get(store, clock):
    fill(store, 30, checkpoint=20)
    log = table_log(store, clock)
    log.open()
    store.forget()
    found = log.refresh()
    assert (found.commits, found.reloaded) == ((), False)
    assert store.calls == [("get", commit_key(31))]


def test_refresh_gives_new_commits_in_order_and_no_listing(store, clock):
    fill(store, 2)
    log = table_log(store, clock)
    log.open()
    for version in (3, 4):
        put_commit(store, version, DomainMetadata("d", str(version)))
    store.forget()
    assert [commit.version for commit in log.refresh().commits] == [3, 4]
    assert log.state.domains == {"d": "4"}
    assert store.counted() == {"get": 3}


@pytest.mark.parametrize("missing", [0, 3, 6])
def test_missing_version_is_named_with_its_file(store, clock, missing):
    fill(store, 7)
    store.delete(commit_key(missing))
    with pytest.raises(CorruptCommitError, match=commit_name(missing)) as caught:
        table_log(store, clock).open()
    assert f"version {missing}" in str(caught.value)


def test_missing_version_after_the_checkpoint_is_named(store, clock):
    fill(store, 9, checkpoint=5, cleaned=5)
    store.delete(commit_key(6))
    with pytest.raises(CorruptCommitError, match=commit_name(6)):
        table_log(store, clock).open()


def test_corrupt_commit_among_new_ones_gives_the_good_ones_first_then_stops(store, clock):
    fill(store, 1)
    log = table_log(store, clock)
    log.open()
    put_commit(store, 2, DomainMetadata("d", "2"))
    store.put(commit_key(3), b"")
    put_commit(store, 4, DomainMetadata("d", "4"))
    assert [commit.version for commit in log.refresh().commits] == [2]
    for _ in range(2):
        with pytest.raises(CorruptCommitError, match=commit_name(3)):
            log.refresh()
    assert log.state.version == 2 and log.state.domains == {"d": "2"}


def test_reader_awake_within_half_the_retention_does_not_list(store, clock):
    fill(store, 5)
    log = table_log(store, clock)
    log.open()
    store.forget()
    clock.seconds += RETENTION_SECONDS / 2
    log.refresh()
    assert store.counted() == {"get": 1}


def test_reader_that_slept_past_half_the_retention_loads_anew(store, clock):
    fill(store, 5)
    log = table_log(store, clock)
    log.open()
    fill(store, 30, checkpoint=20, cleaned=15)
    clock.seconds += RETENTION_SECONDS / 2 + 1
    found = log.refresh()
    assert found.reloaded and found.commits == ()
    assert log.state.version == 30 and log.state.txns["p"].version == 30
    assert store.counted()["list_from"] == 1


def test_reader_that_slept_through_nothing_has_not_passed_anything_over(store, clock):
    fill(store, 5)
    log = table_log(store, clock)
    log.open()
    clock.seconds += RETENTION_SECONDS
    assert not log.refresh().reloaded
    store.forget()
    log.refresh()
    assert store.counted() == {"get": 1}, "the load counts as a look"


def test_half_of_the_tables_own_retention_counts(store, clock):
    put_commit(store, 0, *table_start(**{"delta.logRetentionDuration": "interval 10 seconds"}))
    log = table_log(store, clock)
    log.open()
    assert not log.stale(clock.monotonic() + 5)
    assert log.stale(clock.monotonic() + 5.001)


def test_failed_look_does_not_count_as_one(store, clock):
    fill(store, 1)
    log = table_log(store, clock)
    log.open()
    read_at = log.read_at
    clock.seconds += 10
    store.put(commit_key(2), b"torn")
    with pytest.raises(CorruptCommitError):
        log.refresh()
    assert log.read_at == read_at


def test_listing_that_misses_a_commit_in_the_middle_changes_nothing(store, clock):
    fill(store, 9)
    store.hidden = {commit_key(4), commit_key(5)}
    assert table_log(store, clock).open().version == 9


def test_listing_that_misses_the_newest_is_made_good_by_the_next_refresh(store, clock):
    fill(store, 9)
    store.hidden = {commit_key(8), commit_key(9)}
    log = table_log(store, clock)
    assert log.open().version == 7
    assert [commit.version for commit in log.refresh().commits] == [8, 9]


def test_listing_that_misses_the_checkpoint_of_a_cleaned_log_stops(store, clock):
    fill(store, 9, checkpoint=6, cleaned=5)
    store.hidden = {LOG_FOLDER + checkpoint_name(6)}
    with pytest.raises(CorruptCommitError, match=commit_name(0)):
        table_log(store, clock).open()


def test_listing_that_misses_the_newest_checkpoint_uses_an_older_one(store, clock):
    fill(store, 9, checkpoint=4)
    fill(store, 9, checkpoint=7)
    store.hidden = {LOG_FOLDER + checkpoint_name(7)}
    assert table_log(store, clock).open().version == 9


def test_empty_listing_beside_a_hint_is_not_taken_for_an_empty_table(store, clock):
    fill(store, 9, checkpoint=9, cleaned=9)
    store.hidden = set(store.contents())
    log = table_log(store, clock)
    with pytest.raises(CorruptCommitError):
        log.refresh()


def test_stale_listing_never_takes_a_sleepers_view_back(store, clock):
    fill(store, 9)
    log = table_log(store, clock)
    log.open()
    store.hidden = {commit_key(8), commit_key(9)}
    clock.seconds += RETENTION_SECONDS
    try:
        log.refresh()
    except CorruptCommitError:
        pass  # to stop is safe too
    assert log.state.version == 9


def test_clean_up_between_the_listing_and_the_reads_is_looked_at_again(store, clock):
    fill(store, 9)
    real, first = store.list_from, []

    def list_from(folder, after=""):
        found = list(real(folder, after))
        if not first:
            first.append(1)
            fill(store, 12, checkpoint=10, cleaned=8)
        return iter(found)

    store.list_from = list_from
    assert table_log(store, clock).open().version == 12


def test_checkpoint_cleaned_between_the_listing_and_its_read_is_looked_at_again(store, clock):
    fill(store, 9, checkpoint=5)
    real, first = store.list_from, []

    def list_from(folder, after=""):
        found = list(real(folder, after))
        if not first:
            first.append(1)
            fill(store, 12, checkpoint=10, cleaned=8)
            store.delete(LOG_FOLDER + checkpoint_name(5))
        return iter(found)

    store.list_from = list_from
    assert table_log(store, clock).open().version == 12


def test_file_list_of_a_cleaned_checkpoint_wants_the_table_opened_anew(store, clock):
    fill(store, 9, checkpoint=5)
    log = table_log(store, clock)
    log.open()
    for version in range(10, 20):
        put_commit(store, version, Txn("p", version, 0))
        clock.seconds += RETENTION_SECONDS / 3
        log.refresh()
    fill(store, 19, checkpoint=18, cleaned=18)
    store.delete(LOG_FOLDER + checkpoint_name(5))
    assert not log.state.files.available()
    assert table_log(store, clock).open().files.available()


@pytest.mark.parametrize(
    "protocol",
    [
        Protocol(2, 7),
        Protocol(3, 7),
        Protocol(1, 8),
        Protocol(1, 7, ("domainMetadata", "deletionVectors")),
    ],
)
def test_protocol_of_a_newer_writer_is_refused_by_name(store, clock, protocol):
    fill(store, 3)
    log = table_log(store, clock)
    log.open()
    put_commit(store, 4, protocol)
    with pytest.raises(UnsupportedError, match="upgrade sparklog") as caught:
        log.refresh()
    assert str(protocol.min_reader_version) in str(caught.value) and FOLDER in str(caught.value)
    assert log.state.version == 3
    with pytest.raises(UnsupportedError):
        table_log(store, clock).open()


def test_protocol_of_an_older_writer_is_read(store, clock):
    put_commit(store, 0, Protocol(1, 2, ()), table_start()[1])
    assert table_log(store, clock).open().version == 0


@pytest.mark.parametrize(("version", "covered"), [(0, True), (6, True), (7, False)])
def test_checkpoint_at_or_after_looks_at_checkpoints_only(store, clock, version, covered):
    fill(store, 9, checkpoint=6)
    assert table_log(store, clock).checkpoint_at_or_after(version) is covered


def test_store_that_fails_is_not_taken_for_the_end_of_the_log(store, clock):
    fill(store, 3)
    log = table_log(store, clock)
    log.open()
    store.faults.rates = type(store.faults.rates)(read=1.0)
    with pytest.raises(StoreUnavailableError):
        log.refresh()
