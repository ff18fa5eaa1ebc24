"""The Store protocol: the few operations on which a log is built.

Guarantees that every implementation gives, and that the conformance suite checks:

1. `put_if_absent` is atomic: of all puts to one key at most one is `CREATED`, and its bytes
   stand, whole, for ever after. Nobody ever sees a part of an object.
2. A read after a completed write sees it; so does a listing.
3. Listings of one folder come in key order (by UTF-8 bytes).
4. With `durable=True` a completed write survives a crash of the machine.

What it does not do: it knows nothing of tables or topics, never retries a conditional put behind
the caller's back without saying so (`EXISTS` may be one's own earlier attempt: the committer reads
it back), and never follows a key out of its root.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol

import pyarrow as pa

from sparklog.clock import Ids
from sparklog.errors import InvalidInputError, SparklogError, StoreUnsuitableError
from sparklog.names import PROBE_FOLDER


class PutOutcome(enum.Enum):
    """What is known after a conditional put."""

    CREATED = "created"  # this call's bytes stand under the key
    EXISTS = "exists"  # something stands there; it may be an earlier attempt of this very call
    UNKNOWN = "unknown"  # applied, not applied, or still to be applied: nobody can say


@dataclass(frozen=True)
class ObjectInfo:
    """One stored object. `modified_ms` is by the store's clock."""

    key: str
    size: int
    modified_ms: int


class Watcher(Protocol):
    """Waits for new objects in some folders, so that a tailing reader need not spin."""

    def wait(self, timeout_seconds: float) -> None:
        """Return when something may have changed, on `wake`, or after the timeout."""
        ...

    def wake(self) -> None:
        """Make a `wait` of another thread return at once."""
        ...

    def reset(self) -> None:
        """Something was found, so more may come soon: a poller looks often again."""
        ...

    def close(self) -> None:
        """Release what the watcher holds."""
        ...


class OutputFile(Protocol):
    """A new object that is written bit by bit; nobody sees it before `finish`."""

    stream: Any
    """An Arrow output stream."""

    def tail(self, size: int) -> bytes:
        """The last so many bytes that were written. Nothing may be written after."""
        ...

    def finish(self, *, durable: bool = True) -> int:
        """Store what was written; returns its size. The stream is closed."""
        ...

    def discard(self) -> None:
        """Leave the key absent. Never raises; also after a failed `finish`."""
        ...

    def failure(self, error: OSError) -> Exception:
        """The store's own error for one that writing to the stream raised."""
        ...


class Store(Protocol):
    """A root under which objects are kept by key. Keys are relative, with `/` between parts."""

    uri: str
    """The root as a person writes it; never holds a secret."""
    linger_ms_default: int
    """How long a producer should gather records: what one commit costs on this store."""

    def get(self, key: str, start: int = 0, end: int | None = None) -> bytes:
        """The object's bytes from `start` to before `end`; ObjectNotFoundError if absent."""
        ...

    def put(self, key: str, data: bytes, *, durable: bool = True) -> None:
        """Write the object whole, replacing what stood there."""
        ...

    def put_if_absent(self, key: str, data: bytes, *, durable: bool = True) -> PutOutcome:
        """Write the object only if nothing stands there. The primitive on which safety rests.

        Raises only what surely was not applied (no space, no permission).
        """
        ...

    def head(self, key: str) -> ObjectInfo | None:
        """What stands under the key, or None."""
        ...

    def list_from(self, folder: str, after: str = "") -> Iterator[ObjectInfo]:
        """Objects directly in `folder` (ends with `/`) in key order, those after key `after`."""
        ...

    def list_folders(self, folder: str) -> Iterator[str]:
        """Names of the folders directly in `folder`, in order."""
        ...

    def delete(self, key: str) -> None:
        """Remove the object; no error if it is gone already."""
        ...

    def open_output(self, key: str) -> OutputFile:
        """Begin a new file under a unique key.

        This is for segments, which nobody reads before a commit names them: a store may put the
        bytes in place as they come.
        """
        ...

    def write_file(self, key: str, write: Callable[[Any], None], *, durable: bool = True) -> int:
        """Write a new file through an Arrow output stream; returns its size.

        `write` gets the open stream. If it raises, the key is left absent. The key must be unique.
        """
        ...

    def open_input(self, key: str) -> Any:
        """Open for pyarrow (a NativeFile): by memory map where the store is local."""
        ...

    def arrow_filesystem(self) -> tuple[Any, str]:
        """A pyarrow file system and the root's path in it, for datasets."""
        ...

    def sync(self, keys: Iterable[str]) -> None:
        """Make these objects survive a crash, if they were written without `durable`."""
        ...

    def watch(self, folders: Iterable[str]) -> Watcher:
        """A watcher over these folders."""
        ...

    def close(self) -> None:
        """Release connections and handles."""
        ...


def check_key(key: str) -> str:
    """Return the key if it stays below the root, else raise."""
    parts = key.split("/")
    if not key or key.startswith("/") or "\0" in key or "." in parts or ".." in parts:
        raise InvalidInputError(f"storage key {key!r} does not stay below the store's root")
    return key


class GatheredFile:
    """An output file gathered in memory, then stored whole by `put`."""

    def __init__(self, put: Callable[[bytes], None]) -> None:
        """Hand what was gathered to `put` in the end."""
        self.stream = pa.BufferOutputStream()
        self._put = put
        self._data: bytes | None = None

    def tail(self, size: int) -> bytes:
        """The last so many bytes that were written."""
        data = self._gathered()
        return data[max(0, len(data) - size) :]

    def finish(self, *, durable: bool = True) -> int:  # noqa: ARG002
        """Store what was gathered; returns its size."""
        data = self._gathered()
        self._put(data)
        return len(data)

    def _gathered(self) -> bytes:
        if self._data is None:
            self._data = self.stream.getvalue().to_pybytes()
        return self._data

    def discard(self) -> None:
        """Let go of what was gathered."""
        self.stream.close()

    def failure(self, error: OSError) -> Exception:
        """Memory does not fail: the error is somebody else's."""
        return error


def write_through(store: Store, key: str, write: Callable[[Any], None], durable: bool) -> int:
    """`Store.write_file` by means of `Store.open_output`."""
    with new_file(store, key) as file:
        write(file.stream)
        return file.finish(durable=durable)


@contextmanager
def new_file(store: Store, key: str) -> Iterator[OutputFile]:
    """A new file, for a block that writes and finishes it; if the block fails it is discarded."""
    file = store.open_output(key)
    try:
        yield file
    except BaseException as error:
        file.discard()
        if isinstance(error, OSError) and not isinstance(error, SparklogError):
            raise file.failure(error) from error
        raise


def probe_put_if_absent(store: Store, ids: Ids) -> None:
    """Refuse a store whose conditional put is not conditional, before anything depends on it."""
    key = f"{PROBE_FOLDER}{ids.unique()}"
    try:
        first = store.put_if_absent(key, b"first", durable=False)
        second = store.put_if_absent(key, b"second", durable=False)
        if first is PutOutcome.UNKNOWN or second is PutOutcome.UNKNOWN:
            return  # the store is failing, not unsuitable: the work itself will say so
        if second is PutOutcome.CREATED or store.get(key) != b"first":
            raise StoreUnsuitableError(
                f"the store at {store.uri} overwrites on a conditional put: two writers could both "
                "win the same commit, and records would be lost. Use a local disk, or an S3 server "
                "that honours 'If-None-Match: *'"
            )
    finally:
        store.delete(key)
