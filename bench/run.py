"""Run the benchmarks: `python -m bench.run [--full] [name ...]`.

Writes bench/results/<name>.json, and from all that are there bench/results/table.md and bench.png.
A ratio is ours divided by the peer's of the same run: above 1 is better for rates, below 1 for
times.
"""

from __future__ import annotations

import argparse
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from bench import contention, groups, latency, open_topic, report, spark, throughput
from bench.measure import Outcome

BENCHMARKS: dict[str, Callable[[Path, bool], Outcome]] = {
    "throughput": throughput.run,
    "latency": latency.run,
    "contention": contention.run,
    "open_topic": open_topic.run,
    "groups": groups.run,
    "spark": spark.run,
}


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
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended"))  # so that brokers are stopped
    for name in chosen.names or BENCHMARKS:
        with tempfile.TemporaryDirectory(prefix=f"bench-{name}-", dir=chosen.folder) as folder:
            start = time.perf_counter()
            outcome = BENCHMARKS[name](Path(folder), chosen.full)
            seconds = time.perf_counter() - start
        report.save(name, outcome, chosen.full, seconds)
        print(f"{name}: {seconds:.0f} s", file=sys.stderr)
    print(report.write(list(BENCHMARKS)))


if __name__ == "__main__":
    main()
