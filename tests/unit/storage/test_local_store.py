"""What LocalStore does when processes die, disks fail and file systems lack links.

The faults are real where they can be: system calls that strace makes fail or kills the process
at, and a tmpfs that is full or read-only.
"""

from __future__ import annotations

import errno
import os
import pickle
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sparklog.errors import (
    InvalidInputError,
    ObjectNotFoundError,
    SparklogError,
    SparklogTimeoutError,
    StoreFullError,
    StorePermissionError,
    StoreUnavailableError,
    StoreUnsuitableError,
)
from sparklog.storage.local_store import TMP_FOLDER, LocalStore
from sparklog.storage.store import PutOutcome

COMMIT = "topics/orders/_delta_log/00000000000000000000.json"
LINKS = "?link,linkat"

CHILD = """
import sys
from sparklog.errors import SparklogError
from sparklog.storage.local_store import LocalStore
store = LocalStore(sys.argv[1])
try:
    print(eval(sys.argv[2]))
except SparklogError as error:
    print(type(error).__name__)
"""
PUT = f"store.put_if_absent({COMMIT!r}, b'x' * 5000)"
ANCHORING = ["fsync .", "fsync topics"]
"""The folders above, once a process; those above the root are not shown."""

RACER = """
import sys
from sparklog.storage.local_store import LocalStore
from sparklog.storage.store import PutOutcome
store = LocalStore(sys.argv[1])
sys.stdin.readline()
print([store.put_if_absent(f"race/{n:04}", sys.argv[2].encode() * 3000, durable=False)
       is PutOutcome.CREATED for n in range(300)].count(True))
"""


@pytest.fixture
def store(tmp_path: Path) -> LocalStore:
    """A store whose folders are there, so that a put makes none."""
    opened = LocalStore(tmp_path / "log")
    opened.put("topics/orders/_delta_log/made", b"", durable=False)
    return opened


def leftovers(store: LocalStore) -> list[str]:
    return [info.key for info in store.list_from(TMP_FOLDER)]


def under_strace(store: LocalStore, expression: str, *options: str) -> tuple[str, str]:
    """What a child printed that evaluated the expression, and its system calls."""
    if shutil.which("strace") is None:
        pytest.skip("strace is not installed")
    calls = Path(store.uri).parent / "strace.txt"
    command = ["strace", "-f", "-y", "-o", str(calls), *options]
    child = [sys.executable, "-c", CHILD, store.uri, expression]
    result = subprocess.run([*command, *child], capture_output=True, text=True, timeout=60)
    if "ptrace" in result.stderr or "PTRACE" in result.stderr:
        pytest.skip(f"strace is not permitted: {result.stderr.strip()}")
    assert "Traceback" not in result.stderr, result.stderr
    return result.stdout.strip(), calls.read_text()


def traced(store: LocalStore, expression: str) -> list[str]:
    """The system calls that matter for crash safety, without where the log stands."""
    wanted = f"trace=fsync,fdatasync,{LINKS},?unlink,unlinkat,?rename,renameat,renameat2"
    _, calls = under_strace(store, expression, "-e", wanted)
    steps = []
    for name, rest in re.findall(r"^\d+ +(fsync|link|unlink|rename)\w*\((.*)", calls, re.M):
        paths = re.findall(re.escape(store.uri) + r"(?:/|(?=>))([^\">]*)", rest)
        shown = [re.sub(r"tmp/.*", "tmp/*", path) or "." for path in paths]
        if shown:
            steps.append(" ".join([name, *shown]))
    return steps


# The order of system calls


def test_durable_put_if_absent_syncs_file_before_link_and_folder_after(store: LocalStore) -> None:
    assert traced(store, PUT) == [
        "fsync _sparklog/tmp/*",
        f"link _sparklog/tmp/* {COMMIT}",
        "fsync topics/orders/_delta_log",
        *ANCHORING,
        "fsync topics/orders",
        "unlink _sparklog/tmp/*",
    ]


def test_put_if_absent_without_durable_syncs_nothing(store: LocalStore) -> None:
    assert traced(store, f"store.put_if_absent({COMMIT!r}, b'x', durable=False)") == [
        f"link _sparklog/tmp/* {COMMIT}",
        "unlink _sparklog/tmp/*",
    ]


def test_put_if_absent_on_taken_key_writes_and_syncs_nothing(store: LocalStore) -> None:
    store.put_if_absent(COMMIT, b"first")
    assert traced(store, PUT) == []


def test_durable_put_syncs_file_before_rename_and_folder_after(store: LocalStore) -> None:
    assert traced(store, f"store.put({COMMIT!r}, b'x')") == [
        "fsync _sparklog/tmp/*",
        f"rename _sparklog/tmp/* {COMMIT}",
        "fsync topics/orders/_delta_log",
        *ANCHORING,
        "fsync topics/orders",
    ]


def test_durable_write_file_syncs_file_then_folder(store: LocalStore) -> None:
    assert traced(store, "store.write_file('topics/orders/s', lambda out: out.write(b'x'))") == [
        "fsync topics/orders/s",
        "fsync topics/orders",
        *ANCHORING,
    ]


def test_sync_syncs_each_file_and_each_folder_once(store: LocalStore) -> None:
    for key in ["a/1", "a/2", "b/3"]:
        store.put(key, b"", durable=False)
    steps = traced(store, "store.sync(['a/1', 'a/2', 'b/3'])")
    synced = ["fsync a/1", "fsync a/2", "fsync b/3", "fsync a", "fsync .", "fsync b"]
    assert steps == [*synced, "fsync ."]


def test_folders_above_are_synced_by_the_first_durable_write_only(store: LocalStore) -> None:
    steps = traced(store, f"store.put({COMMIT!r}, b'x') or {PUT.replace('0.json', '1.json')}")
    second = steps[steps.index(f"rename _sparklog/tmp/* {COMMIT}") + 5 :]
    assert [step for step in second if step.startswith("fsync")] == [
        "fsync _sparklog/tmp/*",
        "fsync topics/orders/_delta_log",
    ]


def test_root_in_a_folder_closed_to_the_writer_takes_durable_writes(
    store: LocalStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = os.open

    def closed(path: str, flags: int, *rest: int) -> int:
        if path == str(Path(store.uri).parent):
            raise PermissionError(errno.EACCES, "denied")
        return real(path, flags, *rest)

    monkeypatch.setattr(os, "open", closed)
    assert store.put_if_absent(COMMIT, b"x") is PutOutcome.CREATED


# Death


@pytest.mark.parametrize("call", [LINKS, "fsync"])
def test_process_killed_before_link_leaves_no_commit(store: LocalStore, call: str) -> None:
    printed, calls = under_strace(store, PUT, "-e", f"inject={call}:signal=KILL:when=1")
    assert printed == ""
    assert "killed by SIGKILL" in calls
    assert store.head(COMMIT) is None
    assert len(leftovers(store)) == 1
    assert store.put_if_absent(COMMIT, b"next") is PutOutcome.CREATED
    assert store.get(COMMIT) == b"next"


@pytest.mark.parametrize("call", ["fsync:signal=KILL:when=2", "?unlink,unlinkat:signal=KILL"])
def test_process_killed_after_link_leaves_whole_commit(store: LocalStore, call: str) -> None:
    printed, calls = under_strace(store, PUT, "-e", f"inject={call}")
    assert printed == ""
    assert "killed by SIGKILL" in calls
    assert store.get(COMMIT) == b"x" * 5000


def test_processes_racing_for_keys_win_each_once(store: LocalStore) -> None:
    racers = [
        subprocess.Popen(
            [sys.executable, "-c", RACER, store.uri, str(number)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for number in range(3)
    ]
    for racer in racers:
        assert racer.stdin is not None
        racer.stdin.write("go\n")
        racer.stdin.flush()
    won = [int(racer.communicate(timeout=60)[0]) for racer in racers]
    winners = [store.get(info.key) for info in store.list_from("race/")]
    assert sum(won) == len(winners) == 300
    assert [winners.count(b"%d" % number * 3000) for number in range(3)] == won
    assert leftovers(store) == []


# Failing disks


def test_failed_sync_of_file_raises_and_nothing_stands(store: LocalStore) -> None:
    printed, _ = under_strace(store, PUT, "-e", "inject=fsync:error=EIO:when=1")
    assert printed == "StoreUnavailableError"
    assert store.head(COMMIT) is None
    assert leftovers(store) == []


def test_failed_sync_of_folder_after_link_is_unknown(store: LocalStore) -> None:
    printed, _ = under_strace(store, PUT, "-e", "inject=fsync:error=EIO:when=2")
    assert printed == "PutOutcome.UNKNOWN"
    assert store.get(COMMIT) == b"x" * 5000
    assert leftovers(store) == []


@pytest.mark.parametrize("when", [3, 4, 5])
def test_failed_sync_of_folder_above_is_unknown_and_taken_up_again(
    store: LocalStore, when: int
) -> None:
    again = f"[{PUT}.name, store.sync([{COMMIT!r}])]"
    printed, calls = under_strace(store, again, "-e", f"inject=fsync:error=EIO:when={when}")
    assert printed == "['UNKNOWN', None]"
    failed = re.search(r"fsync\(\d+<([^>]*)>\) *= -1 EIO", calls)
    assert failed is not None
    later = calls[failed.end() :]
    assert re.search(rf"<{re.escape(failed[1])}>\) *= 0", later), "never synced again"


@pytest.mark.parametrize("when", [1, 2])
def test_failed_sync_in_write_file_removes_the_file(store: LocalStore, when: int) -> None:
    printed, _ = under_strace(
        store,
        "store.write_file('topics/segment', lambda out: out.write(b'data'))",
        *("-e", f"inject=fsync:error=EIO:when={when}"),
    )
    assert printed == "StoreUnavailableError"
    assert store.head("topics/segment") is None


def test_link_with_lost_answer_is_unknown(store: LocalStore) -> None:
    printed, _ = under_strace(store, PUT, "-e", f"inject={LINKS}:error=EIO")
    assert printed == "PutOutcome.UNKNOWN"
    assert leftovers(store) == []


def test_write_cut_short_by_the_system_is_carried_on(
    store: LocalStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    real_write, real_pread = os.write, os.pread
    data = bytes(range(256)) * 40
    monkeypatch.setattr(os, "write", lambda fd, data: real_write(fd, bytes(data[:1000])))
    monkeypatch.setattr(os, "pread", lambda fd, size, at: real_pread(fd, min(size, 700), at))
    store.put_if_absent(COMMIT, data)
    assert store.get(COMMIT) == data
    assert store.get(COMMIT, 5, 5005) == data[5:5005]


# Full and read-only disks


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 256 KB."""
    mount = tmp_path / "small"
    mount.mkdir()
    options = ["-t", "tmpfs", "-o", "size=256k", "tmpfs", str(mount)]
    try:
        result = subprocess.run(["mount", *options], capture_output=True, text=True)
    except FileNotFoundError:
        pytest.skip("there is no mount command")
    if result.returncode != 0:
        pytest.skip(f"mounting a tmpfs is not permitted: {result.stderr.strip()}")
    yield mount
    subprocess.run(["umount", str(mount)], check=True)


def test_full_disk_raises_full_and_shows_nothing(small_disk: Path) -> None:
    store = LocalStore(small_disk)
    store.put("topics/first", b"small")
    large = b"x" * 400_000
    with pytest.raises(StoreFullError, match=r"topics/large.*No space left"):
        store.put_if_absent("topics/large", large)
    with pytest.raises(StoreFullError):
        store.put("topics/first", large)
    with pytest.raises(StoreFullError, match="topics/streamed"):
        store.write_file("topics/streamed", lambda out: out.write(large))
    assert [info.key for info in store.list_from("topics/")] == ["topics/first"]
    assert store.get("topics/first") == b"small"
    assert leftovers(store) == []
    assert store.put_if_absent("topics/large", b"fits") is PutOutcome.CREATED


def test_read_only_disk_raises_permission(small_disk: Path) -> None:
    store = LocalStore(small_disk)
    store.put("topics/first", b"small")
    subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)
    with pytest.raises(StorePermissionError, match=r"topics/second.*Read-only"):
        store.put_if_absent("topics/second", b"")
    with pytest.raises(StorePermissionError):
        store.delete("topics/first")
    with pytest.raises(StorePermissionError):
        store.write_file("new/segment", lambda out: None)
    assert store.put_if_absent("topics/first", b"") is PutOutcome.EXISTS
    assert store.get("topics/first") == b"small"


# File systems without links


@pytest.mark.parametrize("number", [errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK])
def test_link_not_supported_raises_unsuitable_and_names_s3(
    store: LocalStore, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    refuse_links(monkeypatch, number)
    with pytest.raises(StoreUnsuitableError, match=r"no atomic link.*s3://"):
        store.put_if_absent(COMMIT, b"")
    assert store.head(COMMIT) is None
    assert leftovers(store) == []


@pytest.mark.parametrize(
    ("number", "expected"),
    [
        (errno.EACCES, StorePermissionError),
        (errno.EROFS, StorePermissionError),
        (errno.ENOSPC, StoreFullError),
        (errno.EDQUOT, StoreFullError),
        (errno.ENAMETOOLONG, StoreUnavailableError),
    ],
)
def test_link_refused_raises_what_it_means(
    store: LocalStore,
    monkeypatch: pytest.MonkeyPatch,
    number: int,
    expected: type[SparklogError],
) -> None:
    refuse_links(monkeypatch, number)
    with pytest.raises(expected, match=COMMIT):
        store.put_if_absent(COMMIT, b"")
    assert leftovers(store) == []


def test_folder_refused_is_permission_and_not_unsuitable(
    store: LocalStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(path: str) -> None:
        raise OSError(errno.EPERM, os.strerror(errno.EPERM))

    monkeypatch.setattr(os, "mkdir", refuse)
    with pytest.raises(StorePermissionError, match="new/deep"):
        store.put_if_absent("new/deep/key", b"")


def refuse_links(monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    def refuse(source: str, target: str) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "link", refuse)


# The rest


def test_nothing_is_made_before_the_first_write(tmp_path: Path) -> None:
    store = LocalStore(tmp_path / "log")
    assert store.head("a") is None
    assert list(store.list_from("a/")) == []
    assert not (tmp_path / "log").exists()


def test_uri_of_relative_root_is_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    store = LocalStore("some/../log/")
    assert store.uri == str(tmp_path / "log")
    store.put("key", b"")
    monkeypatch.chdir("/")
    assert store.head("key") is not None


def test_pickled_store_reads_the_same_root(store: LocalStore) -> None:
    store.put("key", b"value")
    assert pickle.loads(pickle.dumps(store)).get("key") == b"value"


def test_file_deleted_during_listing_is_left_out(store: LocalStore) -> None:
    for name in "abc":
        store.put(f"list/{name}", b"", durable=False)
    listing = store.list_from("list/")
    first = next(listing).key
    store.delete("list/b")
    assert [first, *(info.key for info in listing)] == ["list/a", "list/c"]


def test_folder_key_without_slash_is_refused(store: LocalStore) -> None:
    with pytest.raises(InvalidInputError, match="end with"):
        list(store.list_from("topics"))


@pytest.mark.parametrize("limits", [(-1, None), (3, 2), (-5, -1)])
def test_get_of_impossible_range_is_refused(
    store: LocalStore, limits: tuple[int, int | None]
) -> None:
    with pytest.raises(InvalidInputError, match="not a range"):
        store.get("topics/orders/_delta_log/made", *limits)


def test_sync_of_missing_object_raises_not_found(store: LocalStore) -> None:
    with pytest.raises(ObjectNotFoundError, match="missing"):
        store.sync(["topics/missing"])


def test_write_file_over_a_mapped_file_leaves_the_map_alone(store: LocalStore) -> None:
    store.write_file("segment", lambda out: out.write(b"first " * 1000))
    with store.open_input("segment") as mapped:
        store.write_file("segment", lambda out: out.write(b"second"))
        assert mapped.read() == b"first " * 1000
    assert store.get("segment") == b"second"


def test_write_file_whose_writer_raises_our_own_timeout_keeps_it(store: LocalStore) -> None:
    def write(out: Any) -> None:
        raise SparklogTimeoutError("an OSError too, but not the disk's")

    with pytest.raises(SparklogTimeoutError):
        store.write_file("segment", write)
    assert store.head("segment") is None


def test_file_descriptors_are_all_given_back(store: LocalStore) -> None:
    def use() -> None:
        store.put("key", b"x")
        store.get("key")
        store.put_if_absent("key", b"")
        store.write_file("file", lambda out: out.write(b""))
        store.sync(["key"])
        with pytest.raises(ObjectNotFoundError):
            store.get("topics")

    use()
    before = len(os.listdir("/proc/self/fd"))  # noqa: PTH208
    use()
    assert len(os.listdir("/proc/self/fd")) == before  # noqa: PTH208
