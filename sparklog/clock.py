"""The only source of time and randomness.

Everything that needs the time, a pause or a unique id is handed a `Clock` and an `Ids`, so that
the simulator can run the same code under its own. Offsets and fencing never depend on a clock.
"""

from __future__ import annotations

import os
import random
import time
from typing import Protocol


class Clock(Protocol):
    """Wall time for stamps, monotonic time for durations, and sleep."""

    def now_ms(self) -> int:
        """Milliseconds since the epoch, by the wall clock: it may jump."""
        ...

    def monotonic(self) -> float:
        """Seconds from an arbitrary start: never goes back."""
        ...

    def sleep(self, seconds: float) -> None:
        """Pause this thread."""
        ...


class Ids(Protocol):
    """Unique names and jitter."""

    def unique(self) -> str:
        """Thirty-two hexadecimal digits that nobody else gets."""
        ...

    def uniform(self) -> float:
        """A number in [0, 1), for jitter."""
        ...


class SystemClock:
    """The machine's own clock."""

    def now_ms(self) -> int:
        """Milliseconds since the epoch."""
        return time.time_ns() // 1_000_000

    def monotonic(self) -> float:
        """Seconds from an arbitrary start."""
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        """Pause this thread."""
        time.sleep(seconds)


class SystemIds:
    """Ids from the operating system's random numbers: safe across forks and machines."""

    def unique(self) -> str:
        """Thirty-two random hexadecimal digits."""
        return os.urandom(16).hex()

    def uniform(self) -> float:
        """A number in [0, 1)."""
        return random.random()
