"""Round-robin: all partitions of all topics are dealt out like cards.

Members with equal subscriptions differ by one partition at most; a member that joins or leaves
makes nearly every partition move.
"""

from __future__ import annotations

from sparklog.groups.assignors.problem import Assignment, Problem


def assign_roundrobin(problem: Problem) -> Assignment:
    """Deal the partitions out, passing over members that do not want the topic."""
    members = problem.members()
    assignment: Assignment = {member: [] for member in members}
    turn = 0
    for place in problem.places():
        while place[0] not in problem.subscriptions[members[turn % len(members)]]:
            turn += 1
        assignment[members[turn % len(members)]].append(place)
        turn += 1
    return assignment
