"""Topics as the sink's processes keep them: opened once a process, then followed.

Spark builds a writer anew for each batch, in processes that it uses again. What is worth keeping
between batches stands here, in the process: a topic's table log, so that a task looks only at
what is new, and a commit puts its file without reading anything.
"""

from __future__ import annotations

import json
import os

from sparklog.clients.log import FORMAT_VERSION
from sparklog.clock import SystemIds
from sparklog.config import TopicConfig
from sparklog.errors import UnsupportedError
from sparklog.log.housekeeping import Housekeeping
from sparklog.log.producer_state import ProducerState, producer_state
from sparklog.log.topic_state import PartitionOffsets, require_topic
from sparklog.names import LOG_IDENTITY_KEY, check_name, topic_folder
from sparklog.spark.options import StoreOptions
from sparklog.spark.process import CLOCK, process_store
from sparklog.storage import Store
from sparklog.table.checkpoint import read_last_checkpoint
from sparklog.table.committer import Committer
from sparklog.table.table_log import TableLog

IDS = SystemIds()
LOOK_SECONDS = 5.0

_topics: dict[tuple[int, StoreOptions, str, str], SinkTopic] = {}


class SinkTopic:
    """One topic as this process last saw it."""

    def __init__(self, store: Store, name: str) -> None:
        """Open the topic; UnknownTopicError if it does not stand."""
        self.store = store
        self.name = name
        self.folder = topic_folder(name)
        self.housekeeping = Housekeeping(store, self.folder, CLOCK)
        self._open()
        require_topic(self.table_log.state, name)

    def _open(self) -> None:
        self.table_log = TableLog(self.store, self.folder, CLOCK)
        self.table_log.refresh()
        self.committer = Committer(self.table_log, CLOCK, IDS)

    def look(self) -> None:
        """See the topic as it is now; one that others wrote much to is opened anew."""
        hint = read_last_checkpoint(self.store, self.table_log.log_folder)
        if hint is not None and hint > self.table_log.state.version:
            self._open()
        else:
            self.table_log.refresh()
        require_topic(self.table_log.state, self.name)

    def catch_up(self) -> None:
        """Look, if the last look is so long ago that others will have written."""
        if CLOCK.monotonic() - self.table_log.read_at > LOOK_SECONDS:
            self.look()

    @property
    def id(self) -> str:
        """The topic's id, as of the last look."""
        assert self.table_log.state.metadata is not None
        return self.table_log.state.metadata.id

    @property
    def partitions(self) -> int:
        """How many partitions there are, as of the last look."""
        return len(PartitionOffsets.of(self.table_log.state).next)

    @property
    def config(self) -> TopicConfig:
        """The topic's configuration, as of the last look."""
        return self.table_log.state.config

    def standing(self, app_id: str) -> ProducerState | None:
        """How far a writer has come, as of the last look."""
        return producer_state(self.table_log.state, app_id)


def log_identity(options: StoreOptions) -> str:
    """The id of the log that stands at the path now.

    A log that was removed and made anew under the same path has another one, so that nothing kept
    of the old one is taken for the new one.
    """
    store = process_store(options)
    identity = json.loads(store.get(LOG_IDENTITY_KEY))
    if identity.get("format") != FORMAT_VERSION:
        raise UnsupportedError(
            f"the log at {store.uri} has format {identity.get('format')!r}; this sparklog writes "
            f"{FORMAT_VERSION}: upgrade sparklog"
        )
    return str(identity["id"])


def sink_topic(options: StoreOptions, log_id: str, name: str) -> SinkTopic:
    """This process's view of the topic; UnknownTopicError if it did not stand when opened."""
    key = (os.getpid(), options, log_id, name)
    topic = _topics.get(key)
    if topic is None:
        topic = SinkTopic(process_store(options), check_name(name))
        _topics[key] = topic
    return topic
