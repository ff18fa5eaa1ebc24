"""What a root may be written as."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from sparklog.errors import InvalidInputError, UnsupportedError
from sparklog.storage.local_store import LocalStore
from sparklog.storage.open_store import open_store
from sparklog.storage.s3_store import S3Store


def test_path_in_any_form_opens_a_local_store(tmp_path: Path) -> None:
    for root in [tmp_path / "my log", str(tmp_path / "my log"), f"file://{tmp_path}/my%20log"]:
        store = open_store(root)
        assert isinstance(store, LocalStore)
        assert store.uri == str(tmp_path / "my log")


def test_s3_root_opens_an_s3_store_with_its_options() -> None:
    store = open_store("s3://bucket/some/prefix/", {"key": "k", "secret": "s"})
    assert isinstance(store, S3Store)
    assert store.uri == "s3://bucket/some/prefix"


@pytest.mark.parametrize("root", ["gs://bucket/x", "s3a://bucket/x", "file://host/x", "http://h/x"])
def test_other_scheme_is_refused_and_told_what_is_allowed(root: str) -> None:
    with pytest.raises(InvalidInputError, match="s3://bucket/prefix; " + root.split(":")[0]):
        open_store(root)


def test_empty_root_is_refused() -> None:
    with pytest.raises(InvalidInputError, match="file:///path"):
        open_store("")


def test_options_for_a_local_path_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match="storage_options"):
        open_store(tmp_path, {"key": "k"})


def test_import_and_local_use_never_load_s3fs(tmp_path: Path) -> None:
    code = (
        "import sys, sparklog; from sparklog.storage.open_store import open_store; "
        "open_store(sys.argv[1]).put('k', b''); "
        "sys.exit(bool({'s3fs', 'fsspec', 'botocore'} & set(sys.modules)))"
    )
    subprocess.run([sys.executable, "-c", code, str(tmp_path)], check=True)


def test_s3_root_without_s3fs_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "sparklog.storage.s3_store")
    monkeypatch.setitem(sys.modules, "s3fs", None)
    with pytest.raises(UnsupportedError, match=r"pip install 'sparklog\[s3\]'"):
        open_store("s3://bucket/prefix")
