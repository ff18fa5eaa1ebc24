"""Log clean-up: which commits and checkpoints behind the newest checkpoint may go.

Deleting a commit re-opens its slot for a put that is still under way somewhere, so a commit goes
only when it is older than the log's retention, which is far longer than any put can live, *and*
more than `VERSIONS_KEPT` behind the newest checkpoint, so that a quiet table keeps its history
for time travel. The newest checkpoint always stays.
"""

from __future__ import annotations

from collections.abc import Iterable

from sparklog.storage import ObjectInfo, Store
from sparklog.table.actions import version_of

VERSIONS_KEPT = 10_000


def plan_clean_up(
    listing: Iterable[ObjectInfo],
    now_ms: int,
    retention_ms: int,
    versions_kept: int = VERSIONS_KEPT,
) -> list[str]:
    """The keys that may be deleted, oldest first."""
    files = [(version_of(info.key.rpartition("/")[2]), info) for info in listing]
    checkpoints = [v for v, info in files if v is not None and not info.key.endswith(".json")]
    if not checkpoints:
        return []
    newest = max(checkpoints)
    # The prefix that goes ends at the first file that must stay, so that no gap ever opens.
    keys: list[str] = []
    for version, info in files:
        if version is None:
            continue
        if version >= newest - versions_kept or now_ms - info.modified_ms < retention_ms:
            break
        keys.append(info.key)
    return keys


def clean_up(
    store: Store,
    log_folder: str,
    now_ms: int,
    retention_ms: int,
    versions_kept: int = VERSIONS_KEPT,
) -> list[str]:
    """Delete what the plan names; returns the deleted keys."""
    listing = store.list_from(log_folder)
    keys = plan_clean_up(listing, now_ms, retention_ms, versions_kept)
    for key in keys:
        store.delete(key)
    return keys
