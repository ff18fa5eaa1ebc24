"""What every store must do. The guarantees are numbered as in `sparklog/storage/store.py`."""

from __future__ import annotations

import itertools
import random
import threading
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sparklog.clock import SystemIds
from sparklog.errors import InvalidInputError, ObjectNotFoundError
from sparklog.names import PROBE_FOLDER
from sparklog.storage.store import PutOutcome, Store, probe_put_if_absent
from tests.conformance.conftest import RaceSize

COMMIT = "topics/orders/_delta_log/00000000000000000000.json"
ALL_BYTES = bytes(range(256)) * 3
ODD_KEYS = [
    "topics/orders/partition=0/a.parquet",
    "odd/with space",
    "odd/with%20percent",
    "odd/with+plus&and=equals",
    "odd/with?versionId=1",
    "odd/with#hash",
    "odd/été",
    "odd/日本語",
    "odd/\U0001f980",
    "odd/..dots..",
    "odd/" + "n" * 200,
]
BAD_KEYS = ["", "/absolute", "..", "../above", "a/../b", "a/..", "./a", "a/./b", "nul\0byte"]


def keys_in(store: Store, folder: str, after: str = "") -> list[str]:
    return [info.key for info in store.list_from(folder, after)]


# Guarantee 1: put_if_absent is atomic


@pytest.mark.parametrize("durable", [True, False])
def test_put_if_absent_on_free_key_creates(store: Store, durable: bool) -> None:
    assert store.put_if_absent(COMMIT, b"mine", durable=durable) is PutOutcome.CREATED
    assert store.get(COMMIT) == b"mine"


@pytest.mark.parametrize("durable", [True, False])
def test_put_if_absent_on_taken_key_keeps_what_stands(store: Store, durable: bool) -> None:
    store.put_if_absent(COMMIT, b"first", durable=durable)
    assert store.put_if_absent(COMMIT, b"second", durable=durable) is PutOutcome.EXISTS
    assert store.get(COMMIT) == b"first"


def test_put_if_absent_of_same_bytes_again_says_exists(store: Store) -> None:
    store.put_if_absent(COMMIT, b"same")
    assert store.put_if_absent(COMMIT, b"same") is PutOutcome.EXISTS


def test_put_if_absent_on_empty_object_says_exists(store: Store) -> None:
    assert store.put_if_absent(COMMIT, b"") is PutOutcome.CREATED
    assert store.put_if_absent(COMMIT, b"second") is PutOutcome.EXISTS
    assert store.get(COMMIT) == b""


def test_put_if_absent_on_key_written_by_put_says_exists(store: Store) -> None:
    store.put(COMMIT, b"first")
    assert store.put_if_absent(COMMIT, b"second") is PutOutcome.EXISTS
    assert store.get(COMMIT) == b"first"


def test_put_if_absent_after_delete_creates_again(store: Store) -> None:
    store.put_if_absent(COMMIT, b"first")
    store.delete(COMMIT)
    assert store.put_if_absent(COMMIT, b"second") is PutOutcome.CREATED
    assert store.get(COMMIT) == b"second"


def test_put_if_absent_raced_by_threads_has_one_winner_a_round(
    store: Store, race_size: RaceSize
) -> None:
    barrier = threading.Barrier(race_size.writers)
    outcomes: list[list[PutOutcome | Exception]] = [[] for _ in range(race_size.writers)]

    def body(writer: int, number: int) -> bytes:
        return b"%d:%d;" % (writer, number) * 500

    def race(writer: int) -> None:
        for number in range(race_size.rounds):
            barrier.wait(timeout=60)
            try:
                outcome: PutOutcome | Exception = store.put_if_absent(
                    f"race/{number:06}", body(writer, number), durable=False
                )
            except Exception as error:
                outcome = error
            outcomes[writer].append(outcome)

    threads = [threading.Thread(target=race, args=(n,)) for n in range(race_size.writers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for number, row in enumerate(zip(*outcomes, strict=True)):
        counted = Counter(row)
        assert counted == {PutOutcome.CREATED: 1, PutOutcome.EXISTS: race_size.writers - 1}
        winner = row.index(PutOutcome.CREATED)
        assert store.get(f"race/{number:06}") == body(winner, number)


def test_put_if_absent_watched_by_reader_is_never_seen_in_part(store: Store) -> None:
    data = ALL_BYTES * 1500
    done = threading.Event()
    seen: set[bytes | None] = set()

    def read() -> None:
        for number in itertools.count():
            finished = done.is_set()
            try:
                seen.add(store.get(f"parts/{number % 5}"))
            except ObjectNotFoundError:
                seen.add(None)
            if finished:
                return

    reader = threading.Thread(target=read)
    reader.start()
    for number in range(5):
        store.put_if_absent(f"parts/{number}", data, durable=False)
    done.set()
    reader.join()
    assert seen <= {None, data}


def test_probe_on_suitable_store_passes_and_leaves_nothing(store: Store) -> None:
    probe_put_if_absent(store, SystemIds())
    assert keys_in(store, PROBE_FOLDER) == []


# Guarantee 2: a read or a listing after a completed write sees it


def test_read_after_each_kind_of_write_sees_it(store: Store) -> None:
    writers: dict[str, Callable[[str, bytes], Any]] = {
        "put": store.put,
        "put_if_absent": store.put_if_absent,
        "write_file": lambda key, data: store.write_file(key, lambda out: out.write(data)),
    }
    for name, write in writers.items():
        key = f"seen/{name}"
        write(key, name.encode())
        info = store.head(key)
        assert store.get(key) == name.encode()
        assert info is not None
        assert (info.key, info.size) == (key, len(name))
        assert keys_in(store, "seen/")[-1] == key


def test_put_on_taken_key_replaces_it_whole(store: Store) -> None:
    store.put("state", b"a long first value")
    store.put("state", b"short")
    assert store.get("state") == b"short"
    store.put("state", b"", durable=False)
    assert store.get("state") == b""


def test_delete_of_object_removes_it_everywhere(store: Store) -> None:
    store.put("gone/a", b"a")
    store.put("gone/b", b"b")
    store.delete("gone/a")
    assert store.head("gone/a") is None
    assert keys_in(store, "gone/") == ["gone/b"]
    with pytest.raises(ObjectNotFoundError):
        store.get("gone/a")


def test_delete_twice_and_of_unknown_key_is_no_error(store: Store) -> None:
    store.put("gone/a", b"a")
    for key in ["gone/a", "gone/a", "never/was/there"]:
        store.delete(key)
    assert store.head("gone/a") is None


# Guarantee 3: listings of one folder come in key order


def test_list_from_gives_keys_in_order_of_their_bytes(store: Store) -> None:
    names = ["0", "00", "1", "10", "2", "A", "Z", "a", "a-b", "a.b", "a_b", "z", "é", "日", "🦀"]
    shuffled = random.Random(7).sample(names, len(names))
    for name in shuffled:
        store.put(f"order/{name}", name.encode(), durable=False)
    expected = sorted((f"order/{name}" for name in names), key=str.encode)
    assert keys_in(store, "order/") == expected


def test_list_from_after_key_gives_only_later_ones(store: Store) -> None:
    for number in (1, 3, 5):
        store.put(f"after/{number:03}", b"", durable=False)
    assert keys_in(store, "after/", "after/001") == ["after/003", "after/005"]
    assert keys_in(store, "after/", "after/002") == ["after/003", "after/005"]
    assert keys_in(store, "after/", "after/005") == []
    assert keys_in(store, "after/", "after/") == ["after/001", "after/003", "after/005"]
    assert keys_in(store, "after/", "aaa/first") == ["after/001", "after/003", "after/005"]


def test_list_from_gives_only_objects_directly_in_folder(store: Store) -> None:
    for key in ["one/a", "one/sub/b", "one/sub/deep/c", "one-more/d", "onea", "two/e"]:
        store.put(key, b"", durable=False)
    assert keys_in(store, "one/") == ["one/a"]
    assert keys_in(store, "one/sub/") == ["one/sub/b"]


def test_list_of_missing_folder_is_empty(store: Store) -> None:
    assert keys_in(store, "missing/") == []
    assert list(store.list_folders("missing/")) == []


def test_list_from_of_more_than_a_page_gives_all(store: Store) -> None:
    expected = [f"many/{number:05}" for number in range(1005)]
    for key in reversed(expected):
        store.put(key, b"", durable=False)
    assert keys_in(store, "many/") == expected
    assert keys_in(store, "many/", "many/00999") == expected[1000:]


def test_list_from_gives_sizes_and_times(store: Store) -> None:
    store.put("sizes/a", b"12345")
    (listed,) = store.list_from("sizes/")
    assert listed == store.head("sizes/a")
    assert listed.size == 5
    assert isinstance(listed.modified_ms, int)


def test_list_folders_gives_names_in_order_once(store: Store) -> None:
    for key in ["tops/b/1", "tops/b/2", "tops/a/x/y", "tops/a-b/1", "tops/a.c/1", "tops/file"]:
        store.put(key, b"", durable=False)
    assert list(store.list_folders("tops/")) == ["a", "a-b", "a.c", "b"]
    assert list(store.list_folders("tops/a/")) == ["x"]


# Reading


@pytest.mark.parametrize(
    ("start", "end"),
    [(0, None), (0, 10), (5, 10), (5, 6), (5, 5), (0, 0), (700, None), (760, 800), (768, None),
     (768, 770), (900, None), (900, 1000)],
)  # fmt: skip
def test_get_of_range_gives_the_bytes_there_are(store: Store, start: int, end: int | None) -> None:
    store.put("ranges", ALL_BYTES)
    assert store.get("ranges", start, end) == ALL_BYTES[start:end]


def test_get_of_range_of_empty_object_gives_nothing(store: Store) -> None:
    store.put("empty", b"")
    assert [store.get("empty"), store.get("empty", 0, 5), store.get("empty", 3)] == [b""] * 3


@pytest.mark.parametrize("limits", [(0, None), (3, 9), (4, 4), (4, None)])
def test_get_of_missing_key_raises_not_found(store: Store, limits: tuple[int, int | None]) -> None:
    with pytest.raises(ObjectNotFoundError, match="missing/key"):
        store.get("missing/key", *limits)


def test_missing_key_has_no_head_and_cannot_be_opened(store: Store) -> None:
    assert store.head("missing/key") is None
    with pytest.raises(ObjectNotFoundError, match="missing/key"):
        store.open_input("missing/key")


def test_folder_is_not_an_object(store: Store) -> None:
    store.put("folder/object", b"data")
    assert store.head("folder") is None
    for start in (0, 1_000_000):
        with pytest.raises(ObjectNotFoundError):
            store.get("folder", start)
    with pytest.raises(ObjectNotFoundError):
        store.open_input("folder")
    store.delete("folder")
    assert store.get("folder/object") == b"data"


def test_key_below_an_object_is_absent(store: Store) -> None:
    store.put("object", b"data")
    assert store.head("object/below") is None
    with pytest.raises(ObjectNotFoundError):
        store.get("object/below")


@pytest.mark.parametrize(
    "data",
    [b"", b"\0", b"\0" * 4096, b"\r\n\xff\xfe" + ALL_BYTES, bytes(5_000_000), ALL_BYTES * 6600],
    ids=["empty", "nul", "nuls", "all bytes", "5 MB of nuls", "5 MB"],
)
def test_object_of_any_bytes_comes_back_as_written(store: Store, data: bytes) -> None:
    store.put("plain", data)
    assert store.put_if_absent("conditional", data) is PutOutcome.CREATED
    size = store.write_file("streamed", lambda out: out.write(data))
    assert size == len(data)
    for key in ["plain", "conditional", "streamed"]:
        assert store.get(key) == data
        assert store.open_input(key).read() == data


@pytest.mark.parametrize("key", ODD_KEYS, ids=range(len(ODD_KEYS)))
def test_odd_key_names_one_object_everywhere(store: Store, key: str) -> None:
    folder = key[: key.rindex("/") + 1]
    assert store.put_if_absent(key, b"odd") is PutOutcome.CREATED
    assert store.put_if_absent(key, b"again") is PutOutcome.EXISTS
    assert store.get(key) == b"odd"
    assert store.get(key, 1, 2) == b"d"
    assert keys_in(store, folder) == [key]
    assert keys_in(store, folder, key) == []
    store.delete(key)
    assert store.head(key) is None


@pytest.mark.parametrize("key", BAD_KEYS, ids=repr)
def test_key_out_of_root_is_refused_by_every_operation(store: Store, key: str) -> None:
    operations: list[Callable[[], Any]] = [
        lambda: store.get(key),
        lambda: store.put(key, b""),
        lambda: store.put_if_absent(key, b""),
        lambda: store.head(key),
        lambda: store.delete(key),
        lambda: store.write_file(key, lambda out: None),
        lambda: store.open_input(key),
    ]
    for operation in operations:
        with pytest.raises(InvalidInputError, match="below the store's root"):
            operation()


@pytest.mark.parametrize("folder", ["../", "/absolute/", "a/../../b/"])
def test_folder_out_of_root_is_refused(store: Store, folder: str) -> None:
    with pytest.raises(InvalidInputError):
        list(store.list_from(folder))
    with pytest.raises(InvalidInputError):
        list(store.list_folders(folder))


# Files through Arrow


@pytest.mark.parametrize("durable", [True, False])
def test_write_file_then_open_input_gives_the_table_back(store: Store, durable: bool) -> None:
    table = pa.table({"offset": range(10_000), "value": [b"v%d" % n for n in range(10_000)]})
    key = "topics/orders/partition=3/00000.parquet"
    size = store.write_file(key, lambda out: pq.write_table(table, out), durable=durable)
    if not durable:
        store.sync([key])
    info = store.head(key)
    assert info is not None
    assert info.size == size
    with store.open_input(key) as source:
        assert source.size() == size
        assert pq.ParquetFile(source).read(["offset"]).equals(table.select(["offset"]))
        assert pq.read_table(source).equals(table)


@pytest.mark.parametrize("size", [0, 1, 4, 7, 100])
def test_tail_of_an_output_file_is_what_was_written_last(store: Store, size: int) -> None:
    file = store.open_output("segments/tailed")
    for part in (b"abc", b"", b"defg"):
        file.stream.write(part)
    assert file.tail(size) == b"abcdefg"[max(0, 7 - size) :]
    assert file.finish() == 7
    assert store.get("segments/tailed") == b"abcdefg"


@pytest.mark.parametrize("error", [ValueError("made up"), KeyboardInterrupt()], ids=repr)
def test_write_file_that_fails_halfway_leaves_nothing(store: Store, error: BaseException) -> None:
    def write(out: Any) -> None:
        out.write(b"half of it")
        raise error

    with pytest.raises(type(error)):
        store.write_file("segments/torn", write)
    assert store.head("segments/torn") is None
    assert keys_in(store, "segments/") == []


def test_open_input_outlives_deletion_of_the_object(store: Store) -> None:
    store.put("segment", ALL_BYTES)
    with store.open_input("segment") as source:
        store.delete("segment")
        source.seek(256)
        assert source.read(3) == ALL_BYTES[256:259]


def test_sync_of_objects_written_without_durable_keeps_them(store: Store) -> None:
    keys = [f"lazy/{number % 2}/{number}" for number in range(6)]
    for key in keys:
        store.put_if_absent(key, key.encode(), durable=False)
    store.sync(keys)
    store.sync([])
    assert [store.get(key) for key in keys] == [key.encode() for key in keys]


# The rest


def test_store_names_its_root_and_its_linger(store: Store) -> None:
    assert store.uri
    assert str(store.uri) == store.uri
    assert store.linger_ms_default >= 0


def test_watcher_waits_no_longer_than_asked(store: Store) -> None:
    watcher = store.watch(["topics/orders/_delta_log/", "not/there/yet/"])
    started = time.monotonic()
    for _ in range(3):
        watcher.wait(0.01)
    watcher.wait(0)
    assert time.monotonic() - started < 2
    watcher.close()


def test_watcher_woken_and_closed_in_any_order_is_no_error(store: Store) -> None:
    watcher = store.watch(["topics/orders/_delta_log/"])
    watcher.wake()
    watcher.wake()
    watcher.wait(0.01)
    watcher.close()
    watcher.close()
    watcher.wake()


def test_store_closed_twice_is_no_error(store: Store) -> None:
    store.put("object", b"data")
    store.close()
    store.close()
