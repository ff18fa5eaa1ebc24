"""Kafka's default partitioner: murmur2 on the key, bit for bit.

Guarantees:

1. A key goes to the partition to which Kafka's Java client sends it, so that a topic copied from
   Kafka, or joined with one, stays co-partitioned.
2. `murmur2_array` equals `murmur2` on every key, whatever the lengths, slices or chunks.
3. Memory beyond the result is bounded by a block of rows, not by the input.

What it does not do: it places no null keys (their hash is unspecified: the producer keeps those
sticky), and it does not hash keys of other types; a struct has no bytes of its own.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sparklog.errors import InvalidInputError, InvalidRecordError

Keys: TypeAlias = "pa.Array[Any] | pa.ChunkedArray[Any]"

_SEED = 0x9747B28C
_MULTIPLIER = 0x5BD1E995
_MASK = 0xFFFFFFFF
_M = np.uint32(_MULTIPLIER)

_BLOCK_ROWS = 65_536  # the columns of a block stay in the processor's cache
_VECTOR_ROWS_MIN = 16  # below this many rows a numpy call costs more than the loop it replaces

_DIRECT = (pa.binary(), pa.string(), pa.large_binary(), pa.large_string())
_WIDE = (pa.large_binary(), pa.large_string())


def murmur2(data: bytes) -> int:
    """The hash of one key, as a signed 32-bit integer like Java's."""
    length = len(data)
    h = _SEED ^ length
    tail = length & ~3
    for at in range(0, tail, 4):
        k = int.from_bytes(data[at : at + 4], "little") * _MULTIPLIER & _MASK
        k = (k ^ k >> 24) * _MULTIPLIER & _MASK
        h = (h * _MULTIPLIER & _MASK) ^ k
    if tail < length:
        h = (h ^ int.from_bytes(data[tail:], "little")) * _MULTIPLIER & _MASK
    h = (h ^ h >> 13) * _MULTIPLIER & _MASK
    h ^= h >> 15
    return h - (1 << 32) if h >> 31 else h


def murmur2_array(keys: Keys) -> npt.NDArray[np.int32]:
    """The hash of every key. The value for a null is unspecified."""
    hashes = np.empty(len(keys), np.uint32)
    done = 0
    for chunk in keys.chunks if isinstance(keys, pa.ChunkedArray) else [keys]:
        offsets, data = _offsets_and_data(chunk)
        for start in range(0, len(chunk), _BLOCK_ROWS):
            rows = min(_BLOCK_ROWS, len(chunk) - start)
            _hash_block(offsets[start : start + rows + 1], data, hashes[done : done + rows])
            done += rows
    return hashes.view(np.int32)


def partition_for_keys(keys: Keys, partition_count: int) -> npt.NDArray[np.int32]:
    """The partition of every key. The value for a null is some partition: choose another."""
    if not 1 <= partition_count <= 0x7FFFFFFF:
        raise InvalidInputError(f"partition count {partition_count} is not from 1 to 2147483647")
    positive = murmur2_array(keys)
    np.bitwise_and(positive, 0x7FFFFFFF, out=positive)
    count = np.int32(partition_count)
    quotient = positive // count  # numpy vectorises division by a scalar, but not the remainder
    np.multiply(quotient, count, out=quotient)
    np.subtract(positive, quotient, out=positive)
    return positive


def _offsets_and_data(keys: Any) -> tuple[npt.NDArray[Any], npt.NDArray[np.uint8]]:
    """Views of an Arrow array's buffers: rows + 1 offsets, and the bytes they point into."""
    if keys.type not in _DIRECT:
        keys = _to_binary(keys)
    width = np.dtype(np.int64 if keys.type in _WIDE else np.int32)
    _, offsets, data = keys.buffers()
    no_bytes = np.empty(0, np.uint8)
    if len(keys) == 0 or offsets is None:
        return np.zeros(len(keys) + 1, width), no_bytes
    return (
        np.frombuffer(offsets, width, len(keys) + 1, keys.offset * width.itemsize),
        no_bytes if data is None or data.size == 0 else np.frombuffer(data, np.uint8),
    )


def _to_binary(keys: Any) -> Any:
    """Keys of another layout but with bytes of their own, as binary."""
    if pa.types.is_dictionary(keys.type):
        keys = keys.dictionary_decode()
    kind = keys.type
    if kind in _DIRECT:
        return keys
    same_bytes = (
        pa.types.is_fixed_size_binary(kind),
        pa.types.is_null(kind),
        kind in (pa.binary_view(), pa.string_view()),
    )
    if not any(same_bytes):
        raise InvalidRecordError(
            f"keys of type {kind} have no bytes to hash: give binary or string keys, "
            "or name the partition"
        )
    return keys.cast(pa.binary() if pa.types.is_fixed_size_binary(kind) else pa.large_binary())


def _hash_block(
    offsets: npt.NDArray[Any], data: npt.NDArray[np.uint8], h: npt.NDArray[np.uint32]
) -> None:
    """Hash the keys between consecutive offsets into `h`."""
    lengths = np.diff(offsets)
    length = int(lengths[0])
    if np.all(lengths == length):
        _hash_equal(int(offsets[0]), length, data, h)
    else:
        _hash_mixed(offsets[:-1].astype(np.int64), lengths, data, h)


def _hash_equal(
    start: int, length: int, data: npt.NDArray[np.uint8], h: npt.NDArray[np.uint32]
) -> None:
    """Keys of one length: the same word of all keys is a strided column of the buffer."""
    if len(h) < _VECTOR_ROWS_MIN:
        for row in range(len(h)):
            at = start + row * length
            h[row] = murmur2(data[at : at + length].tobytes()) & _MASK
        return
    k, shifted = np.empty_like(h), np.empty_like(h)
    h[:] = _SEED ^ length
    words = length >> 2
    for word in range(words):
        _mix(h, _column("<u4", data, start + 4 * word, len(h), length), k, shifted)
    if length & 3:
        for byte in range(length & 3):
            column = _column("u1", data, start + 4 * words + byte, len(h), length)
            np.left_shift(column, 8 * byte, out=k, dtype=np.uint32)
            np.bitwise_xor(h, k, out=h)
        np.multiply(h, _M, out=h)
    _finish(h, shifted)


def _column(
    dtype: str, data: npt.NDArray[np.uint8], at: int, rows: int, stride: int
) -> npt.NDArray[Any]:
    column: npt.NDArray[Any] = np.ndarray((rows,), dtype, data, at, (stride,))
    return column


def _hash_mixed(
    starts: npt.NDArray[np.int64],
    lengths: npt.NDArray[Any],
    data: npt.NDArray[np.uint8],
    hashes: npt.NDArray[np.uint32],
) -> None:
    """Keys of any lengths, the longest first, so that those with words left are a prefix."""
    word_counts = lengths >> 2
    most = int(word_counts.max())
    sort_type = np.uint16 if most <= 0xFFFF else np.int64  # numpy sorts 16 bits by radix
    order = np.argsort((most - word_counts).astype(sort_type), kind="stable")
    starts, lengths, word_counts = starts[order], lengths[order], word_counts[order]
    h = lengths.astype(np.uint32) ^ np.uint32(_SEED)
    k, shifted = np.empty_like(h), np.empty_like(h)

    # Words that fewer keys have than are worth a numpy call are left to the scalar loop below.
    words = int(word_counts[_VECTOR_ROWS_MIN - 1]) if len(h) >= _VECTOR_ROWS_MIN else 0
    scalar_rows = int(np.count_nonzero(word_counts > words))
    at_word = np.ndarray((max(data.size - 3, 0),), "<u4", data, 0, (1,))  # a word at every byte
    rows_with = len(h) - np.searchsorted(word_counts[::-1], np.arange(words), side="right")
    for word, rows in enumerate(rows_with.tolist()):
        column = at_word[starts[:rows] + 4 * word]
        _mix(h[:rows], column, k[:rows], shifted[:rows])

    _mix_tails(h, starts + (lengths & ~3), lengths & 3, data)
    _finish(h, shifted)
    for row in range(scalar_rows):
        at = int(starts[row])
        h[row] = murmur2(data[at : at + int(lengths[row])].tobytes()) & _MASK
    hashes[order] = h


def _mix_tails(
    h: npt.NDArray[np.uint32],
    tails: npt.NDArray[np.int64],
    remainders: npt.NDArray[Any],
    data: npt.NDArray[np.uint8],
) -> None:
    """Mix in the one to three bytes after the last whole word."""
    for byte in range(3):
        rows = np.flatnonzero(remainders > byte)
        h[rows] ^= data[tails[rows] + byte].astype(np.uint32) << np.uint32(8 * byte)
    h[remainders > 0] *= _M


def _mix(
    h: npt.NDArray[np.uint32],
    column: npt.NDArray[Any],
    k: npt.NDArray[np.uint32],
    shifted: npt.NDArray[np.uint32],
) -> None:
    """Mix one word of every key into its hash; `k` and `shifted` are scratch."""
    np.multiply(column, _M, out=k)
    np.right_shift(k, 24, out=shifted)
    np.bitwise_xor(k, shifted, out=k)
    np.multiply(k, _M, out=k)
    np.multiply(h, _M, out=h)
    np.bitwise_xor(h, k, out=h)


def _finish(h: npt.NDArray[np.uint32], shifted: npt.NDArray[np.uint32]) -> None:
    np.right_shift(h, 13, out=shifted)
    np.bitwise_xor(h, shifted, out=h)
    np.multiply(h, _M, out=h)
    np.right_shift(h, 15, out=shifted)
    np.bitwise_xor(h, shifted, out=h)
