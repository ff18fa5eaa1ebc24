"""What a member sees of topics: which there are, who they are, and how many partitions they have.

A view of a topic is kept, so that looking again costs one failed `get` when nothing happened.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from sparklog.clock import Clock
from sparklog.groups.group_state import TopicSeen
from sparklog.log.topic_state import PartitionOffsets, is_alive
from sparklog.names import TOPICS_FOLDER, topic_folder
from sparklog.storage import Store
from sparklog.table.table_log import TableLog


class TopicViews:
    """Views of some topics. One owner, one thread."""

    def __init__(self, store: Store, clock: Clock) -> None:
        """Reads nothing yet."""
        self._store = store
        self._clock = clock
        self._logs: dict[str, TableLog] = {}

    def look(self, names: Iterable[str]) -> dict[str, TopicSeen | None]:
        """These topics as they are now; None for one that does not stand."""
        return {name: self._look(name) for name in names}

    def matching(self, pattern: re.Pattern[str]) -> list[str]:
        """The names of all topics that the pattern matches whole."""
        names = self._store.list_folders(TOPICS_FOLDER)
        return [name for name in names if pattern.fullmatch(name) and self._look(name)]

    def end_offsets(self, name: str) -> tuple[int, ...]:
        """The next offset of every partition of a topic, as it was when last looked at."""
        return PartitionOffsets.of(self._logs[name].state).next

    def _look(self, name: str) -> TopicSeen | None:
        table_log = self._logs.get(name)
        if table_log is None:
            table_log = self._logs[name] = TableLog(self._store, topic_folder(name), self._clock)
        table_log.refresh()
        state = table_log.state
        if not is_alive(state) or state.metadata is None:
            return None
        return TopicSeen(state.metadata.id, len(PartitionOffsets.of(state).next))
