"""A table's state: what replaying its log from the start gives.

Handlers decide what to append by looking at this state; `apply` is the only thing that changes
it, for commits read from the store and for one's own alike. A `Metadata` with a new id begins a
new table in the same log: writers of the old one are forgotten.

One owner, one thread: clients hold a state each and never share it.
"""

from __future__ import annotations

from sparklog.config import TopicConfig
from sparklog.errors import CorruptCommitError, UnsupportedError
from sparklog.table.actions import (
    Add,
    Commit,
    CommitInfo,
    DomainMetadata,
    Metadata,
    Protocol,
    Remove,
    Txn,
    commit_name,
)
from sparklog.table.live_files import LiveFiles

READER_VERSION_MAX = 1
WRITER_VERSION_MAX = 7
WRITER_FEATURES = frozenset({"domainMetadata"})
TAG_ACKS = "sparklog.acks"


class TableState:
    """The state at one version; -1 is the state before the first commit."""

    def __init__(self, folder: str, version: int = -1, files: LiveFiles | None = None) -> None:
        """An empty state, or one that a checkpoint reader fills."""
        self.folder = folder
        self.version = version
        self.protocol: Protocol | None = None
        self.metadata: Metadata | None = None
        self.txns: dict[str, Txn] = {}
        self.domains: dict[str, str] = {}
        self.files = files or LiveFiles()
        self.config = TopicConfig({})
        """The typed view of the table's configuration."""
        self._log_retention_ms = self.config.log_retention_ms
        self.unsynced: list[str] = []
        """Keys that commits with acks below all left in the page cache, since a durable one."""

    @property
    def exists(self) -> bool:
        """Whether anything was ever committed here."""
        return self.metadata is not None

    @property
    def log_retention_ms(self) -> int:
        """How long commits behind a checkpoint are kept at least."""
        return self._log_retention_ms

    def apply(self, commit: Commit) -> None:
        """Replay one commit: versions are contiguous, or this stops."""
        if commit.version != self.version + 1:
            raise CorruptCommitError(
                f"table log {self.folder}: version {self.version + 1} is missing; "
                f"found {commit_name(commit.version)}"
            )
        paths: list[str] = []
        for action in commit.actions:
            if isinstance(action, Add):
                self.files.add(action)
                paths.append(action.path)
            elif isinstance(action, Txn):
                self.txns[action.app_id] = action
            elif isinstance(action, DomainMetadata):
                self._apply_domain(action)
            elif isinstance(action, Remove):
                self.files.remove(action)
            elif isinstance(action, Metadata):
                self.apply_metadata(action)
            elif isinstance(action, Protocol):
                self.apply_protocol(action)
        self.version = commit.version
        self._note_durability(commit.version, commit.info, paths)

    def apply_protocol(self, protocol: Protocol) -> None:
        """Take a protocol over, or stop: a newer writer's table is not half understood."""
        unknown = set(protocol.writer_features) - WRITER_FEATURES
        if (
            protocol.min_reader_version > READER_VERSION_MAX
            or protocol.min_writer_version > WRITER_VERSION_MAX
            or unknown
        ):
            raise UnsupportedError(
                f"table log {self.folder} wants reader version {protocol.min_reader_version}, "
                f"writer version {protocol.min_writer_version}, features {sorted(unknown)}: "
                "written by a newer sparklog or by another program; upgrade sparklog"
            )
        self.protocol = protocol

    def apply_metadata(self, metadata: Metadata) -> None:
        """Take identity and configuration over; another id forgets the old table's writers."""
        if self.metadata is not None and metadata.id != self.metadata.id:
            self.txns.clear()
        self.metadata = metadata
        self.config = TopicConfig(metadata.configuration)
        self._log_retention_ms = self.config.log_retention_ms

    def _apply_domain(self, action: DomainMetadata) -> None:
        if action.removed:
            self.domains.pop(action.domain, None)
        else:
            self.domains[action.domain] = action.configuration

    def _note_durability(self, version: int, info: CommitInfo | None, paths: list[str]) -> None:
        if info is None or info.tags.get(TAG_ACKS, "all") == "all":
            self.unsynced.clear()
            return
        self.unsynced.append(f"{self.folder}_delta_log/{commit_name(version)}")
        self.unsynced.extend(self.folder + path for path in paths)
