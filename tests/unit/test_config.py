"""Configuration: Kafka's defaults, what is refused, and what a message says."""

from __future__ import annotations

import pickle
from collections.abc import Mapping
from dataclasses import FrozenInstanceError
from typing import Any

import numpy as np
import pytest

from sparklog.config import (
    CODECS,
    TOPIC_CONFIG,
    ConsumerConfig,
    ProducerConfig,
    TopicConfig,
    check_topic_config,
)
from sparklog.errors import InvalidConfigError

LONG_MAX = 2**63 - 1

# Kafka's LogConfig, and Delta's properties as the design sets them.
DEFAULTS = {
    "cleanup.policy": "delete",
    "compression.type": "lz4",
    "delete.retention.ms": "86400000",
    "delta.checkpointInterval": "100",
    "delta.deletedFileRetentionDuration": "interval 1 hour",
    "delta.logRetentionDuration": "interval 1 hour",
    "file.delete.delay.ms": "60000",
    "local.retention.bytes": "-2",
    "local.retention.ms": "-2",
    "max.compaction.lag.ms": str(LONG_MAX),
    "max.message.bytes": "1048588",
    "message.timestamp.after.max.ms": "3600000",
    "message.timestamp.before.max.ms": str(LONG_MAX),
    "message.timestamp.type": "CreateTime",
    "min.cleanable.dirty.ratio": "0.5",
    "min.compaction.lag.ms": "0",
    "min.insync.replicas": "1",
    "remote.storage.enable": "false",
    "remote.storage.uri": "",
    "retention.bytes": "-1",
    "retention.ms": "604800000",
    "segment.bytes": "1073741824",
    "segment.ms": "604800000",
    "sparklog.coalesce.min.files": "64",
}


def refusal(config: Mapping[Any, object]) -> str:
    with pytest.raises(InvalidConfigError) as caught:
        check_topic_config(config)
    return str(caught.value)


def test_topic_config_of_nothing_has_every_default() -> None:
    assert TopicConfig({}).all() == DEFAULTS
    assert TopicConfig().overrides == {}


def test_every_topic_key_says_what_it_is_for_and_takes_its_own_default() -> None:
    for key in TOPIC_CONFIG.values():
        assert key.doc.endswith(".") and key.expects
    assert check_topic_config({k: v.default for k, v in TOPIC_CONFIG.items()}) == DEFAULTS


@pytest.mark.parametrize(
    ("name", "value", "stored"),
    [
        ("retention.ms", 5, "5"),
        ("retention.ms", " -1 ", "-1"),
        ("retention.ms", "+7", "7"),
        ("retention.ms", np.int64(9), "9"),
        ("retention.ms", LONG_MAX, str(LONG_MAX)),
        ("max.message.bytes", 2**31 - 1, "2147483647"),
        ("remote.storage.enable", False, "false"),
        ("remote.storage.enable", "FALSE", "false"),
        ("min.cleanable.dirty.ratio", "0.25", "0.25"),
        ("min.cleanable.dirty.ratio", 1, "1.0"),
        ("cleanup.policy", "compact,delete", "compact,delete"),
        ("cleanup.policy", [" compact ", "compact"], "compact"),
        ("cleanup.policy", {"delete", "compact"}, "compact,delete"),
        ("compression.type", "uncompressed", "uncompressed"),
        ("compression.type", "producer", "producer"),
        ("message.timestamp.type", "LogAppendTime", "LogAppendTime"),
        ("remote.storage.uri", "s3://bucket/prefix/", "s3://bucket/prefix"),
        ("remote.storage.uri", "s3://bucket", "s3://bucket"),
        ("remote.storage.uri", "file:///cold", "file:///cold"),
        ("remote.storage.uri", "/cold/", "/cold"),
        ("sparklog.coalesce.min.files", 0, "0"),
        ("delta.checkpointInterval", 1, "1"),
        ("delta.logRetentionDuration", "interval 7 days", "interval 7 days"),
    ],
)
def test_check_of_allowed_value_stores_its_text(name: str, value: object, stored: str) -> None:
    assert check_topic_config({name: value}) == {name: stored}


@pytest.mark.parametrize(
    ("name", "value", "says"),
    [
        ("retention.ms", -2, "at least -1"),
        ("retention.ms", True, "integer"),
        ("retention.ms", 1.5, "integer"),
        ("retention.ms", None, "integer"),
        ("retention.ms", "1_000", "integer"),
        ("retention.ms", "٣", "integer"),
        ("retention.ms", LONG_MAX + 1, "integer"),
        ("max.message.bytes", 2**31, "integer"),
        ("max.message.bytes", "", "at least 0"),
        ("segment.bytes", 13, "at least 14"),
        ("min.insync.replicas", 0, "at least 1"),
        ("remote.storage.enable", 1, "true or false"),
        ("remote.storage.enable", "yes", "true or false"),
        ("min.cleanable.dirty.ratio", 1.01, "at least 0 and at most 1"),
        ("min.cleanable.dirty.ratio", "nan", "a number"),
        ("min.cleanable.dirty.ratio", True, "a number"),
        ("cleanup.policy", "delete,shred", "delete, compact"),
        ("cleanup.policy", [], "the list is empty"),
        ("cleanup.policy", "", "delete, compact"),
        ("cleanup.policy", 3, "delete, compact"),
        ("cleanup.policy", [1], "delete, compact"),
        ("compression.type", "brotli", "none, lz4, zstd, snappy, gzip, producer, uncompressed"),
        ("message.timestamp.type", "createtime", "CreateTime, LogAppendTime"),
        ("remote.storage.uri", "cold", "s3://"),
        ("remote.storage.uri", "http://host/x", "s3://"),
        ("remote.storage.uri", "s3://", "s3://"),
        ("remote.storage.uri", "//host/x", "s3://"),
        ("remote.storage.uri", "s3://bucket/x?key=secret", "s3://"),
        ("remote.storage.uri", "s3://bucket/../other", "relative"),
        ("remote.storage.uri", 7, "type int"),
        ("sparklog.coalesce.min.files", 1, "0 turns coalescing off"),
        ("delta.checkpointInterval", 0, "at least 1"),
        ("delta.logRetentionDuration", "7 days", "interval 7 days"),
        ("delta.logRetentionDuration", "interval 1 month", "interval 7 days"),
        ("delta.logRetentionDuration", "interval 1 day 2 hours", "interval 7 days"),
        ("delta.logRetentionDuration", "interval 0 seconds", "at least 1000 ms"),
        ("delta.logRetentionDuration", 5, "type int"),
    ],
)
def test_check_of_refused_value_names_key_value_and_what_is_allowed(
    name: str, value: object, says: str
) -> None:
    message = refusal({name: value})
    assert message.startswith(f"{name} = {value!r} is not allowed")
    assert says in message


def test_check_of_misspelt_key_suggests_the_right_one() -> None:
    assert "did you mean retention.ms?" in refusal({"retention.mss": 1})
    assert "did you mean delta.checkpointInterval?" in refusal({"delta.checkpointinterval": 1})


def test_check_of_strange_key_lists_what_is_known() -> None:
    assert "known are cleanup.policy, compression.type" in refusal({"zzzz": 1})
    assert "5 does not exist" in refusal({5: 1})


def test_check_of_key_that_only_a_broker_has_says_why() -> None:
    assert "there are no leaders" in refusal({"unclean.leader.election.enable": True})


def test_check_of_long_value_shortens_it() -> None:
    assert len(refusal({"compression.type": "x" * 10_000})) < 300


def test_check_of_address_with_password_does_not_repeat_it() -> None:
    message = refusal({"remote.storage.uri": "s3://user:hunter2@bucket/x"})
    assert "hunter2" not in message and "credentials" in message


@pytest.mark.parametrize(
    ("config", "says"),
    [
        ({"min.compaction.lag.ms": 10, "max.compaction.lag.ms": 9}, "max.compaction.lag.ms = 9"),
        ({"remote.storage.enable": True}, "remote.storage.uri must be set"),
        ({"retention.ms": 10, "local.retention.ms": 11}, "retention.ms = 10"),
        ({"retention.ms": 10, "local.retention.ms": -1}, "retention.ms = 10"),
        ({"retention.bytes": 10, "local.retention.bytes": 11}, "retention.bytes = 10"),
    ],
)
def test_check_of_keys_that_contradict_each_other_is_refused(
    config: dict[str, object], says: str
) -> None:
    assert says in refusal(config)


def test_topic_config_of_stored_values_gives_their_types() -> None:
    config = TopicConfig(
        check_topic_config(
            {
                "cleanup.policy": "compact,delete",
                "max.message.bytes": 10,
                "message.timestamp.type": "LogAppendTime",
                "min.cleanable.dirty.ratio": 0.1,
                "remote.storage.enable": True,
                "remote.storage.uri": "s3://bucket/cold",
                "delta.checkpointInterval": 7,
            }
        )
    )
    assert config.cleanup_policy == frozenset({"compact", "delete"})
    assert config.max_message_bytes == 10
    assert config.timestamp_type == "LogAppendTime"
    assert config.min_cleanable_dirty_ratio == 0.1
    assert config.remote_storage_enable is True
    assert config.remote_storage_uri == "s3://bucket/cold"
    assert config.checkpoint_interval == 7
    assert config.segment_bytes == 1_073_741_824


@pytest.mark.parametrize(
    ("text", "ms"),
    [
        ("interval 250 milliseconds", 250),
        ("interval 1 second", 1000),
        ("interval 2 minutes", 120_000),
        ("INTERVAL 1 Hour", 3_600_000),
        ("interval 7 days", 604_800_000),
        ("interval 1 week", 604_800_000),
    ],
)
def test_topic_config_of_interval_gives_milliseconds(text: str, ms: int) -> None:
    config = TopicConfig({"delta.deletedFileRetentionDuration": text})
    assert config.deleted_file_retention_ms == ms
    assert config.log_retention_ms == 3_600_000


def test_topic_config_of_local_retention_follows_retention_unless_set() -> None:
    assert TopicConfig({"retention.ms": "5", "retention.bytes": "6"}).local_retention_ms == 5
    assert TopicConfig({"retention.ms": "5", "retention.bytes": "6"}).local_retention_bytes == 6
    assert TopicConfig({"local.retention.ms": "3"}).local_retention_ms == 3


@pytest.mark.parametrize(
    ("topic", "producer", "codec"),
    [
        (None, None, "lz4"),
        (None, "zstd", "zstd"),
        ("producer", "zstd", "zstd"),
        ("producer", None, "lz4"),
        ("gzip", "zstd", "gzip"),
        ("lz4", "zstd", "lz4"),
        ("uncompressed", "zstd", "none"),
    ],
)
def test_compression_of_topic_and_producer_is_kafkas_choice(
    topic: str | None, producer: str | None, codec: str
) -> None:
    config = TopicConfig({} if topic is None else {"compression.type": topic})
    assert config.compression_for(producer) == codec
    assert config.compression in CODECS


def test_topic_config_with_keys_of_a_newer_version_keeps_them() -> None:
    stored = {"from.the.future": "1", "retention.ms": "5"}
    config = TopicConfig(stored)
    assert config.retention_ms == 5
    assert config.overrides == stored
    assert config.all()["from.the.future"] == "1"


def test_topic_config_with_value_of_a_newer_version_fails_only_where_it_is_needed() -> None:
    config = TopicConfig({"compression.type": "brotli"})
    assert config.retention_ms == 604_800_000
    assert config.all()["compression.type"] == "brotli"
    with pytest.raises(InvalidConfigError, match="brotli"):
        _ = config.compression


def test_topic_config_is_frozen_copied_and_picklable() -> None:
    stored = {"retention.ms": "5"}
    config = TopicConfig(stored)
    stored["retention.ms"] = "6"
    assert config.retention_ms == 5
    assert pickle.loads(pickle.dumps(config)) == config
    with pytest.raises(FrozenInstanceError):
        config.overrides = {}  # type: ignore[misc]


def test_producer_config_of_nothing_has_the_documented_defaults() -> None:
    config = ProducerConfig.of()
    assert (config.acks, config.linger_ms, config.batch_size) == ("all", None, 1_048_576)
    assert (config.buffer_memory, config.max_block_ms) == (67_108_864, 60_000)
    assert (config.delivery_timeout_ms, config.request_timeout_ms) == (120_000, 30_000)
    assert config.compression_type is config.producer_id is config.partitioner is None
    assert (config.max_request_size, config.client_id) == (None, "")


def test_consumer_config_of_nothing_has_the_documented_defaults() -> None:
    config = ConsumerConfig.of()
    assert (config.group_id, config.auto_offset_reset) == (None, "latest")
    assert (config.max_poll_records, config.fetch_max_bytes) == (500, 52_428_800)
    assert (config.check_crcs, config.isolation_level) == (True, "read_committed")
    assert (config.enable_auto_commit, config.auto_commit_interval_ms) == (True, 5000)
    assert (config.session_timeout_ms, config.heartbeat_interval_ms) == (45_000, 3000)
    assert (config.max_poll_interval_ms, config.group_instance_id) == (300_000, None)
    assert config.partition_assignment_strategy == ("cooperative-sticky",)


@pytest.mark.parametrize("kind", [ProducerConfig, ConsumerConfig])
def test_client_keys_carry_kafkas_spelling_and_a_doc(
    kind: type[ProducerConfig] | type[ConsumerConfig],
) -> None:
    for field, key in kind.keys().items():
        assert key.name == field.replace("_", ".") and key.doc.endswith(".") and key.expects


@pytest.mark.parametrize(
    ("given_as", "kept"),
    [("all", "all"), (-1, "all"), ("-1", "all"), (1, "1"), ("1", "1"), (0, "0"), ("0", "0")],
)
def test_producer_acks_of_every_spelling_is_one_word(given_as: object, kept: str) -> None:
    assert ProducerConfig.of(acks=given_as).acks == kept


def test_producer_config_of_both_spellings_is_the_same() -> None:
    dotted = {"linger.ms": "5", "batch.size": "10", "compression.type": "uncompressed"}
    underscored = ProducerConfig.of(linger_ms=5, batch_size=10, compression_type="none")
    assert ProducerConfig.from_dict(dotted) == underscored
    assert ProducerConfig.from_dict({"linger_ms": 5.0}).linger_ms == 5.0


@pytest.mark.parametrize(
    ("config", "says"),
    [
        ({"linger_ms": -1}, "linger.ms = -1 is not allowed: it must be a number of at least 0"),
        ({"linger_ms": float("inf")}, "linger.ms = inf"),
        ({"linger_ms": 120_001}, "delivery.timeout.ms = 120000"),
        ({"acks": 2}, "one of all, 1, 0, -1"),
        ({"acks": True}, "acks = True"),
        ({"batch_size": None}, "batch.size = None"),
        ({"buffer_memory": 0}, "at least 1"),
        ({"compression_type": "producer"}, "none, lz4, zstd, snappy, gzip, uncompressed, or None"),
        ({"partitioner": 3}, "a function, or None"),
        ({"producer_id": "a/b"}, "illegal character"),
        ({"producer_id": "_mine"}, "reserved"),
        ({"client_id": 3}, "a string"),
        ({"linger.ms": 1, "linger_ms": 1}, "linger.ms is given twice"),
        ({"lingr_ms": 1}, "producer configuration 'lingr.ms' does not exist; did you mean linger"),
        ({"enable_idempotence": True}, "always on"),
        ({"bootstrap.servers": "x"}, "no brokers"),
    ],
)
def test_producer_config_of_refused_value_says_why(config: dict[str, object], says: str) -> None:
    with pytest.raises(InvalidConfigError) as caught:
        ProducerConfig.from_dict(config)
    assert says in str(caught.value)


@pytest.mark.parametrize(
    ("config", "says"),
    [
        ({"auto_offset_reset": "newest"}, "one of earliest, latest, none"),
        ({"max_poll_records": 0}, "at least 1"),
        ({"isolation.level": "serializable"}, "read_committed, read_uncommitted"),
        ({"check_crcs": "maybe"}, "true or false"),
        ({"group_id": ""}, "empty"),
        ({"heartbeat_interval_ms": 45_000}, "session.timeout.ms = 45000"),
        ({"partition_assignment_strategy": "fair"}, "cooperative-sticky"),
        ({"groupid": "g"}, "did you mean group.id?"),
    ],
)
def test_consumer_config_of_refused_value_says_why(config: dict[str, object], says: str) -> None:
    with pytest.raises(InvalidConfigError) as caught:
        ConsumerConfig.from_dict(config)
    assert says in str(caught.value)


def test_consumer_config_of_accepted_values_keeps_their_types() -> None:
    config = ConsumerConfig.from_dict(
        {
            "group.id": "billing",
            "isolation.level": "read_uncommitted",
            "check.crcs": "false",
            "enable_auto_commit": False,
            "partition.assignment.strategy": "range, sticky",
        }
    )
    assert (config.group_id, config.isolation_level) == ("billing", "read_uncommitted")
    assert config.check_crcs is False and config.enable_auto_commit is False
    assert config.partition_assignment_strategy == ("range", "sticky")


def test_client_config_made_directly_is_checked_and_frozen() -> None:
    with pytest.raises(InvalidConfigError, match=r"batch\.size"):
        ProducerConfig(batch_size=-1)
    with pytest.raises(FrozenInstanceError):
        ProducerConfig().acks = "0"  # type: ignore[misc]
    assert pickle.loads(pickle.dumps(ConsumerConfig(group_id="g"))) == ConsumerConfig(group_id="g")
