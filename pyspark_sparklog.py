"""Where Spark looks for `format("sparklog")`: a module of this name with a `DefaultSource`."""

from __future__ import annotations

from sparklog.spark.data_source import SparklogDataSource as DefaultSource

__all__ = ["DefaultSource"]
