"""The options of the source: what is taken, and what each mistake is told."""

from __future__ import annotations

import logging

import pytest

from sparklog.errors import InvalidConfigError, InvalidInputError, OffsetOutOfRangeError
from sparklog.log.topic_reader import TopicReader
from sparklog.spark.options import SourceOptions, StoreOptions
from sparklog.spark.source_check import check_stream
from sparklog.spark.start_point import StartPoint, check_partitions_exist, parse_offsets
from tests.support.fakes import open_log

BASE = {"path": "data/log", "subscribe": "orders"}


def options(**given: str) -> SourceOptions:
    return SourceOptions.of({**BASE, **{name.lower(): value for name, value in given.items()}})


def test_defaults_are_those_of_the_kafka_source():
    found = options()
    assert found.topics == ("orders",) and found.starting is None and found.ending is None
    assert found.fail_on_data_loss and found.max_offsets is None
    assert found.columns == (
        "key",
        "value",
        "topic",
        "partition",
        "offset",
        "timestamp",
        "timestampType",
    )


def test_headers_come_when_asked_for():
    assert options(includeHeaders="true").columns[-1] == "headers"


def test_columns_keep_their_order_and_their_case():
    assert options(columns="VALUE, offset,timestamptype").columns == (
        "value",
        "offset",
        "timestampType",
    )


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"maxOffsetPerTrigger": "5"}, "did you mean maxOffsetsPerTrigger"),
        ({"maxOffsetsPerTrigger": "0"}, "maxOffsetsPerTrigger = '0'.*at least 1"),
        ({"maxOffsetsPerTrigger": "many"}, "maxOffsetsPerTrigger = 'many'"),
        ({"startingOffsets": "first"}, "startingOffsets = 'first'.*earliest, latest or JSON"),
        ({"startingOffsets": '{"orders":{"0":-3}}'}, "startingOffsets.*-3"),
        ({"startingOffsets": '{"orders":[0]}'}, "startingOffsets"),
        ({"startingOffsets": "{"}, "startingOffsets"),
        ({"endingOffsets": "earliest"}, "endingOffsets.*nothing ends at earliest"),
        ({"endingOffsets": '{"orders":{"0":-2}}'}, "endingOffsets.*nothing ends at earliest"),
        ({"startingTimestamp": "yesterday"}, "startingTimestamp"),
        ({"startingOffsetsByTimestamp": "1"}, "startingOffsetsByTimestamp"),
        ({"startingOffsetsByTimestampStrategy": "x"}, "error or latest"),
        ({"maxTriggerDelay": "5 parsecs"}, "maxTriggerDelay.*30s"),
        ({"maxBytesPerTrigger": "1 stone"}, "maxBytesPerTrigger.*64m"),
        ({"failOnDataLoss": "perhaps"}, "failOnDataLoss.*true or false"),
        ({"columns": "key,colour"}, "columns.*timestampType"),
        ({"minOffsetsPerTrigger": "9", "maxOffsetsPerTrigger": "8"}, "must not exceed"),
        ({"subscribePattern": "o.*"}, "exactly one of"),
        ({"storage_options": "[1]"}, "storage_options.*JSON object"),
    ],
)
def test_mistake_names_the_option_and_what_is_allowed(given, says):
    with pytest.raises(InvalidConfigError, match=says):
        options(**given)


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"path": "x"}, "exactly one of the options subscribe, subscribePattern and assign"),
        ({"subscribe": "orders"}, "option path is missing"),
        ({"path": "x", "assign": '{"orders":[]}'}, "must name partitions"),
        ({"path": "x", "assign": '{"orders":["0"]}'}, "assign"),
        ({"path": "x", "subscribepattern": "("}, "subscribePattern.*regular expression"),
        ({"path": "x", "subscribe": "a/b"}, "illegal character"),
        ({"path": "x", "subscribe": " , "}, "comma-separated"),
    ],
)
def test_what_to_read_must_be_said_once_and_well(given, says):
    with pytest.raises(InvalidInputError, match=says):
        SourceOptions.of(given)


def test_options_of_a_kafka_client_are_named_in_one_warning(caplog):
    with caplog.at_level(logging.WARNING, "sparklog.spark"):
        SourceOptions.of({**BASE, "kafka.bootstrap.servers": "a:1", "kafka.ssl.keystore": "k"})
    (record,) = caplog.records
    assert "kafka.bootstrap.servers, kafka.ssl.keystore" in record.getMessage()


@pytest.mark.parametrize("path", ["s3://bucket/log", "file:///data/log", "/data/log"])
def test_root_that_means_the_same_everywhere_stays(path):
    assert options(path=path).store.path == path


def test_relative_root_is_the_drivers(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    assert options(path="data/log").store.path == str(tmp_path / "data" / "log")


def test_units_of_time_and_size_are_understood():
    found = options(maxTriggerDelay="2m", maxBytesPerTrigger="64MB", minOffsetsPerTrigger="5")
    assert (found.max_trigger_delay_ms, found.max_bytes) == (120_000, 64 << 20)


def test_time_goes_before_times_and_times_before_offsets():
    found = options(
        startingOffsets="latest",
        startingOffsetsByTimestamp='{"orders":{"0":7}}',
        startingTimestamp="9",
    )
    assert found.starting == StartPoint.at_time(9, "error")


def test_stream_has_no_end():
    with pytest.raises(InvalidConfigError, match="availableNow"):
        check_stream(options(endingOffsets="latest"))


def test_secrets_of_the_store_are_not_shown():
    store = StoreOptions("s3://b/p", '{"secret": "canary"}')
    assert "canary" not in repr(store)
    assert "canary" not in repr(options(storage_options='{"secret": "canary"}'))


@pytest.fixture
def reader():
    store, clock, log = open_log()
    log.create_topic("orders", 2)
    with log.producer(background=False) as producer:
        for at in (10, 20, 30):
            producer.send("orders", b"v", partition=0, timestamp_ms=at)
    return TopicReader(store, clock, "orders")


def test_named_points_are_the_ends_of_each_partition(reader):
    assert StartPoint.named("earliest").resolve("startingOffsets", reader, 0) == 0
    assert StartPoint.named("latest").resolve("startingOffsets", reader, 0) == 3


def test_minus_two_and_minus_one_are_earliest_and_latest(reader):
    point = StartPoint.at_offsets({"orders": {0: -1, 1: -2}})
    assert [point.resolve("startingOffsets", reader, p) for p in (0, 1)] == [3, 0]


def test_offset_out_of_range_is_an_error_or_the_nearest(reader):
    point = StartPoint.at_offsets({"orders": {0: 9}})
    with pytest.raises(OffsetOutOfRangeError, match="holds 0 to 3"):
        point.resolve("startingOffsets", reader, 0)
    assert point.resolve("startingOffsets", reader, 0, strict=False) == 3


def test_time_is_the_first_record_at_or_after_it(reader):
    assert StartPoint.at_time(20, "error").resolve("startingTimestamp", reader, 0) == 1
    assert StartPoint.at_time(21, "error").resolve("startingTimestamp", reader, 0) == 2


def test_time_that_nothing_has_reached_is_an_error_or_the_end(reader):
    with pytest.raises(OffsetOutOfRangeError, match="Strategy=latest"):
        StartPoint.at_time(31, "error").resolve("startingTimestamp", reader, 0)
    assert StartPoint.at_time(31, "latest").resolve("startingTimestamp", reader, 0) == 3


def test_partition_that_the_option_leaves_out_is_named(reader):
    with pytest.raises(InvalidConfigError, match="says nothing of topic 'orders' partition 1"):
        StartPoint.at_offsets({"orders": {0: 1}}).resolve("startingOffsets", reader, 1)


def test_option_that_names_what_is_not_read_is_refused():
    point = StartPoint.at_offsets(parse_offsets('{"orders":{"5":1}}'))
    with pytest.raises(InvalidConfigError, match="partition 5 of topic 'orders', which has 2"):
        check_partitions_exist(point, "startingOffsets", {"orders": 2})
    with pytest.raises(InvalidConfigError, match="which is not read"):
        check_partitions_exist(point, "startingOffsets", {"bills": 2})
