"""Appends whose outcome stays unknown, and what `send` checks records against."""

from __future__ import annotations

import pytest

from sparklog import errors
from sparklog.clients.log import Log
from sparklog.clock import SystemIds
from sparklog.storage import PutOutcome
from sparklog.storage.memory_store import MemoryStore


class SteppingClock:
    """Time passes only by sleeping."""

    def __init__(self) -> None:
        self.now = 0.0

    def now_ms(self) -> int:
        return 1_700_000_000_000 + int(self.now * 1000)

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += max(seconds, 0.001)


class SilentStore(MemoryStore):
    """Keeps commits back while silent, as a network does; `land` lets the first one through."""

    silent = False
    held: tuple[str, bytes] | None = None

    def put_if_absent(self, key: str, data: bytes, *, durable: bool = True) -> PutOutcome:
        if not self.silent:
            return super().put_if_absent(key, data, durable=durable)
        self.held = self.held or (key, data)
        return PutOutcome.UNKNOWN

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
