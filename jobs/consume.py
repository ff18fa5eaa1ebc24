"""Bring a topic's records to the console, files, a Delta table or another topic with Spark.

    spark-submit jobs/consume.py --topic orders --format parquet --output ./out --schema 'id INT'

Settings stand in conf/consume.toml; arguments win over them. Exit codes: 0 done, 1 it could not be
done (one line says why), 2 wrong usage.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from sparklog.spark.jobs import CONSUME_FORMATS, CONSUME_MODES, ConsumeJob, consume, read_job, run

SETTINGS = Path(__file__).resolve().parents[1] / "conf" / "consume.toml"


def main() -> int:
    parser = argparse.ArgumentParser(prog="consume", description="Read a topic with Spark.")
    parser.add_argument("--settings", type=Path, default=SETTINGS, help="a file with [consume]")
    parser.add_argument("--topic", help="the topic to read")
    parser.add_argument("--log", help="the log's root: a path or s3://bucket/prefix")
    parser.add_argument("--format", choices=CONSUME_FORMATS, help="where the records go")
    parser.add_argument("--output", help="a folder, or the name of the other topic")
    parser.add_argument("--schema", help="of JSON values, to have columns: 'id INT, name STRING'")
    parser.add_argument("--starting", help="earliest, latest, or JSON as in startingOffsets")
    parser.add_argument("--mode", choices=CONSUME_MODES, help="what is there now, or for ever")
    parser.add_argument("--trigger", help="of a continuous run, such as '5 seconds'")
    parser.add_argument("--checkpoint", help="where the query keeps its place")
    given = vars(parser.parse_args())
    settings = given.pop("settings")
    return run("consume", lambda: consume(read_job(ConsumeJob(), settings, "consume", given)))


if __name__ == "__main__":
    sys.exit(main())
