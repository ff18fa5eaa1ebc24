"""Spark: `format("sparklog")`, a session that just works, topics as tables, typed frames.

`session`, `table` and `by_partition` are functions in modules of the same name. They are imported
here at once, so that the names mean the functions however a module was imported first.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from sparklog.spark.by_partition import by_partition
from sparklog.spark.frames import from_json_records, to_json_records
from sparklog.spark.session import session
from sparklog.spark.table import create_view, table

if TYPE_CHECKING:
    from sparklog.spark.data_source import register

__all__ = [
    "by_partition",
    "create_view",
    "from_json_records",
    "register",
    "session",
    "table",
    "to_json_records",
]

_HOMES = {
    "register": "sparklog.spark.data_source",
}


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'sparklog.spark' has no attribute {name!r}")
    return getattr(importlib.import_module(home), name)
