"""The partitioner against Kafka's published hashes, and the vectorised form against the scalar."""

from __future__ import annotations

import random

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparklog.errors import InvalidInputError, InvalidRecordError
from sparklog.log import partitioner
from sparklog.log.partitioner import murmur2, murmur2_array, partition_for_keys

# Kafka: clients/src/test/java/org/apache/kafka/common/utils/UtilsTest.java, testMurmur2
KAFKA_VECTORS = {
    b"21": -973932308,
    b"foobar": -790332482,
    b"a-little-bit-long-string": -985981536,
    b"a-little-bit-longer-string": -1486304829,
    b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971,
    b"abc": 479470107,
}


def keys_of_length(length: int, count: int = 40) -> list[bytes]:
    return [random.Random(length * 1000 + row).randbytes(length) for row in range(count)]


def scalar(keys: list[bytes]) -> list[int]:
    return [murmur2(key) for key in keys]


@pytest.mark.parametrize(("key", "expected"), KAFKA_VECTORS.items())
def test_murmur2_of_kafkas_vectors_matches(key: bytes, expected: int) -> None:
    assert murmur2(key) == expected


def test_murmur2_array_of_kafkas_vectors_matches() -> None:
    assert murmur2_array(pa.array(list(KAFKA_VECTORS))).tolist() == list(KAFKA_VECTORS.values())


@pytest.mark.parametrize(("key", "expected"), KAFKA_VECTORS.items())
def test_murmur2_array_of_equal_vectors_matches(key: bytes, expected: int) -> None:
    assert murmur2_array(pa.array([key] * 20)).tolist() == [expected] * 20


def test_partition_for_keys_of_negative_hashes_clears_the_sign_like_kafka() -> None:
    # Kafka clears the sign bit; the absolute value, or Python's own modulo, would give others.
    assert murmur2(b"21") < 0
    assert partition_for_keys(pa.array([b"21"]), 50).tolist() == [(-973932308 & 0x7FFFFFFF) % 50]
    assert partition_for_keys(pa.array([b"21", b"foobar"]), 1000).tolist() == [340, 166]


@pytest.mark.parametrize("length", range(68))
def test_murmur2_array_of_one_length_equals_scalar(length: int) -> None:
    keys = keys_of_length(length)
    assert murmur2_array(pa.array(keys, pa.binary())).tolist() == scalar(keys)


@given(st.lists(st.binary(max_size=67), max_size=80), st.booleans(), st.data())
def test_murmur2_array_of_mixed_lengths_equals_scalar(
    keys: list[bytes], large: bool, data: st.DataObject
) -> None:
    array = pa.array(keys, pa.large_binary() if large else pa.binary())
    assert murmur2_array(array).tolist() == scalar(keys)
    start = data.draw(st.integers(0, len(keys)))
    stop = data.draw(st.integers(start, len(keys)))
    assert murmur2_array(array[start:stop]).tolist() == scalar(keys[start:stop])


def test_murmur2_array_of_all_lengths_at_once_equals_scalar() -> None:
    keys = [key for length in range(68) for key in keys_of_length(length, 17)]
    random.Random(1).shuffle(keys)
    assert murmur2_array(pa.array(keys)).tolist() == scalar(keys)


def test_murmur2_array_over_block_borders_equals_scalar(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(partitioner, "_BLOCK_ROWS", 32)
    keys = [*keys_of_length(16, 70), *keys_of_length(9, 40), *keys_of_length(3, 33)]
    assert murmur2_array(pa.array(keys)).tolist() == scalar(keys)


@pytest.mark.parametrize("long_keys", [1, 20])
def test_murmur2_array_with_very_long_keys_equals_scalar(long_keys: int) -> None:
    keys = [*keys_of_length(5), *keys_of_length(300_001, long_keys), *keys_of_length(64)]
    assert murmur2_array(pa.array(keys)).tolist() == scalar(keys)


def test_murmur2_array_of_keys_65536_words_apart_keeps_their_order() -> None:
    # The rows are sorted by how many words they lack; in 16 bits these two would lack the same.
    words = 4464
    keys = [*keys_of_length(4 * words, 16), *keys_of_length(4 * (words + 65_536), 16)]
    assert murmur2_array(pa.array(keys)).tolist() == scalar(keys)


def test_murmur2_array_of_sliced_fixed_keys_reads_from_the_offset() -> None:
    keys = keys_of_length(15, 100)
    assert murmur2_array(pa.array(keys)[7:61]).tolist() == scalar(keys[7:61])


def test_murmur2_array_of_chunks_hashes_each_in_order() -> None:
    first, second, third = keys_of_length(16), keys_of_length(7), keys_of_length(0)
    chunks = pa.chunked_array([pa.array(first)[3:], pa.array(second), pa.array(third)])
    assert murmur2_array(chunks).tolist() == scalar(first[3:] + second + third)


def test_murmur2_array_of_chunks_with_empty_ones_hashes_the_rest() -> None:
    empty = pa.array([], pa.binary())
    keys = keys_of_length(4)
    chunks = pa.chunked_array([empty, pa.array(keys), empty])
    assert murmur2_array(chunks).tolist() == scalar(keys)


def test_murmur2_array_with_nulls_hashes_the_others() -> None:
    keys = keys_of_length(16)
    mixed = [None if row % 3 == 0 else key for row, key in enumerate(keys)]
    hashes = murmur2_array(pa.array(mixed))
    assert [hashes[row] for row, key in enumerate(mixed) if key is not None] == [
        murmur2(key) for key in mixed if key is not None
    ]


@pytest.mark.parametrize("kind", [pa.binary(), pa.large_string(), pa.null()])
def test_murmur2_array_of_only_nulls_has_their_length(kind: pa.DataType) -> None:
    assert len(murmur2_array(pa.nulls(20, kind))) == 20


@pytest.mark.parametrize("kind", [pa.binary(), pa.large_binary(), pa.string(), pa.null()])
def test_murmur2_array_of_nothing_is_empty(kind: pa.DataType) -> None:
    hashes = murmur2_array(pa.array([], kind))
    assert hashes.tolist() == [] and hashes.dtype == np.int32


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.string_view()])
def test_murmur2_array_of_strings_hashes_their_utf8(kind: pa.DataType) -> None:
    texts = ["", "é", "日本語", "plain", "a longer one, past twelve bytes"] * 5
    assert murmur2_array(pa.array(texts, kind)).tolist() == [murmur2(t.encode()) for t in texts]


def test_murmur2_array_of_fixed_size_binary_equals_scalar() -> None:
    keys = keys_of_length(16)
    assert murmur2_array(pa.array(keys, pa.binary(16))[5:]).tolist() == scalar(keys[5:])


@pytest.mark.parametrize("kind", [pa.binary(), pa.string(), pa.large_string()])
def test_murmur2_array_of_dictionary_keys_hashes_their_values(kind: pa.DataType) -> None:
    texts = ["one", "two", "one", "three"] * 6
    array = pa.array(texts, pa.string()).cast(kind).dictionary_encode()
    assert murmur2_array(array[2:]).tolist() == [murmur2(t.encode()) for t in texts[2:]]


def test_murmur2_array_of_dictionary_of_integers_is_refused() -> None:
    with pytest.raises(InvalidRecordError, match="int64"):
        murmur2_array(pa.array([1, 1, 2]).dictionary_encode())


def test_murmur2_array_of_integers_is_refused() -> None:
    with pytest.raises(InvalidRecordError, match="int64"):
        murmur2_array(pa.array([1, 2]))


def test_murmur2_array_leaves_its_input_alone() -> None:
    array = pa.array(keys_of_length(16))
    before = array.to_pylist()
    murmur2_array(array)
    assert array.to_pylist() == before


@given(st.lists(st.binary(max_size=40), max_size=40), st.integers(1, 2**31 - 1))
def test_partition_for_keys_of_any_count_is_positive_hash_modulo(
    keys: list[bytes], count: int
) -> None:
    partitions = partition_for_keys(pa.array(keys, pa.binary()), count)
    assert partitions.dtype == np.int32
    assert partitions.tolist() == [(murmur2(key) & 0x7FFFFFFF) % count for key in keys]


@pytest.mark.parametrize("count", [0, -1, 2**31])
def test_partition_for_keys_with_impossible_count_is_refused(count: int) -> None:
    with pytest.raises(InvalidInputError, match=str(count)):
        partition_for_keys(pa.array([b"k"]), count)
