"""Pack this Python, sparklog and what it needs into one archive for workers that have nothing.

    python -m sparklog.spark.pack_env environment.tar.gz
    PYSPARK_PYTHON=./environment/bin/python spark-submit --archives environment.tar.gz#environment

Spark unpacks the archive beside each executor. It holds the interpreter itself, its standard
library, and the distributions that sparklog requires; so, unlike a packed virtual environment, it
needs no Python at the place where this one stands. `--with NAME` adds a distribution that is
installed here, with its own requirements: `--with s3fs` for logs on S3.

What it does not do: it carries no Spark (workers have one, and it brings pyspark along) and no
system libraries: pack on the workers' operating system and processor, or an older one.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import io
import re
import sys
import sysconfig
import tarfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

import sparklog
from sparklog.errors import InvalidInputError

COMPRESS_LEVEL = 3
"""Higher levels take longer than sending the bytes does."""

_VERSION = f"python{sys.version_info.major}.{sys.version_info.minor}"
_LIBRARY = PurePosixPath("lib", _VERSION)
_PACKAGES = _LIBRARY / "site-packages"
_MODULES = ("pyspark_sparklog.py",)
_NOT_NEEDED = frozenset(
    {"__pycache__", "ensurepip", "idlelib", "include", "site-packages", "test", "tests", "tkinter"}
)
_WRAPPER = f"""#!/bin/sh
# The archive may be unpacked anywhere: everything is found from here.
home=$(cd "$(dirname "$0")/.." && pwd -P)
export LD_LIBRARY_PATH="$home/lib${{LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}}"
export PYTHONPATH="${{PYTHONPATH:+$PYTHONPATH:}}$home/{_PACKAGES}"
export PYTHONNOUSERSITE=1
exec "$home/bin/{_VERSION}" "$@"
"""


@dataclass(frozen=True)
class PackedEnvironment:
    """An archive that was written."""

    path: Path
    distributions: tuple[str, ...]
    bytes: int


def pack(out: Path, extra: Iterable[str] = ()) -> PackedEnvironment:
    """Write the archive; it appears under its name only when it is whole."""
    names = _closure(["sparklog", *extra])
    out.parent.mkdir(parents=True, exist_ok=True)
    partial = out.with_name(out.name + ".partial")
    try:
        with tarfile.open(partial, "w:gz", compresslevel=COMPRESS_LEVEL) as archive:
            _add_interpreter(archive)
            _add_tree(archive, Path(sysconfig.get_path("stdlib")), _LIBRARY)
            for name in names:
                _add_distribution(archive, name)
            _add_this_package(archive)
        partial.replace(out)
    finally:
        partial.unlink(missing_ok=True)
    return PackedEnvironment(out, tuple(names), out.stat().st_size)


def _closure(names: Iterable[str]) -> list[str]:
    """These distributions and what they require, as far as it is installed; extras are not."""
    found: dict[str, None] = {}
    queue = list(names)
    while queue:
        name = queue.pop(0)
        if name in found:
            continue
        try:
            requires = importlib.metadata.requires(name) or []
        except importlib.metadata.PackageNotFoundError:
            raise InvalidInputError(
                f"{name} is not installed here, so it cannot be packed: pip install {name}"
            ) from None
        found[name] = None
        for requirement in requires:
            needed = re.match(r"[A-Za-z0-9._-]+", requirement)
            if needed and "extra ==" not in requirement and _is_installed(needed[0]):
                queue.append(needed[0].lower().replace("_", "-"))
    return list(found)


def _is_installed(name: str) -> bool:
    """A requirement for another platform or Python is not."""
    try:
        importlib.metadata.distribution(name)
    except importlib.metadata.PackageNotFoundError:
        return False
    return True


def _add_interpreter(archive: tarfile.TarFile) -> None:
    """The interpreter under its full name, and `bin/python`, which finds its libraries for it."""
    binary = Path(sys._base_executable).resolve()  # type: ignore[attr-defined]
    archive.add(binary, str(PurePosixPath("bin", _VERSION)))
    for name in ("python", "python3"):
        entry = tarfile.TarInfo(f"bin/{name}")
        entry.mode = 0o755
        entry.size = len(_WRAPPER.encode())
        archive.addfile(entry, io.BytesIO(_WRAPPER.encode()))
    shared = sysconfig.get_config_var("INSTSONAME")
    if sysconfig.get_config_var("Py_ENABLE_SHARED") and shared:
        library = Path(sysconfig.get_config_var("LIBDIR"), shared).resolve()
        archive.add(library, f"lib/{shared}")


def _add_tree(archive: tarfile.TarFile, folder: Path, place: PurePosixPath) -> None:
    """The folder's files, without what no worker imports."""
    for path in _files_below(folder):
        archive.add(path, str(place / path.relative_to(folder).as_posix()), recursive=False)


def _files_below(folder: Path) -> Iterator[Path]:
    for path in sorted(folder.iterdir()):
        if path.name in _NOT_NEEDED or path.name.startswith("config-"):
            continue
        if path.is_dir():
            yield from _files_below(path)
        elif path.is_file():
            yield path


def _add_distribution(archive: tarfile.TarFile, name: str) -> None:
    """A distribution's files, as pip wrote them down; commands are left out."""
    for file in importlib.metadata.files(name) or ():
        place = PurePosixPath(file)
        if ".." in place.parts or _NOT_NEEDED.intersection(place.parts[:-1]):
            continue
        if place.suffix == ".pth" or place.parts[0] in ("sparklog", *_MODULES):
            continue  # ours are added as they are imported, also from a checkout
        source = Path(str(file.locate()))
        if source.is_file():
            archive.add(source, str(_PACKAGES / place))


def _add_this_package(archive: tarfile.TarFile) -> None:
    package = Path(sparklog.__file__).parent
    _add_tree(archive, package, _PACKAGES / package.name)
    for module in _MODULES:
        archive.add(package.parent / module, str(_PACKAGES / module))


def main(arguments: list[str] | None = None) -> int:
    """The command; returns the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m sparklog.spark.pack_env",
        description="Pack Python and sparklog for workers that have neither.",
    )
    parser.add_argument("out", type=Path, help="the archive, such as environment.tar.gz")
    parser.add_argument(
        "--with", dest="extra", action="append", default=[], metavar="NAME", help="also this one"
    )
    given = parser.parse_args(arguments)
    try:
        packed = pack(given.out, given.extra)
    except (InvalidInputError, OSError) as error:
        print(f"pack_env: {error}", file=sys.stderr)
        return 1
    print(f"{packed.path}: {packed.bytes / 1e6:.0f} MB, {', '.join(packed.distributions)}")
    print(
        f"spark-submit --archives {packed.path}#environment "
        "with PYSPARK_PYTHON=./environment/bin/python"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
