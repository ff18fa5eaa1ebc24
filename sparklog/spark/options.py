"""The options of `format("sparklog")`: names and meaning of the Kafka connector's, checked.

Spark hands options over in lower case, so names are matched without case and shown as they are
documented. An unknown option is an error that names the nearest known one; options that begin with
`kafka.` configure a Kafka client, which is not here: they are accepted, so that a job moves by
changing `format` and `path`, and named once in a warning.
"""

from __future__ import annotations

import difflib
import json
import logging
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from sparklog.errors import InvalidConfigError
from sparklog.log.schema import RECORD_SCHEMA
from sparklog.names import WRITER_ID_LENGTH_MAX, check_name
from sparklog.spark.group_options import GroupOptions
from sparklog.spark.start_point import (
    COMMITTED,
    EARLIEST,
    LATEST,
    StartPoint,
    parse_offsets,
    parse_times,
)

logger = logging.getLogger("sparklog.spark")
T = TypeVar("T")
D = TypeVar("D")

MAX_TRIGGER_DELAY_MS = 15 * 60_000
MAX_FILES_PER_BATCH = 1_000
_UNITS_MS = {"ms": 1, "s": 1_000, "m": 60_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000}
_BYTE_UNITS = {"": 1, "b": 1, "k": 2**10, "m": 2**20, "g": 2**30, "t": 2**40}


class OptionReader:
    """Takes options one by one, and in the end refuses those that nobody took."""

    def __init__(self, options: Mapping[str, str], what: str) -> None:
        """The options as Spark gave them."""
        self._given = {name.lower(): str(value) for name, value in options.items()}
        self._what = what
        self._known: list[str] = []

    def take(self, name: str, parse: Callable[[str], T], default: D) -> T | D:
        """The option's value; an error names the option, the value and what is allowed."""
        self._known.append(name)
        text = self._given.get(name.lower())
        if text is None:
            return default
        try:
            return parse(text)
        except InvalidConfigError:
            raise
        except (ValueError, TypeError, KeyError) as error:
            shown = text if len(text) <= 80 else text[:77] + "..."
            raise InvalidConfigError(f"option {name} = {shown!r} is not allowed: {error}") from None

    def finish(self) -> None:
        """Refuse what is left; name the Kafka client's options once."""
        known = {name.lower() for name in self._known}
        rest = [name for name in self._given if name not in known]
        ignored = sorted(n for n in rest if n.startswith("kafka.") or n == "groupidprefix")
        if ignored:
            logger.warning("options of a Kafka client have no effect here: %s", ", ".join(ignored))
            if "kafka.group.id" in ignored:
                logger.warning("to be a member of a consumer group, set the option group.id")
        for name in rest:
            if name not in ignored:
                raise InvalidConfigError(self._unknown(name))

    def _unknown(self, name: str) -> str:
        by_lower = {known.lower(): known for known in self._known}
        near = difflib.get_close_matches(name, by_lower, n=1, cutoff=0.7)
        hint = f"did you mean {by_lower[near[0]]}?" if near else f"known: {', '.join(self._known)}"
        return f"{self._what} has no option {name!r}; {hint}"


@dataclass(frozen=True)
class StoreOptions:
    """Where the log is."""

    path: str
    storage_json: str = "{}"
    """Options of the store as JSON, so that this can be a key; may hold secrets: never shown."""

    def __repr__(self) -> str:
        """Show the path only."""
        return f"StoreOptions({self.path!r})"

    @property
    def storage_options(self) -> dict[str, Any]:
        """Options of the store."""
        options: dict[str, Any] = json.loads(self.storage_json)
        return options

    @classmethod
    def take(cls, reader: OptionReader) -> StoreOptions:
        """From `path` and `storage_options`."""
        path = reader.take("path", str, "")
        storage = reader.take("storage_options", _json_object, {})
        if not path:
            raise InvalidConfigError(
                "option path is missing: the root of the log, such as ./data/log or s3://bucket/x"
            )
        return cls(_absolute(path), json.dumps(storage, sort_keys=True))


@dataclass(frozen=True)
class SourceOptions:
    """What to read: the Kafka source's options."""

    store: StoreOptions
    topics: tuple[str, ...]
    pattern: str | None
    assigned: tuple[tuple[str, tuple[int, ...]], ...]
    starting: StartPoint | None
    ending: StartPoint | None
    max_offsets: int | None
    min_offsets: int | None
    max_trigger_delay_ms: int
    max_bytes: int | None
    min_partitions: int | None
    max_records_per_partition: int | None
    fail_on_data_loss: bool
    columns: tuple[str, ...]
    group: GroupOptions | None

    @property
    def pattern_compiled(self) -> re.Pattern[str] | None:
        """The pattern that a topic's whole name must match, if topics are chosen by one."""
        return None if self.pattern is None else re.compile(self.pattern)

    @classmethod
    def of(cls, options: Mapping[str, str]) -> SourceOptions:
        """Checked, or an error."""
        reader = OptionReader(options, "the sparklog source")
        store = StoreOptions.take(reader)
        topics = reader.take("subscribe", _names, ())
        pattern = reader.take("subscribePattern", _pattern, None)
        assigned = reader.take("assign", _assignment, ())
        if sum(map(bool, (topics, pattern, assigned))) != 1:
            raise InvalidConfigError(
                "give exactly one of the options subscribe, subscribePattern and assign"
            )
        starting, ending = _take_bounds(reader)
        include_headers = reader.take("includeHeaders", _boolean, False)
        columns = reader.take("columns", _columns, ())
        if not columns:
            columns = tuple(n for n in RECORD_SCHEMA.names if include_headers or n != "headers")
        min_offsets = reader.take("minOffsetsPerTrigger", _positive, None)
        checked = cls(
            store=store,
            topics=topics,
            pattern=pattern,
            assigned=assigned,
            starting=starting,
            ending=ending,
            max_offsets=reader.take("maxOffsetsPerTrigger", _positive, None),
            min_offsets=min_offsets,
            max_trigger_delay_ms=reader.take("maxTriggerDelay", _duration, MAX_TRIGGER_DELAY_MS),
            max_bytes=reader.take("maxBytesPerTrigger", _bytes, None),
            min_partitions=reader.take("minPartitions", _positive, None),
            max_records_per_partition=reader.take("maxRecordsPerPartition", _positive, None),
            fail_on_data_loss=reader.take("failOnDataLoss", _boolean, True),
            columns=columns,
            group=GroupOptions.take(reader),
        )
        reader.finish()
        if checked.group is None and starting == StartPoint.named(COMMITTED):
            raise InvalidConfigError(
                "option startingOffsets = committed is for members of a group: set group.id, or "
                "say earliest or latest"
            )
        if checked.group is not None and assigned:
            raise InvalidConfigError(
                "option assign does not go with group.id: a group's members share the partitions "
                "out themselves. Use subscribe or subscribePattern, or leave group.id out"
            )
        if min_offsets and checked.max_offsets and min_offsets > checked.max_offsets:
            raise InvalidConfigError(
                f"option minOffsetsPerTrigger = {min_offsets} is not allowed: it must not exceed "
                f"maxOffsetsPerTrigger = {checked.max_offsets}"
            )
        return checked


@dataclass(frozen=True)
class SinkOptions:
    """Where to write: the Kafka sink's options."""

    store: StoreOptions
    topic: str | None
    txn_app_id: str | None
    txn_version: int | None
    max_files_per_batch: int
    compression: str | None

    @classmethod
    def of(cls, options: Mapping[str, str]) -> SinkOptions:
        """Checked, or an error."""
        reader = OptionReader(options, "the sparklog sink")
        checked = cls(
            store=StoreOptions.take(reader),
            topic=reader.take("topic", check_name, None),
            txn_app_id=reader.take("txnAppId", _writer_id, None),
            txn_version=reader.take("txnVersion", _natural, None),
            max_files_per_batch=reader.take("maxFilesPerBatch", _positive, MAX_FILES_PER_BATCH),
            compression=reader.take("compression", _codec, None),
        )
        for of_spark in ("checkpointLocation", "queryName"):
            reader.take(of_spark, str, "")
        reader.finish()
        if (checked.txn_app_id is None) != (checked.txn_version is None):
            raise InvalidConfigError("options txnAppId and txnVersion go together")
        return checked


def _take_bounds(reader: OptionReader) -> tuple[StartPoint | None, StartPoint | None]:
    """Where to start and to end: a time for all goes before times, and times before offsets."""
    strategy = reader.take("startingOffsetsByTimestampStrategy", _strategy, "error")
    starting = reader.take("startingOffsets", _starting_offsets, None)
    by_time = reader.take("startingOffsetsByTimestamp", parse_times, None)
    at_time = reader.take("startingTimestamp", _natural, None)
    if at_time is not None:
        starting = StartPoint.at_time(at_time, strategy)
    elif by_time is not None:
        starting = StartPoint.at_times(by_time, strategy)
    ending = reader.take("endingOffsets", _ending_offsets, None)
    end_by_time = reader.take("endingOffsetsByTimestamp", parse_times, None)
    end_time = reader.take("endingTimestamp", _natural, None)
    if end_time is not None:
        ending = StartPoint.at_time(end_time, "latest")
    elif end_by_time is not None:
        ending = StartPoint.at_times(end_by_time, "latest")
    return starting, ending


def _absolute(path: str) -> str:
    """A local path as the driver means it: tasks run in other folders."""
    return path if "://" in path else str(Path(path).absolute())


def _starting_offsets(text: str) -> StartPoint:
    if text.lower() in (EARLIEST, LATEST, COMMITTED):
        return StartPoint.named(text.lower())
    return StartPoint.at_offsets(parse_offsets(text))


def _ending_offsets(text: str) -> StartPoint:
    if text.lower() in (EARLIEST, COMMITTED):
        raise ValueError(f"it must be latest or JSON: nothing ends at {text.lower()}")
    point = _starting_offsets(text)
    for topic, partitions in point.offsets.items():
        for partition, offset in partitions.items():
            if offset == -2:
                raise ValueError(f"{topic} partition {partition}: nothing ends at earliest (-2)")
    return point


def _strategy(text: str) -> str:
    if text.lower() not in ("error", "latest"):
        raise ValueError("it must be error or latest")
    return text.lower()


def _names(text: str) -> tuple[str, ...]:
    names = tuple(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))
    if not names:
        raise ValueError("it must be a comma-separated list of topics")
    return tuple(check_name(name) for name in names)


def _pattern(text: str) -> str:
    try:
        re.compile(text)
    except re.error as error:
        raise ValueError(f"it must be a regular expression: {error}") from None
    return text


def _assignment(text: str) -> tuple[tuple[str, tuple[int, ...]], ...]:
    body = _json_object(text)
    found = []
    for topic, partitions in sorted(body.items()):
        if not isinstance(partitions, list) or not all(
            isinstance(p, int) and not isinstance(p, bool) and p >= 0 for p in partitions
        ):
            raise ValueError('it must be JSON like {"topic":[0,1]}')
        found.append((check_name(topic), tuple(sorted(set(partitions)))))
    if not found or not all(partitions for _, partitions in found):
        raise ValueError('it must name partitions, like {"topic":[0,1]}')
    return tuple(found)


def _columns(text: str) -> tuple[str, ...]:
    names = tuple(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))
    by_lower = {name.lower(): name for name in RECORD_SCHEMA.names}
    unknown = [name for name in names if name.lower() not in by_lower]
    if unknown or not names:
        raise ValueError(f"it must be a list of {', '.join(RECORD_SCHEMA.names)}")
    return tuple(by_lower[name.lower()] for name in names)


def _codec(text: str) -> str:
    allowed = ("none", "lz4", "zstd", "snappy", "gzip")
    if text not in allowed:
        raise ValueError(f"it must be one of {', '.join(allowed)}")
    return text


def _writer_id(text: str) -> str:
    if len(text) > WRITER_ID_LENGTH_MAX:
        raise ValueError(f"it must have at most {WRITER_ID_LENGTH_MAX} characters")
    return check_name(text, "txnAppId")


def _json_object(text: str) -> dict[str, Any]:
    try:
        body = json.loads(text)
    except ValueError as error:
        raise ValueError(f"it is not JSON: {error}") from None
    if not isinstance(body, dict):
        raise ValueError("it must be a JSON object")
    return body


def _boolean(text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise ValueError("it must be true or false")
    return text.lower() == "true"


def _natural(text: str) -> int:
    if not re.fullmatch(r"[0-9]+", text.strip()):
        raise ValueError("it must be a whole number of at least 0")
    return int(text)


def _positive(text: str) -> int:
    number = _natural(text)
    if number < 1:
        raise ValueError("it must be a whole number of at least 1")
    return number


def _duration(text: str) -> int:
    match = re.fullmatch(r"([0-9]+)\s*([a-z]*)", text.strip().lower())
    unit = (match[2] or "ms") if match else ""
    if match is None or unit not in _UNITS_MS:
        raise ValueError(f"it must be a time such as 500ms, 30s or 15m ({', '.join(_UNITS_MS)})")
    return int(match[1]) * _UNITS_MS[unit]


def _bytes(text: str) -> int:
    match = re.fullmatch(r"([0-9]+)\s*([bkmgt]?)b?", text.strip().lower())
    if match is None or int(match[1]) < 1:
        raise ValueError("it must be a size such as 1000000, 64m or 1g")
    return int(match[1]) * _BYTE_UNITS[match[2]]
