"""A log: the directory or bucket that holds topics, and the way to everything in it."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Any

from sparklog.clients.consumer import Consumer
from sparklog.clients.group import Group
from sparklog.clients.group_consumer import GroupConsumer
from sparklog.clients.producer import Producer
from sparklog.clients.topic import Topic
from sparklog.clock import Clock, Ids, SystemClock, SystemIds
from sparklog.config import ConsumerConfig, ProducerConfig, check_topic_config
from sparklog.errors import (
    CorruptionError,
    InvalidNameError,
    LogNotFoundError,
    ObjectNotFoundError,
    UnknownTopicError,
    UnsupportedError,
)
from sparklog.log.topic_admin import check_partitions, create_rule, delete_rule
from sparklog.log.topic_reader import TopicReader
from sparklog.log.topic_state import is_alive
from sparklog.names import (
    GROUPS_FOLDER,
    LOG_IDENTITY_KEY,
    TOPICS_FOLDER,
    check_name,
    topic_folder,
)
from sparklog.storage import PutOutcome, Store
from sparklog.storage.open_store import open_store
from sparklog.storage.store import probe_put_if_absent
from sparklog.table.committer import Attempt, Committer, Rule
from sparklog.table.table_log import TableLog

FORMAT_VERSION = 1


def connect(
    root: str | os.PathLike[str],
    storage_options: Mapping[str, Any] | None = None,
    *,
    create: bool = True,
) -> Log:
    """Open the log at a local path or `s3://bucket/prefix`; create it if it is absent."""
    store = open_store(root, dict(storage_options or {}))
    return Log(store, SystemClock(), SystemIds(), create=create)


class Log:
    """A log. Cheap to hold, safe to share between threads."""

    def __init__(self, store: Store, clock: Clock, ids: Ids, *, create: bool = True) -> None:
        """Open or create the log in this store."""
        self.store = store
        self._clock = clock
        self._ids = ids
        self._identify(create)

    def __repr__(self) -> str:
        """Show the root."""
        return f"sparklog.connect({self.store.uri!r})"

    def _identify(self, create: bool) -> None:
        try:
            identity = self._stored_identity()
        except ObjectNotFoundError:
            if not create:
                raise LogNotFoundError(f"there is no log at {self.store.uri}") from None
            probe_put_if_absent(self.store, self._ids)
            identity = {"id": self._ids.unique(), "format": FORMAT_VERSION}
            body = json.dumps(identity).encode()
            if self.store.put_if_absent(LOG_IDENTITY_KEY, body) is not PutOutcome.CREATED:
                self.store.sync([LOG_IDENTITY_KEY])  # whoever put it may not have come so far
            identity = self._stored_identity()
        self.id = str(identity["id"])

    def _stored_identity(self) -> dict[str, Any]:
        data = self.store.get(LOG_IDENTITY_KEY)
        try:
            identity: dict[str, Any] = json.loads(data)
            version = identity["format"]
            if version == FORMAT_VERSION and not isinstance(identity["id"], str):
                raise ValueError(f"id {identity['id']!r}")
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise CorruptionError(
                f"{self.store.uri}/{LOG_IDENTITY_KEY} is malformed ({error!r}): restore it from a "
                "copy of the log"
            ) from error
        if version != FORMAT_VERSION:
            raise UnsupportedError(
                f"the log at {self.store.uri} has format {version!r}; this sparklog reads "
                f"{FORMAT_VERSION}: upgrade sparklog"
            )
        return identity

    def create_topic(
        self, name: str, partitions: int = 1, config: Mapping[str, object] | None = None
    ) -> Topic:
        """Create a topic; TopicExistsError if it stands."""
        check_name(name)
        check_partitions(partitions)
        checked = check_topic_config(config or {})
        for other in self.store.list_folders(TOPICS_FOLDER):
            if other != name and other.casefold() == name.casefold():
                raise InvalidNameError(
                    f"topic name {name!r} differs from {other!r} only in case: not every file "
                    "system can tell them apart; choose another"
                )
        topic_id = _uuid(self._ids.unique())
        rule = create_rule(name, topic_id, partitions, checked, self._clock.now_ms())
        self._commit(name, "CREATE TABLE", rule)
        return self.topic(name)

    def delete_topic(self, name: str) -> None:
        """Delete a topic: one commit. Its log stays, so nobody can mistake a new one for it."""
        self.topic(name)
        self._commit(name, "DROP TABLE", delete_rule(name, self._clock.now_ms()))

    def topics(self) -> list[str]:
        """The names of all topics."""
        return [name for name in self.store.list_folders(TOPICS_FOLDER) if self._stands(name)]

    def topic(self, name: str) -> Topic:
        """A handle on a topic; UnknownTopicError if it does not stand."""
        check_name(name)
        if not self._stands(name):
            raise UnknownTopicError(
                f"topic {name!r} does not exist in {self.store.uri}; "
                f"there are: {', '.join(self.topics()) or 'none'}"
            )
        return Topic(self.store, self._clock, name, self._commit)

    def producer(self, *, background: bool = True, **config: object) -> Producer:
        """A producer; Kafka's configuration names with underscores."""
        checked = ProducerConfig.of(**config)
        return Producer(self.store, self._clock, self._ids, checked, background)

    def consumer(self, *topics: str, background: bool = True, **config: object) -> Consumer:
        """A consumer of all partitions of these topics; none: `assign` or `subscribe` later.

        With `group_id` it is a member of that group, which shares them. Without `background` its
        polls keep its heart beating, so they must be frequent.
        """
        checked = ConsumerConfig.of(**config)
        if checked.group_id is not None:
            return GroupConsumer(self.store, self._clock, self._ids, topics, checked, background)
        return Consumer(self.store, self._clock, topics, checked)

    def group(self, name: str) -> Group:
        """A handle on a consumer group, which need not exist yet."""
        return Group(self.store, self._clock, self._ids, check_name(name, "group"))

    def groups(self) -> list[str]:
        """The names of all consumer groups."""
        names = self.store.list_folders(GROUPS_FOLDER)
        return [name for name in names if self.group(name).exists()]

    def beginning_offsets(self, topic: str) -> dict[int, int]:
        """The first offset of every partition."""
        return dict(enumerate(self._reader(topic).offsets.start))

    def end_offsets(self, topic: str) -> dict[int, int]:
        """The offset that the next record of every partition will get."""
        return dict(enumerate(self._reader(topic).offsets.next))

    def offsets_for_times(self, topic: str, timestamp_ms: int) -> dict[int, int | None]:
        """The first offset at or after this time in every partition; None where there is none."""
        reader = self._reader(topic)
        found = {p: reader.offset_for_time(p, timestamp_ms * 1000) for p in self.end_offsets(topic)}
        return {p: None if place is None else place[0] for p, place in found.items()}

    def close(self) -> None:
        """Release the store's connections."""
        self.store.close()

    def _reader(self, topic: str) -> TopicReader:
        return TopicReader(self.store, self._clock, check_name(topic))

    def _stands(self, name: str) -> bool:
        table_log = TableLog(self.store, topic_folder(name), self._clock)
        table_log.refresh()
        return is_alive(table_log.state)

    def _commit(self, name: str, operation: str, rule: Rule) -> None:
        table_log = TableLog(self.store, topic_folder(name), self._clock)
        committer = Committer(table_log, self._clock, self._ids)
        committer.commit(Attempt(operation, self._ids.unique()), rule)


def _uuid(digits: str) -> str:
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:32]))
