"""`sparklog dump`: what one file of a topic holds. The reading is done in `dump_file`."""

from __future__ import annotations

import importlib
from typing import Annotated

import typer

from sparklog.cli.output import write_line


def dump(
    path: Annotated[
        str, typer.Argument(help="N.json, N.checkpoint.parquet or a segment; a path or s3://...")
    ],
    records: Annotated[
        bool, typer.Option("--records", help="Print keys, values, headers.")
    ] = False,
) -> None:
    """Show the contents of a commit, a checkpoint or a segment."""
    for line in importlib.import_module("sparklog.cli.dump_file").describe_file(path, records):
        write_line(line)
