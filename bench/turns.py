"""Timed work in turns: ours and the peers alternate, and each one's best round counts.

The machine is noisy and shared: a figure by itself says little, and what disturbs one system for a
while must be able to disturb the others. Dirty pages are written back before each turn, so that
nobody pays for what another one left.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import NamedTuple


class Task(NamedTuple):
    """Something timed: it gets the number of the round and returns its seconds."""

    system: str
    panel: str
    name: str
    rows: int
    work: Callable[[int], float]


def best_rates(tasks: list[Task], rounds: int) -> list[float]:
    """The most rows a second of each."""
    best = [0.0] * len(tasks)
    for number in range(rounds):
        for index, task in enumerate(tasks):
            os.sync()
            best[index] = max(best[index], task.rows / task.work(number))
    return best


def timed(work: Callable[[], None]) -> float:
    """The seconds it took."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def check(found: int, expected: int) -> None:
    """Raise unless all rows were there."""
    if found != expected:
        raise AssertionError(f"{found} rows, expected {expected}")
