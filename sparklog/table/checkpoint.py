"""Checkpoints: a table's whole state at one version, as one Parquet file (Delta's V1 form).

A checkpoint is redundant: it holds what replaying the log up to its version gives, so that opening
a table costs the newest checkpoint and the commits after it. `_last_checkpoint` is only a hint
where to look. The few rows that a writer needs stand in a row group of their own and the file
list in the rest, so that a writer never reads the file list.

Before a checkpoint is written, whatever commits with acks below all left in the page cache is
made durable: nothing behind a checkpoint can be torn by a crash of the machine.
"""

from __future__ import annotations

import io
import json
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from sparklog.clock import Clock
from sparklog.errors import CorruptCommitError, ObjectNotFoundError
from sparklog.storage import Store
from sparklog.table.actions import (
    Action,
    DomainMetadata,
    Metadata,
    Protocol,
    Remove,
    Txn,
    checkpoint_name,
    from_json,
    to_json,
)
from sparklog.table.live_files import ADD_TYPE, REMOVE_TYPE, FileTables, LiveFiles
from sparklog.table.table_state import TableState

LAST_CHECKPOINT = "_last_checkpoint"

_STRING_MAP = pa.map_(pa.string(), pa.string())
SCHEMA = pa.schema(
    [
        (
            "txn",
            pa.struct(
                [("appId", pa.string()), ("version", pa.int64()), ("lastUpdated", pa.int64())]
            ),
        ),
        ("add", ADD_TYPE),
        ("remove", REMOVE_TYPE),
        (
            "metaData",
            pa.struct(
                [
                    ("id", pa.string()),
                    ("name", pa.string()),
                    (
                        "format",
                        pa.struct([("provider", pa.string()), ("options", _STRING_MAP)]),
                    ),
                    ("schemaString", pa.string()),
                    ("partitionColumns", pa.list_(pa.string())),
                    ("configuration", _STRING_MAP),
                    ("createdTime", pa.int64()),
                ]
            ),
        ),
        (
            "protocol",
            pa.struct(
                [
                    ("minReaderVersion", pa.int32()),
                    ("minWriterVersion", pa.int32()),
                    ("writerFeatures", pa.list_(pa.string())),
                ]
            ),
        ),
        (
            "domainMetadata",
            pa.struct(
                [
                    ("domain", pa.string()),
                    ("configuration", pa.string()),
                    ("removed", pa.bool_()),
                ]
            ),
        ),
    ]
)
_WRITER_COLUMNS = ["txn", "metaData", "protocol", "domainMetadata"]


def write_checkpoint(store: Store, state: TableState, clock: Clock) -> None:
    """Write the state's checkpoint and point `_last_checkpoint` at it."""
    store.sync(state.unsynced)
    state.unsynced.clear()
    folder = f"{state.folder}_delta_log/"
    now_ms = clock.now_ms()
    grace_ms = state.config.deleted_file_retention_ms
    removes = [r for r in state.files.removes() if now_ms - r.deletion_timestamp < grace_ms]
    small = _small_rows(state, removes)
    adds = state.files.adds()
    sink = io.BytesIO()
    with pq.ParquetWriter(sink, SCHEMA, compression="snappy", write_page_checksum=True) as writer:
        writer.write_table(small)
        if adds.num_rows:
            writer.write_table(_add_rows(adds))
    store.put(folder + checkpoint_name(state.version), sink.getvalue())
    newest = read_last_checkpoint(store, folder)
    if newest is None or newest < state.version:
        hint = {"version": state.version, "size": small.num_rows + adds.num_rows}
        store.put(folder + LAST_CHECKPOINT, json.dumps(hint).encode())


def read_last_checkpoint(store: Store, folder: str) -> int | None:
    """The version that the hint names, or None without one; a malformed hint stops the reader."""
    key = folder + LAST_CHECKPOINT
    try:
        data = store.get(key)
    except ObjectNotFoundError:
        return None
    try:
        version = json.loads(data)["version"]
        if not isinstance(version, int) or version < 0:
            raise ValueError(f"version {version!r}")
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise CorruptCommitError(
            f"{key} is malformed ({error}). It is only a hint: delete it, and it is found anew"
        ) from error
    return version


def read_checkpoint(store: Store, table_folder: str, version: int) -> TableState:
    """The state at the checkpoint's version; its file list is read when first asked for."""
    key = f"{table_folder}_delta_log/{checkpoint_name(version)}"

    def load_files() -> FileTables:
        table = _read(store, key, version, ["add", "remove"])
        return _unpack(table, "add", ADD_TYPE), _unpack(table, "remove", REMOVE_TYPE)

    table = _read(store, key, version, _WRITER_COLUMNS)
    state = TableState(table_folder, version, LiveFiles(load_files))
    try:
        for kind in _WRITER_COLUMNS:
            column = table[kind]
            rows: list[Any] = column.filter(pc.is_valid(column)).to_pylist(maps_as_pydicts="strict")
            for body in rows:
                _fill(state, from_json(kind, body))
    except (KeyError, TypeError, ValueError) as error:
        raise CorruptCommitError(f"checkpoint {key} (version {version}): {error}") from error
    if state.metadata is None or state.protocol is None:
        raise CorruptCommitError(f"checkpoint {key} (version {version}) has no metadata")
    return state


def _fill(state: TableState, action: Action) -> None:
    if isinstance(action, Metadata):
        state.apply_metadata(action)
    elif isinstance(action, Protocol):
        state.apply_protocol(action)
    elif isinstance(action, DomainMetadata):
        state.domains[action.domain] = action.configuration
    elif isinstance(action, Txn):
        state.txns[action.app_id] = action


def _read(store: Store, key: str, version: int, columns: list[str]) -> pa.Table:
    try:
        with store.open_input(key) as source:
            return pq.read_table(source, columns=columns, page_checksum_verification=True)
    except (pa.ArrowException, OSError) as error:
        raise CorruptCommitError(
            f"checkpoint {key} (version {version}) cannot be read: {error}"
        ) from error


def _unpack(table: pa.Table, kind: str, struct: pa.StructType) -> pa.Table:
    column = table[kind]
    rows = column.filter(pc.is_valid(column))
    if not rows.num_chunks:
        return pa.schema(struct).empty_table()
    return pa.Table.from_struct_array(rows).cast(pa.schema(struct))


def _small_rows(state: TableState, removes: list[Remove]) -> pa.Table:
    assert state.protocol is not None and state.metadata is not None
    actions: list[Action] = [state.protocol, state.metadata]
    actions += [DomainMetadata(name, text) for name, text in state.domains.items()]
    actions += state.txns.values()
    actions += removes
    rows: list[dict[str, Any]] = []
    for action in actions:
        row = to_json(action)
        if isinstance(action, Metadata):
            body = row["metaData"]
            body["configuration"] = list(body["configuration"].items())
            body["format"]["options"] = []
        rows.append(row)
    return pa.Table.from_pylist(rows, schema=SCHEMA)


def _add_rows(adds: pa.Table) -> pa.Table:
    column = adds.cast(pa.schema(ADD_TYPE)).combine_chunks().to_struct_array()
    nulls = [
        column if field.name == "add" else pa.nulls(adds.num_rows, field.type) for field in SCHEMA
    ]
    return pa.Table.from_arrays(nulls, schema=SCHEMA)
