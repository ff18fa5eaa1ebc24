"""A handle on one topic: describe it, change it, read it as a dataset."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sparklog.clock import Clock
from sparklog.log.segment import Segment
from sparklog.log.topic_admin import add_partitions_rule, alter_rule
from sparklog.log.topic_reader import TopicReader
from sparklog.names import topic_folder
from sparklog.storage import Store
from sparklog.table.checkpoint import write_checkpoint
from sparklog.table.committer import Rule
from sparklog.table.table_log import TableLog

if TYPE_CHECKING:
    import pyarrow.dataset as ds

Range = tuple[int | None, int | None]


@dataclass(frozen=True)
class PartitionDescription:
    """One partition as `describe` shows it."""

    partition: int
    start_offset: int
    end_offset: int
    segments: int
    bytes: int


@dataclass(frozen=True)
class TopicDescription:
    """A topic as `describe` shows it."""

    name: str
    id: str
    version: int
    created_ms: int
    partitions: tuple[PartitionDescription, ...]
    config: dict[str, str]
    overrides: dict[str, str]

    @property
    def records(self) -> int:
        """Offsets given and not yet removed by retention; compaction leaves fewer records."""
        return sum(p.end_offset - p.start_offset for p in self.partitions)


class Topic:
    """A topic of a log."""

    def __init__(
        self, store: Store, clock: Clock, name: str, commit: Callable[[str, str, Rule], None]
    ) -> None:
        """Made by `log.topic`."""
        self.name = name
        self._store = store
        self._clock = clock
        self._commit = commit

    def describe(self) -> TopicDescription:
        """Partitions, offsets, sizes and configuration, as of now."""
        reader = TopicReader(self._store, self._clock, self.name)
        state = reader.table_log.state
        assert state.metadata is not None
        partitions = []
        for number, (start, end) in enumerate(
            zip(reader.offsets.start, reader.offsets.next, strict=True)
        ):
            log = reader.partition_log(number)
            segments, size = (len(log), log.bytes()) if log else (0, 0)
            partitions.append(PartitionDescription(number, start, end, segments, size))
        return TopicDescription(
            self.name,
            state.metadata.id,
            state.version,
            state.metadata.created_time,
            tuple(partitions),
            state.config.all(),
            dict(state.metadata.configuration),
        )

    def alter_config(self, changes: dict[str, object | None]) -> None:
        """Set configuration values; None takes one back to its default."""
        self._commit(self.name, "SET TBLPROPERTIES", alter_rule(self.name, changes))

    def add_partitions(self, total: int) -> None:
        """Grow to `total` partitions. Keys may land in other partitions from then on."""
        self._commit(self.name, "ADD PARTITIONS", add_partitions_rule(self.name, total))

    def checkpoint(self) -> int:
        """Write a checkpoint now; returns its version. Producers do it by themselves."""
        table_log = TableLog(self._store, topic_folder(self.name), self._clock)
        state = table_log.open()
        write_checkpoint(self._store, state, self._clock)
        return state.version

    def to_dataset(
        self,
        *,
        partitions: Iterable[int] | None = None,
        offsets: Range | None = None,
        timestamps_ms: Range | None = None,
    ) -> ds.Dataset:
        """The topic as of now as a pyarrow Dataset, which DuckDB and Polars scan lazily.

        Fragments carry `partition` and `base_offset`; ranges ([from, to), either end may be None)
        drop segments by what the table log says of them, and filter the rows of the rest.
        """
        reader = TopicReader(self._store, self._clock, self.name)
        numbers = range(len(reader.offsets.next)) if partitions is None else partitions
        low, high = offsets or (None, None)
        segments: list[Segment] = []
        for number in numbers:
            reader.offsets.check_partition(self.name, number)
            log = reader.partition_log(number)
            if log is not None:
                segments += log.segments(low or 0, high)
        first, end = (_us(bound) for bound in timestamps_ms or (None, None))
        kept = [
            s
            for s in segments
            if (first is None or s.timestamp_max_us >= first)
            and (end is None or s.timestamp_min_us < end)
        ]
        # Here, since pyarrow.dataset imports pandas, at which every client and Spark worker would
        # wait when it starts.
        from sparklog.clients.topic_dataset import dataset, filtered  # noqa: PLC0415

        return filtered(dataset(self._store, reader.folder, kept), low, high, first, end)


def _us(ms: int | None) -> int | None:
    return None if ms is None else ms * 1000
