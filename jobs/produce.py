"""Write files, or a rate of made-up rows, into a topic with Spark.

    spark-submit jobs/produce.py --topic orders --format json --input ./orders --key customer

Settings stand in conf/produce.toml; arguments win over them. Exit codes: 0 done, 1 it could not be
done (one line says why), 2 wrong usage.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from sparklog.spark.jobs import PRODUCE_FORMATS, PRODUCE_MODES, ProduceJob, produce, read_job, run

SETTINGS = Path(__file__).resolve().parents[1] / "conf" / "produce.toml"


def main() -> int:
    parser = argparse.ArgumentParser(prog="produce", description="Write into a topic with Spark.")
    parser.add_argument("--settings", type=Path, default=SETTINGS, help="a file with [produce]")
    parser.add_argument("--topic", help="the topic; it is created if it is not there")
    parser.add_argument("--log", help="the log's root: a path or s3://bucket/prefix")
    parser.add_argument("--format", choices=PRODUCE_FORMATS, help="what the input is")
    parser.add_argument("--input", help="a folder or file; not for rate")
    parser.add_argument("--schema", help="of json and csv: 'id INT, customer STRING'")
    parser.add_argument("--key", help="the column that becomes the key")
    parser.add_argument("--mode", choices=PRODUCE_MODES, help="all of it, what is new, or for ever")
    parser.add_argument("--partitions", type=int, help="of a topic that is created")
    parser.add_argument("--rows", type=int, help="of a rate as a batch")
    parser.add_argument("--rows-per-second", type=int, help="of a rate as a stream")
    parser.add_argument("--checkpoint", help="of a stream")
    given = vars(parser.parse_args())
    settings = given.pop("settings")
    return run("produce", lambda: produce(read_job(ProduceJob(), settings, "produce", given)))


if __name__ == "__main__":
    sys.exit(main())
