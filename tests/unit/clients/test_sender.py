"""Appends whose outcome stays unknown, and what `send` checks records against."""

from __future__ import annotations

import functools
from collections.abc import Callable

import pytest

from sparklog import errors
from sparklog.clients.log import Log
from sparklog.clients.producer import Producer
from sparklog.clients.sender import RETRY_SECONDS
from sparklog.clock import SystemIds
from sparklog.storage import PutOutcome
from sparklog.storage.memory_store import MemoryStore


class SteppingClock:
    """Time passes only by sleeping."""

    before_retry: Callable[[], None] | None = None
    """Called once, when the sender waits before it tries an append anew."""

    def __init__(self) -> None:
        self.now = 0.0

    def now_ms(self) -> int:
        return 1_700_000_000_000 + int(self.now * 1000)

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += max(seconds, 0.001)
        if seconds >= RETRY_SECONDS / 2 and self.before_retry is not None:
            call, self.before_retry = self.before_retry, None
            call()


class SilentStore(MemoryStore):
    """Keeps commits back while silent, as a network does; `land` lets the first one through."""

    silent = False
    held: tuple[str, bytes] | None = None

    def put_if_absent(self, key: str, data: bytes, *, durable: bool = True) -> PutOutcome:
        if not self.silent:
            return super().put_if_absent(key, data, durable=durable)
        self.held = self.held or (key, data)
        self.puts.append((key, data))
        return PutOutcome.UNKNOWN

    @functools.cached_property
    def puts(self) -> list[tuple[str, bytes]]:
        """All that was held back."""
        return []

    def land(self) -> None:
        assert self.held is not None
        assert super().put_if_absent(*self.held) is PutOutcome.CREATED
        self.held = None


def _open(config: dict[str, object] | None = None) -> tuple[SilentStore, Log]:
    store = SilentStore()
    log = Log(store, SteppingClock(), SystemIds())
    log.create_topic("t", config=config)
    return store, log


def _values(log: Log) -> list[bytes | None]:
    return [r.value for r in log.consumer("t", auto_offset_reset="earliest").poll()]


@pytest.mark.parametrize("producer_id", [None, "named"])
@pytest.mark.parametrize("lands", [True, False])
def test_send_after_one_given_up_in_doubt_is_never_taken_for_it(
    producer_id: str | None, lands: bool
) -> None:
    store, log = _open()
    producer = log.producer(
        background=False, producer_id=producer_id, delivery_timeout_ms=500, linger_ms=0
    )
    if producer_id:
        producer.committed("t")
    store.silent = True
    with pytest.raises(errors.OutcomeUnknownError):
        producer.send("t", value=b"in doubt").result()
    store.silent = False
    if lands:
        store.land()
    place = producer.send("t", value=b"after").result()
    assert place.offset == (1 if lands else 0)
    assert _values(log) == ([b"in doubt", b"after"] if lands else [b"after"])
    if not lands:
        with pytest.raises(AssertionError):
            store.land()  # the version is taken: the old attempt is dead for ever


def _named(log: Log, **config: object) -> Producer:
    return log.producer(
        background=False, producer_id="p", delivery_timeout_ms=500, linger_ms=0, **config
    )


def test_fenced_producer_stays_fenced_in_all_its_topics_and_claims_nothing() -> None:
    _, log = _open()
    log.create_topic("other")
    old, new = _named(log), _named(log)
    for topic in ("t", "other"):
        old.send(topic, value=b"0").result()
    new.send("t", value=b"1").result()
    versions = [log.topic(topic).describe().version for topic in ("t", "other")]
    for topic in ("t", "t", "other"):
        with pytest.raises(errors.ProducerFencedError, match="close this one"):
            old.send(topic, value=b"zombie").result()
    with pytest.raises(errors.ProducerFencedError):
        old.committed("t")
    assert versions == [log.topic(topic).describe().version for topic in ("t", "other")]
    new.send("t", value=b"2").result()
    assert _values(log) == [b"0", b"1", b"2"]


@pytest.mark.parametrize("lands", [True, False])
def test_producer_in_doubt_whose_successor_has_started_is_fenced(lands: bool) -> None:
    store, log = _open()
    old, new = _named(log), _named(log)
    old.send("t", value=b"0").result()
    store.silent = True
    with pytest.raises(errors.OutcomeUnknownError):
        old.send("t", value=b"in doubt").result()
    store.silent = False
    if lands:
        store.land()
    new.send("t", value=b"1").result()
    for _ in range(2):
        with pytest.raises(errors.ProducerFencedError):
            old.send("t", value=b"zombie").result()
    new.send("t", value=b"2").result()
    assert _values(log) == [b"0", *([b"in doubt"] if lands else []), b"1", b"2"]


@pytest.mark.parametrize("succeeded", [True, False])
@pytest.mark.parametrize("slept", [0, 3600], ids=["at once", "after a read"])
def test_claim_that_landed_after_it_was_given_up_fences_its_own_producer_never(
    succeeded: bool, slept: int
) -> None:
    store, clock = SilentStore(), SteppingClock()
    log = Log(store, clock, SystemIds())
    log.create_topic("t")
    producer = _named(log)
    producer.send("t", value=b"0").result()
    store.silent = True
    for value in (b"in doubt", b"its claim is in doubt too"):
        with pytest.raises(errors.OutcomeUnknownError):
            producer.send("t", value=value).result()
    store.silent = False
    key, claim = store.puts[-1]
    assert b'"CLAIM"' in claim
    assert store.put_if_absent(key, claim) is PutOutcome.CREATED
    clock.now += slept
    if succeeded:
        _named(log).send("t", value=b"1").result()
        with pytest.raises(errors.ProducerFencedError):
            producer.send("t", value=b"zombie").result()
    else:
        producer.send("t", value=b"1").result()
    assert _values(log) == [b"0", b"1"]


def test_append_that_landed_late_is_acknowledged_though_a_successor_fenced_its_producer() -> None:
    store, clock = SilentStore(), SteppingClock()
    log = Log(store, clock, SystemIds())
    log.create_topic("t")
    old, new = _named(log, request_timeout_ms=1), _named(log)
    old.send("t", value=b"0").result()
    future = old.send("t", value=b"late")
    store.silent = True

    def succeed() -> None:
        store.silent = False
        store.land()
        new.send("t", value=b"1").result()
        clock.now += 3600  # so long that the producer reads before it tries again

    clock.before_retry = succeed
    assert future.result().offset == 1
    assert clock.before_retry is None
    assert _values(log) == [b"0", b"late", b"1"]
    with pytest.raises(errors.ProducerFencedError):
        old.send("t", value=b"zombie").result()


def test_producer_of_a_replaced_topic_goes_on_in_its_other_topics() -> None:
    _, log = _open()
    log.create_topic("other")
    producer = _named(log)
    for topic in ("t", "other"):
        producer.send(topic, value=b"0").result()
    log.delete_topic("t")
    log.create_topic("t")
    for _ in range(2):
        with pytest.raises(errors.TopicReplacedError):
            producer.send("t", value=b"1").result()
    assert producer.send("other", value=b"1").result().offset == 1
    assert _values(log) == []


def test_full_disk_is_tried_until_the_timeout_and_then_named_as_such(caplog) -> None:
    store, log = _open()
    producer = _named(log)
    producer.send("t", value=b"0").result()
    store.faults.rates = type(store.faults.rates)(full=1.0)
    with pytest.raises(errors.StoreFullError, match="'t': not written within delivery.timeout.ms"):
        producer.send("t", value=b"1").result()
    assert [record.message.count("trying again") for record in caplog.records] == [1]
    store.faults.rates = type(store.faults.rates)()
    producer.send("t", value=b"2").result()
    assert _values(log) == [b"0", b"2"]


def test_producer_id_that_does_not_fit_into_a_file_name_is_refused() -> None:
    _, log = _open()
    with pytest.raises(errors.InvalidConfigError, match="160"):
        log.producer(background=False, producer_id="x" * 161)
    producer = log.producer(background=False, producer_id="x" * 160)
    producer.send("t", value=b"fits").result()
    assert _values(log) == [b"fits"]


@pytest.mark.parametrize(("stamp", "word"), [(1_700_003_700_000, "after"), (10, "before")])
def test_timestamp_too_far_from_now_is_refused(stamp: int, word: str) -> None:
    _, log = _open({"message.timestamp.before.max.ms": 86_400_000})
    producer = log.producer(background=False)
    with pytest.raises(errors.InvalidRecordError, match=f"message.timestamp.{word}.max.ms"):
        producer.send("t", value=b"x", timestamp_ms=stamp)
    assert log.end_offsets("t") == {0: 0}


def test_timestamp_far_from_now_is_replaced_under_log_append_time() -> None:
    _, log = _open({"message.timestamp.type": "LogAppendTime"})
    producer = log.producer(background=False)
    assert producer.send("t", value=b"x", timestamp_ms=10).result().timestamp_ms > 10


def test_keyless_record_is_refused_once_the_topic_has_become_compacted() -> None:
    _, log = _open()
    producer = log.producer(background=False)
    producer.send("t", value=b"1").result()
    log.topic("t").alter_config({"cleanup.policy": "compact"})
    producer.send("t", key=b"k", value=b"2").result()
    producer.send("t", key=b"k", value=b"3").result()
    with pytest.raises(errors.InvalidRecordError, match="compacted"):
        producer.send("t", value=b"4")
