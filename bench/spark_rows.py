"""The rows of the Spark benchmarks as Parquet files, and topics filled with them.

Random letters, 16-byte keys and 100-byte values, as in the Python benchmarks. The files are written
without compression, so that reading them costs a benchmark of writing as little as can be.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import sparklog

KEY_BYTES = 16
VALUE_BYTES = 100
FILES = 4
CHUNK_ROWS = 50_000


def write_rows(folder: Path, count: int) -> Path:
    """Make the rows; returns the folder of the files."""
    folder.mkdir(parents=True)
    rng = np.random.default_rng(7)
    per_file = -(-count // FILES)
    schema = pa.schema([("key", pa.binary()), ("value", pa.binary())])
    for number in range(FILES):
        left = min(per_file, count - number * per_file)
        path = folder / f"rows-{number}.parquet"
        with pq.ParquetWriter(path, schema, compression="none", use_dictionary=False) as writer:
            while left > 0:
                rows = min(CHUNK_ROWS, left)
                arrays = [_letters(rows, width, rng) for width in (KEY_BYTES, VALUE_BYTES)]
                writer.write_batch(pa.RecordBatch.from_arrays(arrays, schema=schema))
                left -= rows
    return folder


def fill(log: sparklog.Log, topic: str, rows: Path) -> None:
    """Send all rows to a topic, by the fast path of the Python client."""
    with log.producer() as producer:
        for path in sorted(rows.glob("*.parquet")):
            for batch in pq.ParquetFile(path).iter_batches(CHUNK_ROWS):
                producer.send_arrow(topic, batch)


def _letters(count: int, width: int, rng: np.random.Generator) -> pa.Array:
    data = rng.integers(97, 123, count * width, dtype=np.uint8)
    offsets = np.arange(0, (count + 1) * width, width, dtype=np.int32)
    return pa.Array.from_buffers(
        pa.binary(), count, [None, pa.py_buffer(offsets), pa.py_buffer(data)]
    )
