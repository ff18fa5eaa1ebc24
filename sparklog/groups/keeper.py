"""The keeper: keeps one member in its group, and puts silent ones out.

It beats every `heartbeat.interval.ms`, looks at the others' heartbeats, expels who was silent for
its session timeout, and stops speaking for a member whose application has not polled for
`max.poll.interval.ms`: that member leaves, so that its partitions go to members that work.

`tick` does what is due and says when to call again. A thread calls it (`start`), or, in a
simulation or a program without threads, the member's own polls.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping

from sparklog.clock import Clock
from sparklog.errors import SparklogError
from sparklog.groups.coordinator import Coordinator
from sparklog.groups.group_state import GroupState
from sparklog.groups.heartbeats import Heartbeats

CHEAP_LOOK_SECONDS = 0.25
LOOK_SECONDS_A_MEMBER = 0.01
RANK_SECONDS = 0.01
RANK_SECONDS_MAX = 0.5

logger = logging.getLogger(__name__)


class Keeper:
    """Speaks for one member, from a thread of its own or from `tick`. Safe between threads."""

    def __init__(
        self,
        coordinator: Coordinator,
        heartbeats: Heartbeats,
        clock: Clock,
        heartbeat_interval_ms: int,
        max_poll_interval_ms: int,
        looks_are_cheap: bool,
    ) -> None:
        """Speaks for nobody before `keep`."""
        self._coordinator = coordinator
        self._heartbeats = heartbeats
        self._clock = clock
        self._beat_seconds = heartbeat_interval_ms / 1000
        self._poll_seconds_max = max_poll_interval_ms / 1000
        self._looks_are_cheap = looks_are_cheap
        self._member_id = ""
        self._static = False
        self._polled_at = clock.monotonic()
        self._beat_at = float("-inf")
        self._look_at = float("-inf")
        self._lock = threading.Lock()
        self._wake = threading.Event()
        self._thread: threading.Thread | None = None
        self._stopped = False

    def keep(self, member_id: str, static: bool) -> None:
        """Speak for this member from now on; empty for nobody."""
        with self._lock:
            self._member_id = member_id
            self._static = static
            self._polled_at = self._clock.monotonic()
            self._beat_at = self._look_at = float("-inf")
        self._wake.set()

    def note_poll(self) -> None:
        """The application has polled just now."""
        self._polled_at = self._clock.monotonic()

    def start(self) -> None:
        """Tick from a thread of its own until `stop`."""
        if self._thread is None:
            self._stopped = False
            self._thread = threading.Thread(
                target=self._run, name="sparklog-heartbeat", daemon=True
            )
            self._thread.start()

    def stop(self) -> None:
        """Say nothing any more; waits for what the thread is about."""
        self._stopped = True
        self._wake.set()
        thread, self._thread = self._thread, None
        if thread is not None:
            thread.join()

    def tick(self) -> float:
        """Do what is due; returns the time of the next tick by the monotonic clock."""
        with self._lock:
            if not self._member_id:
                return float("inf")
            now = self._clock.monotonic()
            if now - self._polled_at > self._poll_seconds_max:
                self._give_up()
                return float("inf")
            if now >= self._beat_at:
                self._beat_at = now + self._beat_seconds
                self._try("beat", lambda: self._heartbeats.beat(self._member_id))
            if now >= self._look_at:
                self._look_at = now + self._beat_seconds
                self._try("look at the others", self._look)
            return min(self._beat_at, self._look_at, self._polled_at + self._poll_seconds_max)

    def _run(self) -> None:
        while not self._stopped:
            due = self.tick()
            pause = min(due - self._clock.monotonic(), self._beat_seconds)
            self._wake.wait(max(pause, 0.001))
            self._wake.clear()

    def _look(self) -> None:
        """Find the silent among the others, and expel them."""
        state = self._coordinator.refresh()
        if self._member_id not in state.members:
            self._look_at = float("inf")  # it was expelled itself: its next poll will say so
            self._beat_at = float("inf")
            return
        timeouts = {
            m.member_id: m.session_timeout_ms
            for m in state.members.values()
            if m.member_id != self._member_id
        }
        # Observers act one after the other, so that one append is tried and not one by each.
        rank = sorted(state.members).index(self._member_id)
        grace = min(rank * RANK_SECONDS, RANK_SECONDS_MAX)
        silent = self._heartbeats.silent(timeouts, grace) if timeouts else []
        if silent:
            self._expel(state, silent)
        self._look_at = self._next_look(timeouts, grace)

    def _expel(self, state: GroupState, silent: list[str]) -> None:
        logger.warning("group %s: expel %s: silent for too long", state.name, ", ".join(silent))
        self._coordinator.expel(silent)
        for member_id in silent:
            self._heartbeats.remove(member_id)

    def _next_look(self, timeouts: Mapping[str, int], grace: float) -> float:
        """Often where a listing costs nothing; and just when somebody may be found silent."""
        pause = self._beat_seconds
        if self._looks_are_cheap:
            pause = min(pause, CHEAP_LOOK_SECONDS + LOOK_SECONDS_A_MEMBER * len(timeouts))
        now = self._clock.monotonic()
        verdict = self._heartbeats.next_verdict(timeouts, grace)
        return min(now + pause, max(verdict, now) + 0.001)

    def _give_up(self) -> None:
        """The application does not poll: let others have its partitions."""
        member_id, self._member_id = self._member_id, ""
        logger.warning(
            "group %s: member %s has not polled for max.poll.interval.ms (%.0f ms) and leaves; "
            "poll more often, or with fewer records (max.poll.records), or raise the limit",
            self._coordinator.group,
            member_id,
            self._poll_seconds_max * 1000,
        )
        if not self._static:  # a static one is expelled by the others once its session is over
            self._try("leave", lambda: self._coordinator.leave(member_id))

    def _try(self, what: str, work: Callable[[], object]) -> None:
        """Do it; what fails is tried again at the next tick."""
        try:
            work()
        except SparklogError as error:
            logger.warning("group %s: could not %s: %s", self._coordinator.group, what, error)
