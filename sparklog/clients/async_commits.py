"""Offset commits beside the polling thread.

At most one commit is on its way. What is asked for meanwhile gathers and goes with the next, the
newest offset of a partition counts, so a slow store makes commits larger and never a queue of
them. Callbacks are kept until the polling thread runs them (`deliver`).
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor

from sparklog.clients.offsets import OffsetAndMetadata, TopicPartition
from sparklog.groups.group_state import PartitionId
from sparklog.groups.handlers import OffsetToCommit

CommitCallback = Callable[[dict[TopicPartition, OffsetAndMetadata], "Exception | None"], None]
Commit = Callable[[str, Mapping[PartitionId, OffsetToCommit]], None]


class AsyncCommits:
    """Commits in the order of the calls, on a thread of its own or, without one, at once."""

    def __init__(self, commit: Commit, background: bool) -> None:
        """`commit` takes a member's id and its offsets, and raises what went wrong."""
        self._commit = commit
        self._background = background
        self._executor: ThreadPoolExecutor | None = None
        self._lock = threading.Lock()
        self._member_id = ""
        self._waiting: dict[PartitionId, OffsetToCommit] = {}
        self._callbacks: list[Callable[[Exception | None], None]] = []
        self._last: Future[None] | None = None
        self._done: deque[Callable[[], None]] = deque()

    def submit(
        self,
        member_id: str,
        offsets: Mapping[PartitionId, OffsetToCommit],
        shown: dict[TopicPartition, OffsetAndMetadata],
        callback: CommitCallback | None,
    ) -> None:
        """Commit these soon; the callback gets `shown`, and the error if there was one."""

        def finished(error: Exception | None) -> None:
            if callback is not None:
                self._done.append(lambda: callback(shown, error))

        with self._lock:
            # Another member id is another membership: what it did not commit in time is refused.
            self._member_id = member_id
            self._waiting.update(offsets)
            self._callbacks.append(finished)
            if len(self._callbacks) > 1:
                return  # goes with the one that has not begun yet
            if self._background:
                if self._executor is None:
                    self._executor = ThreadPoolExecutor(1, "sparklog-offsets")
                self._last = self._executor.submit(self._run)
                return
        self._run()

    def deliver(self) -> None:
        """Run the callbacks of what has finished, on the caller's thread."""
        while self._done:
            self._done.popleft()()

    def wait(self) -> None:
        """Wait for all that was submitted."""
        last = self._last
        if last is not None:
            last.result()

    def close(self) -> None:
        """Finish what was submitted, and end the thread."""
        self.wait()
        if self._executor is not None:
            self._executor.shutdown()

    def _run(self) -> None:
        with self._lock:
            member_id, offsets = self._member_id, self._waiting
            callbacks = self._callbacks
            self._waiting, self._callbacks = {}, []
        error: Exception | None = None
        try:
            self._commit(member_id, offsets)
        except Exception as caught:
            error = caught
        for finished in callbacks:
            finished(error)
