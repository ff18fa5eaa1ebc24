"""`sparklog produce`: append lines, or JSON records, to a topic.

Every record's outcome is waited for: the count at the end is of records that stand in the topic
(with `--acks 0`, of records sent). A bad line stops the command and is named by its number; what
came before it stays.
"""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import nullcontext
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, BinaryIO

import typer

from sparklog.cli.record_json import Headers, OutgoingRecord, from_json
from sparklog.cli.settings import open_log
from sparklog.errors import InvalidInputError, InvalidRecordError

if TYPE_CHECKING:
    from sparklog.clients.chunk import RecordFuture
    from sparklog.clients.producer import Producer


class Acks(str, Enum):
    """When a record counts as sent."""

    ALL = "all"
    ONE = "1"
    ZERO = "0"


def produce(
    context: typer.Context,
    topic: Annotated[str, typer.Argument(help="The topic.")],
    key_separator: Annotated[
        str | None, typer.Option(help="What stands between key and value on a line.")
    ] = None,
    as_json: Annotated[
        bool,
        typer.Option(
            "--json", help="Lines are JSON: key, value, headers, partition, timestamp_ms."
        ),
    ] = False,
    header: Annotated[
        list[str] | None, typer.Option(metavar="K=V", help="A header for every record.")
    ] = None,
    acks: Annotated[Acks, typer.Option(help="What to wait for.")] = Acks.ALL,
    producer_id: Annotated[
        str | None, typer.Option(help="A lasting id; a newer producer of the same id fences this.")
    ] = None,
    file: Annotated[
        Path | None, typer.Option(exists=True, dir_okay=False, help="Read this, not stdin.")
    ] = None,
) -> None:
    """Append the lines of standard input to a topic."""
    if key_separator == "" or (as_json and key_separator is not None):
        raise typer.BadParameter(
            "must not be empty, and does not go with --json", param_hint="--key-separator"
        )
    headers = _parse_headers(header or [])
    with open_log(context, create=True) as log:
        log.topic(topic)
        source = file.open("rb") if file else nullcontext(sys.stdin.buffer)
        with source as stream, log.producer(acks=acks.value, producer_id=producer_id) as producer:
            records = _read(stream, as_json, key_separator, headers)
            count = _send_all(producer, topic, records)
    print(f"{count} record{'s'[: count != 1]} produced to {topic}", file=sys.stderr)


def _parse_headers(pairs: list[str]) -> Headers:
    """Headers in the order given: Kafka lets a name stand twice."""
    headers: Headers = []
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals or not name:
            raise typer.BadParameter(
                f"{pair!r} is not of the form key=value", param_hint="--header"
            )
        headers.append((name, value.encode("utf-8", "surrogateescape")))
    return headers


def _read(
    stream: BinaryIO, as_json: bool, key_separator: str | None, headers: Headers
) -> Iterator[OutgoingRecord]:
    separator = None if key_separator is None else key_separator.encode("utf-8", "surrogateescape")
    for line in stream:
        data = line.removesuffix(b"\n").removesuffix(b"\r")
        if as_json:
            if data.strip():
                record = from_json(data)
                yield record._replace(headers=headers + (record.headers or []))
        elif separator is None:
            yield OutgoingRecord(data, None, headers)
        else:
            key, found, value = data.partition(separator)
            if not found:
                raise InvalidRecordError(f"no key separator {key_separator!r} in the line")
            yield OutgoingRecord(value, key, headers)


def _send_all(producer: Producer, topic: str, records: Iterable[OutgoingRecord]) -> int:
    """Send all records and see every outcome; the number of records sent."""
    waiting: deque[RecordFuture] = deque()
    count = 0
    try:
        for record in records:
            waiting.append(producer.send(topic, *record))
            count += 1
            while waiting and waiting[0].done():
                waiting.popleft().result()
    except InvalidInputError as error:
        _settle(producer, waiting)
        raise InvalidRecordError(
            f"record {count + 1}: {error} (the {count} before it were produced)"
        ) from error
    _settle(producer, waiting)
    return count


def _settle(producer: Producer, waiting: deque[RecordFuture]) -> None:
    producer.flush()
    while waiting:
        waiting.popleft().result()
