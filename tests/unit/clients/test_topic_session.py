"""Finding out what became of a nonce: in the history, a stray, or cleaned."""

import pytest

from sparklog.clients.topic_session import TopicSession
from sparklog.clock import SystemIds
from sparklog.errors import OutcomeUnknownError
from sparklog.table.actions import CommitInfo, encode_commit
from sparklog.table.checkpoint import write_checkpoint
from sparklog.table.table_log import TableLog
from tests.support.fakes import FOLDER, commit_key, open_log

HALF_RETENTION = 1800


@pytest.fixture
def world():
    """A topic with four versions, and a session that has seen the first alone."""
    store, clock, log = open_log()
    log.create_topic("t")
    session = TopicSession(store, clock, SystemIds(), "t")
    producer = log.producer(background=False)
    tries = session.begin_tries("mine")
    for value in (b"0", b"1", b"2"):
        producer.send("t", value=value).result()
    return store, clock, log, session, tries


def put(store, version):
    store.put(commit_key(version), encode_commit([CommitInfo(1, f"v{version}", "mine")]))


def test_nonce_that_stands_nowhere_is_none(world):
    _, _, _, session, tries = world
    session.table_log.refresh()
    assert session.find(tries) is None


@pytest.mark.parametrize("slept", [0, HALF_RETENTION + 1])
def test_nonce_in_the_history_is_found_and_the_newest_counts(world, slept):
    store, clock, _, session, tries = world
    put(store, 1)
    put(store, 3)
    clock.seconds += slept
    session.table_log.refresh()
    assert session.find(tries)[0].operation == "v3"


def test_nonce_in_a_slot_that_may_have_been_opened_again_is_in_doubt(world):
    store, clock, log, session, tries = world
    log.topic("t").checkpoint()
    clock.seconds += HALF_RETENTION + 1
    for version in range(4):
        store.delete(commit_key(version))
    put(store, 3)
    session.table_log.refresh()
    with pytest.raises(OutcomeUnknownError, match="cleaned"):
        session.find(tries)


def test_nonce_whose_versions_were_cleaned_is_in_doubt(world):
    store, clock, log, session, tries = world
    log.topic("t").checkpoint()
    clock.seconds += HALF_RETENTION + 1
    for version in range(3):
        store.delete(commit_key(version))
    session.table_log.refresh()
    with pytest.raises(OutcomeUnknownError, match="cleaned"):
        session.find(tries)


@pytest.mark.parametrize("fate", ["live", "removed", "never added"])
@pytest.mark.parametrize("slept", [HALF_RETENTION + 1, 2 * HALF_RETENTION])
def test_files_of_an_append_tell_where_its_versions_were_cleaned(world, fate, slept):
    store, clock, log, session, tries = world
    (add,) = TableLog(store, FOLDER, clock).open().files.named(paths(store, clock)[:1])
    if fate == "removed":
        log.delete_topic("t")
    checkpoint(store, clock)
    clock.seconds += slept
    for version in range(4):
        store.delete(commit_key(version))
    session.table_log.refresh()
    files = {"p0/other.parquet"} if fate == "never added" else {add.path}
    if slept == 2 * HALF_RETENTION:
        with pytest.raises(OutcomeUnknownError):
            session.find(tries, files)
        return
    expected = {"live": [add], "removed": (), "never added": None}[fate]
    assert session.find(tries, files) == expected


def paths(store, clock):
    return sorted(TableLog(store, FOLDER, clock).open().files.paths())


def checkpoint(store, clock):
    write_checkpoint(store, TableLog(store, FOLDER, clock).open(), clock)
