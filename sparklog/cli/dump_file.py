"""The contents of a commit, a checkpoint or a segment, line by line, as kafka-dump-log shows them.

It reads the one file it is given and nothing else: a segment's own file does not know its base
offset, so its records are shown with `offset_delta`; the commit that names it has the offsets.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from sparklog.cli.output import show_bytes, show_time
from sparklog.errors import (
    CorruptCommitError,
    CorruptionError,
    CorruptSegmentError,
    InvalidInputError,
)
from sparklog.log.schema import SEGMENT_SCHEMA
from sparklog.log.segment import Segment
from sparklog.storage import Store
from sparklog.storage.open_store import open_store
from sparklog.table.actions import (
    Action,
    Add,
    CommitInfo,
    DomainMetadata,
    Metadata,
    Protocol,
    Remove,
    decode_commit,
    version_of,
)

BATCH_ROWS = 1024


def describe_file(path: str, records: bool) -> Iterator[str]:
    """The lines that describe this file; `records` adds keys, values and headers of a segment."""
    folder, slash, name = path.rpartition("/")
    version = version_of(name)
    if version is None and not name.endswith(".parquet"):
        raise InvalidInputError(
            f"{path} is not a commit (20 digits.json), a checkpoint or a segment (.parquet)"
        )
    store = open_store(folder or slash or ".")
    try:
        if version is None:
            yield from _parquet_lines(store, name, path, CorruptSegmentError, records)
        elif name.endswith(".json"):
            yield from _commit_lines(store.get(name), version, path)
        else:
            yield f"checkpoint {path} version: {version}"
            yield from _parquet_lines(store, name, path, CorruptCommitError, None)
    finally:
        store.close()


def _commit_lines(data: bytes, version: int, path: str) -> Iterator[str]:
    commit = decode_commit(data, version, path)
    yield f"commit {path} version: {version} actions: {len(commit.actions)} bytes: {len(data)}"
    for action in commit.actions:
        yield _action_line(action)


def _action_line(action: Action) -> str:
    if isinstance(action, Add):
        return _add_line(action)
    if isinstance(action, Remove):
        return f"remove deleted: {show_time(action.deletion_timestamp)} path: {action.path}"
    if isinstance(action, DomainMetadata):
        removed = " removed" if action.removed else ""
        return f"domainMetadata domain: {action.domain}{removed} {action.configuration}"
    if isinstance(action, Metadata):
        configuration = json.dumps(dict(action.configuration))
        return f"metaData id: {action.id} name: {action.name} configuration: {configuration}"
    if isinstance(action, Protocol):
        return (
            f"protocol reader: {action.min_reader_version} writer: {action.min_writer_version} "
            f"features: {','.join(action.writer_features)}"
        )
    if isinstance(action, CommitInfo):
        tags = f" tags: {json.dumps(dict(action.tags))}" if action.tags else ""
        return (
            f"commitInfo timestamp: {show_time(action.timestamp)} operation: {action.operation} "
            f"txnId: {action.txn_id}{tags}"
        )
    return f"txn appId: {action.app_id} version: {action.version}"


def _add_line(action: Add) -> str:
    segment = Segment.from_add(action)
    return (
        f"add partition: {segment.partition} offsets: {segment.base_offset}.."
        f"{segment.last_offset} count: {segment.count} size: {segment.size} timestamps: "
        f"{show_time(segment.timestamp_min_us // 1000)}.."
        f"{show_time(segment.timestamp_max_us // 1000)} path: {segment.path}"
    )


def _parquet_lines(
    store: Store, name: str, path: str, corrupt: type[CorruptionError], records: bool | None
) -> Iterator[str]:
    """A segment's lines, or a checkpoint's where `records` is None."""
    with store.open_input(name) as source:
        try:
            with pq.ParquetFile(source, page_checksum_verification=True) as file:
                if records is None:
                    yield from _checkpoint_lines(file)
                else:
                    yield from _segment_lines(file, path, source.size(), records)
        except (pa.ArrowException, OSError) as error:
            raise corrupt(f"{path} cannot be read: {error}") from error


def _checkpoint_lines(file: pq.ParquetFile) -> Iterator[str]:
    names = file.schema_arrow.names
    counts: Counter[str] = Counter()
    for group in range(file.metadata.num_row_groups):
        table = file.read_row_group(group)
        counts.update({name: table.num_rows - table[name].null_count for name in names})
    yield f"rows: {file.metadata.num_rows} row groups: {file.metadata.num_row_groups}"
    for name in names:
        yield f"{name}: {counts[name]}"


def _segment_lines(file: pq.ParquetFile, path: str, size: int, records: bool) -> Iterator[str]:
    names = file.schema_arrow.names
    if names != SEGMENT_SCHEMA.names:
        raise InvalidInputError(f"{path} is not a segment: it has the columns {', '.join(names)}")
    metadata = file.metadata
    codecs = sorted(
        {
            metadata.row_group(group).column(column).compression.lower()
            for group in range(metadata.num_row_groups)
            for column in range(metadata.num_columns)
        }
    )
    yield (
        f"segment {path} count: {metadata.num_rows} size: {size} "
        f"compression: {','.join(codecs).replace('uncompressed', 'none') or 'none'} "
        f"row groups: {metadata.num_row_groups}"
    )
    for batch in file.iter_batches(batch_size=BATCH_ROWS):
        stamps = batch["timestamp"].cast(pa.int64())
        plain = batch.set_column(1, "timestamp", stamps)
        for row in plain.to_pylist():
            yield _record_line(row, records)


def _record_line(row: dict[str, Any], contents: bool) -> str:
    line = (
        f"offset_delta: {row['offset_delta']} timestamp: {show_time(row['timestamp'] // 1000)} "
        f"keySize: {_size(row['key'])} valueSize: {_size(row['value'])}"
    )
    headers = row["headers"] or []
    if not contents:
        return f"{line} headers: {len(headers)}"
    shown = ",".join(f"{pair['key']}={show_bytes(pair['value'])}" for pair in headers)
    key, value = show_bytes(row["key"]), show_bytes(row["value"])
    return f"{line} headers: [{shown}] key: {key} payload: {value}"


def _size(data: bytes | None) -> int:
    """The length, -1 for a null, as Kafka counts."""
    return -1 if data is None else len(data)
