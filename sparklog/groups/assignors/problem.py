"""What an assignor is asked, and what it answers.

An assignor is a pure function: who wants which topics, how many partitions these have, and who
owns what now, give who shall own what. Equal problems have equal answers, so any member may ask.
It only names the goal: that a partition moves no sooner than its owner has released it is the
group's state machine's business, and the same for all assignors.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

Place: TypeAlias = tuple[str, int]
"""A topic's name and a partition's number."""

Assignment: TypeAlias = dict[str, list[Place]]
"""What each member shall own, in order; every member is named."""


@dataclass(frozen=True)
class Problem:
    """Who wants which topics, how large these are, and who owns what."""

    subscriptions: Mapping[str, frozenset[str]]
    """Names of the topics that each member wants."""
    partitions: Mapping[str, int]
    """How many partitions each topic has."""
    owned: Mapping[str, frozenset[Place]] = field(default_factory=dict)
    """What each member owns now; disjoint."""
    ranks: Mapping[str, str] = field(default_factory=dict)
    """By what a member is sorted instead of its id: its instance id, which outlives it."""

    def members(self) -> list[str]:
        """All members, in the order in which they are served."""
        return sorted(self.subscriptions, key=lambda m: (self.ranks.get(m, m), m))

    def topics(self) -> list[str]:
        """All topics that stand and that somebody wants."""
        wanted = frozenset[str]().union(*self.subscriptions.values())
        return sorted(topic for topic in wanted if self.partitions.get(topic, 0) > 0)

    def places(self) -> list[Place]:
        """All topic-partitions to share out."""
        return [(topic, p) for topic in self.topics() for p in range(self.partitions[topic])]


Assignor: TypeAlias = Callable[[Problem], Assignment]
