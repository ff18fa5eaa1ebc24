"""Typed frames to records and back."""

from __future__ import annotations

import json

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.sql import functions as F

from sparklog.errors import InvalidInputError
from sparklog.spark import from_json_records, to_json_records

ORDERS = """
    SELECT * FROM VALUES (7, 'ann', 1.5D, X'00FF'), (8, NULL, 2.5D, NULL)
    AS orders(id, customer, total, trace)
"""


@pytest.fixture
def orders(spark):
    return spark.sql(ORDERS)


def test_to_json_records_named_columns_move_out_of_the_value(orders):
    records = to_json_records(orders, key="id", headers={"trace": "trace"})
    assert records.schema["key"].dataType.typeName() == "string"
    first, second = records.collect()
    assert (first.key, json.loads(first.value)) == ("7", {"customer": "ann", "total": 1.5})
    assert (second.key, json.loads(second.value)) == ("8", {"total": 2.5})
    assert first.headers == [("trace", bytearray(b"\x00\xff"))]
    assert second.headers == [("trace", None)]


def test_to_json_records_expression_is_copied(orders):
    row = to_json_records(orders, key=F.col("customer")).first()
    assert row.key == "ann"
    assert json.loads(row.value)["customer"] == "ann"


def test_to_json_records_without_names_has_only_a_value(orders):
    assert to_json_records(orders.select("id")).collect() == [('{"id":7}',), ('{"id":8}',)]


def test_to_json_records_key_keeps_bytes_and_writes_structs_as_json(spark, orders):
    assert to_json_records(orders, key="trace").first().key == b"\x00\xff"
    nested = orders.select(F.struct("id", "customer").alias("who"), "total")
    assert to_json_records(nested, key="who").first().key == '{"id":7,"customer":"ann"}'


def test_to_json_records_topic_and_partition_have_the_sink_types(orders):
    records = to_json_records(orders, topic="customer", partition=F.col("id") % 4)
    kinds = {field.name: field.dataType.simpleString() for field in records.schema}
    assert kinds == {"topic": "string", "partition": "int", "value": "string"}
    assert records.first()[:2] == ("ann", 3)


def test_to_json_records_column_with_a_dot_is_found(spark):
    frame = spark.sql("SELECT 1 AS `a.b`, 2 AS c")
    assert to_json_records(frame, key="a.b").collect() == [("1", '{"c":2}')]


@pytest.mark.parametrize("place", ["key", "headers", "topic", "partition"])
def test_to_json_records_missing_column_names_what_there_is(orders, place):
    with pytest.raises(InvalidInputError, match=f"{place}: .*'nope'.*id, customer, total, trace"):
        to_json_records(orders, **{place: "nope"})


def test_to_json_records_nothing_left_for_the_value_is_refused(orders):
    with pytest.raises(InvalidInputError, match="no column is left"):
        to_json_records(orders.select("id"), key="id")


def test_to_json_records_empty_headers_are_refused(orders):
    with pytest.raises(InvalidInputError, match="headers"):
        to_json_records(orders, headers={})


def test_from_json_records_gives_back_what_went_in(orders):
    records = to_json_records(orders, key="customer").withColumn("offset", F.lit(3))
    back = from_json_records(records, "id int, total double")
    assert back.columns == records.columns
    rows = back.select("key", "value.*", "offset").collect()
    assert rows == [("ann", 7, 1.5, 3), (None, 8, 2.5, 3)]


def test_from_json_records_tombstone_stays_null_and_bytes_are_read(spark):
    values = """VALUES (1, CAST('{"id": 1}' AS BINARY)), (2, NULL), (3, X'00FF') AS t(n, value)"""
    frame = from_json_records(spark.sql(f"SELECT value FROM {values} ORDER BY n"), "id int")
    assert [row.value and tuple(row.value) for row in frame.collect()] == [(1,), None, (None,)]


def test_from_json_records_failfast_stops_at_what_is_not_json(spark):
    frame = spark.range(1).selectExpr("concat('not json', id) AS value")
    with pytest.raises(Py4JJavaError, match="MALFORMED_RECORD"):
        from_json_records(frame, "id int", mode="FAILFAST").collect()


def test_from_json_records_without_value_names_what_there_is(orders):
    with pytest.raises(InvalidInputError, match="no column 'value'; there are: id"):
        from_json_records(orders, "id int")


def test_from_json_records_unknown_mode_is_refused(orders):
    with pytest.raises(InvalidInputError, match="PERMISSIVE or FAILFAST"):
        from_json_records(orders, "id int", mode="DROPMALFORMED")
