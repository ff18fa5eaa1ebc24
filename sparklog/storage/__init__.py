"""Where bytes live: the Store protocol and its local, S3 and in-memory implementations."""

from sparklog.storage.store import ObjectInfo, OutputFile, PutOutcome, Store, Watcher

__all__ = ["ObjectInfo", "OutputFile", "PutOutcome", "Store", "Watcher"]
