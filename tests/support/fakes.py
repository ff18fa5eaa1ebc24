"""A clock that only moves when told, a store that counts, and the smallest tables and topics."""

from __future__ import annotations

from collections import Counter

import pyarrow as pa

from sparklog.clients.log import Log
from sparklog.clock import SystemIds
from sparklog.log.schema import HEADERS, TIMESTAMP
from sparklog.storage.memory_store import MemoryStore
from sparklog.table.actions import (
    Action,
    Add,
    CommitInfo,
    Metadata,
    Protocol,
    commit_name,
    encode_commit,
)

FOLDER = "topics/t/"
LOG_FOLDER = FOLDER + "_delta_log/"


class FakeClock:
    """Time that passes only by sleeping, or by adding to `seconds`."""

    def __init__(self, seconds: float = 1_000_000.0) -> None:
        self.seconds = seconds

    def now_ms(self) -> int:
        return int(self.seconds * 1000)

    def monotonic(self) -> float:
        return self.seconds

    def sleep(self, seconds: float) -> None:
        self.seconds += max(seconds, 0.001)


class CountingStore(MemoryStore):
    """Keeps every operation and its key, in order."""

    def __init__(self, clock: FakeClock | None = None) -> None:
        self.calls: list[tuple[str, str]] = []
        super().__init__(clock=clock or FakeClock(), on_call=self._note)

    def _note(self, op: str, key: str) -> None:
        if not op.endswith(":done"):
            self.calls.append((op, key))

    def counted(self) -> Counter[str]:
        """How often each operation was called since the last `forget`."""
        return Counter(op for op, _ in self.calls)

    def forget(self) -> None:
        """Count from here on."""
        self.calls.clear()


class HidingStore(CountingStore):
    """Leaves some keys out of its listings, as a stale listing does."""

    def __init__(self, clock: FakeClock | None = None) -> None:
        super().__init__(clock)
        self.hidden: set[str] = set()

    def list_from(self, folder, after=""):
        return (info for info in super().list_from(folder, after) if info.key not in self.hidden)


def commit_key(version: int) -> str:
    """Where a version's commit stands."""
    return LOG_FOLDER + commit_name(version)


def table_start(table_id: str = "id", **configuration: str) -> list[Action]:
    """What begins a table."""
    return [Protocol(), Metadata(table_id, "t", "{}", (), configuration, 7)]


def put_commit(store: MemoryStore, version: int, *actions: Action) -> None:
    """Put a commit as some other writer would."""
    info = CommitInfo(1, "TEST", f"nonce-{version}")
    store.put(commit_key(version), encode_commit([info, *actions]))


def an_add(path: str, base_offset: int = 0, partition: int = 0, size: int = 1) -> Add:
    """A file as a table log names it."""
    values = {"partition": str(partition), "base_offset": str(base_offset)}
    return Add(path, values, size, 5, True, '{"numRecords":1}')


def open_log(store: MemoryStore | None = None) -> tuple[MemoryStore, FakeClock, Log]:
    """A log in memory whose time stands still, with its store and its clock."""
    clock = FakeClock()
    store = store or CountingStore(clock)
    return store, clock, Log(store, clock, SystemIds())


def records_table(values, stamps_us=None, keys=None, headers=None) -> pa.Table:
    """Records as `write_segment` takes them."""
    count = len(values)
    stamps = range(count) if stamps_us is None else stamps_us
    return pa.table(
        {
            "timestamp": pa.array(stamps, pa.int64()).cast(TIMESTAMP),
            "key": pa.array(keys or [None] * count, pa.binary()),
            "value": pa.array(values, pa.binary()),
            "headers": pa.array(headers or [None] * count, HEADERS),
        }
    )
