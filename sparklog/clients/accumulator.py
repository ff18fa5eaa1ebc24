"""The bounded buffer between `send` and the sender's thread.

Records gather per topic. A topic is ready when its oldest record is `linger.ms` old, when
`batch.size` bytes are there, or when somebody flushes. While a commit is in flight records gather
for the next one, so contention makes batches larger, not slower. Above `buffer.memory` a send
blocks, and gives up after `max.block.ms`.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from sparklog.clients.chunk import Chunk
from sparklog.clock import Clock
from sparklog.errors import BufferExhaustedError, ClientClosedError


class _Queue:
    def __init__(self, first_at: float) -> None:
        self.chunks: list[Chunk] = []
        self.size = 0
        self.first_at = first_at


class Accumulator:
    """Records waiting to be sent. Safe to use from several threads."""

    def __init__(
        self, clock: Clock, linger_seconds: float, batch_bytes: int, buffer_bytes: int
    ) -> None:
        """An empty buffer."""
        self.changed = threading.Condition()
        self.closed = False
        self._clock = clock
        self._linger_seconds = linger_seconds
        self._batch_bytes = batch_bytes
        self._buffer_bytes = buffer_bytes
        self._queues: dict[str, _Queue] = {}
        self._bytes = 0
        self._flushing = 0

    def add(
        self,
        topic: str,
        size: int,
        place: Callable[[Chunk | None], tuple[Chunk, int]],
        max_block_seconds: float,
    ) -> tuple[Chunk, int]:
        """Put records into the topic's newest chunk, or into a new one, as `place` decides."""
        with self.changed:
            self._wait_for_room(size, max_block_seconds)
            queue = self._queues.get(topic)
            first = queue is None
            if queue is None:
                queue = self._queues[topic] = _Queue(self._clock.monotonic())
            newest = queue.chunks[-1] if queue.chunks else None
            chunk, index = place(newest)
            if chunk is not newest:
                queue.chunks.append(chunk)
            full = queue.size < self._batch_bytes <= queue.size + size
            queue.size += size
            self._bytes += size
            if first or full:
                self.changed.notify_all()
            return chunk, index

    def _wait_for_room(self, size: int, max_block_seconds: float) -> None:
        def room() -> bool:
            return self.closed or self._bytes == 0 or self._bytes + size <= self._buffer_bytes

        if not room():
            self._flushing += 1  # somebody waits: do not linger
            self.changed.notify_all()
            try:
                self.changed.wait_for(room, max_block_seconds)
            finally:
                self._flushing -= 1
        if self.closed:
            raise ClientClosedError("the producer is closed; open a new one")
        if not room():
            raise BufferExhaustedError(
                f"buffer.memory ({self._buffer_bytes} bytes) stayed full for max.block.ms "
                f"({max_block_seconds * 1000:.0f}): the store takes records more slowly than they "
                "come. Nothing of this record was written"
            )

    def take(self, wait: bool) -> tuple[str, list[Chunk]] | None:
        """The topic that is ready longest, with all its chunks.

        Without `wait` whatever is there counts as ready; with it, blocks until something is, and
        returns None only when closed and empty.
        """
        with self.changed:
            while True:
                now = self._clock.monotonic()
                ready = [t for t, q in self._queues.items() if not wait or self._ready(q, now)]
                if ready:
                    topic = min(ready, key=lambda t: self._queues[t].first_at)
                    return topic, self._queues.pop(topic).chunks
                if not wait or (self.closed and not self._queues):
                    return None
                due = [q.first_at + self._linger_seconds - now for q in self._queues.values()]
                self.changed.wait(max(0.0, min(due)) if due else None)

    def _ready(self, queue: _Queue, now: float) -> bool:
        return (
            self.closed
            or self._flushing > 0
            or queue.size >= self._batch_bytes
            or now - queue.first_at >= self._linger_seconds
        )

    def release(self, size: int) -> None:
        """Records were dealt with: their room is free."""
        with self.changed:
            self._bytes -= size
            self.changed.notify_all()

    def wait_empty(self, timeout_seconds: float | None) -> bool:
        """Flush: wait until everything that was added has been dealt with."""
        with self.changed:
            self._flushing += 1
            self.changed.notify_all()
            try:
                return self.changed.wait_for(lambda: self._bytes == 0, timeout_seconds)
            finally:
                self._flushing -= 1

    def close(self) -> None:
        """Take nothing more; what is there becomes ready."""
        with self.changed:
            self.closed = True
            self.changed.notify_all()
