"""The faults of MemoryStore: each does what its name says, and none breaks the Store's contract."""

import itertools
import random
from collections.abc import Callable

import pytest

from sparklog.errors import ObjectNotFoundError, StoreFullError, StoreUnavailableError
from sparklog.storage import PutOutcome
from sparklog.storage.memory_store import FaultRates, Faults, MemoryStore

KEY = "topics/t/_delta_log/0.json"


def faulty(seed: int = 0, **rates: float) -> MemoryStore:
    return MemoryStore(Faults(random.Random(seed), FaultRates(land=0.0, **rates)))


def write_nothing(stream: object) -> None:
    """A file without contents."""


def test_conditional_put_without_faults_is_created_once() -> None:
    store = MemoryStore()
    assert store.put_if_absent(KEY, b"first") is PutOutcome.CREATED
    assert store.put_if_absent(KEY, b"second") is PutOutcome.EXISTS
    assert store.get(KEY) == b"first"
    assert not store.faults.fired


@pytest.mark.parametrize("fault", ["put_lost", "put_conflict"])
def test_conditional_put_not_applied_is_unknown_and_absent(fault: str) -> None:
    store = faulty(**{fault: 1.0})
    assert store.put_if_absent(KEY, b"x") is PutOutcome.UNKNOWN
    assert store.contents() == {}
    assert store.land_pending() == 0
    assert store.faults.fired == {fault: 1}


def test_conditional_put_unanswered_is_unknown_and_stands() -> None:
    store = faulty(put_unanswered=1.0)
    assert store.put_if_absent(KEY, b"x") is PutOutcome.UNKNOWN
    assert store.contents() == {KEY: b"x"}


def test_conditional_put_retried_by_the_client_answers_exists_to_its_own_bytes() -> None:
    store = faulty(put_retried=1.0)
    assert store.put_if_absent(KEY, b"mine") is PutOutcome.EXISTS
    assert store.get(KEY) == b"mine"


def test_conflict_on_a_key_that_stands_is_no_fault() -> None:
    store = faulty(put_conflict=1.0)
    store.put(KEY, b"x")
    assert store.put_if_absent(KEY, b"y") is PutOutcome.EXISTS
    assert not store.faults.fired


def test_late_put_lands_at_a_later_call_of_anybody() -> None:
    faults = Faults(random.Random(1), FaultRates(put_later=1.0, land=1.0))
    store = MemoryStore(faults)
    assert store.put_if_absent(KEY, b"late") is PutOutcome.UNKNOWN
    assert store.contents() == {}
    faults.enabled = False
    assert store.head("other") is None
    assert store.get(KEY) == b"late"
    assert faults.fired["landed_later"] == 1


def test_late_put_does_not_land_on_a_key_that_is_taken() -> None:
    store = faulty(put_later=1.0)
    assert store.put_if_absent(KEY, b"late") is PutOutcome.UNKNOWN
    store.faults.enabled = False
    assert store.put_if_absent(KEY, b"winner") is PutOutcome.CREATED
    assert store.land_pending() == 0
    assert store.get(KEY) == b"winner"


def test_late_put_that_never_landed_lands_at_the_end() -> None:
    store = faulty(put_later=1.0)
    store.put_if_absent(KEY, b"late")
    assert store.land_pending() == 1
    assert store.get(KEY) == b"late"
    assert store.land_pending() == 0


def test_late_overwrite_replaces_what_was_written_after_it() -> None:
    store = faulty(write_later=1.0)
    with pytest.raises(StoreUnavailableError):
        store.put(KEY, b"old")
    store.faults.enabled = False
    store.put(KEY, b"new")
    store.land_pending()
    assert store.get(KEY) == b"old"


@pytest.mark.parametrize(
    ("fault", "error"), [("full", StoreFullError), ("put_refused", StoreUnavailableError)]
)
def test_definite_failure_of_a_conditional_put_is_not_applied(
    fault: str, error: type[Exception]
) -> None:
    store = faulty(**{fault: 1.0})
    with pytest.raises(error, match=r"0\.json"):
        store.put_if_absent(KEY, b"x")
    assert store.contents() == {}
    assert store.land_pending() == 0


def test_full_store_refuses_files_and_leaves_them_absent() -> None:
    store = faulty(full=1.0)
    with pytest.raises(StoreFullError):
        store.write_file("f", write_nothing)
    assert store.contents() == {}


CHANGES: list[Callable[[MemoryStore], object]] = [
    lambda store: store.put("k", b"new"),
    lambda store: store.write_file("k", lambda stream: stream.write(b"new")),
    lambda store: store.delete("k"),
]


@pytest.mark.parametrize("change", CHANGES, ids=["put", "write_file", "delete"])
def test_failed_change_is_applied_or_not_as_the_fault_says(
    change: Callable[[MemoryStore], object],
) -> None:
    lost, unanswered = faulty(write_lost=1.0), faulty(write_unanswered=1.0)
    for store in (lost, unanswered):
        store.corrupt("k", b"old")
        with pytest.raises(StoreUnavailableError):
            change(store)
    assert lost.contents() == {"k": b"old"}
    assert unanswered.contents() in ({"k": b"new"}, {})


READS: list[Callable[[MemoryStore], object]] = [
    lambda store: store.get("k"),
    lambda store: store.head("k"),
    lambda store: store.list_from(""),
    lambda store: store.list_folders(""),
    lambda store: store.open_input("k"),
    lambda store: store.sync(["k"]),
]


@pytest.mark.parametrize("read", READS)
def test_failing_read_says_unavailable_and_never_absent(
    read: Callable[[MemoryStore], object],
) -> None:
    store = faulty(read=1.0)
    store.corrupt("k", b"x")
    with pytest.raises(StoreUnavailableError):
        read(store)
    store.faults.enabled = False
    read(store)


def test_storm_fails_a_stretch_of_calls_and_applies_none() -> None:
    store = MemoryStore(Faults(random.Random(3), FaultRates(storm=0.2, storm_calls_max=30)))
    outcomes = [store.put_if_absent(f"k{n}", b"x") for n in range(300)]
    failed = [n for n, outcome in enumerate(outcomes) if outcome is PutOutcome.UNKNOWN]
    runs = sum(1 for a, b in itertools.pairwise(failed) if b == a + 1)
    assert runs > len(failed) / 2
    assert store.faults.fired["storm"] == len(failed)
    assert len(store.contents()) == 300 - len(failed) > 0


def test_faults_switched_off_stop_a_storm_too() -> None:
    store = MemoryStore(Faults(random.Random(0), FaultRates(storm=1.0)))
    assert store.put_if_absent(KEY, b"x") is PutOutcome.UNKNOWN
    store.faults.enabled = False
    assert store.put_if_absent(KEY, b"x") is PutOutcome.CREATED


def test_same_seed_gives_the_same_faults() -> None:
    def outcomes(seed: int) -> list[PutOutcome]:
        store = faulty(seed, put_lost=0.3, put_unanswered=0.3, put_later=0.2)
        return [store.put_if_absent(f"k{n}", b"x") for n in range(100)]

    assert outcomes(7) == outcomes(7)
    assert outcomes(7) != outcomes(8)


def test_hook_is_called_before_each_operation_and_between_effect_and_answer() -> None:
    seen: list[tuple[str, str, bool]] = []

    def on_call(op: str, key: str) -> None:
        seen.append((op, key, key in store.contents()))

    store = MemoryStore(on_call=on_call)
    store.put_if_absent("k", b"x")
    with pytest.raises(ObjectNotFoundError):
        store.get("absent")
    assert seen == [
        ("put_if_absent", "k", False),
        ("put_if_absent:done", "k", True),
        ("get", "absent", False),
        ("get:done", "absent", False),
    ]


def test_hook_that_raises_ends_the_call_before_or_after_its_effect() -> None:
    killed_at = ""

    def on_call(op: str, key: str) -> None:
        if op == killed_at:
            raise KeyboardInterrupt

    store = MemoryStore(on_call=on_call)
    killed_at = "put_if_absent"
    with pytest.raises(KeyboardInterrupt):
        store.put_if_absent("before", b"x")
    killed_at = "put_if_absent:done"
    with pytest.raises(KeyboardInterrupt):
        store.put_if_absent("after", b"x")
    assert set(store.contents()) == {"after"}


def test_corrupted_object_is_read_as_it_was_left() -> None:
    store = MemoryStore()
    store.put("k", b"whole")
    store.corrupt("k", b"wh")
    assert store.get("k") == b"wh"
    assert store.open_input("k").read() == b"wh"
