"""Spark: `format("sparklog")`, a session that just works, topics as tables, typed frames.

Some functions have their module's name (`session`, `table`, `by_partition`). Importing them here,
at once, makes the names of this package mean the functions however a module was imported first.
"""

from sparklog.spark.by_partition import by_partition
from sparklog.spark.data_source import register
from sparklog.spark.frames import from_json_records, to_json_records
from sparklog.spark.session import session
from sparklog.spark.table import create_view, table

__all__ = [
    "by_partition",
    "create_view",
    "from_json_records",
    "register",
    "session",
    "table",
    "to_json_records",
]
