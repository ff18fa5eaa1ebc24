"""What a DataFrame must look like to be written."""

import pytest
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    ByteType,
    DataType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from sparklog.errors import InvalidConfigError, InvalidRecordError
from sparklog.spark.sink_schema import SinkColumns, check_schema

STRING, BINARY, INT, LONG = StringType(), BinaryType(), IntegerType(), LongType()


def struct(**columns: DataType) -> StructType:
    return StructType([StructField(name, kind) for name, kind in columns.items()])


def check(option: str | None = "t", /, **columns: DataType) -> SinkColumns:
    """With the option topic, and these columns."""
    return check_schema(struct(**columns), option)


HEADERS = ArrayType(struct(key=STRING, value=BINARY))


def test_value_alone_is_enough_with_a_topic():
    assert check(value=STRING) == SinkColumns(False, False, False, False)


def test_all_columns_in_both_kinds_of_bytes_are_taken():
    found = check(None, key=BINARY, value=BINARY, headers=HEADERS, topic=STRING, partition=INT)
    assert found == SinkColumns(True, True, True, True)
    assert check(key=STRING, value=BINARY).key


def test_column_topic_does_not_count_where_the_option_is_given():
    assert not check("t", value=STRING, topic=STRING).topic
    assert check(None, value=STRING, topic=STRING).topic


def test_other_columns_are_left_out():
    found = check(value=STRING, offset=LONG, timestamp=TimestampType(), timestampType=INT)
    assert found == SinkColumns(False, False, False, False)


def test_missing_value_is_refused_with_what_there_is():
    with pytest.raises(InvalidRecordError, match="no column 'value'.*it has key, Value"):
        check(key=STRING, Value=STRING)


@pytest.mark.parametrize(
    ("column", "kind", "message"),
    [
        ("value", INT, "'value' is int; it must be string or binary"),
        ("value", struct(a=INT), "'value' is struct<a:int>; it must be string or binary"),
        ("key", ArrayType(ByteType()), "'key' is array<tinyint>; it must be string or binary"),
        ("topic", BINARY, "'topic' is binary; it must be string"),
        ("partition", LONG, "'partition' is bigint; it must be int"),
        ("headers", MapType(STRING, BINARY), "'headers' is map<string,binary>; it must be array<"),
        ("headers", ArrayType(STRING), "it must be array<struct<key:string,value:binary>>"),
        ("headers", ArrayType(struct(key=STRING, value=STRING)), "it must be array<struct"),
        ("headers", ArrayType(struct(value=BINARY, key=STRING)), "it must be array<struct"),
    ],
)
def test_wrong_type_is_refused_by_name_with_what_is_allowed(column, kind, message):
    with pytest.raises(InvalidRecordError, match=message):
        check(**{"value": STRING, column: kind})


def test_no_topic_at_all_is_refused():
    with pytest.raises(InvalidConfigError, match="give the option topic, or a column 'topic'"):
        check(None, value=STRING)
