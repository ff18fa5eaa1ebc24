"""The columns of a topic: as stored in segments, as Delta describes them, as readers get them.

A segment holds `offset_delta`, not offsets: it is written before anyone knows its offsets, and
the commit that names it says where it begins. `offset = base_offset + offset_delta`.
"""

from __future__ import annotations

import json

import pyarrow as pa

PARTITION_COLUMNS = ("partition", "base_offset")
TIMESTAMP = pa.timestamp("us", tz="UTC")
HEADER = pa.struct([("key", pa.string()), ("value", pa.binary())])
HEADERS = pa.list_(HEADER)

SEGMENT_SCHEMA = pa.schema(
    [
        ("offset_delta", pa.int32()),
        ("timestamp", TIMESTAMP),
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("headers", HEADERS),
    ]
)
"""What a segment file holds."""

TABLE_SCHEMA = pa.schema(
    [("partition", pa.int32()), ("base_offset", pa.int64()), *SEGMENT_SCHEMA],
)
"""What any Delta reader sees."""

RECORD_SCHEMA = pa.schema(
    [
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", TIMESTAMP),
        ("timestampType", pa.int32()),
        ("headers", HEADERS),
    ]
)
"""What `poll_arrow` and the Spark source give: the columns of Spark's Kafka source."""

_DELTA_HEADERS = {
    "type": "array",
    "elementType": {
        "type": "struct",
        "fields": [
            {"name": "key", "type": "string", "nullable": True, "metadata": {}},
            {"name": "value", "type": "binary", "nullable": True, "metadata": {}},
        ],
    },
    "containsNull": True,
}
_DELTA_TYPES: dict[str, object] = {
    "partition": "integer",
    "base_offset": "long",
    "offset_delta": "integer",
    "timestamp": "timestamp",
    "key": "binary",
    "value": "binary",
    "headers": _DELTA_HEADERS,
}


def delta_schema_string() -> str:
    """The schema of a raw topic as Delta's metadata carries it."""
    fields = [
        {"name": name, "type": _DELTA_TYPES[name], "nullable": True, "metadata": {}}
        for name in TABLE_SCHEMA.names
    ]
    return json.dumps({"type": "struct", "fields": fields}, separators=(",", ":"))
