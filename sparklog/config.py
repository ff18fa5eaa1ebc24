"""Kafka's configuration names, validated: topics, producers and consumers.

Guarantees:

1. What is written is checked: an unknown key, a wrong type or a value out of range raises
   InvalidConfigError, which names the key, the value and what is allowed.
2. What is read is forgiven: a stored topic configuration with keys of a newer sparklog loads, and
   keeps them. A stored value that this version cannot read fails only where it is needed.
3. An absent key means its default, which is Kafka's own wherever Kafka has one and it fits; where
   it differs, the key's `doc` says why.

What it does not do: it reads no file and no environment, and it does not know which keys may be
changed on a topic that exists.
"""

from __future__ import annotations

import dataclasses
import difflib
import functools
import math
import operator
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, Literal, TypeVar, cast, overload

from sparklog.errors import InvalidConfigError, InvalidNameError
from sparklog.names import WRITER_ID_LENGTH_MAX, check_name

T = TypeVar("T")
ClientConfigT = TypeVar("ClientConfigT", bound="_ClientConfig")

Kind = Literal[
    "int", "long", "double", "boolean", "word", "list", "string", "name", "interval", "uri", "call"
]
CODECS = ("none", "lz4", "zstd", "snappy", "gzip")
CODEC_DEFAULT = "lz4"

_INT_MAX = 2**31 - 1
_LONG_MAX = 2**63 - 1
_INTEGER = re.compile(r"[+-]?[0-9]+")
_INTERVAL = re.compile(r"interval\s+([0-9]+)\s+(millisecond|second|minute|hour|day|week)s?", re.I)
_UNIT_MS = {
    "millisecond": 1,
    "second": 1000,
    "minute": 60_000,
    "hour": 3_600_000,
    "day": 86_400_000,
    "week": 604_800_000,
}


@dataclass(frozen=True)
class ConfigKey:
    """One configuration key: its name, type, default, meaning, and what it allows.

    `default` is what a user would write. None is an allowed value only where it is the default.
    """

    name: str
    kind: Kind
    default: Any
    doc: str
    allowed: tuple[str, ...] = ()
    minimum: float | None = None
    maximum: float | None = None
    aliases: tuple[tuple[str, str], ...] = ()
    validator: Callable[[Any], object] | None = None
    """Raises ValueError with the reason if a value of the right type is still not allowed."""

    @property
    def expects(self) -> str:
        """What a value must be, in words."""
        words = ", ".join((*self.allowed, *(alias for alias, _ in self.aliases)))
        text = {
            "int": f"an integer{self._range()}",
            "long": f"an integer{self._range()}",
            "double": f"a number{self._range()}",
            "boolean": "true or false",
            "word": f"one of {words}",
            "list": f"a list of one or more of {words}",
            "string": "a string",
            "name": "a name of letters, digits, '.', '_' and '-', not starting with '_'",
            "interval": f"an interval such as 'interval 7 days'{self._range(' ms')}",
            "uri": "an s3:// or file:/// address or an absolute path, without credentials",
            "call": "a function",
        }[self.kind]
        return f"{text}, or None" if self.default is None else text

    def parse(self, value: object) -> Any:
        """The value in its own type, or InvalidConfigError."""
        if value is None and self.default is None:
            return None
        try:
            parsed = _PARSERS[self.kind](self, value)
            if self.validator is not None:
                self.validator(parsed)
            return parsed
        except (ValueError, TypeError, OverflowError) as error:
            reason = f" ({error})" if str(error) else ""
            raise InvalidConfigError(
                f"{self.name} = {_shown(value)} is not allowed{reason}: it must be {self.expects}"
            ) from None

    def text(self, value: object) -> str:
        """The value as it is stored, or InvalidConfigError."""
        parsed = self.parse(value)
        if self.kind == "boolean":
            return "true" if parsed else "false"
        if self.kind == "list":
            return ",".join(parsed)
        if self.kind in ("word", "interval"):
            return str(value).strip()  # the user's own word, so that describe shows what was set
        return str(parsed)

    def _range(self, unit: str = "") -> str:
        """The bounds in words; one that is only the type's own is left out."""
        low = "" if self.minimum is None else f" of at least {self.minimum}{unit}"
        return low if self.maximum is None else f"{low} and at most {self.maximum}{unit}"

    def check_range(self, number: T, natural_max: float) -> T:
        """Return the number if it lies within the bounds."""
        low = -natural_max if self.minimum is None else self.minimum
        high = natural_max if self.maximum is None else self.maximum
        if not low <= cast(float, number) <= high:
            raise ValueError
        return number


def _shown(value: object) -> str:
    """The value for a message: short, and without what may be a password."""
    text = re.sub(r"//[^/]*@", "//***@", repr(value))
    return text if len(text) <= 80 else text[:77] + "..."


def _parse_integer(key: ConfigKey, value: object) -> int:
    if isinstance(value, bool):
        raise TypeError
    if isinstance(value, str):
        if not _INTEGER.fullmatch(value.strip()):
            raise ValueError
        number = int(value)
    else:
        number = operator.index(cast(Any, value))
    return key.check_range(number, _INT_MAX if key.kind == "int" else _LONG_MAX)


def _parse_double(key: ConfigKey, value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        raise TypeError
    number = float(value)
    if not math.isfinite(number):
        raise ValueError
    return key.check_range(number, math.inf)


def _parse_boolean(_: ConfigKey, value: object) -> bool:
    if isinstance(value, bool):
        return value
    word = _string(value).strip().lower()
    if word not in ("true", "false"):
        raise ValueError
    return word == "true"


def _parse_word(key: ConfigKey, value: object) -> str:
    if isinstance(value, bool) or not isinstance(value, (int, str)):
        raise TypeError
    word = str(value).strip()
    word = dict(key.aliases).get(word, word)
    if word not in key.allowed:
        raise ValueError
    return word


def _parse_list(key: ConfigKey, value: object) -> tuple[str, ...]:
    if isinstance(value, str):
        items: Iterable[object] = value.split(",")
    elif isinstance(value, (list, tuple)):
        items = value
    elif isinstance(value, (set, frozenset)):
        items = sorted(value)
    else:
        raise TypeError
    words = tuple(dict.fromkeys(_parse_word(key, item) for item in items))
    if not words:
        raise ValueError("the list is empty")
    return words


def _string(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"it is of type {type(value).__name__}")
    return value


def _parse_name(key: ConfigKey, value: object) -> str:
    try:
        return check_name(value, key.name)
    except InvalidNameError as error:
        raise ValueError(str(error)) from None


def _parse_interval(key: ConfigKey, value: object) -> int:
    """Milliseconds. One number and one unit only: that is what every Delta reader can parse."""
    match = _INTERVAL.fullmatch(_string(value).strip())
    if match is None:
        raise ValueError
    return key.check_range(int(match[1]) * _UNIT_MS[match[2].lower()], _LONG_MAX)


def _parse_uri(_: ConfigKey, value: object) -> str:
    """The address without a trailing slash; empty for none."""
    uri = _string(value).strip()
    if not uri:
        return ""
    if not re.fullmatch(r"(s3://[^/@:?#\s]+(/|$)|file:///|/(?!/))[^?#\s]*", uri):
        raise ValueError
    if {".", ".."} & set(uri.split("/")):
        raise ValueError("it has a relative part")
    return uri.rstrip("/") or "/"


def _parse_call(_: ConfigKey, value: object) -> object:
    if not callable(value):
        raise TypeError
    return value


_PARSERS: dict[str, Callable[[ConfigKey, object], Any]] = {
    "int": _parse_integer,
    "long": _parse_integer,
    "double": _parse_double,
    "boolean": _parse_boolean,
    "word": _parse_word,
    "list": _parse_list,
    "string": lambda _, value: _string(value),
    "name": _parse_name,
    "interval": _parse_interval,
    "uri": _parse_uri,
    "call": _parse_call,
}


def _unknown(name: object, known: Iterable[str], what: str) -> InvalidConfigError:
    """The error for a key that does not exist, with the way out."""
    if name in _NOT_HERE:
        return InvalidConfigError(f"{what} {name} is Kafka's, but not here: {_NOT_HERE[name]}")
    names = sorted(known)
    near = difflib.get_close_matches(str(name), names, n=1, cutoff=0.7)
    hint = f"did you mean {near[0]}?" if near else f"known are {', '.join(names)}"
    return InvalidConfigError(f"{what} {_shown(name)} does not exist; {hint}")


_NO_BROKER_FILES = "it tunes a broker's files, which do not exist; leave it out"
_NOT_HERE = {
    "bootstrap.servers": "there are no brokers; give connect() the root of the log",
    "enable.idempotence": "idempotence is always on; leave it out",
    "flush.messages": "acks=all syncs every commit; leave it out",
    "flush.ms": "acks=all syncs every commit; leave it out",
    "index.interval.bytes": _NO_BROKER_FILES,
    "key.deserializer": "keys are bytes, or typed by the topic's schema; leave it out",
    "key.serializer": "keys are bytes, or typed by the topic's schema; leave it out",
    "max.in.flight.requests.per.connection": "commits keep their order; leave it out",
    "preallocate": _NO_BROKER_FILES,
    "retries": "delivery.timeout.ms alone bounds trying again; leave it out",
    "segment.index.bytes": _NO_BROKER_FILES,
    "segment.jitter.ms": _NO_BROKER_FILES,
    "transactional.id": "use transactional_producer(id) of the log",
    "unclean.leader.election.enable": "there are no leaders to elect; leave it out",
    "value.deserializer": "values are bytes, or typed by the topic's schema; leave it out",
    "value.serializer": "values are bytes, or typed by the topic's schema; leave it out",
}


def _check_writer_id(name: str) -> None:
    if len(name) > WRITER_ID_LENGTH_MAX:
        raise ValueError(f"it has {len(name)} characters; at most {WRITER_ID_LENGTH_MAX} fit")


def _not_one(number: int) -> None:
    if number == 1:
        raise ValueError("merging one file into one is no gain; 0 turns coalescing off")


# fmt: off
_TOPIC_KEYS = (
    ConfigKey("cleanup.policy", "list", "delete", "delete: old segments go by retention; "
        "compact: the latest record per key stays.", allowed=("delete", "compact")),
    ConfigKey("compression.type", "word", CODEC_DEFAULT, "How pages of segments are compressed. "
        "A codec is final, whatever the producer says; producer leaves it to the producer. "
        "Kafka's default is producer; lz4 here costs a writer next to nothing.",
        allowed=(*CODECS, "producer"), aliases=(("uncompressed", "none"),)),
    ConfigKey("delete.retention.ms", "long", 86_400_000, "How long compaction keeps tombstones.",
        minimum=0),
    ConfigKey("file.delete.delay.ms", "long", 60_000, "How long a file that nothing names any "
        "more is left in place.", minimum=0),
    ConfigKey("local.retention.bytes", "long", -2, "How many bytes of a partition stay in the log "
        "before they move to remote storage; -2 means retention.bytes.", minimum=-2),
    ConfigKey("local.retention.ms", "long", -2, "How long records stay in the log before they "
        "move to remote storage; -2 means retention.ms.", minimum=-2),
    ConfigKey("max.compaction.lag.ms", "long", _LONG_MAX, "How long a record may wait for "
        "compaction.", minimum=1),
    ConfigKey("max.message.bytes", "int", 1_048_588, "The largest record: key, value and headers.",
        minimum=0),
    ConfigKey("message.timestamp.after.max.ms", "long", 3_600_000, "How far ahead of the clock a "
        "record's timestamp may be.", minimum=0),
    ConfigKey("message.timestamp.before.max.ms", "long", _LONG_MAX, "How far behind the clock a "
        "record's timestamp may be.", minimum=0),
    ConfigKey("message.timestamp.type", "word", "CreateTime", "Whose time a record carries: the "
        "producer's, or that of the append.", allowed=("CreateTime", "LogAppendTime")),
    ConfigKey("min.cleanable.dirty.ratio", "double", 0.5, "The share of uncompacted bytes from "
        "which compaction is worth while.", minimum=0, maximum=1),
    ConfigKey("min.compaction.lag.ms", "long", 0, "How long a record is safe from compaction.",
        minimum=0),
    ConfigKey("min.insync.replicas", "int", 1, "How many replicas acks=all needs.", minimum=1),
    ConfigKey("remote.storage.enable", "boolean", False, "Whether old segments move to "
        "remote.storage.uri."),
    ConfigKey("remote.storage.uri", "uri", "", "Where old segments move to; sparklog's own key. "
        "Absolute paths in the topic's log are followed only below it."),
    ConfigKey("retention.bytes", "long", -1, "How many bytes of a partition are kept; -1: all.",
        minimum=-1),
    ConfigKey("retention.ms", "long", 604_800_000, "How long records are kept; -1: for ever.",
        minimum=-1),
    ConfigKey("segment.bytes", "int", 1_073_741_824, "The size up to which segments are merged. "
        "The lower bound is that of Kafka before 4.0.", minimum=14),
    ConfigKey("segment.ms", "long", 604_800_000, "The age from which a partition's newest segment "
        "is treated as closed, so that retention and compaction may take it.", minimum=1),
    ConfigKey("sparklog.coalesce.min.files", "int", 64, "How many small segments of a partition "
        "set off a merge by its writer; 0 means never.", minimum=0, validator=_not_one),
    ConfigKey("delta.checkpointInterval", "int", 100, "How many table commits lie between two "
        "checkpoints. Delta's own default of 10 suits tables with few commits.", minimum=1),
    ConfigKey("delta.deletedFileRetentionDuration", "interval", "interval 1 hour", "How long a "
        "removed file and its tombstone are kept for readers that still hold it. Short, or "
        "checkpoints would carry millions of tombstones.", minimum=0),
    ConfigKey("delta.logRetentionDuration", "interval", "interval 1 hour", "How long table "
        "commits before a checkpoint are kept. Short, because commits are many; never so "
        "short that a put in flight could outlive it.", minimum=1000),
)
# fmt: on

TOPIC_CONFIG: dict[str, ConfigKey] = {key.name: key for key in _TOPIC_KEYS}
_TOPIC_DEFAULTS = {name: key.parse(key.default) for name, key in TOPIC_CONFIG.items()}


GROUP_CONFIG: dict[str, ConfigKey] = {
    "offsets.retention.ms": ConfigKey(
        "offsets.retention.ms",
        "long",
        604_800_000,
        "How long the offsets of a group are kept once it is empty.",
        minimum=1,
    )
}


def check_group_config(config: Mapping[str, object]) -> dict[str, Any]:
    """A group's configuration in its own types, or InvalidConfigError; None means the default."""
    checked = {}
    for name, value in config.items():
        if name not in GROUP_CONFIG:
            raise _unknown(name, GROUP_CONFIG, "group configuration")
        key = GROUP_CONFIG[name]
        checked[name] = key.parse(key.default if value is None else value)
    return checked


def check_topic_config(config: Mapping[str, object]) -> dict[str, str]:
    """The configuration as it is stored, or InvalidConfigError.

    Give the whole configuration of the topic, not only a change: some keys depend on each other.
    """
    checked = {}
    for name, value in config.items():
        if name not in TOPIC_CONFIG:
            raise _unknown(name, TOPIC_CONFIG, "topic configuration")
        checked[name] = TOPIC_CONFIG[name].text(value)
    _check_together(TopicConfig(checked))
    return checked


def _check_together(config: TopicConfig) -> None:
    """Raise if keys that are right one by one contradict each other."""
    if config.min_compaction_lag_ms > config.max_compaction_lag_ms:
        raise InvalidConfigError(
            f"min.compaction.lag.ms = {config.min_compaction_lag_ms} is not allowed: it must not "
            f"exceed max.compaction.lag.ms = {config.max_compaction_lag_ms}"
        )
    if config.remote_storage_enable and not config.remote_storage_uri:
        raise InvalidConfigError(
            "remote.storage.enable = true is not allowed: remote.storage.uri must be set with it"
        )
    for what, local, whole in (
        ("ms", config.local_retention_ms, config.retention_ms),
        ("bytes", config.local_retention_bytes, config.retention_bytes),
    ):
        if whole != -1 and not 0 <= local <= whole:
            raise InvalidConfigError(
                f"local.retention.{what} = {local} is not allowed: "
                f"it must not exceed retention.{what} = {whole}"
            )


@functools.lru_cache(maxsize=1024)
def _parse_stored(name: str, text: str) -> Any:
    return TOPIC_CONFIG[name].parse(text)


class _Setting(Generic[T]):
    """A typed attribute of TopicConfig that reads one key."""

    def __init__(self, name: str) -> None:
        self.name = name

    @overload
    def __get__(self, config: None, owner: type) -> _Setting[T]: ...
    @overload
    def __get__(self, config: TopicConfig, owner: type) -> T: ...
    def __get__(self, config: TopicConfig | None, owner: type) -> _Setting[T] | T:
        if config is None:
            return self
        text = config.overrides.get(self.name)
        value = _TOPIC_DEFAULTS[self.name] if text is None else _parse_stored(self.name, text)
        return cast(T, value)


@dataclass(frozen=True)
class TopicConfig:
    """A typed view of a topic's stored configuration. Pickles, compares, never changes."""

    overrides: Mapping[str, str] = dataclasses.field(default_factory=dict)
    """What was set, with keys of newer versions. The rest is default."""

    checkpoint_interval = _Setting[int]("delta.checkpointInterval")
    coalesce_min_files = _Setting[int]("sparklog.coalesce.min.files")
    delete_retention_ms = _Setting[int]("delete.retention.ms")
    deleted_file_retention_ms = _Setting[int]("delta.deletedFileRetentionDuration")
    file_delete_delay_ms = _Setting[int]("file.delete.delay.ms")
    log_retention_ms = _Setting[int]("delta.logRetentionDuration")
    max_compaction_lag_ms = _Setting[int]("max.compaction.lag.ms")
    max_message_bytes = _Setting[int]("max.message.bytes")
    min_cleanable_dirty_ratio = _Setting[float]("min.cleanable.dirty.ratio")
    min_compaction_lag_ms = _Setting[int]("min.compaction.lag.ms")
    min_insync_replicas = _Setting[int]("min.insync.replicas")
    remote_storage_enable = _Setting[bool]("remote.storage.enable")
    remote_storage_uri = _Setting[str]("remote.storage.uri")
    retention_bytes = _Setting[int]("retention.bytes")
    retention_ms = _Setting[int]("retention.ms")
    segment_bytes = _Setting[int]("segment.bytes")
    segment_ms = _Setting[int]("segment.ms")
    timestamp_after_max_ms = _Setting[int]("message.timestamp.after.max.ms")
    timestamp_before_max_ms = _Setting[int]("message.timestamp.before.max.ms")
    timestamp_type = _Setting[str]("message.timestamp.type")

    _cleanup_policy = _Setting[tuple[str, ...]]("cleanup.policy")
    _compression_type = _Setting[str]("compression.type")
    _local_retention_bytes = _Setting[int]("local.retention.bytes")
    _local_retention_ms = _Setting[int]("local.retention.ms")

    def __post_init__(self) -> None:
        """Copy, so that nobody else's later change shows through."""
        object.__setattr__(self, "overrides", dict(self.overrides))

    @property
    def cleanup_policy(self) -> frozenset[str]:
        """Holds `delete`, `compact` or both."""
        return frozenset(self._cleanup_policy)

    @property
    def compression(self) -> str:
        """The codec (one of CODECS) for a writer that asks for none."""
        return self.compression_for(None)

    def compression_for(self, producer_type: str | None) -> str:
        """The codec (one of CODECS) for a producer whose own `compression_type` is this.

        As with Kafka's broker, a codec that was set on the topic is final. A producer's choice
        counts where the topic says `producer`, or says nothing.
        """
        chosen = self._compression_type
        if chosen != "producer" and "compression.type" in self.overrides:
            return chosen
        return producer_type or CODEC_DEFAULT

    @property
    def local_retention_bytes(self) -> int:
        """Bytes of a partition that stay out of remote storage; -1 means all."""
        local = self._local_retention_bytes
        return self.retention_bytes if local == -2 else local

    @property
    def local_retention_ms(self) -> int:
        """How long records stay out of remote storage; -1 means for ever."""
        local = self._local_retention_ms
        return self.retention_ms if local == -2 else local

    def all(self) -> dict[str, str]:
        """Every key with its value, defaults included, in order of name."""
        defaults = {name: key.text(key.default) for name, key in TOPIC_CONFIG.items()}
        return dict(sorted({**defaults, **self.overrides}.items()))


def _option(kind: Kind, default: Any, doc: str, **limits: Any) -> Any:
    """A field of a client's configuration; the key is the field's name with dots."""
    return dataclasses.field(default=default, metadata={"key": (kind, default, doc, limits)})


class _ClientConfig:
    """What ProducerConfig and ConsumerConfig share: both spellings, and checked values."""

    what: ClassVar[str]

    @classmethod
    def keys(cls) -> dict[str, ConfigKey]:
        """Every key by its field's name."""
        return _client_keys(cast(Any, cls))

    @classmethod
    def from_dict(cls: type[ClientConfigT], config: Mapping[str, object]) -> ClientConfigT:
        """From a mapping whose keys are spelt with dots or underscores."""
        known = cls.keys()
        fields: dict[str, Any] = {}
        for name, value in config.items():
            field = str(name).replace(".", "_")
            if field not in known:
                dotted = str(name).replace("_", ".")
                raise _unknown(dotted, (key.name for key in known.values()), cls.what)
            if field in fields:
                raise InvalidConfigError(f"{cls.what} {known[field].name} is given twice")
            fields[field] = value
        return cls(**fields)

    @classmethod
    def of(cls: type[ClientConfigT], **config: object) -> ClientConfigT:
        """From keyword arguments, spelt with underscores."""
        return cls.from_dict(config)

    def __post_init__(self) -> None:
        """Check every value and keep it in its own type."""
        for field, key in self.keys().items():
            object.__setattr__(self, field, key.parse(getattr(self, field)))


@functools.cache
def _client_keys(cls: Any) -> dict[str, ConfigKey]:
    keys = {}
    for field in dataclasses.fields(cls):
        kind, default, doc, limits = field.metadata["key"]
        keys[field.name] = ConfigKey(field.name.replace("_", "."), kind, default, doc, **limits)
    return keys


@dataclass(frozen=True)
class ProducerConfig(_ClientConfig):
    """A producer's configuration: Kafka's names, with underscores."""

    what: ClassVar[str] = "producer configuration"

    acks: str = _option(
        "word",
        "all",
        "0: do not wait; 1: committed; all: committed and on disk.",
        allowed=("all", "1", "0"),
        aliases=(("-1", "all"),),
    )
    batch_size: int = _option(
        "int",
        1_048_576,
        "Bytes of a partition that are sent without waiting for linger.ms. "
        "Kafka's 16 KiB would be wrong here: a batch is a file.",
        minimum=0,
    )
    buffer_memory: int = _option(
        "long",
        67_108_864,
        "Bytes that wait to be sent before send() blocks. Twice Kafka's, "
        "because batches are larger.",
        minimum=1,
    )
    client_id: str = _option("string", "", "A name for logs and metrics.")
    compression_type: str | None = _option(
        "word",
        None,
        "The codec, where the topic leaves it to the producer; None: the topic's.",
        allowed=CODECS,
        aliases=(("uncompressed", "none"),),
    )
    delivery_timeout_ms: int = _option(
        "int", 120_000, "From send() to success or failure, at most.", minimum=0
    )
    linger_ms: float | None = _option(
        "double", None, "How long to gather records; None: what fits the store.", minimum=0
    )
    max_block_ms: int = _option(
        "long", 60_000, "How long send() waits while buffer.memory is full.", minimum=0
    )
    max_request_size: int | None = _option(
        "int", None, "The largest record; None: only the topic's max.message.bytes.", minimum=0
    )
    partitioner: Callable[..., Any] | None = _option(
        "call", None, "Chooses the partition; None: Kafka's default, by key."
    )
    producer_id: str | None = _option(
        "name",
        None,
        "A name that outlives the process, for idempotence; None: a new one.",
        validator=_check_writer_id,
    )
    request_timeout_ms: int = _option(
        "int", 30_000, "How long one request to the store may take.", minimum=0
    )

    def __post_init__(self) -> None:
        """Check every value, and those that depend on each other."""
        super().__post_init__()
        if self.linger_ms is not None and self.linger_ms > self.delivery_timeout_ms:
            raise InvalidConfigError(
                f"linger.ms = {self.linger_ms} is not allowed: it must not exceed "
                f"delivery.timeout.ms = {self.delivery_timeout_ms}"
            )


@dataclass(frozen=True)
class ConsumerConfig(_ClientConfig):
    """A consumer's configuration: Kafka's names, with underscores."""

    what: ClassVar[str] = "consumer configuration"

    auto_commit_interval_ms: int = _option(
        "int", 5000, "How often enable.auto.commit commits.", minimum=0
    )
    auto_offset_reset: str = _option(
        "word",
        "latest",
        "Where to start without a committed offset, or with one that is gone; none: raise.",
        allowed=("earliest", "latest", "none"),
    )
    check_crcs: bool = _option("boolean", True, "Whether page checksums are verified on reading.")
    client_id: str = _option("string", "", "A name for logs and metrics.")
    enable_auto_commit: bool = _option(
        "boolean", True, "Whether poll() commits, from time to time, what earlier polls returned."
    )
    fetch_max_bytes: int = _option(
        "int", 52_428_800, "About how many bytes one poll may read.", minimum=0
    )
    group_id: str | None = _option(
        "name", None, "The group that shares the topics; None: all partitions, no group."
    )
    group_instance_id: str | None = _option(
        "name", None, "A name for a member that keeps its partitions over a restart."
    )
    heartbeat_interval_ms: int = _option(
        "int", 3000, "How often a member shows that it lives.", minimum=1
    )
    isolation_level: str = _option(
        "word",
        "read_committed",
        "Nothing uncommitted is ever visible in a topic, so "
        "read_uncommitted is accepted and has the same effect.",
        allowed=("read_committed", "read_uncommitted"),
    )
    max_poll_interval_ms: int = _option(
        "int", 300_000, "How long a member may go without poll() before it is out.", minimum=1
    )
    max_poll_records: int = _option(
        "int", 500, "How many records poll() returns at most.", minimum=1
    )
    metadata_max_age_ms: int = _option(
        "int",
        5000,
        "How often a member of a group looks for new topics and partitions. Kafka's five minutes "
        "would be wrong here: a look costs one small read a topic.",
        minimum=0,
    )
    partition_assignment_strategy: tuple[str, ...] = _option(
        "list",
        ("cooperative-sticky",),
        "How a group shares partitions, best first. Kafka's "
        "default puts range first; here a partition should move only when it must.",
        allowed=("range", "roundrobin", "sticky", "cooperative-sticky"),
    )
    session_timeout_ms: int = _option(
        "int", 45_000, "How long a member may be silent before it is out.", minimum=1
    )

    def __post_init__(self) -> None:
        """Check every value, and those that depend on each other."""
        super().__post_init__()
        if self.heartbeat_interval_ms >= self.session_timeout_ms:
            raise InvalidConfigError(
                f"heartbeat.interval.ms = {self.heartbeat_interval_ms} is not allowed: it must be "
                f"lower than session.timeout.ms = {self.session_timeout_ms}"
            )
