"""What a topic's writers do for its table log beside their own work: checkpoints and clean-up.

Whoever commits a version that is due writes the checkpoint, and every tenth time lets old commits
go. It never fails a write: what does not succeed now is done at the next turn.
"""

from __future__ import annotations

import logging

from sparklog.clock import Clock
from sparklog.errors import SparklogError
from sparklog.storage import Store
from sparklog.table.checkpoint import write_checkpoint
from sparklog.table.clean_up import clean_up
from sparklog.table.table_log import TableLog
from sparklog.table.table_state import TableState

logger = logging.getLogger("sparklog.log")

CHECKPOINTS_PER_CLEAN_UP = 10


class Housekeeping:
    """One writer's share of the work on one topic's table log."""

    def __init__(self, store: Store, folder: str, clock: Clock) -> None:
        """For the topic in `folder`; nothing is read or written yet."""
        self._store = store
        self._folder = folder
        self._clock = clock
        self._checkpoints = 0

    def due(self, state: TableState, version: int) -> bool:
        """Whether this writer's commit of `version` makes the checkpoint its turn."""
        return (version + 1) % state.config.checkpoint_interval == 0

    def run(self) -> None:
        """Write a checkpoint from a view of its own; a failure only postpones it."""
        self._checkpoints += 1
        try:
            table_log = TableLog(self._store, self._folder, self._clock)
            state = table_log.open()
            write_checkpoint(self._store, state, self._clock)
            if self._checkpoints % CHECKPOINTS_PER_CLEAN_UP == 0:
                now_ms = self._clock.now_ms()
                clean_up(self._store, table_log.log_folder, now_ms, state.log_retention_ms)
        except SparklogError as error:
            logger.warning("checkpoint of %s postponed: %s", self._folder, error)
