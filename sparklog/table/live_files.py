"""The data files of a table, kept as columns as long as nobody asks for them one by one.

A checkpoint may name a hundred thousand files. A writer never needs them, so they are loaded from
the checkpoint only when first asked for, and stay an Arrow table; what came after the checkpoint
is a small overlay of added and removed files.

A file list is something one takes, not something one follows for ever: a client that follows a
table for days forgets its files once the overlay has grown large, and whoever then needs them
opens the table anew. So memory stays bounded, however many commits go by.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from sparklog.errors import FilesForgottenError, ObjectNotFoundError
from sparklog.table.actions import Add, Remove

ADD_TYPE = pa.struct(
    [
        ("path", pa.string()),
        ("partitionValues", pa.map_(pa.string(), pa.string())),
        ("size", pa.int64()),
        ("modificationTime", pa.int64()),
        ("dataChange", pa.bool_()),
        ("stats", pa.string()),
        ("tags", pa.map_(pa.string(), pa.string())),
    ]
)
REMOVE_TYPE = pa.struct(
    [
        ("path", pa.string()),
        ("deletionTimestamp", pa.int64()),
        ("dataChange", pa.bool_()),
    ]
)

CHANGES_FOLLOWED_MAX = 10_000

FileTables = tuple[pa.Table, pa.Table]
"""Added and removed files of a checkpoint, with the fields of the two types above as columns."""


def empty_tables() -> FileTables:
    """The files of a table that has none."""
    return pa.schema(ADD_TYPE).empty_table(), pa.schema(REMOVE_TYPE).empty_table()


def add_of_row(row: Mapping[str, Any]) -> Add:
    """The action that a row of the file list stands for, its maps read as dictionaries."""
    return Add(
        row["path"],
        row["partitionValues"],
        row["size"],
        row["modificationTime"],
        row["dataChange"],
        row["stats"],
        row["tags"] or {},
    )


class LiveFiles:
    """Live and lately removed files: a checkpoint's, loaded on demand, and those after it."""

    def __init__(self, load: Callable[[], FileTables] = empty_tables) -> None:
        """Start from a checkpoint whose files `load` reads when they are first needed."""
        self._load = load
        self._base: FileTables | None = None
        self._added: dict[str, Add] = {}
        self._removed: dict[str, Remove] = {}
        self._changes_max: int | None = None
        self._forgotten = False

    def follow(self) -> None:
        """Loading is over: forget the files once many more changes have come."""
        self._changes_max = len(self._added) + len(self._removed) + CHANGES_FOLLOWED_MAX

    def available(self) -> bool:
        """Whether the files can be listed; else the table must be opened anew for them.

        They cannot once they were forgotten, or once clean-up took the checkpoint that they came
        from before anybody asked for them.
        """
        if not self._forgotten and self._base is None:
            try:
                self._base = self._load()
            except ObjectNotFoundError:
                self._forget()
        return not self._forgotten

    def add(self, action: Add) -> None:
        """Replay an add."""
        self._removed.pop(action.path, None)
        self._added[action.path] = action
        self._forget_if_many()

    def remove(self, action: Remove) -> None:
        """Replay a remove."""
        self._added.pop(action.path, None)
        self._removed[action.path] = action
        self._forget_if_many()

    def adds(self) -> pa.Table:
        """All live files as a table with the columns of `ADD_TYPE`."""
        base, _ = self._tables()
        gone = [*self._removed, *self._added]
        if gone and base.num_rows:
            named = pc.is_in(base["path"], value_set=pa.array(gone, pa.string()))
            base = base.filter(pc.invert(named))
        if not self._added:
            return base
        rows = [
            {
                "path": a.path,
                "partitionValues": list(a.partition_values.items()),
                "size": a.size,
                "modificationTime": a.modification_time,
                "dataChange": a.data_change,
                "stats": a.stats,
                "tags": list(a.tags.items()) or None,
            }
            for a in self._added.values()
        ]
        return pa.concat_tables([base, pa.Table.from_pylist(rows, schema=pa.schema(ADD_TYPE))])

    def removes(self) -> Iterator[Remove]:
        """Files removed and not yet forgotten."""
        _, base = self._tables()
        for row in base.to_pylist():
            if row["path"] not in self._removed and row["path"] not in self._added:
                yield Remove(row["path"], row["deletionTimestamp"], row["dataChange"])
        yield from self._removed.values()

    def named(self, paths: Collection[str]) -> Iterator[Add]:
        """The live files with these paths."""
        adds = self.adds()
        rows = adds.filter(pc.is_in(adds["path"], value_set=pa.array(list(paths), pa.string())))
        for row in rows.to_pylist(maps_as_pydicts="strict"):
            yield add_of_row(row)

    def paths(self) -> list[str]:
        """The paths of all live files."""
        return [str(path) for path in self.adds()["path"].to_pylist()]

    def _forget_if_many(self) -> None:
        if self._changes_max is None:
            return
        if self._forgotten or len(self._added) + len(self._removed) > self._changes_max:
            self._forget()

    def _forget(self) -> None:
        self._forgotten = True
        self._base = None
        self._added.clear()
        self._removed.clear()

    def _tables(self) -> FileTables:
        if not self.available() or self._base is None:
            raise FilesForgottenError(
                "the table's file list is not known any more in this view: too many changes came, "
                "or clean-up took its checkpoint. Open the table anew, or try again"
            )
        return self._base
