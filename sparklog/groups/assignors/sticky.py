"""Sticky: as balanced as can be, and then with as few moves as can be.

Every member first keeps what it owns and still wants, up to its fair share when all members want
the same topics. What is free goes to whoever has least. Then partitions move from a member to one
that has at least two fewer, directly or along a chain of members (A gives one to B, which gives
another to C), until no such chain is left: then no member can get a larger share without another
getting a smaller one. Each round makes the squares of the loads smaller, so it ends.
"""

from __future__ import annotations

from collections import deque

from sparklog.groups.assignors.problem import Assignment, Place, Problem


def assign_sticky(problem: Problem) -> Assignment:
    """Balance with as few moves as possible."""
    loads = _keep(problem)
    taken = {place for places in loads.values() for place in places}
    free = [place for place in problem.places() if place not in taken]
    takers = {
        topic: [m for m in problem.members() if topic in problem.subscriptions[m]]
        for topic in problem.topics()
    }
    # Topics that few want first: their takers should not be full of what others could have had.
    for place in sorted(free, key=lambda p: (len(takers[p[0]]), p)):
        member = min(takers[place[0]], key=lambda m: len(loads[m]))
        loads[member].add(place)
    while _move_one(takers, loads):
        pass
    return {member: sorted(places) for member, places in loads.items()}


def _keep(problem: Problem) -> dict[str, set[Place]]:
    """What each member keeps: all that it still wants, or its share of it where all are equal."""
    standing = set(problem.places())
    kept = {
        member: sorted(
            place
            for place in problem.owned.get(member, ())
            if place in standing and place[0] in problem.subscriptions[member]
        )
        for member in problem.members()
    }
    if len(set(problem.subscriptions.values())) == 1:
        share, more = divmod(len(standing), len(kept))
        # The members that have most may keep the one more that some must have.
        for member in sorted(kept, key=lambda m: -len(kept[m])):
            most = share + (more > 0)
            more -= len(kept[member]) > share
            del kept[member][most:]
    return {member: set(places) for member, places in kept.items()}


def _move_one(takers: dict[str, list[str]], loads: dict[str, set[Place]]) -> bool:
    """Move partitions along one chain that makes the loads more equal; False if there is none."""
    if max(map(len, loads.values()), default=0) - min(map(len, loads.values()), default=0) < 2:
        return False
    for giver in sorted(loads, key=lambda m: (-len(loads[m]), m)):
        chain = _chain_from(takers, loads, giver)
        if chain is not None:
            for source, place, target in chain:
                loads[source].remove(place)
                loads[target].add(place)
            return True
    return False


def _chain_from(
    takers: dict[str, list[str]], loads: dict[str, set[Place]], giver: str
) -> list[tuple[str, Place, str]] | None:
    """The shortest chain of moves from this member to one with at least two fewer."""
    came: dict[str, tuple[str, Place]] = {}
    queue = deque([giver])
    while queue:
        member = queue.popleft()
        if len(loads[member]) <= len(loads[giver]) - 2:
            chain = []
            while member != giver:
                source, place = came[member]
                chain.append((source, place, member))
                member = source
            return chain
        one_of_each = {place[0]: place for place in sorted(loads[member], reverse=True)}
        for topic, place in sorted(one_of_each.items()):
            for taker in takers[topic]:
                if taker != giver and taker not in came:
                    came[taker] = (member, place)
                    queue.append(taker)
    return None
