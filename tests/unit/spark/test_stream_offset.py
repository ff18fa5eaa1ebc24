"""A query's stream offset."""

from __future__ import annotations

import json

import pytest

from sparklog.errors import InvalidInputError
from sparklog.spark.stream_offset import TopicOffsets, from_json, to_json

OFFSET = {"b": TopicOffsets("id-b", {10: 1, 9: 2}), "a": TopicOffsets("id-a", {0: 0})}


def test_offset_survives_json():
    assert from_json(json.loads(json.dumps(to_json(OFFSET)))) == OFFSET


def test_equal_offsets_give_equal_text():
    other = {"a": OFFSET["a"], "b": TopicOffsets("id-b", {9: 2, 10: 1})}
    assert json.dumps(to_json(OFFSET)) == json.dumps(to_json(other))


@pytest.mark.parametrize("body", [{"orders": {"0": 5}}, {"orders": 5}, [], {"o": {"id": 1}}])
def test_offset_of_another_source_is_refused(body):
    with pytest.raises(InvalidInputError, match="checkpointLocation of its own"):
        from_json(body)
