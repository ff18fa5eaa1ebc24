import pytest

from sparklog.clock import SystemClock, SystemIds
from sparklog.errors import OutcomeUnknownError, StoreFullError
from sparklog.storage import PutOutcome
from sparklog.storage.memory_store import MemoryStore
from sparklog.table.actions import DomainMetadata, Metadata, Protocol, commit_name
from sparklog.table.checkpoint import write_checkpoint
from sparklog.table.committer import Attempt, Committer
from sparklog.table.table_log import TableLog

FOLDER = "topics/t/"


class ScriptedStore(MemoryStore):
    """Answers conditional puts to table logs by a script of (apply, answer)."""

    def __init__(self):
        super().__init__()
        self.script = []
        self.puts = 0

    def put_if_absent(self, key, data, *, durable=True):
        self.puts += 1
        if not self.script:
            return super().put_if_absent(key, data, durable=durable)
        applied, answer = self.script.pop(0)
        if applied:
            super().put_if_absent(key, data, durable=durable)
        if isinstance(answer, Exception):
            raise answer
        return answer


class Clock(SystemClock):
    """Time that only sleep moves."""

    def __init__(self):
        self.seconds = 0.0

    def monotonic(self):
        return self.seconds

    def sleep(self, seconds):
        self.seconds += seconds


def create(state):
    if state.exists:
        return None
    return [Protocol(), Metadata("id", "t", "{}", (), {}, 0)]


def note(text):
    return lambda state: [DomainMetadata("d", text)]


@pytest.fixture
def store():
    return ScriptedStore()


@pytest.fixture
def clock():
    return Clock()


def committer(store, clock):
    made = Committer(TableLog(store, FOLDER, clock), clock, SystemIds())
    made.commit(Attempt("CREATE", "creator"), create)
    return made


def test_commit_after_lost_race_renumbers(store, clock):
    one, two = committer(store, clock), committer(store, clock)
    assert one.commit(Attempt("A", "a"), note("a")).commit.version == 1
    won = two.commit(Attempt("B", "b"), note("b"))
    assert (won.commit.version, won.lost_races) == (2, 1)


def test_exists_that_is_ones_own_earlier_try_is_won(store, clock):
    one = committer(store, clock)
    store.script = [(True, PutOutcome.EXISTS)]
    assert one.commit(Attempt("A", "a"), note("a")).commit.version == 1


def test_unknown_and_absent_is_put_again_with_the_same_bytes(store, clock):
    one = committer(store, clock)
    store.script = [(False, PutOutcome.UNKNOWN), (False, PutOutcome.UNKNOWN)]
    assert one.commit(Attempt("A", "a"), note("a")).commit.version == 1
    assert store.puts == 4


def test_unknown_till_the_deadline_says_so_with_the_version(store, clock):
    one = committer(store, clock)
    store.script = [(False, PutOutcome.UNKNOWN)] * 1000
    with pytest.raises(OutcomeUnknownError, match=commit_name(1)) as caught:
        one.commit(Attempt("A", "a", timeout_seconds=2), note("a"))
    assert caught.value.version == 1


def test_error_after_an_unknown_try_stays_unknown(store, clock):
    one = committer(store, clock)
    store.script = [(False, PutOutcome.UNKNOWN)] + [(False, StoreFullError("full"))] * 1000
    with pytest.raises(OutcomeUnknownError):
        one.commit(Attempt("A", "a", timeout_seconds=2), note("a"))


def test_first_try_that_surely_failed_raises_at_once(store, clock):
    one = committer(store, clock)
    store.script = [(False, StoreFullError("full"))]
    with pytest.raises(StoreFullError):
        one.commit(Attempt("A", "a"), note("a"))


def test_late_success_in_a_slot_behind_a_checkpoint_is_lost(store, clock):
    slow, quick = committer(store, clock), committer(store, clock)
    for text in ("x", "y"):
        quick.commit(Attempt("Q", text), note(text))
    write_checkpoint(store, quick.table_log.state, clock)
    retention = quick.table_log.state.log_retention_ms / 1000
    put = store.put_if_absent

    def stalled(key, data, *, durable=True):
        # The writer stops before its put; meanwhile clean-up re-opens the slot.
        store.put_if_absent = put
        clock.seconds += retention
        store.delete(f"{FOLDER}_delta_log/{commit_name(1)}")
        return put(key, data, durable=durable)

    store.put_if_absent = stalled
    won = slow.commit(Attempt("S", "s", timeout_seconds=10 * retention), note("s"))
    assert won.commit.version == 3


def test_reader_that_slept_past_clean_up_loads_anew(store, clock):
    writer, reader = committer(store, clock), TableLog(store, FOLDER, clock)
    reader.refresh()
    for text in ("x", "y"):
        writer.commit(Attempt("W", text), note(text))
    write_checkpoint(store, writer.table_log.state, clock)
    for version in range(3):
        store.delete(f"{FOLDER}_delta_log/{commit_name(version)}")
    clock.seconds += writer.table_log.state.log_retention_ms / 1000
    assert reader.refresh().reloaded
    assert reader.state.version == 2 and reader.state.domains == {"d": "y"}


def test_missing_version_in_the_middle_is_named(store, clock):
    writer = committer(store, clock)
    for text in ("x", "y"):
        writer.commit(Attempt("W", text), note(text))
    store.delete(f"{FOLDER}_delta_log/{commit_name(1)}")
    from sparklog.errors import CorruptCommitError

    with pytest.raises(CorruptCommitError, match=commit_name(1)):
        TableLog(store, FOLDER, clock).open()
