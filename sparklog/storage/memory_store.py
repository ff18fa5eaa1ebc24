"""A store in memory, which can fail in every way that a real store does.

Without arguments it is a plain store that never fails: for tests, and for a log that need not
outlive its process. With `Faults` every call may go wrong, by a seed: it is the store of the
simulation.

    what a conditional put may do                       what its caller is told
    applied                                             CREATED
    applied                                             UNKNOWN
    applied, then the client's own retry is answered    EXISTS
    not applied (also a 409: the key is absent)         UNKNOWN
    applied later, after the caller gave up             UNKNOWN
    not applied, surely                                 StoreFullError, StoreUnavailableError

A put that is applied later waits in a list; any later call by anybody may land it, if the key is
absent by then, and `land_pending` lands the rest.

Guarantees: those of the `Store` protocol, whatever the faults. Faults delay, fail and lie by
"unknown"; they never make a part of an object visible, never overwrite by a conditional put and
never hide what was written. `on_call` is called without any lock held, before each operation and
once more (`put:done`) between its effect and its answer, so that a scheduler can switch threads
there, or end one by raising.

What it does not do: it keeps nothing on disk, and it does not model a loss of power.
"""

from __future__ import annotations

import random
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from sparklog.clock import Clock, SystemClock
from sparklog.errors import (
    InvalidInputError,
    ObjectNotFoundError,
    StoreFullError,
    StoreUnavailableError,
    UnsupportedError,
)
from sparklog.storage.store import (
    GatheredFile,
    ObjectInfo,
    PutOutcome,
    Watcher,
    check_key,
    write_through,
)
from sparklog.storage.watch import PollingWatcher

OnCall = Callable[[str, str], None]


@dataclass(frozen=True)
class FaultRates:
    """How likely each fault is, per call; all zero by default."""

    put_lost: float = 0.0
    """A conditional put is not applied: UNKNOWN."""
    put_unanswered: float = 0.0
    """A conditional put is applied: UNKNOWN."""
    put_later: float = 0.0
    """A conditional put is applied after its caller gave up: UNKNOWN."""
    put_retried: float = 0.0
    """A conditional put is applied, and the client's own retry is answered: EXISTS."""
    put_conflict: float = 0.0
    """A conditional put to an absent key is answered like a 409, not applied: UNKNOWN."""
    put_refused: float = 0.0
    """A conditional put surely fails: StoreUnavailableError."""
    full: float = 0.0
    """A conditional put or a file surely fails: StoreFullError."""
    write_lost: float = 0.0
    """A put, file or delete is not applied: StoreUnavailableError."""
    write_unanswered: float = 0.0
    """A put, file or delete is applied: StoreUnavailableError."""
    write_later: float = 0.0
    """An overwriting put is applied after its caller gave up: StoreUnavailableError."""
    read: float = 0.0
    """A get, head, listing, open or sync fails: StoreUnavailableError."""
    storm: float = 0.0
    """A stretch of calls that all fail, not applied, begins."""
    storm_calls_max: int = 20
    """The longest such stretch."""
    land: float = 0.2
    """A call lands one of the puts that wait to be applied."""


class Faults:
    """Decides by a seed what goes wrong, and counts what did."""

    def __init__(self, rng: random.Random, rates: FaultRates | None = None) -> None:
        """Draw from `rng`; the order of calls and the seed fix everything."""
        self.rates = rates or FaultRates()
        self.enabled = True
        self.fired: Counter[str] = Counter()
        self._rng = rng
        self._storm_calls_left = 0

    def in_conditional_put(self) -> str:
        """The name of the fault that this conditional put meets, or the empty string."""
        rates = self.rates
        return self._draw(
            ("put_lost", rates.put_lost),
            ("put_unanswered", rates.put_unanswered),
            ("put_later", rates.put_later),
            ("put_retried", rates.put_retried),
            ("put_conflict", rates.put_conflict),
            ("put_refused", rates.put_refused),
            ("full", rates.full),
        )

    def in_write(self, op: str) -> str:
        """The fault of a put, a write_file or a delete."""
        rates = self.rates
        return self._draw(
            ("write_lost", rates.write_lost),
            ("write_unanswered", rates.write_unanswered),
            ("write_later", rates.write_later if op == "put" else 0.0),
            ("full", rates.full if op == "write_file" else 0.0),
        )

    def in_read(self) -> str:
        """The fault of anything that only reads."""
        return self._draw(("read", self.rates.read))

    def choose_landing(self, waiting: int) -> int | None:
        """Which of the waiting puts lands now, if one does; also while faults are off."""
        if not waiting or self._rng.random() >= self.rates.land:
            return None
        return self._rng.randrange(waiting)

    def count(self, fault: str) -> None:
        """Count one that took effect."""
        self.fired[fault] += 1

    def _draw(self, *odds: tuple[str, float]) -> str:
        if not self.enabled:
            self._storm_calls_left = 0
            return ""
        if self._storm_calls_left:
            self._storm_calls_left -= 1
            return "storm"
        if self._rng.random() < self.rates.storm:
            self._storm_calls_left = self._rng.randrange(self.rates.storm_calls_max)
            return "storm"
        point = self._rng.random()
        for name, rate in odds:
            if point < rate:
                return name
            point -= rate
        return ""


@dataclass(frozen=True)
class _Pending:
    """A put that its caller gave up on and that may still be applied."""

    key: str
    data: bytes
    conditional: bool


class MemoryStore:
    """Objects in a dictionary, shared by all threads that hold the store."""

    linger_ms_default = 0

    def __init__(
        self,
        faults: Faults | None = None,
        *,
        clock: Clock | None = None,
        on_call: OnCall | None = None,
    ) -> None:
        """An empty store; fault-free without `faults`."""
        self.uri = "memory://"
        self.faults = faults or Faults(random.Random(0))
        self._clock: Clock = clock or SystemClock()
        self._on_call = on_call
        self._lock = threading.Lock()
        self._objects: dict[str, tuple[bytes, int]] = {}
        self._pending: list[_Pending] = []

    def __repr__(self) -> str:
        """The store and how much it holds."""
        return f"MemoryStore({len(self._objects)} objects)"

    def get(self, key: str, start: int = 0, end: int | None = None) -> bytes:
        """The object's bytes from `start` to before `end`, as far as there are any."""
        check_key(key)
        if start < 0 or (end is not None and end < start):
            raise InvalidInputError(f"bytes {start} to {end} of {key} are not a range")
        return self._read("get", key)[start:end]

    def put(self, key: str, data: bytes, *, durable: bool = True) -> None:  # noqa: ARG002
        """Write the object whole, replacing what stood there."""
        self._write("put", check_key(key), bytes(data))

    def put_if_absent(
        self,
        key: str,
        data: bytes,
        *,
        durable: bool = True,  # noqa: ARG002
    ) -> PutOutcome:
        """Write the object only if nothing stands there, or fail as the faults say."""
        self._called("put_if_absent", check_key(key))
        with self._lock:
            outcome = self._conditional_put(key, bytes(data))
        self._called("put_if_absent:done", key)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    def head(self, key: str) -> ObjectInfo | None:
        """What stands under the key, or None."""
        self._begin_read("head", check_key(key))
        with self._lock:
            info = self._info(key) if key in self._objects else None
        self._called("head:done", key)
        return info

    def list_from(self, folder: str, after: str = "") -> Iterator[ObjectInfo]:
        """Objects directly in `folder` in key order, as they stand at the call."""
        _check_folder(folder)
        self._begin_read("list_from", folder)
        with self._lock:
            keys = [
                key
                for key in self._objects
                if key.startswith(folder) and "/" not in key[len(folder) :] and key > after
            ]
            found = [self._info(key) for key in sorted(keys, key=str.encode)]
        self._called("list_from:done", folder)
        return iter(found)

    def list_folders(self, folder: str) -> Iterator[str]:
        """Names of the folders directly in `folder`, in order, as they stand at the call."""
        _check_folder(folder)
        self._begin_read("list_folders", folder)
        with self._lock:
            below = [key[len(folder) :] for key in self._objects if key.startswith(folder)]
        self._called("list_folders:done", folder)
        names = {rest.partition("/")[0] for rest in below if "/" in rest}
        return iter(sorted(names, key=str.encode))

    def delete(self, key: str) -> None:
        """Remove the object; no error if it is gone already."""
        self._write("delete", check_key(key), None)

    def open_output(self, key: str) -> GatheredFile:
        """Gather a new file in memory, then store it whole."""
        check_key(key)
        return GatheredFile(lambda data: self._write("write_file", key, data))

    def write_file(self, key: str, write: Callable[[Any], None], *, durable: bool = True) -> int:
        """Gather the file through an Arrow stream, then store it whole; returns its size."""
        return write_through(self, key, write, durable)

    def open_input(self, key: str) -> Any:
        """Open for pyarrow: the object as it stands now, whatever happens to it later."""
        return pa.BufferReader(self._read("open_input", check_key(key)))

    def arrow_filesystem(self) -> tuple[Any, str]:
        """Refused: there is no file system here."""
        raise UnsupportedError("a MemoryStore has no Arrow file system")

    def sync(self, keys: Iterable[str]) -> None:
        """Nothing survives the process anyway; an object that is not there is an error."""
        for key in keys:
            self._read("sync", check_key(key))

    def watch(self, folders: Iterable[str]) -> Watcher:
        """A watcher that sleeps on the store's clock: it never knows whether anything changed."""
        for folder in folders:
            check_key(folder)
        return PollingWatcher(self._clock)

    def close(self) -> None:
        """Nothing is held; what was stored stays."""

    def land_pending(self) -> int:
        """Apply the puts that still wait, oldest first; returns how many took effect."""
        with self._lock:
            landed = sum(self._land(pending) for pending in self._pending)
            self._pending.clear()
        return landed

    def contents(self) -> dict[str, bytes]:
        """All objects, for a test that looks at the store past every fault."""
        with self._lock:
            return {key: data for key, (data, _) in self._objects.items()}

    def corrupt(self, key: str, data: bytes) -> None:
        """Replace what stands under a key behind everybody's back, for a test of damage."""
        with self._lock:
            found = self._objects.get(key)
            self._objects[key] = (data, found[1] if found else self._clock.now_ms())

    def _called(self, op: str, key: str) -> None:
        if self._on_call is not None:
            self._on_call(op, key)

    def _begin_read(self, op: str, key: str) -> None:
        """What every operation that only reads begins with: it may fail, or land a late put."""
        self._called(op, key)
        with self._lock:
            self._land_one()
            fault = self.faults.in_read()
            if not fault:
                return
            self.faults.count(fault)
        self._called(f"{op}:done", key)
        raise StoreUnavailableError(f"simulated: {op} of {key} failed ({fault})")

    def _read(self, op: str, key: str) -> bytes:
        """What stands under the key; the answer that nothing does comes as late as any other."""
        self._begin_read(op, key)
        with self._lock:
            found = self._objects.get(key)
        self._called(f"{op}:done", key)
        if found is None:
            raise ObjectNotFoundError(f"no object {self.uri}{key}")
        return found[0]

    def _write(self, op: str, key: str, data: bytes | None) -> None:
        """An unconditional change: None deletes."""
        self._called(op, key)
        with self._lock:
            self._land_one()
            fault = self.faults.in_write(op)
            if fault:
                self.faults.count(fault)
            if fault == "write_later" and data is not None:
                self._pending.append(_Pending(key, data, conditional=False))
            elif fault in ("", "write_unanswered"):
                self._change(key, data)
        self._called(f"{op}:done", key)
        if fault == "full":
            raise StoreFullError(f"simulated: no space for {key}")
        if fault:
            raise StoreUnavailableError(f"simulated: {op} of {key} failed ({fault})")

    def _conditional_put(self, key: str, data: bytes) -> PutOutcome | Exception:
        """Do the put and say what its caller is told; the lock is held."""
        self._land_one()
        fault = self.faults.in_conditional_put()
        exists = key in self._objects
        if exists and fault in ("put_retried", "put_conflict"):
            fault = ""  # both speak of a key that was absent
        if fault:
            self.faults.count(fault)
        if fault == "full":
            return StoreFullError(f"simulated: no space for {key}")
        if fault == "put_refused":
            return StoreUnavailableError(f"simulated: put of {key} was refused")
        if fault == "put_later":
            self._pending.append(_Pending(key, data, conditional=True))
        if fault in ("", "put_unanswered", "put_retried") and not exists:
            self._change(key, data)
        if fault == "":
            return PutOutcome.EXISTS if exists else PutOutcome.CREATED
        return PutOutcome.EXISTS if fault == "put_retried" else PutOutcome.UNKNOWN

    def _land_one(self) -> None:
        """Perhaps apply one of the puts that wait; the lock is held."""
        index = self.faults.choose_landing(len(self._pending))
        if index is not None:
            self._land(self._pending.pop(index))

    def _land(self, pending: _Pending) -> bool:
        if pending.conditional and pending.key in self._objects:
            return False
        self._change(pending.key, pending.data)
        self.faults.count("landed_later")
        return True

    def _change(self, key: str, data: bytes | None) -> None:
        """The one place where an object appears, changes or goes; the lock is held."""
        if data is None:
            self._objects.pop(key, None)
        else:
            self._objects[key] = (data, self._clock.now_ms())

    def _info(self, key: str) -> ObjectInfo:
        data, modified_ms = self._objects[key]
        return ObjectInfo(key, len(data), modified_ms)


def _check_folder(folder: str) -> None:
    if folder and not check_key(folder).endswith("/"):
        raise InvalidInputError(f"folder {folder!r} must end with '/'")
