"""Run the benchmarks: `python -m bench.run [--full] [name ...]`.

Writes bench/results/<name>.json and a Markdown table to stdout. A ratio is to the peer of the same
run: plain Parquet for throughput, one producer for contention.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from bench import contention, latency, open_topic, throughput

BENCHMARKS = {
    "throughput": throughput.run,
    "latency": latency.run,
    "contention": contention.run,
    "open_topic": open_topic.run,
}
RESULTS = Path(__file__).parent / "results"


def main() -> None:
    """Run those that were named, or all."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", metavar="name", help=", ".join(BENCHMARKS))
    parser.add_argument("--full", action="store_true", help="the sizes of the published figures")
    parser.add_argument("--folder", help="where to work; a temporary folder unless given")
    chosen = parser.parse_args()
    for name in chosen.names:
        if name not in BENCHMARKS:
            parser.error(f"no benchmark {name!r}; there are {', '.join(BENCHMARKS)}")
    print("| benchmark | measure | value | unit | ratio to peer |\n|---|---|---:|---|---:|")
    for name in chosen.names or BENCHMARKS:
        with tempfile.TemporaryDirectory(prefix=f"bench-{name}-", dir=chosen.folder) as folder:
            start = time.perf_counter()
            rows = BENCHMARKS[name](Path(folder), chosen.full)
            seconds = time.perf_counter() - start
        _save(name, rows, chosen.full, seconds)
        for row in rows:
            ratio = row.get("ratio", "")
            print(f"| {name} | {row['name']} | {row['value']:,} | {row['unit']} | {ratio} |")
        sys.stdout.flush()
        print(f"{name}: {seconds:.0f} s", file=sys.stderr)


def _save(name: str, rows: list[dict[str, Any]], full: bool, seconds: float) -> None:
    RESULTS.mkdir(exist_ok=True)
    result = {
        "benchmark": name,
        "full": full,
        "seconds": round(seconds, 1),
        "taken": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "machine": {
            "cpus": os.cpu_count(),
            "system": platform.platform(),
            "python": platform.python_version(),
        },
        "rows": rows,
    }
    (RESULTS / f"{name}.json").write_text(json.dumps(result, indent=2) + "\n")


if __name__ == "__main__":
    main()
