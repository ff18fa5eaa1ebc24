"""How an attempt is settled, where test_committer.py does not say it yet."""

import pytest

from sparklog.clock import SystemIds
from sparklog.errors import (
    OutcomeUnknownError,
    SparklogTimeoutError,
    StoreUnavailableError,
    TopicExistsError,
)
from sparklog.storage import PutOutcome
from sparklog.table import live_files
from sparklog.table.actions import Commit, CommitInfo, DomainMetadata, checkpoint_name
from sparklog.table.checkpoint import write_checkpoint
from sparklog.table.committer import Attempt, Committer
from sparklog.table.table_log import TableLog
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


class Store(CountingStore):
    """Asks `answer(key, data)` for what a conditional put does; None means the real thing."""

    answer = None

    def __init__(self, clock):
        super().__init__(clock)
        self.bodies = []

    def put_if_absent(self, key, data, *, durable=True):
        self.bodies.append((key, data))
        told = self.answer(key, data) if self.answer else None
        return told or super().put_if_absent(key, data, durable=durable)


@pytest.fixture
def clock():
    return FakeClock()


@pytest.fixture
def store(clock):
    store = Store(clock)
    put_commit(store, 0, *table_start())
    return store


@pytest.fixture
def committer(store, clock):
    made = Committer(TableLog(store, FOLDER, clock), clock, SystemIds())
    made.table_log.open()
    store.forget()
    return made


def note(text):
    return lambda _: [DomainMetadata("d", text)]


def once(answer):
    """Answer only the first put."""
    answers = [answer]
    return lambda key, data: answers.pop()(key, data) if answers else None


def test_exists_with_anothers_nonce_is_lost_even_if_the_content_is_the_same(
    store, committer, clock
):
    put_commit(store, 1, DomainMetadata("d", "same"))
    won = committer.commit(Attempt("A", "mine"), note("same"))
    assert (won.commit.version, won.lost_races, won.commit.nonce) == (2, 1, "mine")


def test_unknown_that_was_applied_is_won_by_reading_back_and_put_once(store, committer):
    def applied(key, data):
        store.put(key, data)
        return PutOutcome.UNKNOWN

    store.answer = once(applied)
    assert committer.commit(Attempt("A", "mine"), note("x")).commit.version == 1
    assert len(store.bodies) == 1


def test_unknown_then_absent_puts_the_same_bytes_to_the_same_version_until_it_stands(
    store, committer
):
    store.answer = lambda key, data: PutOutcome.UNKNOWN if len(store.bodies) < 4 else None
    assert committer.commit(Attempt("A", "mine"), note("x")).commit.version == 1
    assert len(store.bodies) == 4 and len(set(store.bodies)) == 1


def test_unknown_then_another_took_the_version_is_lost_and_renumbered(store, committer):
    def overtaken(key, data):
        put_commit(store, 1, DomainMetadata("d", "theirs"))
        return PutOutcome.UNKNOWN

    store.answer = once(overtaken)
    seen = []

    def rule(state):
        seen.append(dict(state.domains))
        return [DomainMetadata("d", "mine")]

    won = committer.commit(Attempt("A", "mine"), rule)
    assert (won.commit.version, won.lost_races) == (2, 1)
    assert seen == [{}, {"d": "theirs"}], "the rule runs again on what the winner left"


def test_unknown_that_lands_between_two_puts_is_ones_own(store, committer):
    def late(key, data):
        if len(store.bodies) == 2:
            store.put(key, data)  # the first put arrives just before the second
            return PutOutcome.EXISTS
        return PutOutcome.UNKNOWN

    store.answer = late
    won = committer.commit(Attempt("A", "mine"), note("x"))
    assert (won.commit.version, won.lost_races) == (1, 0)
    assert committer.table_log.state.domains == {"d": "x"}


def test_read_back_that_fails_settles_nothing(store, committer):
    def applied(key, data):
        store.put(key, data)
        store.faults.rates = type(store.faults.rates)(read=1.0)
        return PutOutcome.UNKNOWN

    store.answer = applied
    with pytest.raises(OutcomeUnknownError) as caught:
        committer.commit(Attempt("A", "mine", timeout_seconds=1), note("x"))
    assert caught.value.version == 1
    assert commit_key(1) in store.contents(), "nothing is deleted"


def test_out_of_time_unsettled_says_so_and_leaves_the_view_where_it_was(store, committer, clock):
    store.answer = lambda key, data: PutOutcome.UNKNOWN
    started = clock.seconds
    with pytest.raises(OutcomeUnknownError, match="may still appear"):
        committer.commit(Attempt("A", "mine", timeout_seconds=3), note("x"))
    assert 3 <= clock.seconds - started < 6, "the deadline holds, up to one pause"
    assert committer.table_log.state.version == 0
    assert len(set(store.bodies)) == 1


def test_commit_in_doubt_that_landed_later_is_seen_by_the_next_one(store, committer):
    store.answer = lambda key, data: PutOutcome.UNKNOWN
    with pytest.raises(OutcomeUnknownError):
        committer.commit(Attempt("A", "first", timeout_seconds=1), note("x"))
    store.put(*store.bodies[0])
    store.answer = None
    won = committer.commit(Attempt("A", "second"), note("y"))
    assert (won.commit.version, won.lost_races) == (2, 1)


def test_races_lost_until_the_deadline_are_a_timeout_and_nothing_was_written(
    store, committer, clock
):
    def beaten(key, data):
        clock.seconds += 1
        put_commit(store, len(store.bodies), DomainMetadata("d", "theirs"))
        return PutOutcome.EXISTS

    store.answer = beaten
    with pytest.raises(SparklogTimeoutError, match=r"lost \d races"):
        committer.commit(Attempt("A", "mine", timeout_seconds=3), note("x"))
    assert not any(b'"mine"' in data for data in store.contents().values())


@pytest.mark.parametrize("told", [PutOutcome.CREATED, PutOutcome.EXISTS, PutOutcome.UNKNOWN])
@pytest.mark.parametrize("covered", [True, False])
def test_late_success_is_lost_exactly_if_a_checkpoint_covers_its_version(
    store, committer, clock, told, covered
):
    def stalled(key, data):
        clock.seconds += 3600 / 2 + 1
        if covered:
            for version in range(1, 4):
                put_commit(store, version, DomainMetadata("d", str(version)))
            view = TableLog(store, FOLDER, clock)
            write_checkpoint(store, view.open(), clock)
            for version in range(3):
                store.delete(commit_key(version))
        store.put(key, data)
        return told

    store.answer = once(stalled)
    won = committer.commit(Attempt("A", "mine", timeout_seconds=10_000), note("x"))
    assert (won.commit.version, won.lost_races) == ((4, 1) if covered else (1, 0))
    fresh = TableLog(store, FOLDER, clock).open()
    assert fresh.domains == {"d": "x"} and fresh.version == won.commit.version


def test_late_success_that_cannot_be_checked_is_unknown(store, committer, clock):
    def stalled(key, data):
        clock.seconds += 3600
        store.put(key, data)
        store.faults.rates = type(store.faults.rates)(read=1.0)
        return PutOutcome.CREATED

    store.answer = stalled
    with pytest.raises(OutcomeUnknownError):
        committer.commit(Attempt("A", "mine", timeout_seconds=1), note("x"))


def test_quick_success_is_not_checked_against_checkpoints(store, committer):
    store.put(LOG_FOLDER + checkpoint_name(9), b"not even read")
    assert committer.commit(Attempt("A", "mine"), note("x")).commit.version == 1
    assert store.calls[1:] == [("put_if_absent", commit_key(1))]


@pytest.mark.parametrize("versions", [2, 300])
def test_commit_costs_one_put_however_long_the_log_is(store, clock, versions):
    for version in range(1, versions):
        put_commit(store, version, DomainMetadata("d", str(version)))
    committer = Committer(TableLog(store, FOLDER, clock), clock, SystemIds())
    committer.table_log.open()
    store.forget()
    for text in ("a", "b"):
        committer.commit(Attempt("A", text), note(text))
    assert store.calls == [
        ("put_if_absent", commit_key(versions)),
        ("put_if_absent", commit_key(versions + 1)),
    ]


@pytest.mark.parametrize("versions", [2, 300])
def test_lost_race_costs_the_winners_and_no_listing(store, committer, versions):
    for version in range(1, versions):
        put_commit(store, version, DomainMetadata("d", str(version)))
    committer.table_log.refresh()
    put_commit(store, versions, DomainMetadata("d", "theirs"))
    store.forget()
    committer.commit(Attempt("A", "mine"), note("x"))
    assert store.counted() == {"put_if_absent": 2, "get": 3}


def test_rule_that_refuses_on_an_old_view_is_asked_again_on_the_newest(store, committer):
    put_commit(store, 1, DomainMetadata("d", "free"))

    def rule(state):
        if state.domains.get("d") != "free":
            raise TopicExistsError("taken")
        return [DomainMetadata("d", "mine")]

    assert committer.commit(Attempt("A", "mine"), rule).commit.version == 2
    with pytest.raises(TopicExistsError):
        committer.commit(Attempt("A", "again"), rule)
    assert commit_key(3) not in store.contents()


def test_rule_with_nothing_to_do_puts_nothing(store, committer):
    assert committer.commit(Attempt("A", "mine"), lambda _: None) is None
    assert store.bodies == []


def test_durable_commit_first_syncs_what_earlier_ones_left(store, committer):
    committer.commit(Attempt("A", "one", durable=False), note("1"))
    committer.commit(Attempt("A", "two", durable=False), note("2"))
    store.forget()
    committer.commit(Attempt("A", "three"), note("3"))
    assert store.calls == [
        ("sync", commit_key(1)),
        ("sync", commit_key(2)),
        ("put_if_absent", commit_key(3)),
    ]
    assert committer.table_log.state.unsynced == []


def test_durable_commit_also_syncs_what_others_left(store, committer):
    info = CommitInfo(1, "WRITE", "theirs", tags={"sparklog.acks": "1"})
    committer.table_log.state.apply(Commit(1, (info,)))
    with pytest.raises(StoreUnavailableError):
        store.faults.rates = type(store.faults.rates)(read=1.0)
        committer.commit(Attempt("A", "mine"), note("x"))
    assert store.bodies == [], "without its past on disk a durable commit is not even tried"


def cover_and_clean(store, clock, upto):
    """Others commit up to this version, write a checkpoint and clean what is behind it."""
    for version in range(1, upto + 1):
        if store.head(commit_key(version)) is None:
            put_commit(store, version, DomainMetadata("d", str(version)))
    write_checkpoint(store, TableLog(store, FOLDER, clock).open(), clock)
    for version in range(upto):
        store.delete(commit_key(version))


@pytest.mark.parametrize("readable", [True, False])
def test_late_success_that_became_history_is_never_called_not_written(
    store, committer, clock, readable
):
    """It was applied in time, but its answer came so late that a checkpoint covers it."""

    def stalled(key, data):
        store.put(key, data)
        clock.seconds += 3600
        cover_and_clean(store, clock, upto=4)
        if not readable:
            store.faults.rates = type(store.faults.rates)(read=1.0)
        return PutOutcome.CREATED

    def once_only(state):
        return None if "mine" in state.domains else [DomainMetadata("mine", "x")]

    store.answer = once(stalled)
    attempt = Attempt("A", "mine", timeout_seconds=1)
    if readable:
        assert committer.commit(attempt, once_only) is None
    else:
        with pytest.raises(OutcomeUnknownError):
            committer.commit(attempt, once_only)


def test_rule_that_needs_forgotten_files_gets_a_newly_opened_table(store, committer, monkeypatch):
    monkeypatch.setattr(live_files, "CHANGES_FOLLOWED_MAX", 2)
    committer.table_log.open()
    for version in range(1, 5):
        put_commit(store, version, an_add(f"p0/{version}"))
    committer.table_log.refresh()
    assert not committer.table_log.state.files.available()
    seen = []

    def rule(state):
        seen.append(sorted(state.files.paths()))
        return [DomainMetadata("d", "x")]

    assert committer.commit(Attempt("A", "mine"), rule).commit.version == 5
    assert seen == [["p0/1", "p0/2", "p0/3", "p0/4"]]
