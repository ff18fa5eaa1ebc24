"""The actions of a Delta table log, typed, with their exact JSON.

A commit file is one action a line. Only the actions that sparklog writes are known here. An
action of another kind stops the reader with the file named: a table log is either understood
whole or not at all. Unknown fields inside a known action are dropped, as Delta's protocol asks.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from sparklog.errors import CorruptCommitError

VERSION_DIGITS = 20
LONG_MIN, LONG_MAX = -(2**63), 2**63 - 1


@dataclass(frozen=True)
class Protocol:
    """What a reader and a writer must be able to do."""

    min_reader_version: int = 1
    min_writer_version: int = 7
    writer_features: tuple[str, ...] = ("domainMetadata",)


@dataclass(frozen=True)
class Metadata:
    """The table's identity, schema and configuration. A new `id` is a new table."""

    id: str
    name: str
    schema_string: str
    partition_columns: tuple[str, ...]
    configuration: Mapping[str, str]
    created_time: int


@dataclass(frozen=True)
class Add:
    """A data file becomes part of the table."""

    path: str
    partition_values: Mapping[str, str]
    size: int
    modification_time: int
    data_change: bool
    stats: str
    tags: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Remove:
    """A data file leaves the table; it may still be read until its grace is over."""

    path: str
    deletion_timestamp: int
    data_change: bool


@dataclass(frozen=True)
class Txn:
    """How far a writer has come: `version` never falls within one table id."""

    app_id: str
    version: int
    last_updated: int


@dataclass(frozen=True)
class DomainMetadata:
    """A named piece of state that replay keeps by its newest value."""

    domain: str
    configuration: str
    removed: bool = False


@dataclass(frozen=True)
class CommitInfo:
    """Who made a commit and why. `txn_id` is the attempt's nonce; `tags` are sparklog's own."""

    timestamp: int
    operation: str
    txn_id: str
    is_blind_append: bool = False
    tags: Mapping[str, str] = field(default_factory=dict)


Action: TypeAlias = Protocol | Metadata | Add | Remove | Txn | DomainMetadata | CommitInfo

ENGINE_INFO = "sparklog"


def commit_name(version: int) -> str:
    """The file name of a version's commit."""
    return f"{version:0{VERSION_DIGITS}d}.json"


def checkpoint_name(version: int) -> str:
    """The file name of a version's checkpoint."""
    return f"{version:0{VERSION_DIGITS}d}.checkpoint.parquet"


def version_of(name: str) -> int | None:
    """The version in a commit's or a checkpoint's file name; None for any other file."""
    digits, _, rest = name.partition(".")
    if (
        len(digits) == VERSION_DIGITS
        and digits.isdigit()
        and rest in ("json", "checkpoint.parquet")
    ):
        return int(digits)
    return None


def to_json(action: Action) -> dict[str, Any]:
    """The action as Delta's JSON object."""
    if isinstance(action, Add):
        add: dict[str, Any] = {
            "path": action.path,
            "partitionValues": dict(action.partition_values),
            "size": action.size,
            "modificationTime": action.modification_time,
            "dataChange": action.data_change,
            "stats": action.stats,
        }
        if action.tags:
            add["tags"] = dict(action.tags)
        return {"add": add}
    if isinstance(action, Txn):
        return {
            "txn": {
                "appId": action.app_id,
                "version": action.version,
                "lastUpdated": action.last_updated,
            }
        }
    if isinstance(action, DomainMetadata):
        return {
            "domainMetadata": {
                "domain": action.domain,
                "configuration": action.configuration,
                "removed": action.removed,
            }
        }
    if isinstance(action, Remove):
        return {
            "remove": {
                "path": action.path,
                "deletionTimestamp": action.deletion_timestamp,
                "dataChange": action.data_change,
            }
        }
    return _rare_to_json(action)


def _rare_to_json(action: Protocol | Metadata | CommitInfo) -> dict[str, Any]:
    if isinstance(action, Metadata):
        return {
            "metaData": {
                "id": action.id,
                "name": action.name,
                "format": {"provider": "parquet", "options": {}},
                "schemaString": action.schema_string,
                "partitionColumns": list(action.partition_columns),
                "configuration": dict(action.configuration),
                "createdTime": action.created_time,
            }
        }
    if isinstance(action, Protocol):
        return {
            "protocol": {
                "minReaderVersion": action.min_reader_version,
                "minWriterVersion": action.min_writer_version,
                "writerFeatures": list(action.writer_features),
            }
        }
    info: dict[str, Any] = {
        "timestamp": action.timestamp,
        "operation": action.operation,
        "operationParameters": {},
        "isBlindAppend": action.is_blind_append,
        "engineInfo": ENGINE_INFO,
        "txnId": action.txn_id,
    }
    if action.tags:
        info["tags"] = dict(action.tags)
    return {"commitInfo": info}


def _text(body: Mapping[str, Any], name: str) -> str:
    value = body[name]
    if type(value) is not str:
        raise TypeError(f"{name} is {value!r}, not a string")
    return value


def _long(body: Mapping[str, Any], name: str) -> int:
    value = body[name]
    if type(value) is not int or not LONG_MIN <= value <= LONG_MAX:
        raise TypeError(f"{name} is {value!r}, not a 64-bit integer")
    return value


def _flag(body: Mapping[str, Any], name: str) -> bool:
    value = body[name]
    if type(value) is not bool:
        raise TypeError(f"{name} is {value!r}, neither true nor false")
    return value


def _texts(body: Mapping[str, Any], name: str) -> tuple[str, ...]:
    values = body[name]
    if type(values) is not list or any(type(value) is not str for value in values):
        raise TypeError(f"{name} is {values!r}, not a list of strings")
    return tuple(values)


def _text_map(body: Mapping[str, Any], name: str) -> dict[str, str]:
    values = body[name]
    if type(values) is not dict or any(type(value) is not str for value in values.values()):
        raise TypeError(f"{name} is {values!r}, not a map of strings")
    return values


def _read_add(body: Mapping[str, Any]) -> Add:
    return Add(
        path=_text(body, "path"),
        partition_values=_text_map(body, "partitionValues"),
        size=_long(body, "size"),
        modification_time=_long(body, "modificationTime"),
        data_change=_flag(body, "dataChange"),
        stats=_text(body, "stats") if body.get("stats") else "{}",
        tags=_text_map(body, "tags") if body.get("tags") else {},
    )


def _read_remove(body: Mapping[str, Any]) -> Remove:
    deleted = _long(body, "deletionTimestamp") if body.get("deletionTimestamp") else 0
    return Remove(_text(body, "path"), deleted, _flag(body, "dataChange"))


def _read_txn(body: Mapping[str, Any]) -> Txn:
    updated = _long(body, "lastUpdated") if body.get("lastUpdated") else 0
    return Txn(_text(body, "appId"), _long(body, "version"), updated)


def _read_domain(body: Mapping[str, Any]) -> DomainMetadata:
    return DomainMetadata(
        _text(body, "domain"), _text(body, "configuration"), _flag(body, "removed")
    )


def _read_metadata(body: Mapping[str, Any]) -> Metadata:
    return Metadata(
        id=_text(body, "id"),
        name=_text(body, "name") if body.get("name") else "",
        schema_string=_text(body, "schemaString"),
        partition_columns=_texts(body, "partitionColumns"),
        configuration=_text_map(body, "configuration"),
        created_time=_long(body, "createdTime") if body.get("createdTime") else 0,
    )


def _read_protocol(body: Mapping[str, Any]) -> Protocol:
    return Protocol(
        _long(body, "minReaderVersion"),
        _long(body, "minWriterVersion"),
        _texts(body, "writerFeatures") if body.get("writerFeatures") else (),
    )


def _read_commit_info(body: Mapping[str, Any]) -> CommitInfo:
    return CommitInfo(
        timestamp=_long(body, "timestamp") if body.get("timestamp") else 0,
        operation=_text(body, "operation") if body.get("operation") else "",
        txn_id=_text(body, "txnId") if body.get("txnId") else "",
        is_blind_append=_flag(body, "isBlindAppend") if body.get("isBlindAppend") else False,
        tags=_text_map(body, "tags") if body.get("tags") else {},
    )


_READERS: dict[str, Callable[[Mapping[str, Any]], Action]] = {
    "add": _read_add,
    "remove": _read_remove,
    "txn": _read_txn,
    "domainMetadata": _read_domain,
    "metaData": _read_metadata,
    "protocol": _read_protocol,
    "commitInfo": _read_commit_info,
}


def from_json(kind: str, body: Mapping[str, Any]) -> Action:
    """The action of that kind; KeyError, TypeError or ValueError if it is malformed."""
    return _READERS[kind](body)


@dataclass(frozen=True)
class Commit:
    """One version of a table log."""

    version: int
    actions: tuple[Action, ...]

    @property
    def info(self) -> CommitInfo | None:
        """The commit's own description, if it has one."""
        first = self.actions[0] if self.actions else None
        if isinstance(first, CommitInfo):
            return first
        return next((a for a in self.actions if isinstance(a, CommitInfo)), None)

    @property
    def nonce(self) -> str:
        """The id of the attempt that won this version."""
        info = self.info
        return info.txn_id if info else ""


def encode_commit(actions: Sequence[Action]) -> bytes:
    """The bytes of a commit file."""
    lines = [json.dumps(to_json(action), separators=(",", ":")) for action in actions]
    return ("\n".join(lines) + "\n").encode()


def decode_commit(data: bytes, version: int, where: str) -> Commit:
    """Parse a commit file; a torn or malformed one stops with its place named."""
    if not data.endswith(b"\n"):
        raise CorruptCommitError(
            f"commit {where} (version {version}) is empty or cut off after {len(data)} bytes"
        )
    actions: list[Action] = []
    for number, line in enumerate(data.splitlines(), start=1):
        try:
            ((kind, body),) = json.loads(line).items()
            if b"\\u" in line:
                json.dumps(body, ensure_ascii=False).encode()  # half a surrogate pair is no text
            actions.append(from_json(kind, body))
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise CorruptCommitError(
                f"commit {where} (version {version}) line {number} is not a known Delta action: "
                f"{type(error).__name__}: {error}"
            ) from error
    return Commit(version, tuple(actions))
