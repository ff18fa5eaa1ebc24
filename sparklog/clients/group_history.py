"""A group's history: every offset commit that its table log still holds, as columns.

Each row says where the partition ended when its offset was committed, as the committer saw it, so
`lag` is the lag of that moment. How far back it goes is the log's retention (a day, and at least
ten thousand versions).
"""

from __future__ import annotations

import pyarrow as pa

from sparklog.groups.group_state import read_offset_domain
from sparklog.table.actions import DomainMetadata, version_of
from sparklog.table.table_log import TableLog

HISTORY_SCHEMA = pa.schema(
    [
        ("time", pa.timestamp("ms", tz="UTC")),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("log_end", pa.int64()),
        ("lag", pa.int64()),
        ("metadata", pa.string()),
        ("member", pa.string()),
        ("topic_id", pa.string()),
        ("version", pa.int64()),
    ]
)


def read_history(table_log: TableLog) -> pa.Table:
    """The offset commits in the order in which they were made."""
    rows = []
    names = (
        info.key.rpartition("/")[2] for info in table_log.store.list_from(table_log.log_folder)
    )
    for name in names:
        version = version_of(name)
        commit = table_log.read(version) if version is not None and name.endswith("json") else None
        for action in commit.actions if commit is not None else ():
            if not isinstance(action, DomainMetadata) or action.removed:
                continue
            found = read_offset_domain(action.domain, action.configuration)
            if found is None or commit is None:
                continue
            partition, committed = found
            known = committed.log_end >= 0
            rows.append(
                {
                    "time": committed.time_ms,
                    "topic": committed.topic,
                    "partition": partition.partition,
                    "offset": committed.offset,
                    "log_end": committed.log_end if known else None,
                    "lag": max(0, committed.log_end - committed.offset) if known else None,
                    "metadata": committed.metadata,
                    "member": committed.member_id or None,
                    "topic_id": partition.topic_id,
                    "version": commit.version,
                }
            )
    return pa.Table.from_pylist(rows, schema=HISTORY_SCHEMA)
