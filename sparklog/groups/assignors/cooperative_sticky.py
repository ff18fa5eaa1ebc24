"""Cooperative-sticky, the default: the sticky goal under the name that Kafka gives it when members
keep reading what they keep.

In Kafka the name chooses the protocol: `sticky` stops everybody, `cooperative-sticky` only moves
what must move. Here every assignor's goal is reached in the second way, so the two agree.
"""

from __future__ import annotations

from sparklog.groups.assignors.problem import Assignment, Problem
from sparklog.groups.assignors.sticky import assign_sticky


def assign_cooperative_sticky(problem: Problem) -> Assignment:
    """Balance with as few moves as possible."""
    return assign_sticky(problem)
