"""Stores as Spark's Python processes use them: opened once a process, never carried over a fork.

Planner, task and commit workers are processes that are reused and forked; what is pickled on its
way to them is where the log is, never an open store.
"""

from __future__ import annotations

import os

from sparklog.clock import SystemClock
from sparklog.errors import LogNotFoundError
from sparklog.names import LOG_IDENTITY_KEY
from sparklog.spark.options import StoreOptions
from sparklog.storage import Store
from sparklog.storage.open_store import open_store

CLOCK = SystemClock()

_stores: dict[tuple[int, StoreOptions], Store] = {}


def process_store(options: StoreOptions) -> Store:
    """This process's store of that log; LogNotFoundError if there is no log."""
    key = (os.getpid(), options)
    store = _stores.get(key)
    if store is None:
        store = open_store(options.path, options.storage_options)
        if store.head(LOG_IDENTITY_KEY) is None:
            raise LogNotFoundError(
                f"there is no log at {store.uri} (option path). Create it with "
                f"sparklog.connect({options.path!r}), or correct the path"
            )
        _stores[key] = store
    return store
