"""Typed frames to records and back, in Spark expressions only: no Python runs per record.

`to_json_records` makes the columns that the sink takes of any frame; `from_json_records` gives the
source's frame with a typed `value`. Both are lazy, and work in batch and in streams alike.

What they do not do: they know no schema registry, and they do not check that a value is JSON; one
that is not becomes a value of nulls, or fails the query with mode "FAILFAST".
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal, Union

from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, BinaryType, MapType, StructType, VariantType

from sparklog.errors import InvalidInputError

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

NameOrColumn = Union[str, "Column"]
_NESTED = (ArrayType, MapType, StructType, VariantType)


def to_json_records(
    df: DataFrame,
    *,
    key: NameOrColumn | None = None,
    headers: str | Mapping[str, NameOrColumn] | None = None,
    topic: NameOrColumn | None = None,
    partition: NameOrColumn | None = None,
) -> DataFrame:
    """The frame as records: `value` is a JSON object of the columns that are not named here.

    A column given by its name moves out of the value; one given as an expression, such as
    `F.col("customer")`, is copied. `headers` is a column of headers or {header: column}.
    """
    names = _Names(df)
    columns = []
    if key is not None:
        columns.append(_as_key(df, names.take("key", key)).alias("key"))
    if isinstance(headers, Mapping):
        pairs = {name: names.take("headers", column) for name, column in headers.items()}
        columns.append(_as_headers(pairs).alias("headers"))
    elif headers is not None:
        columns.append(names.take("headers", headers).alias("headers"))
    if topic is not None:
        columns.append(names.take("topic", topic).cast("string").alias("topic"))
    if partition is not None:
        columns.append(names.take("partition", partition).cast("int").alias("partition"))
    rest = [_column(name) for name in df.columns if name not in names.taken]
    if not rest:
        raise InvalidInputError(
            f"no column is left for the value: all of {', '.join(df.columns)} are named as key, "
            'headers, topic or partition; give one as an expression, F.col("..."), to copy it'
        )
    return df.select(*columns, F.to_json(F.struct(*rest)).alias("value"))


def from_json_records(
    df: DataFrame,
    schema: StructType | str,
    *,
    mode: Literal["PERMISSIVE", "FAILFAST"] = "PERMISSIVE",
) -> DataFrame:
    """The source's frame with `value` parsed by this schema, and `key` as a string.

    `.select("value.*")` gives the plain columns. A null value (a tombstone) stays null.
    """
    if mode not in ("PERMISSIVE", "FAILFAST"):
        raise InvalidInputError(f"mode = {mode!r} is not allowed: it is PERMISSIVE or FAILFAST")
    names = _Names(df)
    parsed = F.from_json(names.take("value", "value").cast("string"), schema, {"mode": mode})
    changed = {"value": parsed}
    if "key" in df.columns:
        changed["key"] = _column("key").cast("string")
    return df.withColumns(changed)


class _Names:
    """The columns of a frame, and which of them have been used."""

    def __init__(self, df: DataFrame) -> None:
        self._columns = df.columns
        self.taken: set[str] = set()

    def take(self, what: str, column: NameOrColumn) -> Column:
        """The column; an error that lists what there is if it is not there."""
        if not isinstance(column, str):
            return column
        if column not in self._columns:
            raise InvalidInputError(
                f"{what}: there is no column {column!r}; there are: {', '.join(self._columns)}"
            )
        self.taken.add(column)
        return _column(column)


def _column(name: str) -> Column:
    """The column of exactly this name, also one with a dot in it."""
    return F.col("`" + name.replace("`", "``") + "`")


def _as_key(df: DataFrame, column: Column) -> Column:
    """Bytes stay bytes; a struct, list or map becomes JSON; anything else its text."""
    kind: Any = df.select(column).schema[0].dataType
    if isinstance(kind, BinaryType):
        return column
    return F.to_json(column) if isinstance(kind, _NESTED) else column.cast("string")


def _as_headers(pairs: Mapping[str, Column]) -> Column:
    if not pairs:
        raise InvalidInputError("headers: the mapping is empty; leave headers out instead")
    return F.array(
        *(
            F.struct(F.lit(name).alias("key"), column.cast("string").cast("binary").alias("value"))
            for name, column in pairs.items()
        )
    )
