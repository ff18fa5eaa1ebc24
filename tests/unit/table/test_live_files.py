"""The files of a table: what a checkpoint names, and what came after it."""

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from sparklog.table.actions import Remove
from sparklog.table.live_files import ADD_TYPE, REMOVE_TYPE, LiveFiles
from tests.support.fakes import an_add

PATHS = [f"p0/{i}" for i in range(5)]
_changes = st.lists(
    st.one_of(
        st.builds(an_add, st.sampled_from(PATHS), size=st.integers(1, 9)),
        st.builds(Remove, st.sampled_from(PATHS), st.integers(0, 9), st.booleans()),
    ),
    max_size=12,
)


def base(live=(), gone=()):
    """Files as a checkpoint holds them."""
    adds = [
        {
            "path": a.path,
            "partitionValues": list(a.partition_values.items()),
            "size": a.size,
            "modificationTime": a.modification_time,
            "dataChange": a.data_change,
            "stats": a.stats,
        }
        for a in live
    ]
    removes = [
        {"path": r.path, "deletionTimestamp": r.deletion_timestamp, "dataChange": r.data_change}
        for r in gone
    ]
    tables = (
        pa.Table.from_pylist(adds, schema=pa.schema(ADD_TYPE)),
        pa.Table.from_pylist(removes, schema=pa.schema(REMOVE_TYPE)),
    )
    return lambda: tables


def replayed(files, changes):
    for change in changes:
        (files.remove if isinstance(change, Remove) else files.add)(change)
    return files


def test_no_files_have_the_columns_of_an_add():
    files = LiveFiles()
    assert files.adds().schema == pa.schema(ADD_TYPE)
    assert files.paths() == [] and list(files.removes()) == []


def test_file_added_again_replaces_its_older_entry():
    files = LiveFiles(base([an_add("p0/a", size=1)]))
    files.add(an_add("p0/a", size=2))
    assert files.adds()["size"].to_pylist() == [2]


def test_file_of_the_checkpoint_removed_later_is_a_tombstone():
    files = LiveFiles(base([an_add("p0/a"), an_add("p0/b")]))
    files.remove(Remove("p0/a", 9, False))
    assert files.paths() == ["p0/b"]
    assert list(files.removes()) == [Remove("p0/a", 9, False)]


def test_tombstone_of_the_checkpoint_added_later_is_live_again():
    files = LiveFiles(base(gone=[Remove("p0/a", 3, True), Remove("p0/b", 3, True)]))
    files.add(an_add("p0/a"))
    assert files.paths() == ["p0/a"]
    assert list(files.removes()) == [Remove("p0/b", 3, True)]


def test_checkpoint_is_loaded_once_and_only_when_asked():
    loads = []
    tables = base([an_add("p0/a")])()

    def load():
        loads.append(1)
        return tables

    files = LiveFiles(load)
    files.add(an_add("p0/b"))
    files.remove(Remove("p0/a", 1, True))
    assert loads == []
    assert files.paths() == ["p0/b"] and len(list(files.removes())) == 1
    assert loads == [1]


@given(_changes, _changes)
def test_any_changes_after_a_checkpoint_end_as_a_plain_replay_does(before, after):
    live, gone = {}, {}
    for change in [*before, *after]:
        here, there = (gone, live) if isinstance(change, Remove) else (live, gone)
        there.pop(change.path, None)
        here[change.path] = change
    first = replayed(LiveFiles(), before)
    files = LiveFiles(lambda: (first.adds(), base(gone=first.removes())()[1]))
    replayed(files, after)
    sizes = dict(zip(files.paths(), files.adds()["size"].to_pylist(), strict=True))
    assert sizes == {path: add.size for path, add in live.items()}
    assert {r.path: r for r in files.removes()} == gone
