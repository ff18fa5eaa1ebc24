"""The committer: how one append to a table log is made and settled.

    read state -> rule -> put at version v --CREATED--------------------------> won
                   ^              |--EXISTS, UNKNOWN--> read v: my nonce ------> won
                   |              |                     another's nonce -> lost -.
                   |              |                     absent: put the same     |
                   |              |                     bytes again              |
                   '--------------'----------------------------------------------'

Guarantees:
1. An attempt at v is dead only once somebody else's commit stands at v. "v is absent" settles
   nothing: a put that timed out may still land.
2. Every attempt carries a nonce, kept over its retries, so two writers that put the same content
   can tell who won.
3. What is found at v later than half the log's retention after the state was read counts only if
   no checkpoint covers v: else the slot may have been cleaned and re-opened, and only the newest
   state can tell. If that cannot be read in time the outcome is unknown.
4. When time runs out unsettled, OutcomeUnknownError says so, and nothing is deleted.
5. A durable commit first makes durable whatever earlier commits left in the page cache, so that
   no acknowledged commit can stand behind a torn one.

The rule is a pure function of the state; it returns the actions to append, or None when there is
nothing left to do, or raises the reason why not. It runs again after each lost race.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from sparklog.clock import Clock, Ids
from sparklog.errors import (
    FilesForgottenError,
    OutcomeUnknownError,
    SparklogError,
    SparklogTimeoutError,
    StoreError,
)
from sparklog.storage import PutOutcome
from sparklog.table.actions import Action, Commit, CommitInfo, commit_name, encode_commit
from sparklog.table.table_log import TableLog
from sparklog.table.table_state import TAG_ACKS, TableState

Rule = Callable[[TableState], Sequence[Action] | None]

BACKOFF_SECONDS_MIN = 0.001
BACKOFF_SECONDS_MAX = 1.0
BACKOFF_DOUBLINGS_MAX = 5


class Settlement(enum.Enum):
    """What became of an attempt at one version."""

    WON = "won"
    LOST = "lost"
    LATE = "late"  # it may be lost, in a slot that was re-opened, or be part of the history
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class Attempt:
    """One append: why, under which nonce, how durable, and until when it may try."""

    operation: str
    nonce: str
    durable: bool = True
    blind_append: bool = False
    timeout_seconds: float = 30.0


@dataclass(frozen=True)
class Committed:
    """A won append, and how many races it lost before."""

    commit: Commit
    lost_races: int


class Committer:
    """Appends to one table log through one view of it."""

    def __init__(self, table_log: TableLog, clock: Clock, ids: Ids) -> None:
        """A committer that keeps `table_log` up to date with what it wins."""
        self.table_log = table_log
        self._clock = clock
        self._ids = ids

    def commit(self, attempt: Attempt, rule: Rule) -> Committed | None:
        """Append what the rule says to the newest state; None if it has nothing to append.

        Raises what the rule raises, SparklogTimeoutError when no attempt is open and time ran
        out, OutcomeUnknownError when one is.
        """
        deadline = self._clock.monotonic() + attempt.timeout_seconds
        lost_races = 0
        late: int | None = None
        while True:
            try:
                actions = self._apply_rule(rule, lost_races > 0)
            except SparklogError as error:
                if late is None or not error.retriable:
                    raise
                raise self._unknown(late, attempt) from error
            if actions is None:
                return None
            commit = self._stamp(self.table_log.state.version + 1, attempt, actions)
            started = self._clock.monotonic()
            settlement = self._settle(commit, attempt, deadline)
            if settlement is Settlement.WON:
                self.table_log.note_own(commit, started)
                return Committed(commit, lost_races)
            if settlement is Settlement.UNKNOWN:
                raise self._unknown(commit.version, attempt)
            lost_races += 1
            now = self._clock.monotonic()
            if settlement is Settlement.LATE:
                late = commit.version
                continue  # whatever the time: the rule tells whether this append is to be done
            if now > deadline:
                raise SparklogTimeoutError(
                    f"{self.table_log.folder}: lost {lost_races} races for a commit in "
                    f"{attempt.timeout_seconds:.0f} s; nothing was written. Try again, or gather "
                    "more records per commit (linger.ms)"
                )
            self._back_off(lost_races, now - started)

    def _unknown(self, version: int, attempt: Attempt) -> OutcomeUnknownError:
        return OutcomeUnknownError(
            f"{self.table_log.log_folder}{commit_name(version)}: the store did not say within "
            f"{attempt.timeout_seconds:.0f} s whether this commit was applied; it may still "
            "appear. Nothing was deleted",
            version,
        )

    def _apply_rule(self, rule: Rule, must_read: bool) -> Sequence[Action] | None:
        """Ask the rule; a view that was not just read may say yes, but never no."""
        table_log = self.table_log
        if not must_read and table_log.state.exists and not table_log.stale(self._now()):
            try:
                actions = rule(table_log.state)
            except SparklogError:
                actions = None
            if actions is not None:
                return actions
        table_log.refresh()
        try:
            return rule(table_log.state)
        except FilesForgottenError:
            table_log.reload()
            return rule(table_log.state)

    def _now(self) -> float:
        return self._clock.monotonic()

    def _stamp(self, version: int, attempt: Attempt, actions: Sequence[Action]) -> Commit:
        info = CommitInfo(
            timestamp=self._clock.now_ms(),
            operation=attempt.operation,
            txn_id=attempt.nonce,
            is_blind_append=attempt.blind_append,
            tags={} if attempt.durable else {TAG_ACKS: "1"},
        )
        return Commit(version, (info, *actions))

    def _settle(self, commit: Commit, attempt: Attempt, deadline: float) -> Settlement:
        store = self.table_log.store
        key = self.table_log.log_folder + commit_name(commit.version)
        body = encode_commit(commit.actions)
        if attempt.durable and self.table_log.state.unsynced:
            store.sync(self.table_log.state.unsynced)
        tries = 0
        while True:
            tries += 1
            try:
                outcome = store.put_if_absent(key, body, durable=attempt.durable)
            except StoreError:
                if tries == 1:
                    raise  # surely not applied, and nothing of this attempt is under way
                outcome = PutOutcome.UNKNOWN
            if outcome is PutOutcome.CREATED:
                return self._unless_late(commit.version, Settlement.WON)
            settlement = self._read_back(commit, key, attempt)
            if settlement is not Settlement.UNKNOWN:
                return settlement
            if self._clock.monotonic() > deadline:
                return Settlement.UNKNOWN
            self._back_off(tries, 0)

    def _read_back(self, commit: Commit, key: str, attempt: Attempt) -> Settlement:
        try:
            standing = self.table_log.read(commit.version)
            if standing is None:
                return Settlement.UNKNOWN
            if standing.nonce != attempt.nonce:
                return self._unless_late(commit.version, Settlement.LOST)
            if attempt.durable:
                self.table_log.store.sync([key])
        except StoreError:
            return Settlement.UNKNOWN
        return self._unless_late(commit.version, Settlement.WON)

    def _unless_late(self, version: int, settlement: Settlement) -> Settlement:
        if not self.table_log.stale(self._clock.monotonic()):
            return settlement
        try:
            covered = self.table_log.checkpoint_at_or_after(version)
        except StoreError:
            return Settlement.UNKNOWN
        return Settlement.LATE if covered else settlement

    def _back_off(self, tries: int, took_seconds: float) -> None:
        base = max(BACKOFF_SECONDS_MIN, took_seconds)
        ceiling = min(BACKOFF_SECONDS_MAX, base * 2 ** min(tries, BACKOFF_DOUBLINGS_MAX))
        self._clock.sleep(self._ids.uniform() * ceiling)
