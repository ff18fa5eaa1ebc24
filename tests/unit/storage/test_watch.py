"""Watchers. Where one must be woken, its own longest wait is put out of the way first."""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from sparklog.clock import SystemClock
from sparklog.storage import watch
from sparklog.storage.local_store import LocalStore
from sparklog.storage.watch import InotifyWatcher, PollingWatcher, watch_folders

LONG = 20.0
linux_only = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="inotify is Linux's")


class FakeClock:
    """A clock that notes its pauses and takes none."""

    def __init__(self) -> None:
        self.pauses: list[float] = []

    def now_ms(self) -> int:
        return 0

    def monotonic(self) -> float:
        return sum(self.pauses)

    def sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only an event or the timeout ends a wait."""
    monkeypatch.setattr(watch, "WAIT_SECONDS_MAX", LONG)


@pytest.fixture
def store(tmp_path: Path) -> LocalStore:
    opened = LocalStore(tmp_path)
    opened.put("log/made", b"", durable=False)
    opened.put("other/made", b"", durable=False)
    return opened


@contextlib.contextmanager
def watching(store: LocalStore, *folders: str) -> Iterator[InotifyWatcher]:
    watcher = store.watch(folders)
    assert isinstance(watcher, InotifyWatcher)
    with contextlib.closing(watcher):
        yield watcher


def seconds_of_wait(
    watcher: InotifyWatcher | PollingWatcher, timeout: float, meanwhile: Callable[[], object]
) -> float:
    """How long a wait lasted during which something was done."""
    timer = threading.Timer(0.05, meanwhile)
    timer.start()
    started = time.monotonic()
    watcher.wait(timeout)
    lasted = time.monotonic() - started
    timer.join()
    return lasted


@linux_only
@pytest.mark.usefixtures("patient")
def test_wait_ends_when_another_thread_commits(store: LocalStore) -> None:
    with watching(store, "log/", "other/") as watcher:
        assert seconds_of_wait(watcher, LONG, lambda: store.put_if_absent("log/1", b"")) < 5
        assert seconds_of_wait(watcher, LONG, lambda: store.put("other/1", b"")) < 5


@linux_only
@pytest.mark.usefixtures("patient")
def test_commit_between_look_and_wait_is_not_missed(store: LocalStore) -> None:
    with watching(store, "log/") as watcher:
        store.put_if_absent("log/1", b"")
        assert seconds_of_wait(watcher, LONG, lambda: None) < 5


@linux_only
@pytest.mark.usefixtures("patient")
def test_wait_goes_on_when_only_other_folders_change(store: LocalStore) -> None:
    with watching(store, "log/") as watcher:
        # A put that loses writes a temporary file at most, and the other folder is not watched.
        store.put_if_absent("log/made", b"")
        assert seconds_of_wait(watcher, 0.3, lambda: store.put("other/1", b"")) >= 0.29


@linux_only
@pytest.mark.usefixtures("patient")
def test_events_are_used_up_by_the_wait_they_end(store: LocalStore) -> None:
    with watching(store, "log/") as watcher:
        for number in range(50):
            store.put_if_absent(f"log/{number}", b"", durable=False)
        watcher.wait(LONG)
        assert seconds_of_wait(watcher, 0.3, lambda: None) >= 0.29


@linux_only
@pytest.mark.usefixtures("patient")
def test_wake_ends_a_wait_and_is_kept_for_the_next(store: LocalStore) -> None:
    with watching(store, "log/") as watcher:
        assert seconds_of_wait(watcher, LONG, watcher.wake) < 5
        watcher.wake()
        assert seconds_of_wait(watcher, LONG, lambda: None) < 5


@linux_only
@pytest.mark.usefixtures("patient")
def test_close_ends_a_wait_and_gives_descriptors_back(store: LocalStore) -> None:
    before = len(os.listdir("/proc/self/fd"))  # noqa: PTH208
    with watching(store, "log/") as watcher:
        assert seconds_of_wait(watcher, LONG, watcher.close) < 5
        watcher.close()
        watcher.wake()
        watcher.wait(LONG)
    assert len(os.listdir("/proc/self/fd")) == before  # noqa: PTH208


@linux_only
def test_wait_returns_soon_even_if_nothing_is_reported(store: LocalStore) -> None:
    with watching(store, "log/") as watcher:
        assert seconds_of_wait(watcher, LONG, lambda: None) < 5


@linux_only
@pytest.mark.usefixtures("patient")
def test_folder_made_later_is_watched_from_then_on(store: LocalStore) -> None:
    with watching(store, "later/") as watcher:
        assert seconds_of_wait(watcher, LONG, lambda: None) < 5  # a poll while it is missing
        store.put("later/1", b"")
        watcher.wait(LONG)  # finds the folder, and returns because it may hold something
        assert seconds_of_wait(watcher, LONG, lambda: store.put("later/2", b"")) < 5
        assert seconds_of_wait(watcher, 0.3, lambda: None) >= 0.29


@linux_only
@pytest.mark.usefixtures("patient")
def test_folder_removed_and_made_again_is_watched_again(store: LocalStore) -> None:
    with watching(store, "log/") as watcher:
        shutil.rmtree(Path(store.uri) / "log")
        watcher.wait(LONG)
        store.put("log/1", b"")
        watcher.wait(LONG)
        assert seconds_of_wait(watcher, LONG, lambda: store.put("log/2", b"")) < 5
        assert seconds_of_wait(watcher, 0.3, lambda: None) >= 0.29


def test_machine_without_inotify_polls(store: LocalStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "other")
    assert isinstance(watch_folders([store.uri], SystemClock()), PollingWatcher)


def test_polling_pauses_grow_to_their_limit_and_reset() -> None:
    clock = FakeClock()
    watcher = PollingWatcher(clock, delay_min=0.001, delay_max=0.025)
    for _ in range(7):
        watcher.wait(1)
    watcher.reset()
    watcher.wait(1)
    assert clock.pauses == [0.001, 0.002, 0.004, 0.008, 0.016, 0.025, 0.025, 0.001]


def test_polling_pause_is_no_longer_than_the_timeout() -> None:
    clock = FakeClock()
    watcher = PollingWatcher(clock, delay_min=10, delay_max=10)
    for timeout in (0.5, 0, -1):
        watcher.wait(timeout)
    assert clock.pauses == [0.5, 0, 0]


def test_polling_woken_before_wait_does_not_pause() -> None:
    clock = FakeClock()
    watcher = PollingWatcher(clock)
    watcher.wake()
    watcher.wait(1)
    assert clock.pauses == []
    watcher.wait(1)
    assert len(clock.pauses) == 1


def test_polling_woken_or_closed_from_another_thread_returns() -> None:
    for wake in (PollingWatcher.wake, PollingWatcher.close):
        watcher = PollingWatcher(SystemClock(), delay_min=LONG, delay_max=LONG)
        assert seconds_of_wait(watcher, LONG, lambda w=watcher, f=wake: f(w)) < 5  # type: ignore[misc]
