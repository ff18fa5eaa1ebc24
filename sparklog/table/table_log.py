"""A table log as a reader sees it: open it, then follow it.

Guarantees:
1. Versions are applied in order and without gaps; a missing or malformed version stops the
   reader with the file named.
2. `refresh` with nothing new costs one failed `get`.
3. A reader that slept so long that clean-up may have deleted commits it has not seen finds out
   by a listing and loads anew; it never takes a cleaned slot for the end of the log.

It never writes.
"""

from __future__ import annotations

from dataclasses import dataclass

from sparklog.clock import Clock
from sparklog.errors import (
    CorruptCommitError,
    ObjectNotFoundError,
    SparklogError,
    TableNotFoundError,
)
from sparklog.storage import Store
from sparklog.table.actions import Commit, checkpoint_name, commit_name, decode_commit, version_of
from sparklog.table.checkpoint import read_checkpoint, read_last_checkpoint
from sparklog.table.table_state import TableState

LOAD_TRIES = 3


@dataclass(frozen=True)
class Refreshed:
    """What a refresh found. After a reload the commits in between were not seen one by one."""

    commits: tuple[Commit, ...]
    reloaded: bool = False


class TableLog:
    """One client's view of one table log."""

    def __init__(self, store: Store, folder: str, clock: Clock) -> None:
        """A view of the table in `folder` (ends with `/`); `open` or `refresh` reads it."""
        self.store = store
        self.folder = folder
        self.log_folder = f"{folder}_delta_log/"
        self.state = TableState(folder)
        self.read_at = float("-inf")
        self._clock = clock

    def open(self) -> TableState:
        """Load the table; TableNotFoundError if nothing was ever committed here."""
        self._load()
        if not self.state.exists:
            raise TableNotFoundError(f"no table at {self.store.uri}/{self.folder}")
        return self.state

    def reload(self) -> None:
        """Load the newest state anew, with its file list; versions in between are not told."""
        self._load(self.state.version)

    def refresh(self) -> Refreshed:
        """Apply what was committed since the last look."""
        started = self._clock.monotonic()
        if self.stale(started):
            before = self.state.version
            return Refreshed((), self._load(before))
        commits: list[Commit] = []
        try:
            while (commit := self.read(self.state.version + 1)) is not None:
                self.state.apply(commit)
                commits.append(commit)
        except SparklogError:
            if not commits:
                raise
            return Refreshed(tuple(commits))  # applied is told; the error comes again next time
        self.read_at = started
        return Refreshed(tuple(commits))

    def stale(self, now: float) -> bool:
        """Whether clean-up may have removed commits that this view has not seen."""
        return (now - self.read_at) * 1000 > self.state.log_retention_ms / 2

    def read(self, version: int) -> Commit | None:
        """The commit that stands at this version, or None."""
        key = self.log_folder + commit_name(version)
        try:
            return decode_commit(self.store.get(key), version, key)
        except ObjectNotFoundError:
            return None

    def note_own(self, commit: Commit, started: float) -> None:
        """Apply a commit of one's own; winning shows that the view was current at `started`."""
        self.state.apply(commit)
        self.read_at = max(self.read_at, started)

    def checkpoint_at_or_after(self, version: int) -> bool:
        """Whether a checkpoint covers this version: then its slot may have been cleaned."""
        before = self.log_folder + checkpoint_name(version)[:-1]
        return any(
            info.key.endswith(".checkpoint.parquet")
            for info in self.store.list_from(self.log_folder, before)
        )

    def _load(self, seen: int = -1) -> bool:
        """Load anew; True if versions after `seen` were passed over without being read."""
        for _ in range(LOAD_TRIES - 1):
            try:
                return self._load_once(seen)
            except (CorruptCommitError, ObjectNotFoundError):
                pass  # clean-up may have run between the listing and the reads: look again
        return self._load_once(seen)

    def _load_once(self, seen: int) -> bool:
        started = self._clock.monotonic()
        hint = read_last_checkpoint(self.store, self.log_folder)
        after = "" if hint is None else self.log_folder + checkpoint_name(hint)[:-1]
        checkpoint, versions = self._list(after)
        if checkpoint is None and hint is not None:
            checkpoint, versions = self._list("")  # the hint named a checkpoint that is gone
        if checkpoint is None and hint is not None and not versions:
            raise CorruptCommitError(
                f"table log {self.log_folder}: _last_checkpoint names version {hint}, but the "
                "folder lists no checkpoint and no commit"
            )
        if checkpoint is None:
            state = TableState(self.folder)
        else:
            state = read_checkpoint(self.store, self.folder, checkpoint)
        # A folder listing is no snapshot: it may miss a file and show a later one. So it only says
        # how far the log goes at least; each version is read by its name.
        newest = versions[-1] if versions else state.version
        while state.version < newest:
            commit = self.read(state.version + 1)
            if commit is None:
                raise CorruptCommitError(
                    f"table log {self.log_folder}: {commit_name(state.version + 1)} "
                    f"(version {state.version + 1}) is missing before version {newest}"
                )
            state.apply(commit)
        if state.version < seen:
            raise CorruptCommitError(
                f"table log {self.log_folder}: version {seen} was there, but the folder now lists "
                f"nothing after version {state.version}: the store's listing is stale, or the log "
                "was restored from an older copy"
            )
        state.files.follow()
        self.state = state
        self.read_at = started
        return state.version > seen

    def _list(self, after: str) -> tuple[int | None, list[int]]:
        checkpoint: int | None = None
        versions: list[int] = []
        for info in self.store.list_from(self.log_folder, after):
            name = info.key.rpartition("/")[2]
            version = version_of(name)
            if version is None:
                continue
            if name.endswith(".json"):
                versions.append(version)
            else:
                checkpoint = version
        return checkpoint, versions
