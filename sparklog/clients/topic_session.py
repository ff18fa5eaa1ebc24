"""A producer's standing in one topic: the table log it follows, its epoch and sequence.

An append or a claim is tried several times under one nonce, so what an earlier try came to can be
found out later: `find` looks for the nonce. It never takes a stray for a commit: a put that was
stuck for so long that clean-up re-opened its slot in the meantime stands in no reader's history.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple

from sparklog.clock import Clock, Ids
from sparklog.errors import OutcomeUnknownError, SparklogError
from sparklog.log.housekeeping import Housekeeping
from sparklog.log.producer_state import ProducerState
from sparklog.log.topic_state import PartitionOffsets, require_topic
from sparklog.names import topic_folder
from sparklog.storage import Store
from sparklog.table.actions import Action, commit_name
from sparklog.table.committer import Committer
from sparklog.table.table_log import TableLog


class Tries(NamedTuple):
    """All tries of one append or claim: their nonce, and where and when the first may stand."""

    nonce: str
    first_version: int
    started: float


class TopicSession:
    """What a producer knows of a topic that it appends to."""

    def __init__(self, store: Store, clock: Clock, ids: Ids, topic: str) -> None:
        """Open the topic; UnknownTopicError if it does not stand."""
        self.topic = topic
        self.folder = topic_folder(topic)
        self.table_log = TableLog(store, self.folder, clock)
        self.table_log.refresh()
        state = self.table_log.state
        require_topic(state, topic)
        assert state.metadata is not None
        self.topic_id = state.metadata.id
        self.committer = Committer(self.table_log, clock, ids)
        self.note_config()
        self.standing: ProducerState | None = None
        self.epoch: int | None = None
        """The newest epoch that this producer held, also while it has no standing."""
        self.in_doubt = False
        """An append was given up with its outcome unknown: only a new epoch settles it."""
        self.claim: Tries | None = None
        self.over: SparklogError | None = None
        """Why this producer can append to the topic no more."""
        self.sticky = int(ids.uniform() * self.partitions)
        self.housekeeping = Housekeeping(store, self.folder, clock)
        self._clock = clock

    def begin(self, standing: ProducerState | None) -> None:
        """Have this standing; nothing is in doubt any more."""
        assert standing is not None
        self.standing, self.epoch = standing, standing.epoch
        self.in_doubt, self.claim = False, None

    def give_up(self) -> None:
        """An append came to nothing, or nobody knows: only a new epoch makes sure."""
        self.standing, self.in_doubt = None, True

    def begin_tries(self, nonce: str) -> Tries:
        """From now on something may stand under this nonce."""
        return Tries(nonce, self.table_log.state.version + 1, self._clock.monotonic())

    def find(self, tries: Tries, files: Collection[str] = ()) -> Sequence[Action] | None:
        """What stands under this nonce, None if surely nothing does.

        Where commits were cleaned meanwhile the files of the append tell; without any, or after so
        long that their tombstones may be gone too, OutcomeUnknownError says so.
        """
        table_log = self.table_log
        elapsed_ms = (self._clock.monotonic() - tries.started) * 1000
        for version in range(table_log.state.version, tries.first_version - 1, -1):
            commit = table_log.read(version)
            if commit is not None and commit.nonce != tries.nonce:
                continue
            fresh = elapsed_ms <= table_log.state.log_retention_ms / 2
            if commit is not None and (fresh or not table_log.checkpoint_at_or_after(version)):
                return commit.actions
            if files and elapsed_ms < table_log.state.config.deleted_file_retention_ms:
                return self._find_files(files)
            raise OutcomeUnknownError(
                f"{table_log.log_folder}{commit_name(version)}: this commit was cleaned before "
                "anybody knew whether the append was in it. Nothing was deleted",
                version,
            )
        return None

    def _find_files(self, files: Collection[str]) -> Sequence[Action] | None:
        """What the newest state says of these files; an append stands if they were ever added."""
        found = TableLog(self.table_log.store, self.folder, self._clock).open().files
        adds = list(found.named(files))
        if adds:
            return adds
        return () if any(remove.path in files for remove in found.removes()) else None

    def note_config(self) -> None:
        """Take over what `send` checks records against, as of the newest state that was read."""
        state = self.table_log.state
        config = state.config
        self.partitions = len(PartitionOffsets.of(state).next)
        self.max_message_bytes = config.max_message_bytes
        self.compacted = "compact" in config.cleanup_policy
        self.create_time = config.timestamp_type == "CreateTime"
        self.timestamp_after_max_ms = config.timestamp_after_max_ms
        self.timestamp_before_max_ms = config.timestamp_before_max_ms
