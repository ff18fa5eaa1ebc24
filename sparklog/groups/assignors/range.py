"""Range: each topic's partitions are laid out in a row and cut into one stretch a member.

Members get the same stretch of every topic of equal size, so records with equal keys of two topics
meet in one member. With many topics of few partitions the first members get more than the last.
"""

from __future__ import annotations

from sparklog.groups.assignors.problem import Assignment, Problem


def assign_range(problem: Problem) -> Assignment:
    """Cut each topic into stretches that differ in length by one at most."""
    members = problem.members()
    assignment: Assignment = {member: [] for member in members}
    for topic in problem.topics():
        takers = [member for member in members if topic in problem.subscriptions[member]]
        each, more = divmod(problem.partitions[topic], len(takers))
        start = 0
        for index, member in enumerate(takers):
            end = start + each + (index < more)
            assignment[member] += [(topic, partition) for partition in range(start, end)]
            start = end
    return assignment
