"""What retention does to a partition, as one commit: the start offset grows, old segments go."""

from __future__ import annotations

from sparklog.clients.log import Log
from sparklog.log.topic_reader import TopicReader
from sparklog.log.topic_state import PartitionOffsets
from sparklog.table.actions import Remove


def move_start(log: Log, topic: str, partition: int, offset: int) -> None:
    """Let the partition begin at `offset`; segments that end before it are removed."""
    reader = TopicReader(log.store, log._clock, topic)
    gone = [s.path for s in reader.segments(partition, 0, offset) if s.end <= offset]

    def rule(state):
        offsets = PartitionOffsets.of(state)
        start = list(offsets.start)
        start[partition] = offset
        moved = PartitionOffsets(tuple(start), offsets.next)
        return [moved.to_action(), *(Remove(path, log._clock.now_ms(), True) for path in gone)]

    log._commit(topic, "DELETE", rule)
    for path in gone:
        log.store.delete(f"topics/{topic}/{path}")
