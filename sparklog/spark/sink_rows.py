"""Rows of a DataFrame as records: in a segment's own types, checked, and split by partition.

All of it works on columns. An error names the topic, what is wrong, and the way out.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from sparklog.clients.producer import RECORD_OVERHEAD_BYTES
from sparklog.errors import InvalidRecordError, RecordTooLargeError
from sparklog.log.schema import HEADERS
from sparklog.spark.sink_schema import SinkColumns
from sparklog.spark.sink_topics import SinkTopic


@dataclass(frozen=True)
class Rows:
    """Some rows as columns; those that there are none of are None."""

    value: Any
    key: Any = None
    headers: Any = None
    partition: Any = None
    topic: Any = None

    def __len__(self) -> int:
        """How many rows."""
        return len(self.value)

    @classmethod
    def of(cls, batch: pa.RecordBatch, columns: SinkColumns) -> Rows:
        """A batch as Spark gave it; other columns are left out."""
        return cls(
            value=_as(batch["value"], pa.binary()),
            key=_as(batch["key"], pa.binary()) if columns.key else None,
            headers=_as(batch["headers"], HEADERS) if columns.headers else None,
            partition=_as(batch["partition"], pa.int32()) if columns.partition else None,
            topic=batch["topic"] if columns.topic else None,
        )

    def take(self, indexes: npt.NDArray[Any]) -> Rows:
        """Copies of these rows, in this order."""
        chosen = pa.array(indexes)

        def of(column: Any) -> Any:
            return None if column is None else column.take(chosen)

        return Rows(of(self.value), of(self.key), of(self.headers), of(self.partition))

    def by_topic(self) -> Iterator[tuple[str, Rows]]:
        """The rows of each topic that the column `topic` names."""
        if self.topic.null_count:
            raise InvalidRecordError(
                "column 'topic' has a null: every row needs a topic. Filter such rows out, or "
                "give the option topic"
            )
        encoded = self.topic.dictionary_encode()
        names = encoded.dictionary.to_pylist()
        if len(names) == 1:
            yield names[0], self
            return
        codes = encoded.indices.to_numpy()
        for code, name in enumerate(names):
            yield name, self.take(np.flatnonzero(codes == code))

    def by_partition(self, partitions: npt.NDArray[np.int32]) -> Iterator[tuple[int, Rows]]:
        """The rows of each partition, in the order in which they are here.

        Copies, unless all go to one, so that no partition's rows keep the others' in memory.
        """
        counts = np.bincount(partitions)
        numbers = counts.nonzero()[0].tolist()
        if len(numbers) == 1:
            yield numbers[0], self
            return
        narrow = np.uint8 if len(counts) <= 0xFF else np.uint16 if len(counts) <= 0xFFFF else None
        order = np.argsort(partitions.astype(narrow) if narrow else partitions, kind="stable")
        start = 0
        for number in numbers:
            end = start + int(counts[number])
            yield number, self.take(order[start:end])
            start = end


def check_rows(topic: SinkTopic, rows: Rows) -> None:
    """Raise unless the topic takes these records."""
    if "compact" in topic.config.cleanup_policy and (rows.key is None or rows.key.null_count):
        raise InvalidRecordError(
            f"topic {topic.name!r} is compacted (cleanup.policy): a record without a key has no "
            "place in it. Give every row a key"
        )
    if rows.headers is not None:
        _check_headers(topic.name, rows.headers)
    limit = topic.config.max_message_bytes
    highest = _longest(rows.value) + (0 if rows.key is None else _longest(rows.key))
    if rows.headers is not None:
        highest += rows.headers.nbytes
    if highest + RECORD_OVERHEAD_BYTES <= limit:
        return
    size = int(_record_bytes(rows).max())
    if size > limit:
        raise RecordTooLargeError(
            f"topic {topic.name!r}: a record of {size} bytes is above {limit} "
            "(max.message.bytes); split it, or raise the topic's limit"
        )


def _as(column: Any, kind: pa.DataType) -> Any:
    return column if column.type == kind else column.cast(kind)


def _longest(column: Any) -> int:
    return pc.max(pc.binary_length(column)).as_py() or 0


def _lengths(column: Any) -> npt.NDArray[np.int64]:
    lengths = pc.fill_null(pc.binary_length(column), 0)
    result: npt.NDArray[np.int64] = lengths.to_numpy(zero_copy_only=False).astype(np.int64)
    return result


def _record_bytes(rows: Rows) -> npt.NDArray[np.int64]:
    sizes = _lengths(rows.value) + RECORD_OVERHEAD_BYTES
    if rows.key is not None:
        sizes += _lengths(rows.key)
    if rows.headers is not None:
        pairs = rows.headers.values
        ends = np.cumsum(_lengths(pairs.field("key")) + _lengths(pairs.field("value")))
        behind = np.concatenate([[0], ends])[rows.headers.offsets.to_numpy()]
        sizes += np.diff(behind)
    return sizes


def _check_headers(topic: str, headers: Any) -> None:
    pairs = headers.flatten()
    if pairs.null_count or pc.struct_field(pairs, "key").null_count:
        raise InvalidRecordError(
            f"topic {topic!r}: column 'headers' has a header without a key. Filter such headers out"
        )
