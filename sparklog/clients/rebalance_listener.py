"""What a group consumer tells its application when partitions come and go.

All three are called from inside `poll` (or `close`), never from another thread.
"""

from __future__ import annotations

from collections.abc import Sequence

from sparklog.clients.offsets import TopicPartition


class RebalanceListener:
    """Override what you need; the methods here do nothing."""

    def on_partitions_revoked(self, partitions: Sequence[TopicPartition]) -> None:
        """These are about to go to another member: finish, and commit, what you have of them."""

    def on_partitions_assigned(self, partitions: Sequence[TopicPartition]) -> None:
        """These have come; their positions are set, and may be changed by `seek`."""

    def on_partitions_lost(self, partitions: Sequence[TopicPartition]) -> None:
        """These are gone already, perhaps to another member: nothing of them can be committed."""
