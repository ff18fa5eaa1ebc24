"""The assignors: who is to own what."""

from __future__ import annotations

from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparklog.errors import InconsistentStrategyError
from sparklog.groups.assignors.choose import ASSIGNORS, choose_strategy
from sparklog.groups.assignors.problem import Problem
from sparklog.groups.assignors.range import assign_range
from sparklog.groups.assignors.roundrobin import assign_roundrobin
from sparklog.groups.assignors.sticky import assign_sticky


def problem(subscriptions, partitions, owned=None, **more):
    wants = {m: frozenset(topics) for m, topics in subscriptions.items()}
    has = {m: frozenset(places) for m, places in (owned or {}).items()}
    return Problem(wants, partitions, has, **more)


def test_range_cuts_each_topic_into_stretches():
    found = assign_range(problem({"a": ["t", "u"], "b": ["t", "u"]}, {"t": 3, "u": 3}))
    assert found == {
        "a": [("t", 0), ("t", 1), ("u", 0), ("u", 1)],
        "b": [("t", 2), ("u", 2)],
    }


def test_roundrobin_deals_like_cards():
    found = assign_roundrobin(problem({"a": ["t", "u"], "b": ["t", "u"]}, {"t": 3, "u": 3}))
    assert found == {
        "a": [("t", 0), ("t", 2), ("u", 1)],
        "b": [("t", 1), ("u", 0), ("u", 2)],
    }


def test_roundrobin_passes_over_who_does_not_want_a_topic():
    found = assign_roundrobin(problem({"a": ["t"], "b": ["t", "u"]}, {"t": 2, "u": 2}))
    assert found == {"a": [("t", 0)], "b": [("t", 1), ("u", 0), ("u", 1)]}


def test_members_are_served_by_instance_id_before_their_own():
    ranks = {"z": "i0", "a": "i1"}
    found = assign_range(problem({"a": ["t"], "z": ["t"]}, {"t": 1}, ranks=ranks))
    assert found == {"z": [("t", 0)], "a": []}


def test_sticky_moves_no_more_than_a_new_member_needs():
    owned = {"a": [("t", p) for p in range(5)], "b": [("t", p) for p in range(5, 10)]}
    wants = {m: ["t"] for m in "abc"}
    found = assign_sticky(problem(wants, {"t": 10}, owned))
    assert sorted(map(len, found.values())) == [3, 3, 4]
    assert set(found["a"]) <= set(owned["a"]) and set(found["b"]) <= set(owned["b"])


def test_sticky_lets_those_who_stay_keep_all_when_one_leaves():
    owned = {"a": [("t", 0), ("t", 1)], "b": [("t", 2), ("t", 3)]}
    found = assign_sticky(problem({"a": ["t"], "b": ["t"]}, {"t": 6}, owned))
    assert set(owned["a"]) < set(found["a"]) and set(owned["b"]) < set(found["b"])


def test_sticky_moves_along_a_chain_where_no_single_move_helps():
    """`a` has too much and `c` too little, but they share no topic: `b` must pass one on."""
    owned = {"a": [("t", p) for p in range(4)], "b": [("u", 0), ("u", 1)], "c": []}
    wants = {"a": ["t"], "b": ["t", "u"], "c": ["u"]}
    found = assign_sticky(problem(wants, {"t": 4, "u": 2}, owned))
    assert [len(found[m]) for m in "abc"] == [2, 2, 2]


def test_unknown_topics_and_no_topics_give_nothing():
    for assign in ASSIGNORS.values():
        assert assign(problem({"a": ["gone"], "b": []}, {})) == {"a": [], "b": []}


sizes = st.dictionaries(st.sampled_from("tuv"), st.integers(1, 6), max_size=3)
wishes = st.dictionaries(
    st.sampled_from("abcdef"), st.sets(st.sampled_from("tuv")), min_size=1, max_size=6
)


@given(st.sampled_from(sorted(ASSIGNORS)), wishes, sizes, st.data())
def test_any_problem_is_solved_whole_and_always_in_the_same_way(name, wants, partitions, data):
    owned = {}
    for topic, count in partitions.items():
        for number in range(count):
            owner = data.draw(st.sampled_from([None, *wants]))
            if owner is not None:
                owned.setdefault(owner, []).append((topic, number))
    one = problem(wants, partitions, owned)
    found = ASSIGNORS[name](one)
    assert found == ASSIGNORS[name](problem(dict(reversed(wants.items())), partitions, owned))
    assert found.keys() == wants.keys()
    given_out = [place for places in found.values() for place in places]
    assert sorted(given_out) == one.places(), "each once"
    assert all(topic in wants[m] for m, places in found.items() for topic, _ in places)
    if "sticky" in name:
        for giver, taker in permutations(wants, 2):
            could = any(topic in wants[taker] for topic, _ in found[giver])
            assert not could or len(found[giver]) - len(found[taker]) < 2, "no single move helps"


@given(wishes.filter(lambda w: len(w) > 1), sizes)
def test_sticky_keeps_everything_while_nothing_changes(wants, partitions):
    first = assign_sticky(problem(wants, partitions))
    assert assign_sticky(problem(wants, partitions, first)) == first


def test_strategy_is_the_one_that_all_have_and_most_prefer():
    lists = {
        "a": ["range", "sticky", "roundrobin"],
        "b": ["sticky", "roundrobin"],
        "c": ["roundrobin", "sticky"],
    }
    assert choose_strategy(lists) == "sticky"
    assert choose_strategy({"a": ["range"]}) == "range"


def test_no_common_strategy_names_who_has_what():
    with pytest.raises(InconsistentStrategyError, match="a: range; b: sticky"):
        choose_strategy({"a": ["range"], "b": ["sticky"]})
