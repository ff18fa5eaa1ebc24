"""Deliberately broken variants of the protocol, each of which the simulation must catch.

A mutant is a context manager that puts the break in place, at a seam of the real classes, and
gives the world to run in. The numbers in brackets are the holes of TRANSACTIONS.md.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import TypeAlias
from unittest import mock

import sparklog.log.append as append_module
from sparklog.errors import StoreError
from sparklog.storage import PutOutcome
from sparklog.table.actions import Commit, CommitInfo
from sparklog.table.committer import Attempt, Committer, Settlement
from tests.simulation.world import SimStore, World

MakeWorld: TypeAlias = Callable[[int], World]
Mutant: TypeAlias = Callable[[], AbstractContextManager[MakeWorld]]


class OverwritingStore(SimStore):
    """A store whose conditional put of a commit replaces what stands, as rename does."""

    def _conditional_put(self, key: str, data: bytes) -> PutOutcome | Exception:
        if "/_delta_log/" not in key:
            return super()._conditional_put(key, data)
        self._change(key, data)
        return PutOutcome.CREATED


class OverwritingWorld(World):
    """The world on such a store."""

    def make_store(self) -> SimStore:
        """The store that overwrites."""
        return OverwritingStore(self.faults, self.scheduler)


@contextlib.contextmanager
def rename_instead_of_link() -> Iterator[MakeWorld]:
    """Two writers both win one version."""
    yield OverwritingWorld


@contextlib.contextmanager
def no_read_back() -> Iterator[MakeWorld]:
    """ "Exists" is taken as lost, although it may be one's own attempt (3)."""
    real = Committer._read_back

    def read_back(self: Committer, commit: Commit, key: str, attempt: Attempt) -> Settlement:
        store = self.table_log.store
        assert isinstance(store, SimStore)
        if store.answers.get(threading.get_ident()) is PutOutcome.EXISTS:
            return Settlement.LOST
        return real(self, commit, key, attempt)

    with mock.patch.object(Committer, "_read_back", read_back):
        yield World


@contextlib.contextmanager
def absent_is_not_applied() -> Iterator[MakeWorld]:
    """An attempt whose version is absent is reported as failed, and then it lands (1)."""
    real = Committer._read_back

    def read_back(self: Committer, commit: Commit, key: str, attempt: Attempt) -> Settlement:
        try:
            absent = self.table_log.read(commit.version) is None
        except StoreError:
            return Settlement.UNKNOWN
        if absent:
            raise StoreError(f"{key} is absent: not applied")
        return real(self, commit, key, attempt)

    with mock.patch.object(Committer, "_read_back", read_back):
        yield World


@contextlib.contextmanager
def no_nonce() -> Iterator[MakeWorld]:
    """Whoever finds its own content standing believes to have won (2)."""

    def read_back(self: Committer, commit: Commit, key: str, attempt: Attempt) -> Settlement:
        try:
            standing = self.table_log.read(commit.version)
        except StoreError:
            return Settlement.UNKNOWN
        if standing is None:
            return Settlement.UNKNOWN
        return Settlement.WON if _content(standing) == _content(commit) else Settlement.LOST

    def _content(commit: Commit) -> list[object]:
        return [action for action in commit.actions if not isinstance(action, CommitInfo)]

    with mock.patch.object(Committer, "_read_back", read_back):
        yield World


@contextlib.contextmanager
def duplicate_sequence_accepted() -> Iterator[MakeWorld]:
    """An append whose sequence stands already is made once more."""
    with mock.patch.object(append_module, "is_duplicate", lambda *_: False):
        yield World


MUTANTS: dict[str, Mutant] = {
    "rename_instead_of_link": rename_instead_of_link,
    "no_read_back": no_read_back,
    "absent_is_not_applied": absent_is_not_applied,
    "no_nonce": no_nonce,
    "duplicate_sequence_accepted": duplicate_sequence_accepted,
}
