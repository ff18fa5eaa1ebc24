"""What commands print: tables for people, JSON for programs, and a quiet end for closed pipes."""

from __future__ import annotations

import importlib
import json
import os
import sys
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta, timezone
from typing import Any

_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_PIPE_WIDTH = 200


def write_line(text: str) -> None:
    """One line on standard output; it may wait in the buffer until `flush`."""
    try:
        sys.stdout.write(text + "\n")
    except BrokenPipeError:
        end_quietly()


def write_bytes(data: bytes) -> None:
    """Bytes on standard output exactly as they are."""
    try:
        sys.stdout.buffer.write(data)
    except BrokenPipeError:
        end_quietly()


def flush() -> None:
    """Show what was written until now."""
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        end_quietly()


def end_quietly() -> None:
    """The reader of our output has gone, as `head` does: that is its right, and no error."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    raise SystemExit(0)


def write_json(body: Any) -> None:
    """One JSON document a line."""
    write_line(json.dumps(body, ensure_ascii=False))


def write_table(columns: Sequence[str], rows: Iterable[Sequence[object]], title: str = "") -> None:
    """A table; numbers stand to the right. Into a pipe nothing is cut to a terminal's width."""
    table = importlib.import_module("rich.table").Table(title=title or None, title_justify="left")
    cells = [list(row) for row in rows]
    for index, name in enumerate(columns):
        numeric = bool(cells) and all(isinstance(row[index], int) for row in cells)
        table.add_column(name, justify="right" if numeric else "left", overflow="fold")
    text = importlib.import_module("rich.text").Text
    for row in cells:
        table.add_row(*(text(str(cell)) for cell in row))
    console_class = importlib.import_module("rich.console").Console
    console = console_class(width=None if sys.stdout.isatty() else _PIPE_WIDTH)
    with console.capture() as captured:
        console.print(table)
    write_line(captured.get().rstrip("\n"))


def show_time(timestamp_ms: int) -> str:
    """A time in milliseconds as people read it; the number itself where no calendar reaches."""
    try:
        moment = _EPOCH + timedelta(milliseconds=timestamp_ms)
    except OverflowError:
        return str(timestamp_ms)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def show_bytes(data: bytes | None) -> str:
    """Bytes as text for people: what is not UTF-8 is escaped, and a null says so."""
    return "null" if data is None else data.decode("utf-8", "backslashreplace")
