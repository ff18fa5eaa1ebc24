"""A made-up S3 server on loopback that answers as it is told: for errors no real server makes.

Each request takes the next of `answers`; when there are none left, the server keeps objects in
memory and **ignores conditions**, like a server one must not trust. It knows PUT, GET (without
ranges), HEAD and DELETE of objects; nothing is checked, least of all signatures.
"""

from __future__ import annotations

import contextlib
import threading
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@dataclass(frozen=True)
class Answer:
    """What to answer. `store` says that the request takes effect all the same."""

    status: int = 200
    body: bytes = b""
    cut: bool = False  # close the connection instead of answering
    short_by: int = 0  # announce so many bytes more than are sent, then close
    store: bool = False


def error_answer(status: int, code: str, more: str = "", *, store: bool = False) -> Answer:
    """An error as S3 words it."""
    body = (
        f"<?xml version='1.0'?><Error><Code>{code}</Code><Message>made up</Message>{more}</Error>"
    )
    return Answer(status, body.encode(), store=store)


@dataclass
class MadeUpS3:
    """The server's state: what it was asked, and what it will answer."""

    endpoint_url: str = ""
    answers: deque[Answer] = field(default_factory=deque)
    requests: list[tuple[str, str, dict[str, str]]] = field(default_factory=list)
    objects: dict[str, bytes] = field(default_factory=dict)

    @property
    def methods(self) -> list[str]:
        """The methods of the requests so far."""
        return [method for method, _, _ in self.requests]


@contextlib.contextmanager
def running_made_up_s3() -> Iterator[MadeUpS3]:
    """A server on a free port, stopped at the end."""
    state = MadeUpS3()

    class Handler(_Handler):
        server_state = state

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    state.endpoint_url = f"http://127.0.0.1:{server.server_port}"
    try:
        yield state
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


class _Handler(BaseHTTPRequestHandler):
    """Answers one connection's requests."""

    protocol_version = "HTTP/1.1"
    server_state: MadeUpS3

    def _serve(self) -> None:
        state = self.server_state
        data = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        state.requests.append((self.command, self.path, dict(self.headers.items())))
        answer = state.answers.popleft() if state.answers else None
        if answer is None or answer.store:
            kept = self._keep(data)
            answer = answer or kept
        if answer.cut:
            self.close_connection = True
            return
        self.send_response(answer.status)
        self.send_header("Content-Length", str(len(answer.body) + answer.short_by))
        self.send_header("Last-Modified", "Tue, 18 Nov 2025 12:00:00 GMT")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(answer.body)
        self.close_connection = answer.short_by > 0

    def _keep(self, data: bytes) -> Answer:
        objects = self.server_state.objects
        if self.command == "PUT":
            objects[self.path] = data
        elif self.command == "DELETE":
            objects.pop(self.path, None)
            return Answer(204)
        elif self.path not in objects:
            return error_answer(404, "NoSuchKey")
        else:
            return Answer(200, objects[self.path])
        return Answer(200)

    do_GET = do_PUT = do_HEAD = do_DELETE = _serve

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing on the terminal."""
