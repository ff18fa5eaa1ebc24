"""The append and the claim of a producer, as pure rules over a topic's state."""

import pytest

from sparklog.errors import (
    CorruptCommitError,
    OutOfOrderSequenceError,
    ProducerFencedError,
    TopicReplacedError,
    UnknownPartitionError,
)
from sparklog.log.append import Append, append_rule, base_offsets, claim_rule
from sparklog.log.producer_state import ProducerState
from sparklog.log.segment import WrittenSegment
from sparklog.log.topic_admin import create_rule, delete_rule
from sparklog.log.topic_state import OFFSETS_DOMAIN, PartitionOffsets
from sparklog.table.actions import Add, Commit, CommitInfo, DomainMetadata, Txn
from sparklog.table.table_state import TableState
from tests.support.fakes import FOLDER

NOW_MS = 77
APP = "producer/me"


def apply(state, actions):
    state.apply(Commit(state.version + 1, (CommitInfo(1, "T", "n"), *actions)))
    return state


@pytest.fixture
def state():
    """A topic with three partitions."""
    empty = TableState(FOLDER)
    return apply(empty, create_rule("t", "id", 3, {}, 0)(empty))


def written(partition, count):
    return WrittenSegment(partition, f"p{partition}/x.parquet", 100, count, 0, 1)


def append(*segments, epoch=0, base=0, topic_id="id"):
    return append_rule(Append("t", topic_id, APP, epoch, base, segments), NOW_MS)


def test_append_to_an_empty_topic_begins_at_zero(state):
    actions = append(written(0, 5), written(2, 3))(state)
    assert base_offsets(actions) == {0: 0, 2: 0}
    apply(state, actions)
    assert PartitionOffsets.of(state) == PartitionOffsets((0, 0, 0), (5, 0, 3))
    assert state.txns[APP] == Txn(APP, ProducerState(0, 8).version, NOW_MS)


def test_append_after_others_gets_the_next_offsets_and_is_dense(state):
    apply(state, append(written(0, 5))(state))
    actions = append(written(1, 2), written(0, 4), base=5)(state)
    assert base_offsets(actions) == {0: 5, 1: 0}
    assert PartitionOffsets.of(apply(state, actions)).next == (9, 2, 0)


def test_append_keeps_the_start_offsets(state):
    apply(state, [PartitionOffsets((4, 0, 0), (9, 0, 0)).to_action()])
    actions = append(written(0, 1))(state)
    assert PartitionOffsets.of(apply(state, actions)) == PartitionOffsets((4, 0, 0), (10, 0, 0))


def test_append_is_one_txn_one_offsets_and_an_add_a_segment(state):
    actions = append(written(0, 5), written(2, 3))(state)
    assert [type(action) for action in actions] == [Txn, DomainMetadata, Add, Add]
    assert actions[1].domain == OFFSETS_DOMAIN
    assert actions[1].configuration == '{"start":[0,0,0],"next":[5,0,3]}'
    assert all(a.data_change and a.modification_time == NOW_MS for a in actions[2:])


def test_append_rule_is_pure_and_renumbers_on_a_newer_state(state):
    rule = append(written(0, 5))
    assert rule(state) == rule(state)
    other = Append("t", "id", "producer/other", 0, 0, (written(0, 2),))
    apply(state, append_rule(other, NOW_MS)(state))
    assert base_offsets(rule(state)) == {0: 2}


def test_append_that_stands_already_has_nothing_to_do(state):
    rule = append(written(0, 5))
    apply(state, rule(state))
    assert rule(state) is None


def test_append_of_an_older_epoch_is_fenced(state):
    apply(state, [Txn(APP, ProducerState(1, 0).version, 0)])
    with pytest.raises(ProducerFencedError, match=APP):
        append(written(0, 5))(state)


def test_append_with_a_gap_is_refused(state):
    with pytest.raises(OutOfOrderSequenceError, match=APP):
        append(written(0, 5), base=1)(state)


def test_append_to_a_partition_that_is_not_there_is_refused(state):
    with pytest.raises(UnknownPartitionError, match="no partition 3"):
        append(written(3, 1))(state)


def test_append_to_a_deleted_topic_is_refused(state):
    apply(state, delete_rule("t", 1)(state))
    with pytest.raises(TopicReplacedError, match="deleted"):
        append(written(0, 1))(state)


def test_append_to_a_topic_created_again_is_refused_and_its_writers_are_forgotten(state):
    apply(state, append(written(0, 5))(state))
    apply(state, delete_rule("t", 1)(state))
    apply(state, create_rule("t", "new", 1, {}, 2)(state))
    with pytest.raises(TopicReplacedError, match="created again"):
        append(written(0, 1), base=5)(state)
    with pytest.raises(TopicReplacedError):
        claim_rule("t", "id", APP, NOW_MS)(state)
    assert base_offsets(append(written(0, 1), topic_id="new")(state)) == {0: 0}


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"start":[0]}', '{"start":1,"next":2}'])
def test_append_to_a_topic_with_malformed_offsets_stops(state, text):
    apply(state, [DomainMetadata(OFFSETS_DOMAIN, text)])
    with pytest.raises(CorruptCommitError, match=OFFSETS_DOMAIN):
        append(written(0, 1))(state)


def test_claim_begins_at_epoch_zero_then_raises_it_and_keeps_the_sequence(state):
    claim = claim_rule("t", "id", APP, NOW_MS)
    assert claim(state) == [Txn(APP, ProducerState(0, 0).version, NOW_MS)]
    apply(state, [Txn(APP, ProducerState(4, 12).version, 0)])
    assert claim(state) == [Txn(APP, ProducerState(5, 12).version, NOW_MS)]


def test_claim_fences_the_epoch_before_it_and_lets_its_own_go_on(state):
    old = append(written(0, 5), epoch=0)
    apply(state, old(state))
    apply(state, claim_rule("t", "id", APP, NOW_MS)(state))
    with pytest.raises(ProducerFencedError):
        append(written(0, 1), epoch=0, base=5)(state)
    with pytest.raises(ProducerFencedError):
        old(state)
    assert base_offsets(append(written(0, 1), epoch=1, base=5)(state)) == {0: 5}
