"""Waiting for new objects: by inotify on a local disk, by a growing pause elsewhere.

Guarantees:

1. A change made by this host in a watched folder after the watcher was made, or after the last
   `wait` returned, ends the next `wait` of an `InotifyWatcher` at once: none falls between a look
   and a wait, because the kernel queues it.
2. No `wait` lasts longer than `WAIT_SECONDS_MAX` (of a poller: than its longest delay), whatever
   timeout was asked for. A `wait` that returns therefore says "look again", never "something is
   there": inotify does not see changes that another host made on a network mount, and a poller
   sees nothing at all.
3. `wake` ends a `wait` that is going on, or else the next one.

What it does not do: it never reads what changed, and one watcher serves one waiting thread (`wake`
may come from any). A folder that does not exist yet is looked for again at every `wait`, and
until it is there the wait is a short poll.
"""

from __future__ import annotations

import ctypes
import os
import select
import struct
import sys
import threading
from collections.abc import Iterable

from sparklog.clock import Clock, SystemClock

WAIT_SECONDS_MAX = 0.25
"""A wait returns at least this often, so that changes which nothing reports are found too."""
POLL_SECONDS_MIN = 0.001
POLL_SECONDS_MAX = 0.025

_IN_MOVED_TO = 0x80
_IN_CREATE = 0x100
_IN_IGNORED = 0x8000
_IN_ONLYDIR = 0x01000000
_EVENT_HEADER = struct.Struct("iIII")
_EVENT_BUFFER_BYTES = 65536


class PollingWatcher:
    """Pauses that grow from `delay_min` to `delay_max` seconds.

    It cannot know whether the caller found anything, so it is the caller that calls `reset` when
    it did. Under a clock other than the machine's own, the pause is that clock's `sleep`, and
    `wake` then ends only the next wait: a simulation has no second thread to call it from.
    """

    def __init__(
        self,
        clock: Clock,
        delay_min: float = POLL_SECONDS_MIN,
        delay_max: float = POLL_SECONDS_MAX,
    ) -> None:
        """Start at the shortest pause."""
        self._clock = clock
        self._delay_min = delay_min
        self._delay_max = delay_max
        self._delay = delay_min
        self._woken = threading.Event()

    def wait(self, timeout_seconds: float) -> None:
        """Pause for the present delay or the timeout, whichever is shorter."""
        pause = max(0.0, min(timeout_seconds, self._delay))
        self._delay = min(self._delay * 2, self._delay_max)
        if isinstance(self._clock, SystemClock):
            self._woken.wait(pause)
        elif not self._woken.is_set():
            self._clock.sleep(pause)
        self._woken.clear()

    def wake(self) -> None:
        """End the wait that is going on, or the next one."""
        self._woken.set()

    def reset(self) -> None:
        """Go back to the shortest pause: something was found, so more may come soon."""
        self._delay = self._delay_min

    def close(self) -> None:
        """End a wait that is going on; nothing is held."""
        self.wake()


class InotifyWatcher:
    """Watches folders of this machine through the kernel. Linux only.

    Raises OSError on construction where inotify cannot be had: `watch_folders` then polls.
    """

    def __init__(self, folders: Iterable[str]) -> None:
        """Watch these folders, given as paths of the file system."""
        self._libc = _libc_with_inotify()
        self._inotify_fd = _checked(self._libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC))
        try:
            self._wake_fd = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        except OSError:
            os.close(self._inotify_fd)
            raise
        self._poll = select.poll()
        self._poll.register(self._inotify_fd, select.POLLIN)
        self._poll.register(self._wake_fd, select.POLLIN)
        self._closed = False
        self._wait_lock = threading.Lock()  # held by a wait, so that close never takes its fds away
        self._wake_lock = threading.Lock()  # keeps wake from writing to a number used anew
        self._folders: dict[int, str] = {}
        self._unwatched = list(dict.fromkeys(folders))
        self._watch_the_unwatched()

    def wait(self, timeout_seconds: float) -> None:
        """Return on a new entry in a folder, on `wake`, or soon enough to look again."""
        with self._wait_lock:
            if self._closed or self._watch_the_unwatched():
                return
            longest = POLL_SECONDS_MAX if self._unwatched else WAIT_SECONDS_MAX
            ready = self._poll.poll(max(0.0, min(timeout_seconds, longest)) * 1000)
            for fd, _ in ready:
                if fd == self._inotify_fd:
                    self._drain_events()
                elif not self._closed:
                    os.eventfd_read(self._wake_fd)

    def wake(self) -> None:
        """End the wait that is going on, or the next one."""
        with self._wake_lock:
            if not self._closed:
                os.eventfd_write(self._wake_fd, 1)

    def reset(self) -> None:
        """Nothing to do: the kernel says at once when something comes."""

    def close(self) -> None:
        """End a wait that is going on and give the file descriptors back."""
        with self._wake_lock:
            if self._closed:
                return
            self._closed = True
            os.eventfd_write(self._wake_fd, 1)
        with self._wait_lock:
            os.close(self._inotify_fd)
            os.close(self._wake_fd)

    def _watch_the_unwatched(self) -> bool:
        """Try the folders that are not watched; true if one of them is from now on.

        A folder can be refused because it is not there yet or because the kernel's limit of
        watches is reached; both may pass.
        """
        before = len(self._unwatched)
        still: list[str] = []
        for folder in self._unwatched:
            mask = _IN_CREATE | _IN_MOVED_TO | _IN_ONLYDIR
            descriptor = self._libc.inotify_add_watch(self._inotify_fd, os.fsencode(folder), mask)
            if descriptor < 0:
                still.append(folder)
            else:
                self._folders[descriptor] = folder
        self._unwatched = still
        return len(still) < before

    def _drain_events(self) -> None:
        """Empty the kernel's queue, and take note of folders that were removed."""
        while True:
            try:
                events = os.read(self._inotify_fd, _EVENT_BUFFER_BYTES)
            except BlockingIOError:
                return
            position = 0
            while position < len(events):
                descriptor, mask, _, length = _EVENT_HEADER.unpack_from(events, position)
                position += _EVENT_HEADER.size + length
                if mask & _IN_IGNORED and descriptor in self._folders:
                    self._unwatched.append(self._folders.pop(descriptor))


def watch_folders(folders: Iterable[str], clock: Clock) -> InotifyWatcher | PollingWatcher:
    """A watcher over folders of this machine: by inotify where it can be had, else polling."""
    try:
        return InotifyWatcher(folders)
    except OSError:
        return PollingWatcher(clock)


def _libc_with_inotify() -> ctypes.CDLL:
    """This process's C library, or OSError if it has no inotify."""
    if not sys.platform.startswith("linux"):
        raise OSError(f"no inotify on {sys.platform}")
    libc = ctypes.CDLL(None, use_errno=True)
    if not hasattr(libc, "inotify_init1"):
        raise OSError("this C library has no inotify")
    return libc


def _checked(result: int) -> int:
    """The result of a C call, or the OSError that its errno stands for."""
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result
