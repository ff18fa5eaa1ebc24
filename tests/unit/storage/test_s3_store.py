"""What S3Store makes of a server's answers and silences, and how it travels between processes."""

from __future__ import annotations

import os
import pickle
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sparklog.clock import SystemIds
from sparklog.errors import (
    InvalidInputError,
    ObjectNotFoundError,
    SparklogError,
    StoreError,
    StoreFullError,
    StorePermissionError,
    StoreUnavailableError,
    StoreUnsuitableError,
)
from sparklog.storage.s3_store import ATTEMPTS, PAUSE_SECONDS_MAX, S3Store
from sparklog.storage.store import PutOutcome, probe_put_if_absent
from tests.support.made_up_s3 import Answer, MadeUpS3, error_answer, running_made_up_s3

SECRET = "a-very-secret-secret"
PRECONDITION = "PreconditionFailed"
SLOW_DOWN = error_answer(503, "SlowDown")
CONFLICT = error_answer(409, "ConditionalRequestConflict")
CUT = Answer(cut=True)


class NotedClock:
    """A clock that notes its pauses and takes none."""

    def __init__(self) -> None:
        self.pauses: list[float] = []

    def now_ms(self) -> int:
        return 0

    def monotonic(self) -> float:
        return sum(self.pauses)

    def sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)


@pytest.fixture
def server() -> Iterator[MadeUpS3]:
    with running_made_up_s3() as running:
        yield running


@pytest.fixture
def store(server: MadeUpS3) -> Iterator[S3Store]:
    opened = store_at(server.endpoint_url)
    yield opened
    opened.close()


def store_at(endpoint_url: str, **options: Any) -> S3Store:
    all_options: dict[str, Any] = {
        "key": "some-key",
        "secret": SECRET,
        "endpoint_url": endpoint_url,
        "client_kwargs": {"region_name": "us-east-1"},
        **options,
    }
    return S3Store("s3://bucket/log", all_options, clock=NotedClock())


def pauses_of(store: S3Store) -> list[float]:
    clock = store._clock
    assert isinstance(clock, NotedClock)
    return clock.pauses


def page(*keys: str, token: str = "") -> Answer:
    entries = "".join(
        f"<Contents><Key>log/{key}</Key><Size>1</Size>"
        "<LastModified>2025-11-18T12:00:00.000Z</LastModified></Contents>"
        for key in keys
    )
    rest = f"<NextContinuationToken>{token}</NextContinuationToken>" if token else ""
    truncated = "true" if token else "false"
    body = (
        "<ListBucketResult><Name>bucket</Name>"
        f"<IsTruncated>{truncated}</IsTruncated>{entries}{rest}</ListBucketResult>"
    )
    return Answer(200, body.encode())


# Conditional puts


def test_put_if_absent_sends_the_condition_and_put_does_not(
    server: MadeUpS3, store: S3Store
) -> None:
    assert store.put_if_absent("key", b"data") is PutOutcome.CREATED
    store.put("key", b"data")
    (_, path, conditional), (_, _, plain) = server.requests
    assert path == "/bucket/log/key"
    assert conditional["If-None-Match"] == "*"
    assert "If-None-Match" not in plain
    assert server.objects == {"/bucket/log/key": b"data"}


@pytest.mark.parametrize(
    "answer",
    [
        error_answer(412, PRECONDITION, "<Condition>If-None-Match</Condition>"),
        error_answer(412, PRECONDITION),
        error_answer(412, "SomethingElse"),
        Answer(412),
    ],
    ids=["with condition", "without condition", "unknown code", "no body"],
)
def test_put_if_absent_answered_412_exists(
    server: MadeUpS3, store: S3Store, answer: Answer
) -> None:
    server.answers.append(answer)
    assert store.put_if_absent("key", b"data") is PutOutcome.EXISTS
    assert server.methods == ["PUT"]


def test_put_if_absent_answered_409_tries_again(server: MadeUpS3, store: S3Store) -> None:
    server.answers.extend([CONFLICT, CONFLICT])
    assert store.put_if_absent("key", b"data") is PutOutcome.CREATED
    assert server.methods == ["PUT"] * 3
    assert len(pauses_of(store)) == 2


def test_put_if_absent_answered_409_then_412_exists(server: MadeUpS3, store: S3Store) -> None:
    server.answers.extend([CONFLICT, error_answer(412, PRECONDITION)])
    assert store.put_if_absent("key", b"data") is PutOutcome.EXISTS


def test_put_if_absent_answered_409_each_time_is_unknown(server: MadeUpS3, store: S3Store) -> None:
    server.answers.extend([CONFLICT] * 20)
    assert store.put_if_absent("key", b"data") is PutOutcome.UNKNOWN
    assert server.methods == ["PUT"] * ATTEMPTS


@pytest.mark.parametrize(
    "answer",
    [SLOW_DOWN, error_answer(500, "InternalError"), error_answer(400, "RequestTimeout"),
     error_answer(404, "NoSuchUpload"), Answer(502, b"<html>"), Answer(200, b"", short_by=9)],
    ids=["503", "500", "timeout", "404", "502", "cut answer"],
)  # fmt: skip
def test_put_if_absent_with_unclear_answer_is_unknown_after_one_put(
    server: MadeUpS3, store: S3Store, answer: Answer
) -> None:
    server.answers.extend([answer] * 20)
    assert store.put_if_absent("key", b"data") is PutOutcome.UNKNOWN
    assert server.methods == ["PUT"]


def test_put_if_absent_with_options_that_ask_for_retries_still_puts_once(server: MadeUpS3) -> None:
    config = {"retries": {"total_max_attempts": 7}, "connect_timeout": 3}
    store = store_at(server.endpoint_url, config_kwargs=config)
    server.answers.extend([SLOW_DOWN] * 20)
    assert store.put_if_absent("key", b"data") is PutOutcome.UNKNOWN
    assert server.methods == ["PUT"]
    assert store._filesystem().config_kwargs["connect_timeout"] == 3
    store.close()


def test_put_if_absent_with_every_connection_cut_is_unknown(
    server: MadeUpS3, store: S3Store
) -> None:
    server.answers.extend([Answer(cut=True, store=True)] * 20)
    assert store.put_if_absent("key", b"data") is PutOutcome.UNKNOWN
    assert server.objects == {"/bucket/log/key": b"data"}


def test_put_if_absent_cut_once_may_meet_its_own_object(server: MadeUpS3, store: S3Store) -> None:
    # The HTTP client puts again by itself, and the server refuses that one: hence "it may be an
    # earlier attempt of this very call".
    server.answers.extend([Answer(cut=True, store=True), error_answer(412, PRECONDITION)])
    assert store.put_if_absent("key", b"data") is PutOutcome.EXISTS
    assert server.methods == ["PUT"] * 2
    assert server.objects == {"/bucket/log/key": b"data"}


def test_put_if_absent_to_nobody_is_unknown() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        store = store_at(f"http://127.0.0.1:{unused.getsockname()[1]}")
        assert store.put_if_absent("key", b"data") is PutOutcome.UNKNOWN
    store.close()


@pytest.mark.parametrize(
    ("answer", "expected", "said"),
    [
        (error_answer(403, "AccessDenied"), StorePermissionError, "s3://bucket/log/key.*polic"),
        (error_answer(400, "ExpiredToken"), StorePermissionError, "credentials"),
        (error_answer(403, "NewCode"), StorePermissionError, "credentials"),
        (error_answer(404, "NoSuchBucket"), StoreError, "bucket 'bucket'"),
        (error_answer(501, "NotImplemented"), StoreUnsuitableError, "lacks"),
    ],
)
def test_put_if_absent_surely_refused_raises(
    server: MadeUpS3, store: S3Store, answer: Answer, expected: type[SparklogError], said: str
) -> None:
    server.answers.append(answer)
    with pytest.raises(expected, match=said) as caught:
        store.put_if_absent("key", b"data")
    assert SECRET not in str(caught.value)
    assert server.methods == ["PUT"]


def test_call_without_credentials_raises_permission(
    server: MadeUpS3, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))
    store = store_at(server.endpoint_url, key=None, secret=None)
    for call in (store.get, lambda key: store.put_if_absent(key, b"")):
        with pytest.raises(StorePermissionError, match="credentials"):
            call("key")
    assert server.requests == []
    store.close()


def test_probe_on_server_that_ignores_conditions_refuses_it(
    server: MadeUpS3, store: S3Store
) -> None:
    with pytest.raises(StoreUnsuitableError, match=r"s3://bucket/log overwrites"):
        probe_put_if_absent(store, SystemIds())
    assert server.objects == {}


def test_probe_on_store_that_overwrites_but_says_exists_refuses_it(
    server: MadeUpS3, store: S3Store
) -> None:
    server.answers.extend([Answer(store=True), error_answer(412, PRECONDITION, store=True)])
    with pytest.raises(StoreUnsuitableError):
        probe_put_if_absent(store, SystemIds())


def test_probe_on_failing_server_does_not_call_it_unsuitable(
    server: MadeUpS3, store: S3Store
) -> None:
    server.answers.extend([SLOW_DOWN, SLOW_DOWN])
    probe_put_if_absent(store, SystemIds())


# Calls that may be made again


@pytest.mark.parametrize(
    "failures",
    [[SLOW_DOWN] * 3, [error_answer(500, "InternalError")] * 4, [error_answer(429, "Busy")],
     [CUT] * 4, [Answer(200, b"da", short_by=2)] * 3, [error_answer(400, "RequestTimeout")]],
    ids=["503", "500", "429", "cut", "short body", "timeout"],
)  # fmt: skip
def test_get_after_passing_failures_gives_the_bytes(
    server: MadeUpS3, store: S3Store, failures: list[Answer]
) -> None:
    server.objects["/bucket/log/key"] = b"data"
    server.answers.extend(failures)
    assert store.get("key") == b"data"


def test_get_that_keeps_failing_raises_unavailable_after_growing_pauses(
    server: MadeUpS3, store: S3Store
) -> None:
    server.answers.extend([SLOW_DOWN] * 50)
    with pytest.raises(StoreUnavailableError, match=f"s3://bucket/log/key, tried {ATTEMPTS} times"):
        store.get("key")
    assert server.methods == ["GET"] * ATTEMPTS
    pauses = pauses_of(store)
    assert len(pauses) == ATTEMPTS - 1
    assert all(0 < pause <= PAUSE_SECONDS_MAX for pause in pauses)
    assert pauses[-1] > pauses[0]


def test_put_and_delete_and_head_after_passing_failures_succeed(
    server: MadeUpS3, store: S3Store
) -> None:
    for call in (lambda: store.put("key", b"data"), lambda: store.head("key")):
        server.answers.extend([Answer(503), Answer(500)])
        call()
    assert server.objects == {"/bucket/log/key": b"data"}
    server.answers.extend([SLOW_DOWN])
    store.delete("key")
    assert server.objects == {}
    assert server.methods == ["PUT"] * 3 + ["HEAD"] * 3 + ["DELETE"] * 2


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (error_answer(404, "NoSuchKey"), ObjectNotFoundError),
        (error_answer(404, "NoSuchBucket"), StoreError),
        (error_answer(403, "AccessDenied"), StorePermissionError),
        (error_answer(400, "InvalidRequest"), StoreError),
        (error_answer(507, "StorageFull"), StoreFullError),
    ],
)
def test_get_with_lasting_failure_raises_at_once(
    server: MadeUpS3, store: S3Store, answer: Answer, expected: type[SparklogError]
) -> None:
    server.answers.append(answer)
    with pytest.raises(StoreError) as caught:
        store.get("key")
    assert type(caught.value) is expected
    assert server.methods == ["GET"]


def test_get_asks_for_the_range_it_needs(server: MadeUpS3, store: S3Store) -> None:
    server.answers.extend([Answer(206, b"x")] * 3)
    for limits in [(2, 5), (7, None), (0, 4)]:
        store.get("key", *limits)
    ranges = [headers["Range"] for _, _, headers in server.requests]
    assert ranges == ["bytes=2-4", "bytes=7-", "bytes=0-3"]
    with pytest.raises(InvalidInputError, match="not a range"):
        store.get("key", 5, 4)


# Listings


def test_list_from_asks_for_a_page_when_it_is_needed(server: MadeUpS3, store: S3Store) -> None:
    server.answers.extend([page("f/1", "f/2", token="more"), page("f/3")])
    listing = store.list_from("f/", "f/0")
    assert [next(listing).key, next(listing).key] == ["f/1", "f/2"]
    assert len(server.requests) == 1
    assert [info.key for info in listing] == ["f/3"]
    first, second = (path for _, path, _ in server.requests)
    assert "start-after=log%2Ff%2F0" in first
    assert "continuation-token=more" in second


def test_list_from_of_server_without_order_is_refused(server: MadeUpS3, store: S3Store) -> None:
    server.answers.append(page("f/2", "f/1"))
    with pytest.raises(StoreUnsuitableError, match=r"'f/1' after 'f/2'"):
        list(store.list_from("f/"))


def test_list_from_of_server_that_ignores_start_after_is_refused(
    server: MadeUpS3, store: S3Store
) -> None:
    server.answers.append(page("f/1", "f/2"))
    with pytest.raises(StoreUnsuitableError):
        list(store.list_from("f/", "f/1"))


def test_list_from_leaves_out_the_folder_marker(server: MadeUpS3, store: S3Store) -> None:
    server.answers.append(page("f/", "f/1"))
    assert [info.key for info in store.list_from("f/")] == ["f/1"]


def test_list_folders_orders_names_without_their_slash(server: MadeUpS3, store: S3Store) -> None:
    prefixes = "".join(
        f"<CommonPrefixes><Prefix>log/f/{name}/</Prefix></CommonPrefixes>" for name in ("a-b", "a")
    )
    server.answers.append(Answer(200, f"<ListBucketResult>{prefixes}</ListBucketResult>".encode()))
    assert list(store.list_folders("f/")) == ["a", "a-b"]


# Secrets, processes, options


def test_secrets_are_in_no_text_of_the_store(store: S3Store) -> None:
    assert repr(store) == "S3Store('s3://bucket/log')"
    assert SECRET not in f"{store} {store.uri} {store!r}"


def test_pickled_store_works_and_carries_no_connection(server: MadeUpS3, store: S3Store) -> None:
    store.put("key", b"data")
    copy = pickle.loads(pickle.dumps(store))
    assert copy._filesystems == {}
    assert copy.uri == store.uri
    assert copy.get("key") == b"data"
    copy.close()


@pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork:DeprecationWarning")
def test_store_used_before_a_fork_works_in_both_processes(server: MadeUpS3, store: S3Store) -> None:
    store.put("key", b"data")
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            store.put("child", b"seen: " + store.get("key"))
        except BaseException as error:
            os.write(writing, repr(error).encode())
        finally:
            os._exit(0)
    os.close(writing)
    os.waitpid(child, 0)
    with os.fdopen(reading, "rb") as said:
        assert said.read() == b""
    assert store.get("child") == b"seen: data"


def test_closed_store_connects_again_when_used(server: MadeUpS3, store: S3Store) -> None:
    store.put("key", b"data")
    store.close()
    assert store.get("key") == b"data"


@pytest.mark.parametrize(
    "uri",
    ["s3://", "s3:///x", "s3://key:seekrit@bucket/x", "bucket/x", "s3://b/a//b", "s3://b/../c"],
)
def test_malformed_uri_is_refused_without_repeating_it(uri: str) -> None:
    with pytest.raises(InvalidInputError) as caught:
        S3Store(uri)
    assert "seekrit" not in str(caught.value)


def test_uri_of_bucket_alone_keeps_objects_at_its_top(server: MadeUpS3) -> None:
    options = {"key": "k", "secret": "s", "endpoint_url": server.endpoint_url}
    store = S3Store("s3://bucket", options)
    store.put("a/b", b"")
    assert store.uri == "s3://bucket"
    assert list(server.objects) == ["/bucket/a/b"]
    store.close()


def test_unknown_option_is_refused_by_name(server: MadeUpS3) -> None:
    with pytest.raises(InvalidInputError, match="secrt") as caught:
        S3Store("s3://bucket", {"secrt": SECRET})
    assert SECRET not in str(caught.value)
