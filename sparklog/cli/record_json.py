"""Records as JSON lines, the same for `consume` and `produce`: what one writes the other reads.

A key, value or header value is a string where it is UTF-8, and stands under `key_base64`,
`value_base64` where it is not. `produce` also takes any other JSON as a value and stores its text.
"""

from __future__ import annotations

import base64
import binascii
import json
from typing import TYPE_CHECKING, Any, NamedTuple

from sparklog.errors import InvalidRecordError

if TYPE_CHECKING:
    from sparklog.log.records import Record

Headers = list[tuple[str, bytes | None]]
_BINARY = "_base64"
_FIELDS = ("key", "value", "headers", "partition", "timestamp_ms")
_IGNORED = ("topic", "offset")


class OutgoingRecord(NamedTuple):
    """A record as the producer's `send` takes it."""

    value: bytes | None
    key: bytes | None = None
    headers: Headers | None = None
    partition: int | None = None
    timestamp_ms: int | None = None


def to_json(record: Record) -> dict[str, Any]:
    """The record as a JSON object."""
    return {
        "topic": record.topic,
        "partition": record.partition,
        "offset": record.offset,
        "timestamp_ms": record.timestamp_ms,
        **_field("key", record.key),
        **_field("value", record.value),
        "headers": [{"key": name, **_field("value", value)} for name, value in record.headers],
    }


def from_json(line: bytes) -> OutgoingRecord:
    """The record on this line; InvalidRecordError says what is wrong with it."""
    try:
        body = json.loads(line)
    except ValueError as error:
        raise InvalidRecordError(f"not JSON: {error}") from error
    if not isinstance(body, dict):
        raise InvalidRecordError(f"a record must be a JSON object, not {type(body).__name__}")
    allowed = {*_FIELDS, *_IGNORED, "key" + _BINARY, "value" + _BINARY}
    unknown = sorted(set(body) - allowed)
    if unknown:
        raise InvalidRecordError(f"unknown field {unknown[0]!r}; a record has {', '.join(_FIELDS)}")
    return OutgoingRecord(
        value=_bytes(body, "value"),
        key=_bytes(body, "key"),
        headers=_headers(body.get("headers")),
        partition=_integer(body, "partition"),
        timestamp_ms=_integer(body, "timestamp_ms"),
    )


def _field(name: str, data: bytes | None) -> dict[str, str | None]:
    if data is None:
        return {name: None}
    try:
        return {name: data.decode("utf-8")}
    except UnicodeDecodeError:
        return {name + _BINARY: base64.b64encode(data).decode("ascii")}


def _bytes(body: dict[str, Any], name: str) -> bytes | None:
    if name + _BINARY in body:
        try:
            return base64.b64decode(body[name + _BINARY], validate=True)
        except (binascii.Error, TypeError, ValueError) as error:
            raise InvalidRecordError(f"{name + _BINARY} is not base64: {error}") from error
    data = body.get(name)
    if data is None:
        return None
    text = data if isinstance(data, str) else json.dumps(data, ensure_ascii=False)
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise InvalidRecordError(f"{name} is not valid Unicode: {error}") from error


def _headers(body: Any) -> Headers:
    """Headers as `{"name": "value"}` or as a list of `{"key": ..., "value": ...}`."""
    if not body:
        return []
    if isinstance(body, dict):
        body = [{"key": name, "value": value} for name, value in body.items()]
    if not isinstance(body, list) or not all(
        isinstance(pair, dict) and isinstance(pair.get("key"), str) for pair in body
    ):
        raise InvalidRecordError(
            "headers must be an object, or a list of objects with key and value"
        )
    return [(pair["key"], _bytes(pair, "value")) for pair in body]


def _integer(body: dict[str, Any], name: str) -> int | None:
    number = body.get(name)
    if number is not None and (isinstance(number, bool) or not isinstance(number, int)):
        raise InvalidRecordError(f"{name} must be a whole number, not {number!r}")
    return number
