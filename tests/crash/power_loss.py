"""A model of what a power cut leaves of a folder: only what was synced, and nothing else.

While it is switched on, `os.fsync` of a file notes the file's bytes, and of a folder its entries.
`leave` builds, in another place, the tree that would be found after the power cut. A file whose
name was synced but not its bytes is found empty; one whose sync failed once is never trusted
again, because the kernel may have thrown its pages away. Real disks may keep more than this.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

Fault = Callable[[str], bool]


def fd_path(fd: int) -> str:
    """The path behind a descriptor."""
    return str(Path(f"/proc/self/fd/{fd}").readlink())


class PowerLoss:
    """Watches the syncs of this process below one folder, and fails those that it is told to."""

    def __init__(self, monkeypatch: Any, base: Path, fault: Fault = lambda _: False) -> None:
        """`base` itself counts as synced, with what it holds now; `fault` sees each sync's path."""
        self.syncs = 0
        self.fault = fault
        self._base = str(base)
        self._bytes: dict[int, bytes] = {}
        self._lost: set[int] = set()
        self._entries: dict[str, dict[str, int]] = {}
        self._fsync, self._open = os.fsync, os.open
        self._note_folder(self._base)
        monkeypatch.setattr(os, "fsync", self._watched_fsync)
        monkeypatch.setattr(os, "open", self._watched_open)

    def leave(self, target: Path) -> Path:
        """Build what the power cut leaves."""
        self._leave_folder(self._base, target)
        return target

    def _leave_folder(self, folder: str, target: Path) -> None:
        target.mkdir()
        for name, inode in self._entries.get(folder, {}).items():
            path = f"{folder}/{name}"
            if os.path.isdir(path):  # noqa: PTH112
                self._leave_folder(path, target / name)
            else:
                (target / name).write_bytes(self._bytes.get(inode, b""))

    def _watched_fsync(self, fd: int) -> None:
        path, status = fd_path(fd), os.fstat(fd)
        if path.startswith(self._base):
            self.syncs += 1
            if self.fault(path):
                if stat.S_ISREG(status.st_mode):
                    self._lost.add(status.st_ino)
                raise OSError(errno.EIO, os.strerror(errno.EIO))
        self._fsync(fd)
        if stat.S_ISDIR(status.st_mode):
            self._note_folder(path)
        elif status.st_ino not in self._lost:
            self._bytes[status.st_ino] = Path(path).read_bytes()

    def _watched_open(self, path: Any, flags: int, *rest: Any, **options: Any) -> int:
        fd = self._open(path, flags, *rest, **options)
        if flags & os.O_CREAT:  # a new file may have got the inode of one that was removed
            inode = os.fstat(fd).st_ino
            self._bytes.pop(inode, None)
            self._lost.discard(inode)
        return fd

    def _note_folder(self, folder: str) -> None:
        with os.scandir(folder) as entries:
            self._entries[folder] = {entry.name: entry.inode() for entry in entries}
