"""From what a person writes as a log's root to the store that keeps it.

S3's store is imported only when it is asked for, so that sparklog works, and starts fast, without
s3fs. Nothing is read or written here.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Mapping
from typing import Any
from urllib.parse import unquote

from sparklog.errors import InvalidInputError
from sparklog.storage.local_store import LocalStore
from sparklog.storage.store import Store

_ALLOWED = "a path, file:///path or s3://bucket/prefix"


def open_store(
    root: str | os.PathLike[str], storage_options: Mapping[str, Any] | None = None
) -> Store:
    """The store at `root`: a path, `file:///path` or `s3://bucket/prefix`."""
    text = os.fspath(root)
    if not isinstance(text, str) or not text:
        raise InvalidInputError(f"the root of a log is {_ALLOWED}, not {root!r}")
    scheme, separator, rest = text.partition("://")
    if not separator:
        return _local(text, storage_options)
    if scheme == "s3":
        module = importlib.import_module("sparklog.storage.s3_store")
        store: Store = module.S3Store(text, storage_options)
        return store
    if scheme == "file" and rest.startswith("/"):
        return _local(unquote(rest), storage_options)
    raise InvalidInputError(f"the root of a log is {_ALLOWED}; {scheme}:// is not among them")


def _local(path: str, storage_options: Mapping[str, Any] | None) -> LocalStore:
    """A folder of this machine, which has no options."""
    if storage_options:
        raise InvalidInputError(f"storage_options are for s3:// roots; {path!r} is a local path")
    return LocalStore(path)
