"""Heartbeats: objects that members overwrite, and how others judge by them who has gone silent.

A beat is never read for correctness, only for liveness: whoever is wrongly taken for dead is
expelled by an append, and every later commit of it is refused. Its content means nothing; that the
object changed is what counts, so one listing judges all members of a group.

A member is silent when its object stayed the same for its session timeout *by the observer's own
monotonic clock*: no two clocks are ever compared. Time in which the observer itself did not look
(it was stopped) does not count.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from sparklog.clock import Clock
from sparklog.names import group_folder
from sparklog.storage import Store

LENGTHS = 7
"""Beats differ in length by turns: a listing shows a change even within one tick of its times."""


@dataclass(frozen=True)
class _Sign:
    """What a listing showed of a member, and when the observer saw it change."""

    look: tuple[int, int] | None
    since: float


class Heartbeats:
    """The heartbeats of one group, written for one member and watched by it."""

    def __init__(self, store: Store, clock: Clock, group: str) -> None:
        """Reads and writes nothing yet."""
        self.folder = f"{group_folder(group)}members/"
        self._store = store
        self._clock = clock
        self._beats = 0
        self._signs: dict[str, _Sign] = {}
        self._looked_at = float("-inf")

    def beat(self, member_id: str) -> None:
        """Show that this member lives."""
        self._beats += 1
        body = str(self._beats % LENGTHS) * (1 + self._beats % LENGTHS)
        self._store.put(self.folder + member_id, body.encode(), durable=False)

    def remove(self, member_id: str) -> None:
        """Tidy up after a member that left or was expelled."""
        self._store.delete(self.folder + member_id)

    def silent(self, timeouts_ms: Mapping[str, int], grace_seconds: float = 0.0) -> list[str]:
        """Which of these members have not changed their object for their timeout and the grace."""
        looks = {
            info.key.rpartition("/")[2]: (info.modified_ms, info.size)
            for info in self._store.list_from(self.folder)
        }
        now = self._clock.monotonic()
        gap, self._looked_at = now - self._looked_at, now
        signs: dict[str, _Sign] = {}
        for member_id, timeout_ms in timeouts_ms.items():
            known, look = self._signs.get(member_id), looks.get(member_id)
            if known is None or known.look != look or gap * 2000 > timeout_ms:
                known = _Sign(look, now)
            signs[member_id] = known
        self._signs = signs
        return [
            member_id
            for member_id, sign in signs.items()
            if now - sign.since > timeouts_ms[member_id] / 1000 + grace_seconds
        ]

    def next_verdict(self, timeouts_ms: Mapping[str, int], grace_seconds: float = 0.0) -> float:
        """When the first of these members could be found silent, by the monotonic clock."""
        return min(
            (
                sign.since + timeouts_ms[member_id] / 1000 + grace_seconds
                for member_id, sign in self._signs.items()
                if member_id in timeouts_ms
            ),
            default=float("inf"),
        )
