"""Log clean-up: what may go, by time and by count, without ever opening a gap."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparklog.storage import ObjectInfo
from sparklog.table.actions import Txn, checkpoint_name, commit_name, version_of
from sparklog.table.checkpoint import write_checkpoint
from sparklog.table.clean_up import VERSIONS_KEPT, clean_up, plan_clean_up
from sparklog.table.table_log import TableLog
from tests.support.fakes import (
    FOLDER,
    LOG_FOLDER,
    CountingStore,
    FakeClock,
    put_commit,
    table_start,
)

RETENTION_MS = 1000
NOW_MS = 1_000_000
OLD_MS = NOW_MS - RETENTION_MS


def listing(commits, checkpoints=(), modified_ms=None):
    """A folder with these versions, all old unless said otherwise, in key order."""
    names = [*map(commit_name, commits), *map(checkpoint_name, checkpoints), "_last_checkpoint"]
    times = modified_ms or {}
    return [ObjectInfo(LOG_FOLDER + n, 1, times.get(n, OLD_MS)) for n in sorted(names)]


def plan(infos, versions_kept=0):
    keys = plan_clean_up(infos, NOW_MS, RETENTION_MS, versions_kept)
    return [key.removeprefix(LOG_FOLDER) for key in keys]


def test_without_a_checkpoint_nothing_goes():
    assert plan(listing(range(50))) == []


def test_old_commits_and_checkpoints_behind_the_newest_checkpoint_go_oldest_first():
    assert plan(listing(range(5), [1, 3])) == [
        commit_name(0),
        checkpoint_name(1),
        commit_name(1),
        commit_name(2),
    ]


def test_newest_checkpoint_and_what_follows_it_stay():
    gone = plan(listing(range(6), [3]))
    assert gone == [commit_name(0), commit_name(1), commit_name(2)]


@pytest.mark.parametrize(("kept", "gone"), [(0, 10), (1, 9), (9, 1), (10, 0), (11, 0)])
def test_commits_within_the_count_stay_however_old(kept, gone):
    assert plan(listing(range(12), [10]), kept) == [commit_name(v) for v in range(gone)]


def test_default_count_is_ten_thousand_behind_the_checkpoint():
    infos = listing([0, 1], [VERSIONS_KEPT + 1])
    assert plan_clean_up(infos, NOW_MS, RETENTION_MS) == [LOG_FOLDER + commit_name(0)]
    assert VERSIONS_KEPT == 10_000


def test_commits_younger_than_the_retention_stay_whatever_the_count():
    young = {commit_name(v): OLD_MS + 1 for v in range(3, 9)}
    assert plan(listing(range(9), [8], young)) == [commit_name(v) for v in range(3)]


def test_young_file_in_the_middle_keeps_all_older_looking_ones_behind_it():
    assert plan(listing(range(9), [8], {commit_name(2): NOW_MS})) == [
        commit_name(0),
        commit_name(1),
    ]


def test_files_of_other_kinds_are_never_touched():
    other = ObjectInfo(LOG_FOLDER + "00000000000000000000.crc", 1, 0)
    assert "00000000000000000000.crc" not in plan([other, *listing(range(3), [2])])


@given(
    st.integers(0, 30),
    st.integers(1, 30),
    st.sets(st.integers(0, 60), max_size=4),
    st.lists(st.integers(OLD_MS - 3, OLD_MS + 3), min_size=100, max_size=100),
    st.integers(0, 12),
)
def test_any_plan_opens_no_gap_and_obeys_time_and_count(first, count, marks, times, kept):
    versions = range(first, first + count)
    checkpoints = sorted(v for v in marks if v in versions)
    names = sorted([*map(commit_name, versions), *map(checkpoint_name, checkpoints)])
    modified = dict(zip(names, times, strict=False))
    infos = listing(versions, checkpoints, modified)
    before = list(infos)
    gone = set(plan(infos, kept))
    assert infos == before and gone == set(plan(infos, kept)), "the plan is pure"
    if not checkpoints:
        assert gone == set()
        return
    newest = checkpoints[-1]
    for name in gone:
        assert modified[name] <= OLD_MS and version_of(name) < newest - kept
    left = [v for v in versions if commit_name(v) not in gone]
    assert left == list(range(left[0], versions[-1] + 1)), "what is left is contiguous"
    assert left[0] <= newest and checkpoint_name(newest) not in gone
    first_kept = next(n for n in names if n not in gone)
    must_stay = modified[first_kept] > OLD_MS or version_of(first_kept) >= newest - kept
    assert must_stay, "all that may go does go"


def test_clean_up_deletes_what_the_plan_names_and_the_table_opens_as_before():
    clock = FakeClock()
    store = CountingStore(clock)
    put_commit(store, 0, *table_start())
    for version in range(1, 8):
        put_commit(store, version, Txn("p", version, 0))
        if version == 5:
            state = TableLog(store, FOLDER, clock).open()
            write_checkpoint(store, state, clock)
    clock.seconds += 3600
    now = clock.now_ms()
    assert clean_up(store, LOG_FOLDER, now - 1, 3_600_000, 2) == []
    gone = clean_up(store, LOG_FOLDER, now, 3_600_000, 2)
    assert gone == [LOG_FOLDER + commit_name(v) for v in range(3)]
    assert not set(gone) & set(store.contents())
    state = TableLog(store, FOLDER, clock).open()
    assert state.version == 7 and state.txns["p"].version == 7


def test_clean_up_killed_at_any_delete_leaves_a_table_that_opens():
    clock = FakeClock()
    for survived in range(5):
        store = CountingStore(clock)
        put_commit(store, 0, *table_start())
        for version in range(1, 6):
            put_commit(store, version, Txn("p", version, 0))
        write_checkpoint(store, TableLog(store, FOLDER, clock).open(), clock)
        infos = store.list_from(LOG_FOLDER)
        for key in plan_clean_up(infos, clock.now_ms() + 3_600_000, 3_600_000, 0)[:survived]:
            store.delete(key)
        assert TableLog(store, FOLDER, clock).open().txns["p"].version == 5
