"""A store in a folder of a local disk.

How each guarantee of the `Store` protocol comes about:

1. `put_if_absent` writes a file of its own under `_sparklog/tmp/`, then gives it its name with
   `link`, which fails if the name is taken. The name thus appears with whole contents or not at
   all, whenever the process or the machine stops. `rename` would replace a winner silently, and
   creating the final name with O_EXCL would leave a torn object behind a crash.
2. All processes of one machine see one directory.
3. Listings are sorted here; code points sort like UTF-8 bytes.
4. `durable` syncs the file before it gets its name, and the folder after. The first durable write
   into a folder also syncs each folder above it, whoever made them: it may have been this process,
   which then failed to sync them, or one that was killed before it could.

What it does not do: it does not sweep up temporary files that a killed process left in
`_sparklog/tmp/`; it does not hide folders that have become empty; and it trusts those who may
write below the root, in that it follows symbolic links which they put there.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, NoReturn

import pyarrow as pa
import pyarrow.fs as pafs

from sparklog.clock import SystemClock
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
from sparklog.storage.store import ObjectInfo, PutOutcome, Watcher, check_key, write_through
from sparklog.storage.watch import watch_folders

TMP_FOLDER = "_sparklog/tmp/"

_ABSENT = frozenset({errno.ENOENT, errno.ENOTDIR, errno.EISDIR})
_FULL = frozenset({errno.ENOSPC, errno.EDQUOT})
_DENIED = frozenset({errno.EACCES, errno.EPERM, errno.EROFS})
_NO_LINK = frozenset(
    {errno.EPERM, errno.EOPNOTSUPP, errno.ENOTSUP, errno.ENOSYS, errno.EMLINK, errno.EXDEV}
)
_LINK_REFUSED = _FULL | _DENIED | {errno.ENOENT, errno.ENOTDIR, errno.ENAMETOOLONG, errno.ELOOP}
_CLOSED = _DENIED | {errno.EINVAL, errno.ENOTSUP}
_CREATE = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC


class LocalStore:
    """Objects as files below a root folder, which the first write makes if it is missing."""

    linger_ms_default = 5

    def __init__(self, root: str | Path) -> None:
        """Keep objects below `root`; nothing is made or read yet."""
        self.uri = os.path.abspath(root)  # noqa: PTH100 (resolves '..' but no symbolic links)
        self._prefix = self.uri.rstrip("/") + "/"
        self._tmp_prefix = self._prefix + TMP_FOLDER
        self._anchored = {"/"}  # folders whose names are known to survive a crash

    def __repr__(self) -> str:
        """The store with its root."""
        return f"LocalStore({self.uri!r})"

    def get(self, key: str, start: int = 0, end: int | None = None) -> bytes:
        """The object's bytes from `start` to before `end`, as far as there are any."""
        path = self._prefix + check_key(key)
        if start < 0 or (end is not None and end < start):
            raise InvalidInputError(f"bytes {start} to {end} of {key} are not a range")
        try:
            fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            try:
                status = os.fstat(fd)
                if not stat.S_ISREG(status.st_mode):
                    raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
                size = status.st_size
                return _read(fd, start, size if end is None else min(end, size))
            finally:
                os.close(fd)
        except OSError as error:
            if error.errno in _ABSENT:
                raise ObjectNotFoundError(f"no object {path}") from error
            _raise_mapped(error, "read", path)

    def put(self, key: str, data: bytes, *, durable: bool = True) -> None:
        """Write the object whole, replacing what stood there."""
        path = self._prefix + check_key(key)
        tmp = self._write_tmp(path, data, durable)
        try:
            try:
                os.replace(tmp, path)  # noqa: PTH105
            except FileNotFoundError:
                _make_folders(_folder(path))
                os.replace(tmp, path)  # noqa: PTH105
            if durable:
                self._sync_folder(_folder(path))
        except OSError as error:
            _unlink_quietly(tmp)
            _raise_mapped(error, "write", path)

    def put_if_absent(self, key: str, data: bytes, *, durable: bool = True) -> PutOutcome:
        """Write the object only if nothing stands there, by a link that cannot replace."""
        path = self._prefix + check_key(key)
        if os.access(path, os.F_OK):
            return PutOutcome.EXISTS
        tmp = self._write_tmp(path, data, durable)
        try:
            outcome = _link(tmp, path)
            if durable and outcome is PutOutcome.CREATED:
                try:
                    self._sync_folder(_folder(path))
                except OSError:
                    return PutOutcome.UNKNOWN  # it stands, but a crash could undo it
            return outcome
        finally:
            _unlink_quietly(tmp)

    def head(self, key: str) -> ObjectInfo | None:
        """What stands under the key, or None."""
        path = self._prefix + check_key(key)
        try:
            status = os.stat(path)  # noqa: PTH116
        except OSError as error:
            if error.errno in _ABSENT:
                return None
            _raise_mapped(error, "look at", path)
        return _info(key, status) if stat.S_ISREG(status.st_mode) else None

    def list_from(self, folder: str, after: str = "") -> Iterator[ObjectInfo]:
        """Files directly in `folder` in key order, those after key `after`.

        The names are those at the first step; a file that goes away meanwhile is left out.
        """
        for entry in self._entries(folder, after, want_folders=False):
            try:
                status = entry.stat()
            except FileNotFoundError:
                continue
            except OSError as error:
                _raise_mapped(error, "look at", entry.path)
            yield _info(folder + entry.name, status)

    def list_folders(self, folder: str) -> Iterator[str]:
        """Names of the folders directly in `folder`, in order; also of empty ones."""
        for entry in self._entries(folder, "", want_folders=True):
            yield entry.name

    def delete(self, key: str) -> None:
        """Remove the object; no error if it is gone already."""
        path = self._prefix + check_key(key)
        try:
            os.unlink(path)  # noqa: PTH108
        except OSError as error:
            if error.errno not in _ABSENT:
                _raise_mapped(error, "delete", path)

    def open_output(self, key: str) -> LocalOutputFile:
        """Begin a new file in place: no temporary file, as nobody reads it before a commit.

        A file that stands there already is let go, not written into: readers may have it mapped.
        """
        return LocalOutputFile(self._prefix + check_key(key), self._sync_folder)

    def write_file(self, key: str, write: Callable[[Any], None], *, durable: bool = True) -> int:
        """Write a new file in place through an Arrow stream; returns its size."""
        return write_through(self, key, write, durable)

    def open_input(self, key: str) -> Any:
        """Open for pyarrow by memory map; the map outlives a deletion of the object."""
        path = self._prefix + check_key(key)
        try:
            return pa.memory_map(path, "r")
        except OSError as error:
            if error.errno in _ABSENT or os.path.isdir(path):  # noqa: PTH112
                raise ObjectNotFoundError(f"no object {path}") from error
            _raise_mapped(error, "open", path)

    def arrow_filesystem(self) -> tuple[Any, str]:
        """The local file system."""
        return pafs.LocalFileSystem(use_mmap=True), self.uri

    def sync(self, keys: Iterable[str]) -> None:
        """Make these objects survive a crash: each file, then each of their folders once."""
        paths = [self._prefix + check_key(key) for key in keys]
        files = [(path, _fsync_path) for path in paths]
        folders = dict.fromkeys(_folder(path) for path in paths)
        for path, sync in [*files, *((folder, self._sync_folder) for folder in folders)]:
            try:
                sync(path)
            except OSError as error:
                if error.errno in _ABSENT:
                    raise ObjectNotFoundError(f"no object {path} to sync") from error
                _raise_mapped(error, "sync", path)

    def watch(self, folders: Iterable[str]) -> Watcher:
        """A watcher over these folders, by inotify where the machine has it."""
        paths = [self._prefix + check_key(folder) for folder in folders]
        return watch_folders(paths, SystemClock())

    def close(self) -> None:
        """Nothing is held between calls."""

    def _write_tmp(self, path: str, data: bytes, durable: bool) -> str:
        """Write the bytes under a name nobody else has; what fails here was surely not applied."""
        tmp = f"{self._tmp_prefix}{os.getpid()}-{os.urandom(8).hex()}"
        try:
            try:
                fd = os.open(tmp, _CREATE, 0o666)
            except FileNotFoundError:
                _make_folders(self._tmp_prefix.rstrip("/"))
                fd = os.open(tmp, _CREATE, 0o666)
        except OSError as error:
            _raise_mapped(error, "write", path)
        try:
            try:
                written = os.write(fd, data)
                while written < len(data):
                    written += os.write(fd, memoryview(data)[written:])
                if durable:
                    os.fsync(fd)
            finally:
                os.close(fd)
        except BaseException as error:
            _unlink_quietly(tmp)
            if isinstance(error, OSError):
                _raise_mapped(error, "write", path)
            raise
        return tmp

    def _sync_folder(self, folder: str) -> None:
        """Make the names in a folder survive a crash, and its own name and those above it."""
        _fsync_path(folder)
        unanchored = []
        while folder not in self._anchored:
            unanchored.append(folder)
            folder = _folder(folder)
        for path in reversed(unanchored):
            try:
                _fsync_path(_folder(path))
            except OSError as error:
                # A folder above the root that cannot be synced was not made by one of us.
                if path.startswith(self._prefix) or error.errno not in _CLOSED:
                    raise
            self._anchored.add(path)

    def _entries(self, folder: str, after: str, want_folders: bool) -> list[os.DirEntry[str]]:
        """The files, or the folders, of a folder in order; none if the folder is missing."""
        if folder and not check_key(folder).endswith("/"):
            raise InvalidInputError(f"folder {folder!r} must end with '/'")
        path = self._prefix + folder
        try:
            with os.scandir(path) as entries:
                chosen = [
                    entry
                    for entry in entries
                    if folder + entry.name > after and entry.is_dir() is want_folders
                ]
        except OSError as error:
            if error.errno in _ABSENT:
                return []
            _raise_mapped(error, "list", path)
        chosen.sort(key=lambda entry: entry.name)
        return chosen


class LocalOutputFile:
    """A file that is being written in place."""

    def __init__(self, path: str, sync_folder: Callable[[str], None]) -> None:
        """Create the file, with its folders if need be."""
        self._path = path
        self._sync_folder = sync_folder
        self._fd = _open_new(path)
        try:
            self.stream = pa.OSFile(path, "wb")
        except OSError as error:
            self.discard()
            _raise_mapped(error, "write", path)

    def tail(self, size: int) -> bytes:
        """The last so many bytes that were written."""
        try:
            end = os.fstat(self._fd).st_size
            return _read(self._fd, max(0, end - size), end)
        except OSError as error:
            _raise_mapped(error, "read", self._path)

    def finish(self, *, durable: bool = True) -> int:
        """Close the file and make it durable; returns its size."""
        try:
            self.stream.close()
            size = os.fstat(self._fd).st_size
            if durable:
                # Through the descriptor that was open all along: it is told of every write-back
                # error since, and the file needs no second look-up.
                os.fsync(self._fd)
                self._sync_folder(_folder(self._path))
        except OSError as error:
            _raise_mapped(error, "write", self._path)
        os.close(self._fd)
        self._fd = -1
        return size

    def discard(self) -> None:
        """Close and remove the file."""
        stream = getattr(self, "stream", None)
        if stream is not None:
            try:
                stream.close()
            except (OSError, SparklogError):
                pass  # it goes away in any case
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1
        _unlink_quietly(self._path)

    def failure(self, error: OSError) -> Exception:
        """The store's own error for one of the operating system."""
        return _mapped(error, "write", self._path)


def _read(fd: int, start: int, end: int) -> bytes:
    """Bytes from `start` to before `end`; fewer if the file is shorter."""
    if end <= start:
        return b""
    data = os.pread(fd, end - start, start)
    while data and len(data) < end - start:
        more = os.pread(fd, end - start - len(data), start + len(data))
        if not more:
            break
        data += more
    return data


def _link(tmp: str, path: str) -> PutOutcome:
    """Give the file its name if the name is free. Raises only if it surely did not get it."""
    try:
        try:
            os.link(tmp, path)
        except FileNotFoundError:
            _make_folders(_folder(path))
            os.link(tmp, path)
    except FileExistsError:
        return PutOutcome.EXISTS
    except OSError as error:
        if error.errno in _NO_LINK:
            raise StoreUnsuitableError(
                f"cannot link {path}: {error.strerror}. This file system has no atomic link, so "
                "two writers could both win the same commit. Mounts of object stores, such as "
                "Databricks volumes, are like that: give the log's root in its s3:// form"
            ) from error
        if error.errno in _LINK_REFUSED:
            _raise_mapped(error, "write", path)
        return PutOutcome.UNKNOWN  # a network mount may have done it and lost the answer
    return PutOutcome.CREATED


def _open_new(path: str) -> int:
    """Create a file, with its folders if need be, and in place of one that stands there."""
    for _ in range(3):
        try:
            return os.open(path, _CREATE, 0o666)
        except FileNotFoundError:
            _make_folders(_folder(path))
        except FileExistsError:
            _unlink_quietly(path)
        except OSError as error:
            _raise_mapped(error, "write", path)
    raise StoreUnavailableError(f"cannot write {path}: its name or its folder keeps changing")


def _make_folders(folder: str) -> None:
    """Make a folder and those above it that are missing."""
    missing = []
    above = folder
    while not os.path.isdir(above):  # noqa: PTH112
        missing.append(above)
        above = _folder(above)
    try:
        for path in reversed(missing):
            try:
                os.mkdir(path)  # noqa: PTH102
            except FileExistsError:
                pass  # another writer was first
    except OSError as error:
        _raise_mapped(error, "make folder", folder)


def _fsync_path(path: str) -> None:
    """Sync one file or folder."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def _folder(path: str) -> str:
    """The folder in which a path stands."""
    return path[: path.rindex("/")] or "/"


def _info(key: str, status: os.stat_result) -> ObjectInfo:
    """What the protocol says about a file."""
    return ObjectInfo(key, status.st_size, status.st_mtime_ns // 1_000_000)


def _unlink_quietly(path: str) -> None:
    """Remove a file if that can be done: what is left over is untidy, never wrong."""
    try:
        os.unlink(path)  # noqa: PTH108
    except OSError:
        pass


def _raise_mapped(error: OSError, action: str, path: str) -> NoReturn:
    """Raise the store's own error for one of the operating system."""
    raise _mapped(error, action, path) from error


def _mapped(error: OSError, action: str, path: str) -> StoreError:
    message = f"cannot {action} {path}: {error.strerror or error}"
    if error.errno in _FULL:
        return StoreFullError(f"{message}. Free space and try again")
    if error.errno in _DENIED:
        return StorePermissionError(f"{message}. Check the rights on the log's folder")
    return StoreUnavailableError(message)
