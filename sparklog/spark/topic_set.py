"""The topics that a query reads, each followed by its table log.

Topics are named one by one, by a pattern (new ones are found while the query runs) or partition
by partition. Looking for news costs one failed `get` a topic; with a pattern the folder of topics
is listed now and then beside it.
"""

from __future__ import annotations

import logging
import re

from sparklog.clock import Clock
from sparklog.errors import TopicReplacedError, UnknownTopicError
from sparklog.log.segment import Segment
from sparklog.log.topic_reader import TopicReader
from sparklog.names import TOPICS_FOLDER
from sparklog.spark.admission import Place
from sparklog.spark.options import SourceOptions
from sparklog.storage import Store

logger = logging.getLogger("sparklog.spark")

DISCOVERY_SECONDS = 1.0


class TopicSet:
    """One query's view of its topics."""

    def __init__(self, store: Store, clock: Clock, options: SourceOptions) -> None:
        """Open the topics; UnknownTopicError if one that is named does not stand."""
        self._store = store
        self._clock = clock
        self._options = options
        self._readers: dict[str, TopicReader] = {}
        self._discovered_at = float("-inf")
        assigned = dict(options.assigned)
        for topic in options.topics or assigned:
            self._open(topic)
        for topic, partitions in assigned.items():
            for partition in partitions:
                self._readers[topic].offsets.check_partition(topic, partition)
        self._assigned = assigned
        self._discover()

    def refresh(self) -> None:
        """Take in what was committed, and new topics of the pattern."""
        for topic, reader in list(self._readers.items()):
            try:
                reader.refresh()
            except TopicReplacedError as error:
                self._lose(topic, error)
        if self._clock.monotonic() - self._discovered_at >= DISCOVERY_SECONDS:
            self._discover()

    def topics(self) -> list[str]:
        """The topics that are read, in order."""
        return sorted(self._readers)

    def reader(self, topic: str) -> TopicReader:
        """The view of one of these topics."""
        return self._readers[topic]

    def places(self) -> list[Place]:
        """All topic-partitions that are read, in order."""
        found: list[Place] = []
        for topic in self.topics():
            partitions = self._assigned.get(topic)
            if partitions is None:
                partitions = tuple(range(len(self._readers[topic].offsets.next)))
            found += [(topic, partition) for partition in partitions]
        return found

    def start(self, place: Place) -> int:
        """The first offset that is there."""
        topic, partition = place
        return self._readers[topic].offsets.start[partition]

    def end(self, place: Place) -> int:
        """The offset behind the last one."""
        topic, partition = place
        return self._readers[topic].offsets.next[partition]

    def segments(self, place: Place, start: int, end: int) -> list[Segment]:
        """The segments that hold these offsets."""
        topic, partition = place
        return self._readers[topic].segments(partition, start, end)

    def _open(self, topic: str) -> None:
        reader = TopicReader(self._store, self._clock, topic)
        reader.keep_tails()
        self._readers[topic] = reader

    def _lose(self, topic: str, error: TopicReplacedError) -> None:
        if self._options.fail_on_data_loss:
            raise TopicReplacedError(
                f"{error}. The query has failOnDataLoss=true, so it stops: start it with "
                "failOnDataLoss=false, or with a new checkpointLocation, to go on"
            ) from error
        logger.warning("%s; failOnDataLoss=false, so the query goes on", error)
        del self._readers[topic]
        try:
            self._open(topic)
        except UnknownTopicError:
            pass  # with it go its partitions; should it come back, it is read from its start

    def _discover(self) -> None:
        """Open topics of the pattern, and named ones that were lost and are back."""
        self._discovered_at = self._clock.monotonic()
        pattern = self._options.pattern
        if pattern is not None:
            names = [n for n in self._store.list_folders(TOPICS_FOLDER) if re.fullmatch(pattern, n)]
        else:
            names = [*(self._options.topics or self._assigned)]
        for name in names:
            if name not in self._readers:
                try:
                    self._open(name)
                except UnknownTopicError:
                    pass  # deleted, or not created to the end
