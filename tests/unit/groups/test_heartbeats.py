"""Who lives and who is silent, by unchanged objects and the observer's own clock."""

from __future__ import annotations

import pytest

from sparklog.clock import SystemIds
from sparklog.errors import StoreUnavailableError
from sparklog.groups.coordinator import Coordinator
from sparklog.groups.group_state import Member, TopicSeen
from sparklog.groups.heartbeats import Heartbeats
from sparklog.groups.keeper import Keeper
from sparklog.groups.rebalance import Seen
from tests.support.fakes import CountingStore, FakeClock

TIMEOUT_MS = 10_000
STEP = 3.0


@pytest.fixture
def clock():
    return FakeClock()


@pytest.fixture
def store(clock):
    return CountingStore(clock)


def watch(clock, observer, seconds, beat=lambda: None):
    """Look every few seconds; who was silent at the last look."""
    silent = []
    for _ in range(int(seconds / STEP)):
        clock.seconds += STEP
        beat()
        silent = observer.silent({"m": TIMEOUT_MS})
    return silent


def test_member_that_beats_is_never_silent(clock, store):
    member, observer = Heartbeats(store, clock, "g"), Heartbeats(store, clock, "g")
    assert watch(clock, observer, 60, lambda: member.beat("m")) == []


def test_member_whose_object_stays_the_same_is_silent_after_its_timeout(clock, store):
    member, observer = Heartbeats(store, clock, "g"), Heartbeats(store, clock, "g")
    member.beat("m")
    assert watch(clock, observer, 12) == []
    assert watch(clock, observer, 3) == ["m"]


def test_member_that_never_beat_is_silent_after_its_timeout(clock, store):
    assert watch(clock, Heartbeats(store, clock, "g"), 15) == ["m"]


def test_beats_within_one_tick_of_the_stores_clock_differ(clock, store):
    """The store's times stand still here, as on a store that counts seconds."""
    member, observer = Heartbeats(store, clock, "g"), Heartbeats(store, clock, "g")

    def beat():
        now, clock.seconds = clock.seconds, 5.0
        member.beat("m")
        clock.seconds = now

    assert watch(clock, observer, 60, beat) == []


def test_wall_clocks_of_members_do_not_matter(clock, store):
    member, observer = Heartbeats(store, clock, "g"), Heartbeats(store, clock, "g")
    times = iter(range(10**6, 0, -1000))

    def beat():
        now, clock.seconds = clock.seconds, float(next(times))
        member.beat("m")  # its time runs backwards
        clock.seconds = now

    assert watch(clock, observer, 60, beat) == []


def test_observer_that_was_stopped_gives_everybody_time_anew(clock, store):
    member, observer = Heartbeats(store, clock, "g"), Heartbeats(store, clock, "g")
    member.beat("m")
    watch(clock, observer, 9)
    clock.seconds += 3600
    assert observer.silent({"m": TIMEOUT_MS}) == []
    assert watch(clock, observer, 9) == [] and watch(clock, observer, 3) == ["m"]


def test_one_listing_judges_all(clock, store):
    observer = Heartbeats(store, clock, "g")
    store.forget()
    observer.silent({f"m{n}": TIMEOUT_MS for n in range(100)})
    assert store.counted() == {"list_from": 1}


def joined(store, clock, *member_ids):
    coordinator = Coordinator(store, clock, SystemIds(), "g")
    for member_id in member_ids:
        member = Member(member_id, ("t",), session_timeout_ms=TIMEOUT_MS)
        coordinator.join(member, Seen({"t": TopicSeen("T", 4)}))
    return coordinator


def keeper(store, clock, coordinator, member_id, static=False, poll_ms=300_000):
    kept = Keeper(coordinator, Heartbeats(store, clock, "g"), clock, 3000, poll_ms, True)
    kept.keep(member_id, static)
    return kept


def test_keeper_expels_the_silent_one_and_removes_its_object(clock, store):
    coordinator = joined(store, clock, "a", "b")
    Heartbeats(store, clock, "g").beat("b")
    kept = keeper(store, clock, coordinator, "a")
    end = clock.seconds + TIMEOUT_MS / 1000 + 1
    while clock.seconds < end:
        due = kept.tick()
        assert due > clock.seconds - 0.001
        clock.seconds = max(due, clock.seconds + 0.001)
    assert sorted(coordinator.refresh().members) == ["a"]
    assert len(coordinator.state.members["a"].owned) == 4
    assert list(store.contents()).count("groups/g/members/b") == 0


def test_keeper_beats_at_its_interval_and_says_when_to_come_again(clock, store):
    kept = keeper(store, clock, joined(store, clock, "a"), "a")
    store.forget()
    for _ in range(100):
        clock.seconds = max(kept.tick(), clock.seconds + 0.1)
        if clock.seconds > 1_000_030:
            break
    assert 9 <= store.counted()["put"] <= 12


def test_keeper_of_a_member_that_does_not_poll_leaves_for_it(clock, store):
    coordinator = joined(store, clock, "a", "b")
    kept = keeper(store, clock, coordinator, "a", poll_ms=5000)
    kept.tick()
    clock.seconds += 4
    kept.note_poll()
    clock.seconds += 4
    kept.tick()
    assert "a" in coordinator.refresh().members
    clock.seconds += 2
    assert kept.tick() == float("inf")
    assert sorted(coordinator.refresh().members) == ["b"]


def test_keeper_of_a_static_member_only_falls_silent(clock, store):
    coordinator = joined(store, clock, "a")
    kept = keeper(store, clock, coordinator, "a", static=True, poll_ms=5000)
    clock.seconds += 6
    assert kept.tick() == float("inf")
    assert "a" in coordinator.refresh().members


def test_keeper_survives_a_store_that_fails(clock, store, caplog):
    kept = keeper(store, clock, joined(store, clock, "a"), "a")

    def fail(*_, **__):
        raise StoreUnavailableError("away")

    put, store.put = store.put, fail
    kept.tick()
    assert "could not beat: away" in caplog.text
    store.put = put
    clock.seconds += 3
    kept.tick()
    assert "groups/g/members/a" in store.contents()


def test_keeper_speaks_for_nobody_once_its_member_was_expelled(clock, store):
    coordinator = joined(store, clock, "a")
    kept = keeper(store, clock, coordinator, "a")
    coordinator.expel(["a"])
    kept.tick()
    store.forget()
    clock.seconds += 100
    kept.tick()
    assert store.counted()["put"] == 0
