"""What a DataFrame must look like to be written: Kafka's sink columns, checked when it is planned.

`value` is required; `key`, `headers`, `topic` and `partition` are taken if they are there. Other
columns are left out, as Kafka's sink leaves them out, so what a source gave can be written as it
is. Without a column `topic` the option `topic` says where records go; with both the option counts.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    StringType,
    StructType,
)

from sparklog.errors import InvalidConfigError, InvalidRecordError


@dataclass(frozen=True)
class SinkColumns:
    """Which of the optional columns there are."""

    key: bool
    headers: bool
    topic: bool
    partition: bool


def check_schema(schema: StructType, topic: str | None) -> SinkColumns:
    """Raise unless rows of this schema are records; say what they consist of."""
    found = {field.name: field.dataType for field in schema.fields}
    if "value" not in found:
        raise InvalidRecordError(
            "the DataFrame has no column 'value' (string or binary); it has "
            f"{', '.join(found) or 'none'}. Name one so: df.selectExpr('to_json(struct(*)) AS "
            "value')"
        )
    for name, (fits, allowed) in _COLUMNS.items():
        if name in found and not fits(found[name]):
            raise InvalidRecordError(
                f"column {name!r} is {found[name].simpleString()}; it must be {allowed}: "
                "cast it, or drop it"
            )
    if topic is None and "topic" not in found:
        raise InvalidConfigError(
            "nothing says where records go: give the option topic, or a column 'topic' (string)"
        )
    return SinkColumns(
        key="key" in found,
        headers="headers" in found,
        topic="topic" in found and topic is None,
        partition="partition" in found,
    )


def _is_bytes(kind: DataType) -> bool:
    return isinstance(kind, (StringType, BinaryType))


def _is_string(kind: DataType) -> bool:
    return isinstance(kind, StringType)


def _is_int(kind: DataType) -> bool:
    return isinstance(kind, IntegerType)


def _is_headers(kind: DataType) -> bool:
    if not isinstance(kind, ArrayType) or not isinstance(kind.elementType, StructType):
        return False
    fields = [(field.name, type(field.dataType)) for field in kind.elementType.fields]
    return fields == [("key", StringType), ("value", BinaryType)]


_COLUMNS: dict[str, tuple[Callable[[DataType], bool], str]] = {
    "value": (_is_bytes, "string or binary"),
    "key": (_is_bytes, "string or binary"),
    "headers": (_is_headers, "array<struct<key:string,value:binary>>"),
    "topic": (_is_string, "string"),
    "partition": (_is_int, "int"),
}
