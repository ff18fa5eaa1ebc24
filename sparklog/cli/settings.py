"""Which log a command works on: `--log`, then SPARKLOG_ROOT, then conf/sparklog.toml.

The client library, and with it Arrow, is imported only when a command opens the log.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

import sparklog
from sparklog.errors import InvalidInputError

if TYPE_CHECKING:
    from sparklog.clients.log import Log

ROOT_VARIABLE = "SPARKLOG_ROOT"
SETTINGS_FILE = Path("conf/sparklog.toml")


@contextmanager
def open_log(context: typer.Context, *, create: bool = False) -> Iterator[Log]:
    """The log that the command line, the environment or the settings file names."""
    log = sparklog.connect(find_root(context.find_root().params.get("log")), create=create)
    try:
        yield log
    finally:
        log.close()


def find_root(option: str | None) -> str:
    """The log's root; an error that names the three ways to give it if nobody did."""
    root = option or os.environ.get(ROOT_VARIABLE) or _root_in_file()
    if not root:
        raise InvalidInputError(
            f"no log given: use --log ROOT, or set {ROOT_VARIABLE}, "
            f'or write root = "..." under [log] in {SETTINGS_FILE}'
        )
    return root


def _root_in_file() -> str | None:
    toml: Any = importlib.import_module("tomllib" if sys.version_info >= (3, 11) else "tomli")
    try:
        root = toml.loads(SETTINGS_FILE.read_text(encoding="utf-8")).get("log", {}).get("root")
    except FileNotFoundError:
        return None
    except (OSError, ValueError, AttributeError) as error:
        raise InvalidInputError(f"{SETTINGS_FILE} cannot be read: {error}") from error
    if root is not None and not isinstance(root, str):
        raise InvalidInputError(f"{SETTINGS_FILE}: [log] root must be a string, not {root!r}")
    return root


def parse_pairs(pairs: list[str], option: str) -> dict[str, str]:
    """`k=v` options as a dictionary; a pair without a key or an equals sign is wrong usage."""
    parsed: dict[str, str] = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals or not key:
            raise typer.BadParameter(f"{pair!r} is not of the form key=value", param_hint=option)
        parsed[key] = value
    return parsed
