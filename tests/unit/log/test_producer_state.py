"""The rule that makes appends idempotent, case by case."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparklog.errors import OutOfOrderSequenceError, ProducerFencedError
from sparklog.log.producer_state import (
    SEQUENCE_MAX,
    ProducerState,
    is_duplicate,
    producer_state,
)
from sparklog.table.actions import Txn
from sparklog.table.table_state import TableState

APPEND, DUPLICATE, FENCED, OUT_OF_ORDER = "append", "duplicate", "fenced", "out of order"

RULES = [
    # standing (epoch, sequence), then the append's epoch, base sequence and count
    (None, 0, 0, 5, APPEND),
    (None, 7, 0, 5, APPEND),
    (None, 0, 1, 5, OUT_OF_ORDER),
    ((2, 10), 2, 10, 1, APPEND),
    ((2, 10), 2, 10, 99, APPEND),
    ((2, 10), 2, 9, 1, DUPLICATE),
    ((2, 10), 2, 0, 10, DUPLICATE),
    ((2, 10), 2, 0, 1, DUPLICATE),
    ((2, 10), 2, 9, 2, OUT_OF_ORDER),
    ((2, 10), 2, 0, 11, OUT_OF_ORDER),
    ((2, 10), 2, 11, 1, OUT_OF_ORDER),
    ((2, 10), 3, 10, 1, APPEND),
    ((2, 10), 3, 9, 1, OUT_OF_ORDER),
    ((2, 10), 3, 0, 1, OUT_OF_ORDER),
    ((2, 10), 3, 11, 1, OUT_OF_ORDER),
    ((2, 10), 1, 10, 1, FENCED),
    ((2, 10), 1, 9, 1, FENCED),
    ((2, 10), 0, 0, 1, FENCED),
    ((2, 0), 1, 0, 1, FENCED),
    ((0, SEQUENCE_MAX - 1), 0, SEQUENCE_MAX - 1, 1, APPEND),
    ((0, SEQUENCE_MAX - 1), 0, SEQUENCE_MAX - 1, 2, OUT_OF_ORDER),
    ((0, SEQUENCE_MAX), 0, SEQUENCE_MAX, 1, OUT_OF_ORDER),
]


def outcome(standing, epoch, base, count):
    try:
        known = is_duplicate(standing, "producer/me", epoch, base, count)
    except ProducerFencedError:
        return FENCED
    except OutOfOrderSequenceError:
        return OUT_OF_ORDER
    return DUPLICATE if known else APPEND


@pytest.mark.parametrize(("standing", "epoch", "base", "count", "expected"), RULES)
def test_append_to_a_standing_is(standing, epoch, base, count, expected):
    state = standing and ProducerState(*standing)
    assert outcome(state, epoch, base, count) == expected


@given(
    st.tuples(st.integers(0, 3), st.integers(0, 9)),
    st.integers(0, 3),
    st.integers(0, 9),
    st.integers(1, 5),
)
def test_any_append_that_is_taken_makes_its_own_repetition_a_duplicate(stood, epoch, base, count):
    standing = ProducerState(*stood)
    if outcome(standing, epoch, base, count) == APPEND:
        after = ProducerState(epoch, base + count)
        assert after.version > standing.version
        assert outcome(after, epoch, base, count) == DUPLICATE
        assert outcome(after, epoch, base + count, count) == APPEND


@given(st.integers(0, 2**23 - 1), st.integers(0, SEQUENCE_MAX))
def test_version_keeps_epoch_and_sequence_and_orders_by_epoch_first(epoch, sequence):
    state = ProducerState(epoch, sequence)
    assert ProducerState.from_version(state.version) == state
    assert state.version < 2**63, "it fits Delta's long"
    assert ProducerState(epoch + 1, 0).version > state.version


def test_errors_name_the_producer_and_both_sides():
    with pytest.raises(ProducerFencedError, match="producer/me has epoch 1, but epoch 4"):
        is_duplicate(ProducerState(4, 0), "producer/me", 1, 0, 1)
    with pytest.raises(OutOfOrderSequenceError, match=r"producer/me .*12\.\.13.* has 10 of it"):
        is_duplicate(ProducerState(4, 10), "producer/me", 4, 12, 2)


def test_state_of_a_writer_is_read_from_its_txn():
    state = TableState("t/")
    assert producer_state(state, "producer/me") is None
    state.txns["producer/me"] = Txn("producer/me", 3 << 40 | 7, 0)
    assert producer_state(state, "producer/me") == ProducerState(3, 7)
