"""An independent, small reader of a topic: raw JSON commits and Parquet, nothing of sparklog's.

It replays every commit that was ever made, also those that log clean-up deleted since, because
the journal of the simulated store keeps all bytes. What it finds wrong with the table log itself
(I16) it puts into `problems`.
"""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

_COMMIT = re.compile(r"(\d{20})\.json")
_CHECKPOINT = re.compile(r"(\d{20})\.checkpoint\.parquet")
_SMALL_KINDS = ("txn", "metaData", "protocol", "domainMetadata")


@dataclass(frozen=True)
class Problem:
    """Something that must not be: which invariant, where, and what."""

    invariant: str
    topic: str
    partition: int | None
    offset: int | None
    what: str

    def __str__(self) -> str:
        """One line."""
        place = f"{self.topic}"
        if self.partition is not None:
            place += f"/{self.partition}"
        if self.offset is not None:
            place += f"@{self.offset}"
        return f"{self.invariant} {place}: {self.what}"


@dataclass(frozen=True)
class Change:
    """One effect on the store: an object appeared or changed, or went (None)."""

    step: int
    key: str
    data: bytes | None


@dataclass(frozen=True)
class StoredRecord:
    """A record as the table log and its segment have it."""

    topic_id: str
    partition: int
    offset: int
    value: bytes
    version: int


@dataclass
class TableContents:
    """A table's state at one version, as plain JSON bodies."""

    version: int = -1
    files: dict[str, dict[str, Any]] = field(default_factory=dict)
    txns: dict[str, int] = field(default_factory=dict)
    domains: dict[str, str] = field(default_factory=dict)
    metadata: dict[str, Any] = field(default_factory=dict)
    protocol: dict[str, Any] = field(default_factory=dict)

    @property
    def topic_id(self) -> str:
        """The id of the topic that stands here."""
        return str(self.metadata.get("id", ""))

    def apply(self, version: int, actions: Iterable[dict[str, Any]]) -> None:
        """Replay one commit."""
        for action in actions:
            ((kind, body),) = action.items()
            if kind == "add":
                self.files[body["path"]] = body
            elif kind == "remove":
                self.files.pop(body["path"], None)
            elif kind == "txn":
                self.txns[body["appId"]] = body["version"]
            elif kind == "domainMetadata":
                if body["removed"]:
                    self.domains.pop(body["domain"], None)
                else:
                    self.domains[body["domain"]] = body["configuration"]
            elif kind == "metaData":
                if self.metadata and self.metadata["id"] != body["id"]:
                    self.txns.clear()
                self.metadata = body
            elif kind == "protocol":
                self.protocol = body
        self.version = version


@dataclass
class Replay:
    """One topic's whole history."""

    topic: str
    commits: dict[int, list[dict[str, Any]]] = field(default_factory=dict)
    final: TableContents = field(default_factory=TableContents)
    records: list[StoredRecord] = field(default_factory=list)
    """All records ever appended, in version order, those of deleted topics too."""
    problems: list[Problem] = field(default_factory=list)
    checkpoints: int = 0

    def note(self, what: str, partition: int | None = None, offset: int | None = None) -> None:
        """The table log itself is wrong."""
        self.problems.append(Problem("I16", self.topic, partition, offset, what))


def topics_of(journal: Iterable[Change]) -> list[str]:
    """The names of all topics that were ever written to, in order."""
    found = {change.key.split("/")[1] for change in journal if change.key.startswith("topics/")}
    return sorted(found)


def replay_topic(journal: list[Change], topic: str) -> Replay:
    """Replay a topic from the journal of the store."""
    replay = Replay(topic)
    prefix = f"topics/{topic}/"
    objects, checkpoints = _objects(replay, journal, prefix)
    versions = sorted(
        int(match[1])
        for key in objects
        if (match := _COMMIT.fullmatch(key.removeprefix(f"{prefix}_delta_log/")))
    )
    if versions != list(range(len(versions))):
        replay.note(f"versions are not contiguous: {versions}")
    state = TableContents()
    wanted = {version for version, _ in checkpoints}
    states: dict[int, TableContents] = {}
    for version in versions:
        actions = list(_actions(replay, objects[f"{prefix}_delta_log/{version:020d}.json"]))
        replay.commits[version] = actions
        state.apply(version, actions)
        replay.records += _records(replay, objects, prefix, state.topic_id, version, actions)
        if version in wanted:
            states[version] = copy.deepcopy(state)
    replay.final = state
    for version, data in checkpoints:
        _compare(replay, version, data, states.get(version))
    _check_live_files(replay, journal, prefix)
    return replay


def _objects(
    replay: Replay, journal: list[Change], prefix: str
) -> tuple[dict[str, bytes], list[tuple[int, bytes]]]:
    """The first bytes of every object, and all checkpoints ever written.

    A commit stands for ever: writing it a second time is a violation, unless clean-up deleted it
    and a checkpoint at or after it stood by then: such a latecomer is covered and never read.
    """
    first: dict[str, bytes] = {}
    standing: set[str] = set()
    checkpoints: list[tuple[int, bytes]] = []
    for change in journal:
        if not change.key.startswith(prefix):
            continue
        name = change.key.removeprefix(f"{prefix}_delta_log/")
        commit = _COMMIT.fullmatch(name)
        if change.data is None:
            standing.discard(change.key)
            continue
        checkpoint = _CHECKPOINT.fullmatch(name)
        if checkpoint:
            checkpoints.append((int(checkpoint[1]), change.data))
        if commit and change.key in standing:
            replay.note(f"version {int(commit[1])} was overwritten at step {change.step}")
        if commit and change.key in first and change.key not in standing:
            covered = any(version >= int(commit[1]) for version, _ in checkpoints)
            if not covered:
                replay.note(f"version {int(commit[1])} was made anew without a checkpoint after it")
        standing.add(change.key)
        first.setdefault(change.key, change.data)
    return first, checkpoints


def _actions(replay: Replay, data: bytes) -> Iterator[dict[str, Any]]:
    for line in data.decode().splitlines():
        action = json.loads(line)
        if len(action) != 1:
            replay.note(f"a line of a commit is not one action: {line[:80]}")
            continue
        yield action


def _records(
    replay: Replay,
    objects: dict[str, bytes],
    prefix: str,
    topic_id: str,
    version: int,
    actions: list[dict[str, Any]],
) -> Iterator[StoredRecord]:
    """The records of one commit's new segments."""
    for action in actions:
        add = action.get("add")
        if add is None or not add["dataChange"]:
            continue
        partition = int(add["partitionValues"]["partition"])
        base = int(add["partitionValues"]["base_offset"])
        data = objects.get(prefix + add["path"])
        if data is None:
            replay.note(f"version {version} names {add['path']}, which never was", partition, base)
            continue
        if len(data) != add["size"]:
            replay.note(f"{add['path']} has {len(data)} bytes, not {add['size']}", partition, base)
            continue
        table = pq.read_table(pa.BufferReader(data))
        rows = json.loads(add["stats"])["numRecords"]
        if table.num_rows != rows:
            replay.note(f"{add['path']} has {table.num_rows} rows, not {rows}", partition, base)
        for delta, value in zip(
            table["offset_delta"].to_pylist(), table["value"].to_pylist(), strict=True
        ):
            yield StoredRecord(topic_id, partition, base + delta, value, version)


def _check_live_files(replay: Replay, journal: list[Change], prefix: str) -> None:
    """Every file that the newest state names must still be there."""
    there: set[str] = set()
    for change in journal:
        if change.key.startswith(prefix):
            (there.discard if change.data is None else there.add)(change.key)
    for path in replay.final.files:
        if prefix + path not in there:
            replay.note(f"the newest state names {path}, which is gone")


def _compare(replay: Replay, version: int, data: bytes, state: TableContents | None) -> None:
    """A checkpoint must say what replay says."""
    replay.checkpoints += 1
    if state is None:
        replay.note(f"there is a checkpoint of version {version}, but no such version")
        return
    found = _read_checkpoint(version, data)
    for name in ("txns", "domains", "protocol"):
        if getattr(found, name) != getattr(state, name):
            replay.note(
                f"checkpoint {version} has {name} {getattr(found, name)}, "
                f"replay gives {getattr(state, name)}"
            )
    for key in ("id", "name", "schemaString", "partitionColumns", "configuration"):
        if found.metadata.get(key) != state.metadata.get(key):
            replay.note(f"checkpoint {version} differs from replay in metaData.{key}")
    if found.files.keys() != state.files.keys():
        extra, missing = found.files.keys() - state.files.keys(), state.files.keys() - found.files
        replay.note(f"checkpoint {version}: extra {sorted(extra)}, missing {sorted(missing)}")
    for path in found.files.keys() & state.files.keys():
        for key in ("partitionValues", "size", "stats"):
            if found.files[path][key] != state.files[path][key]:
                replay.note(f"checkpoint {version} differs from replay in {key} of {path}")


def _read_checkpoint(version: int, data: bytes) -> TableContents:
    """A checkpoint's rows as a state."""
    state = TableContents()
    rows = pq.read_table(pa.BufferReader(data)).to_pylist(maps_as_pydicts="strict")
    for kind in (*_SMALL_KINDS, "add"):
        bodies = [row[kind] for row in rows if row[kind] is not None]
        state.apply(version, [{kind: body} for body in bodies])
    return state
