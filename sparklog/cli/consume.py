"""`sparklog consume`: print a topic's records.

Without `--follow` it stops at the end offsets that the topic had when the command started, so it
ends even while others produce. Records of one partition come in offset order.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime, timezone
from enum import Enum
from typing import TYPE_CHECKING, Annotated

import typer

from sparklog.cli.consume_group import group_batches, open_member
from sparklog.cli.output import (
    flush,
    show_bytes,
    show_time,
    write_bytes,
    write_json,
    write_table,
)
from sparklog.cli.record_json import to_json
from sparklog.cli.settings import open_log

if TYPE_CHECKING:
    from sparklog.clients.consumer import Consumer
    from sparklog.clients.log import Log
    from sparklog.log.records import Record

FOLLOW_POLL_MS = 1000
_COLUMNS = ("partition", "offset", "timestamp", "key", "value", "headers")


class Format(str, Enum):
    """How records are printed."""

    VALUE = "value"
    KEY_VALUE = "key-value"
    JSON = "json"
    TABLE = "table"


def consume(
    context: typer.Context,
    topic: Annotated[str, typer.Argument(help="The topic.")],
    start: Annotated[
        str,
        typer.Option(
            "--from", help="earliest, latest, an offset, an ISO time (UTC unless it says) or @ms."
        ),
    ] = "earliest",
    partition: Annotated[int | None, typer.Option(min=0, help="Only this partition.")] = None,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Wait for new records until Ctrl-C.")
    ] = False,
    most: Annotated[int | None, typer.Option("--max", min=0, help="At most so many.")] = None,
    form: Annotated[Format, typer.Option("--format", help="How to print.")] = Format.VALUE,
    as_json: Annotated[bool, typer.Option("--json", help="Same as --format json.")] = False,
    group: Annotated[
        str | None,
        typer.Option(help="Read as a member of this group, from its offsets, and commit them."),
    ] = None,
) -> None:
    """Print a topic's records; without -f up to where the topic ends now."""
    where = parse_start(start)
    form = Format.JSON if as_json else form
    try:
        if group is not None:
            with (
                open_log(context) as log,
                open_member(log, topic, group, partition, where, most) as consumer,
            ):
                ends = None if follow else log.end_offsets(topic)
                for records in group_batches(consumer, ends, most):
                    _print(records, form)
            return
        with open_log(context) as log, _open(log, topic, partition, where) as consumer:
            ends = None if follow else log.end_offsets(topic)
            for records in _batches(consumer, ends, most):
                _print(records, form)
    except KeyboardInterrupt:
        flush()


def parse_start(text: str) -> tuple[str, int]:
    """Where to begin, as (kind, number): earliest, latest, offset or time in milliseconds."""
    if text in ("earliest", "latest"):
        return text, 0
    if re.fullmatch(r"[0-9]+", text):
        return "offset", int(text)
    if re.fullmatch(r"@-?[0-9]+", text):
        return "time", int(text[1:])
    try:
        # Python 3.10 does not know the letter Z.
        moment = datetime.fromisoformat(re.sub(r"[zZ]$", "+00:00", text))
    except ValueError:
        raise typer.BadParameter(
            f"{text!r} is not earliest, latest, an offset, an ISO time or @milliseconds",
            param_hint="--from",
        ) from None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=timezone.utc)
    elapsed = moment - datetime(1970, 1, 1, tzinfo=timezone.utc)
    return "time", (elapsed.days * 86_400 + elapsed.seconds) * 1000 + elapsed.microseconds // 1000


def _open(log: Log, topic: str, partition: int | None, where: tuple[str, int]) -> Consumer:
    """A consumer that stands at the start. An offset must exist; it is never quietly moved."""
    kind, number = where
    log.topic(topic)
    consumer = log.consumer(auto_offset_reset="none" if kind == "offset" else "earliest")
    if partition is None:
        consumer.subscribe([topic])
    else:
        consumer.assign([(topic, partition)])
    if kind == "latest":
        consumer.seek_to_end()
    elif kind == "time":
        consumer.seek_to_timestamp(number)
    elif kind == "offset":
        places = consumer.assignment()
        if len(places) > 1:
            raise typer.BadParameter(
                f"an offset needs --partition: topic {topic} has {len(places)} partitions",
                param_hint="--from",
            )
        consumer.seek(*places[0], number)
    else:
        consumer.seek_to_beginning()
    return consumer


def _batches(
    consumer: Consumer, ends: dict[int, int] | None, most: int | None
) -> Iterator[list[Record]]:
    """Records poll by poll, up to `ends` (None: for ever) and at most `most`."""
    left = most
    while left is None or left > 0:
        records = consumer.poll(0 if ends is not None else FOLLOW_POLL_MS)
        if ends is not None:
            if not records:
                return
            records = [r for r in records if r.offset < ends.get(r.partition, 0)]
            _pause_finished(consumer, ends)
        records = records[:left]
        if left is not None:
            left -= len(records)
        if records:
            yield records


def _pause_finished(consumer: Consumer, ends: dict[int, int]) -> None:
    """A partition past its end must not keep the others waiting."""
    for place in consumer.assignment():
        if consumer.position(*place) >= ends.get(place[1], 0):
            consumer.pause(place)


def _print(records: list[Record], form: Format) -> None:
    if form is Format.TABLE:
        write_table(_COLUMNS, [_row(record) for record in records])
    for record in records:
        if form is Format.JSON:
            write_json(to_json(record))
        elif form is Format.VALUE:
            write_bytes((record.value or b"") + b"\n")
        elif form is Format.KEY_VALUE:
            key = b"null" if record.key is None else record.key
            value = b"null" if record.value is None else record.value
            write_bytes(key + b"\t" + value + b"\n")
    flush()


def _row(record: Record) -> tuple[object, ...]:
    return (
        record.partition,
        record.offset,
        show_time(record.timestamp_ms),
        show_bytes(record.key),
        show_bytes(record.value),
        ", ".join(f"{name}={show_bytes(value)}" for name, value in record.headers),
    )
