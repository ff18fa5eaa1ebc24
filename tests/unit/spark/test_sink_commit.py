"""The sink's commit: pure rules, what is deleted, and how doubt is kept."""

import pytest

from sparklog.errors import (
    OutcomeUnknownError,
    ProducerFencedError,
    SparklogTimeoutError,
    StoreUnavailableError,
    TopicReplacedError,
)
from sparklog.log.append import base_offsets
from sparklog.log.producer_state import ProducerState
from sparklog.log.segment import Writer, WrittenSegment
from sparklog.log.topic_admin import create_rule
from sparklog.log.topic_state import PartitionOffsets
from sparklog.spark import sink_commit
from sparklog.spark.sink_commit import (
    TaskMessage,
    TopicSegments,
    _retry,
    discard,
    gather,
    query_rule,
)
from sparklog.table.actions import Add, Commit, CommitInfo, Txn
from sparklog.table.table_state import TableState
from tests.support.fakes import FOLDER, FakeClock

NOW_MS = 77
APP = "query/q"


def apply(state, actions):
    state.apply(Commit(state.version + 1, (CommitInfo(1, "T", "n"), *actions)))
    return state


@pytest.fixture
def state():
    """A topic with two partitions."""
    empty = TableState(FOLDER)
    return apply(empty, create_rule("t", "id", 2, {}, 0)(empty))


def written(partition, count, name="x"):
    return WrittenSegment(partition, f"p{partition}/{name}.parquet", 100, count, 0, 1)


def batch(number, *segments, epoch=0, topic_id="id"):
    return query_rule(
        TopicSegments("t", topic_id, segments), Writer("query", "q", epoch, number), NOW_MS
    )


def message(*topics):
    return TaskMessage("log", Writer("query", "q", 0, 0), topics)


def test_batch_is_one_txn_and_its_segments_in_task_order(state):
    apply(state, [PartitionOffsets((0, 0), (7, 0)).to_action()])
    segments = (written(0, 5, "a"), written(1, 2, "b"), written(0, 3, "c"))
    actions = batch(0, *segments)(state)
    assert actions[0] == Txn(APP, 0, NOW_MS)
    bases = [a.partition_values["base_offset"] for a in actions if isinstance(a, Add)]
    assert bases == ["7", "0", "12"]
    assert base_offsets(actions) == {0: 7, 1: 0}
    assert PartitionOffsets.of(apply(state, actions)).next == (15, 2)


def test_batch_that_stands_or_is_older_has_nothing_to_do_even_in_a_newer_epoch(state):
    apply(state, batch(4, written(0, 5))(state))
    assert batch(4, written(0, 5))(state) is None
    assert batch(3, written(1, 5))(state) is None
    assert batch(4, written(0, 5), epoch=2)(state) is None
    assert batch(5, written(0, 5))(state) is not None


def test_first_batch_has_number_zero_and_stands_once(state):
    apply(state, batch(0, written(0, 5))(state))
    assert batch(0, written(0, 5))(state) is None


def test_batch_of_an_older_epoch_is_fenced_unless_it_stands(state):
    apply(state, [Txn(APP, ProducerState(1, 4).version, 0)])
    assert batch(4, written(0, 5))(state) is None
    with pytest.raises(ProducerFencedError, match="topic 't'.*epoch 1 has started"):
        batch(5, written(0, 5))(state)


def test_newer_epoch_goes_on_with_the_batch_number(state):
    apply(state, batch(4, written(0, 5))(state))
    actions = batch(5, written(0, 5), epoch=1)(state)
    assert ProducerState.from_version(actions[0].version) == ProducerState(1, 5)


def test_batch_for_a_topic_that_was_replaced_is_refused(state):
    with pytest.raises(TopicReplacedError, match="created again"):
        batch(0, written(0, 5), topic_id="old")(state)


def test_tasks_come_one_after_the_other_and_topics_by_name():
    first = message(TopicSegments("b", "1", (written(0, 1),)), TopicSegments("a", "2", ()))
    second = message(TopicSegments("b", "1", (written(0, 2), written(1, 3))))
    assert gather([first, message(), second]) == [
        TopicSegments("a", "2", ()),
        TopicSegments("b", "1", (written(0, 1), written(0, 2), written(1, 3))),
    ]


def test_topic_replaced_between_two_tasks_is_refused():
    tasks = [message(TopicSegments("t", name, (written(0, 1),))) for name in ("old", "new")]
    with pytest.raises(TopicReplacedError, match="'t' was deleted and created again"):
        gather(tasks)


def test_files_are_deleted_only_if_a_task_is_missing(log):
    segment = written(0, 1)
    key = f"topics/t/{segment.path}"
    log.store.put(key, b"")
    told = message(TopicSegments("t", "id", (segment,)))
    discard(log.store, [told, told])  # all told: a commit may have named it
    assert log.store.head(key)
    discard(log.store, [told, None])
    assert log.store.head(key) is None


class Failing:
    """Work that raises one error after the other, then succeeds."""

    def __init__(self, *errors) -> None:
        self.errors = list(errors)

    def __call__(self) -> None:
        if self.errors:
            raise self.errors.pop(0)


@pytest.fixture
def clock(monkeypatch):
    """Time passes only by waiting."""
    clock = FakeClock()
    monkeypatch.setattr(sink_commit, "CLOCK", clock)
    return clock


def test_passing_failures_and_doubt_are_tried_again(clock):
    work = Failing(StoreUnavailableError("a"), OutcomeUnknownError("b"), StoreUnavailableError("c"))
    _retry("t", work)
    assert work.errors == []


def test_refusal_is_told_at_once_but_not_after_doubt(clock):
    with pytest.raises(ProducerFencedError):
        _retry("t", Failing(ProducerFencedError("no")))
    with pytest.raises(OutcomeUnknownError, match="perhaps"):
        _retry("t", Failing(OutcomeUnknownError("perhaps"), ProducerFencedError("no")))


def test_out_of_time_says_whether_there_is_doubt(clock):
    with pytest.raises(SparklogTimeoutError, match="'t': the batch was not committed within 120 s"):
        _retry("t", Failing(*[StoreUnavailableError("a")] * 10_000))
    with pytest.raises(OutcomeUnknownError, match="perhaps"):
        errors = [OutcomeUnknownError("perhaps"), *[StoreUnavailableError("a")] * 10_000]
        _retry("t", Failing(*errors))
