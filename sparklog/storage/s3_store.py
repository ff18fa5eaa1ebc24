"""A store in a bucket of S3, or of a server that speaks its language, through s3fs.

How each guarantee of the `Store` protocol comes about:

1. `put_if_absent` is a PUT with `If-None-Match: *`, which the server decides.
2. S3 reads and lists what was written before; nothing is cached here.
3. The server lists in key order. A server that does not is noticed and refused, as a reader would
   otherwise pass over commits without knowing.
4. A PUT that was answered is durable, so `durable` changes nothing and `sync` has nothing to do.

How failures are told apart: a conditional put that was answered 412 is `EXISTS`, and one that was
surely refused raises. Everything else is `UNKNOWN`, also "could not connect", because the HTTP
client sends a PUT again by itself when a connection breaks, and the first one may have arrived.
For the same reason a 412 may be the answer to one's own first try. All other operations can be
repeated without harm: they are tried again here a few times, with pauses, and with the retries of
botocore and s3fs switched off.

A store can be pickled and can be used after a fork: each process builds its own connection. The
pickle holds the storage options, and so the secrets in them; `uri`, `repr` and errors never do.

What it does not do: it makes no bucket, and it holds each object it reads or writes in memory.
"""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from inspect import signature
from typing import Any, TypeVar

import pyarrow as pa
import pyarrow.fs as pafs

from sparklog.clock import Clock, Ids, SystemClock, SystemIds
from sparklog.errors import (
    InvalidInputError,
    ObjectNotFoundError,
    StoreError,
    StoreFullError,
    StorePermissionError,
    StoreUnavailableError,
    StoreUnsuitableError,
    UnsupportedError,
)
from sparklog.storage.store import (
    GatheredFile,
    ObjectInfo,
    PutOutcome,
    Watcher,
    check_key,
    write_through,
)
from sparklog.storage.watch import PollingWatcher

try:
    import s3fs
    from botocore.exceptions import (
        ClientError,
        NoCredentialsError,
        ParamValidationError,
        PartialCredentialsError,
    )
    from fsspec.asyn import sync
except ImportError as error:
    raise UnsupportedError(
        f"a log on s3:// needs s3fs, which is not here ({error}): pip install 'sparklog[s3]'"
    ) from error

ATTEMPTS = 5
"""How often a call is made before a passing failure is given up on."""
PAUSE_SECONDS_MIN = 0.1
PAUSE_SECONDS_MAX = 2.0
POLL_SECONDS_MIN = 0.05
POLL_SECONDS_MAX = 0.5

_BUCKET = re.compile(r"[A-Za-z0-9._-]+")
_PASSING_STATUS = frozenset({408, 409, 425, 429, 500, 502, 503, 504})
_STATUS_BY_CODE = {
    "PreconditionFailed": 412,
    "ConditionalRequestConflict": 409,
    "RequestTimeout": 408,  # S3 sends it as a 400
}
_OPTIONS_BESIDE = frozenset({"profile"})
_logger = logging.getLogger(__name__)
_Result = TypeVar("_Result")


class S3Store:
    """Objects below `s3://bucket/prefix`. `storage_options` are those of s3fs.S3FileSystem."""

    linger_ms_default = 250

    def __init__(
        self,
        uri: str,
        storage_options: Mapping[str, Any] | None = None,
        *,
        clock: Clock | None = None,
        ids: Ids | None = None,
    ) -> None:
        """Keep objects below `uri`; nothing is sent yet."""
        self._bucket, self._prefix = _split_uri(uri)
        self.uri = f"s3://{self._bucket}/{self._prefix}".rstrip("/")
        self._options = _check_options(dict(storage_options or {}))
        self._clock: Clock = clock or SystemClock()
        self._ids: Ids = ids or SystemIds()
        self._filesystems: dict[int, Any] = {}  # by process id: a connection survives no fork

    def __repr__(self) -> str:
        """The store with its root, without the options."""
        return f"S3Store({self.uri!r})"

    def __getstate__(self) -> dict[str, Any]:
        """Everything but live connections."""
        return {**self.__dict__, "_filesystems": {}}

    def get(self, key: str, start: int = 0, end: int | None = None) -> bytes:
        """The object's bytes from `start` to before `end`, as far as there are any."""
        request = self._at(key)
        if start < 0 or (end is not None and end < start):
            raise InvalidInputError(f"bytes {start} to {end} of {key} are not a range")
        if start == end:
            if self.head(key) is None:
                raise ObjectNotFoundError(f"no object {self._shown(key)}")
            return b""
        if start > 0 or end is not None:
            request["Range"] = f"bytes={start}-{'' if end is None else end - 1}"
        try:
            data: bytes = self._repeat("read", key, lambda fs: sync(fs.loop, _fetch, fs, request))
        except _RangePastEndError:
            return b""
        return data

    def put(self, key: str, data: bytes, *, durable: bool = True) -> None:  # noqa: ARG002
        """Write the object whole, replacing what stood there."""
        at = self._at(key)
        self._repeat("write", key, lambda fs: fs.call_s3("put_object", Body=data, **at))

    def put_if_absent(
        self,
        key: str,
        data: bytes,
        *,
        durable: bool = True,  # noqa: ARG002
    ) -> PutOutcome:
        """Write the object only if nothing stands there; the server decides.

        A 409 says that another put to the key was going on: that one may yet fail, so the put is
        made again, and if the answer stays the same nothing is known.
        """
        at = self._at(key)
        for attempt in range(ATTEMPTS):
            try:
                self._filesystem().call_s3("put_object", Body=data, IfNoneMatch="*", **at)
                return PutOutcome.CREATED
            except Exception as error:
                status = _status(error)
                if status == 412 or isinstance(error, FileExistsError):
                    return PutOutcome.EXISTS
                if status != 409:
                    self._raise_if_refused(error, "write", key)
                    _logger.warning("outcome unknown: put of %s: %s", self._shown(key), error)
                    return PutOutcome.UNKNOWN
            self._pause(attempt)
        _logger.warning("outcome unknown: put of %s met a conflict each time", self._shown(key))
        return PutOutcome.UNKNOWN

    def head(self, key: str) -> ObjectInfo | None:
        """What stands under the key, or None."""
        at = self._at(key)
        try:
            found = self._repeat("look at", key, lambda fs: fs.call_s3("head_object", **at))
        except ObjectNotFoundError:
            return None
        return ObjectInfo(key, found["ContentLength"], _milliseconds(found["LastModified"]))

    def list_from(self, folder: str, after: str = "") -> Iterator[ObjectInfo]:
        """Objects directly in `folder` in key order, those after key `after`, page by page."""
        last = after
        for page in self._pages(folder, after):
            for item in page.get("Contents", ()):
                key = item["Key"][len(self._prefix) :]
                if key == folder:  # the marker object by which some tools make a folder
                    continue
                if key <= last:
                    raise StoreUnsuitableError(
                        f"the store at {self.uri} lists {key!r} after {last!r}: without listings "
                        "in key order readers would miss commits. Use a general purpose bucket"
                    )
                last = key
                yield ObjectInfo(key, item["Size"], _milliseconds(item["LastModified"]))

    def list_folders(self, folder: str) -> Iterator[str]:
        """Names of the folders directly in `folder`, in order.

        All are gathered first: the server sorts them with the slash that ends them, so that it
        has `a-b/` before `a/`.
        """
        skip = len(self._prefix) + len(folder)
        names = [
            item["Prefix"][skip:-1]
            for page in self._pages(folder)
            for item in page.get("CommonPrefixes", ())
        ]
        yield from sorted(names)

    def delete(self, key: str) -> None:
        """Remove the object; no error if it is gone already."""
        at = self._at(key)
        try:
            self._repeat("delete", key, lambda fs: fs.call_s3("delete_object", **at))
        except ObjectNotFoundError:
            pass

    def open_output(self, key: str) -> GatheredFile:
        """Gather a new file in memory, then put it."""
        check_key(key)
        return GatheredFile(lambda data: self.put(key, data))

    def write_file(self, key: str, write: Callable[[Any], None], *, durable: bool = True) -> int:
        """Gather the file in memory, then put it: if `write` raises, nothing is sent."""
        return write_through(self, key, write, durable)

    def open_input(self, key: str) -> Any:
        """Open for pyarrow: the whole object, read at once."""
        return pa.BufferReader(self.get(key))

    def arrow_filesystem(self) -> tuple[Any, str]:
        """s3fs behind pyarrow's interface."""
        handler = pafs.FSSpecHandler(self._filesystem())
        return pafs.PyFileSystem(handler), self.uri.removeprefix("s3://")

    def sync(self, keys: Iterable[str]) -> None:
        """Nothing is left to do: an answered PUT is durable."""

    def watch(self, folders: Iterable[str]) -> Watcher:
        """A poller: S3 tells nobody of changes, and each look costs a request."""
        for folder in folders:
            check_key(folder)
        return PollingWatcher(self._clock, POLL_SECONDS_MIN, POLL_SECONDS_MAX)

    def close(self) -> None:
        """Let this process's connections go; a later call makes new ones."""
        filesystem = self._filesystems.pop(os.getpid(), None)
        creator = getattr(filesystem, "_s3creator", None)
        if creator is not None:
            # s3fs would do the same, but only when the garbage collector comes round.
            s3fs.S3FileSystem.close_session(filesystem.loop, creator)

    def _filesystem(self) -> Any:
        """This process's s3fs, built when it is first needed."""
        pid = os.getpid()
        found = self._filesystems.get(pid)
        if found is None:
            # Threads may build one each; the first stands, and the others never connect.
            found = self._filesystems.setdefault(pid, _build_filesystem(self._options))
        return found

    def _at(self, key: str) -> dict[str, str]:
        """Bucket and key, as S3's operations name them."""
        return {"Bucket": self._bucket, "Key": self._prefix + check_key(key)}

    def _shown(self, key: str) -> str:
        """The object as a person writes it."""
        return f"s3://{self._bucket}/{self._prefix}{key}"

    def _pages(self, folder: str, after: str = "") -> Iterator[dict[str, Any]]:
        """The answers to a listing of one folder, each asked for when it is needed."""
        if folder and not check_key(folder).endswith("/"):
            raise InvalidInputError(f"folder {folder!r} must end with '/'")
        prefix = self._prefix + folder
        request = {"Bucket": self._bucket, "Prefix": prefix, "Delimiter": "/"}
        if self._prefix + after > prefix:
            request["StartAfter"] = self._prefix + after
        while True:
            page: dict[str, Any] = self._repeat(
                "list", folder, lambda fs: fs.call_s3("list_objects_v2", **request)
            )
            yield page
            if not page.get("IsTruncated"):
                return
            request["ContinuationToken"] = page["NextContinuationToken"]

    def _repeat(self, action: str, key: str, call: Callable[[Any], _Result]) -> _Result:
        """Make a call that may be made twice without harm, again while the failure may pass."""
        attempt = 0
        while True:
            try:
                return call(self._filesystem())
            except Exception as error:
                self._raise_if_lasting(error, action, key)
                attempt += 1
                if attempt == ATTEMPTS:
                    raise StoreUnavailableError(
                        f"cannot {action} {self._shown(key)}, tried {attempt} times: {error}"
                    ) from error
            self._pause(attempt - 1)

    def _pause(self, attempt: int) -> None:
        """Wait before the next attempt: longer each time, and not all writers alike."""
        longest = min(PAUSE_SECONDS_MAX, PAUSE_SECONDS_MIN * 2**attempt)
        self._clock.sleep(longest * (0.5 + self._ids.uniform() / 2))

    def _raise_if_refused(self, error: Exception, action: str, key: str) -> None:
        """Raise the store's own error if the call surely had no effect and never will have."""
        message = f"cannot {action} {self._shown(key)}: {_text(error)}"
        if isinstance(error, PermissionError) or _status(error) in (401, 403):
            raise StorePermissionError(f"{message}. Check credentials and policies") from error
        if isinstance(error, NoCredentialsError | PartialCredentialsError):
            raise StorePermissionError(f"{message}. Give credentials for the store") from error
        if isinstance(error, ParamValidationError):
            raise InvalidInputError(message) from error
        if _code(error) == "NoSuchBucket":
            raise StoreError(f"{message}. Make bucket {self._bucket!r}, or correct it") from error
        if _status(error) == 501:
            raise StoreUnsuitableError(f"{message}. The server lacks what a log needs") from error

    def _raise_if_lasting(self, error: Exception, action: str, key: str) -> None:
        """Raise the store's own error if making the same call again would change nothing."""
        self._raise_if_refused(error, action, key)
        message = f"cannot {action} {self._shown(key)}: {_text(error)}"
        status = _status(error)
        if status == 404:
            raise ObjectNotFoundError(f"no object {self._shown(key)}") from error
        if status == 416:
            raise _RangePastEndError(message) from error
        if status == 507:
            raise StoreFullError(f"{message}. Free space and try again") from error
        if status is not None and status < 500 and status not in _PASSING_STATUS:
            raise StoreError(message) from error


class _RangePastEndError(StoreError):
    """The range begins at or after the object's end, so it holds no bytes."""


async def _fetch(filesystem: Any, request: dict[str, str]) -> bytes:
    """One GET and its body, in one step of the event loop.

    s3fs's own `cat_file` will not do: it takes `?versionId=` in a key for something else.
    """
    response = await filesystem._call_s3("get_object", **request)
    body = response["Body"]
    try:
        data: bytes = await body.read()
        return data
    finally:
        body.close()


def _build_filesystem(options: dict[str, Any]) -> Any:
    """An s3fs that caches nothing and tries nothing twice, whatever the options say."""
    config = dict(options.get("config_kwargs") or {})
    config["retries"] = {"total_max_attempts": 1}
    filesystem = s3fs.S3FileSystem(
        **{
            **options,
            "config_kwargs": config,
            "use_listings_cache": False,
            "skip_instance_cache": True,
        }
    )
    filesystem.retries = 1
    return filesystem


def _check_options(options: dict[str, Any]) -> dict[str, Any]:
    """Return the options if s3fs has them all: it would ignore a misspelt one, or fail late."""
    known = set(signature(s3fs.S3FileSystem.__init__).parameters) - {"self", "kwargs"}
    unknown = sorted(set(options) - known - _OPTIONS_BESIDE)
    if unknown:
        raise InvalidInputError(
            f"storage option {unknown[0]!r} is unknown; the options are those of "
            "s3fs.S3FileSystem, such as key, secret, token, endpoint_url, client_kwargs"
        )
    return options


def _split_uri(uri: str) -> tuple[str, str]:
    """Bucket and prefix; the prefix is empty or ends with a slash.

    The error does not repeat the uri, as people write secrets into those.
    """
    scheme, _, rest = uri.partition("://")
    bucket, _, prefix = rest.partition("/")
    prefix = prefix.strip("/")
    if scheme != "s3" or not _BUCKET.fullmatch(bucket) or "//" in prefix:
        raise InvalidInputError(
            "an S3 root is written s3://bucket/prefix; keys and secrets go into storage_options"
        )
    return bucket, f"{check_key(prefix)}/" if prefix else ""


def _answer(error: BaseException) -> dict[str, Any]:
    """The server's answer behind an error, which s3fs may have wrapped; empty if there is none."""
    for candidate in (error, error.__cause__):
        if isinstance(candidate, ClientError):
            answer: dict[str, Any] = candidate.response
            return answer
    return {}


def _code(error: BaseException) -> str:
    """S3's code for the error, or the empty string."""
    return str(_answer(error).get("Error", {}).get("Code", ""))


def _status(error: BaseException) -> int | None:
    """The HTTP status of the server's answer, or None if no answer came."""
    by_code = _STATUS_BY_CODE.get(_code(error))
    if by_code is not None:
        return by_code
    status = _answer(error).get("ResponseMetadata", {}).get("HTTPStatusCode")
    return status if isinstance(status, int) else None


def _text(error: BaseException) -> str:
    """What the error says, ready for a sentence to follow."""
    return str(error).rstrip(". ") or type(error).__name__


def _milliseconds(moment: Any) -> int:
    """A datetime in milliseconds since the epoch."""
    return int(moment.timestamp() * 1000)
