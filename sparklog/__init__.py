"""sparklog: a streaming log with Kafka's semantics and no brokers; every topic is a Delta table.

Names are imported when they are first used, so that a command that needs no Arrow starts quickly.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from sparklog.errors import SparklogError

if TYPE_CHECKING:
    from sparklog.clients.log import Log, connect
    from sparklog.log.records import Record

__version__ = "0.1.0"
__all__ = ["Log", "Record", "SparklogError", "__version__", "connect"]

_HOMES = {
    "Log": "sparklog.clients.log",
    "connect": "sparklog.clients.log",
    "Record": "sparklog.log.records",
}


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'sparklog' has no attribute {name!r}")
    return getattr(importlib.import_module(home), name)
