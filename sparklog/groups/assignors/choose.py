"""Which assignor a group uses: one that every member has, by the members' votes.

As in Kafka: each member votes for the first of its list that all members have, and the name with
most votes wins; a tie goes to the name that the first member prefers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from sparklog.errors import InconsistentStrategyError
from sparklog.groups.assignors.cooperative_sticky import assign_cooperative_sticky
from sparklog.groups.assignors.problem import Assignor
from sparklog.groups.assignors.range import assign_range
from sparklog.groups.assignors.roundrobin import assign_roundrobin
from sparklog.groups.assignors.sticky import assign_sticky

ASSIGNORS: dict[str, Assignor] = {
    "range": assign_range,
    "roundrobin": assign_roundrobin,
    "sticky": assign_sticky,
    "cooperative-sticky": assign_cooperative_sticky,
}


def choose_strategy(lists: Mapping[str, Sequence[str]]) -> str:
    """The strategy for members with these lists; InconsistentStrategyError without a common one."""
    members = sorted(lists)
    common = [s for s in lists[members[0]] if all(s in strategies for strategies in lists.values())]
    if not common:
        shown = "; ".join(f"{member}: {', '.join(lists[member])}" for member in members)
        raise InconsistentStrategyError(
            f"no partition.assignment.strategy that all members have: {shown}"
        )
    votes = Counter(next(s for s in lists[member] if s in common) for member in members)
    return max(common, key=lambda s: (votes[s], -common.index(s)))
