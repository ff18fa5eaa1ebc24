"""Names of topics, groups and ids, and where their things stand below a log's root.

Names follow Kafka's rule, so a name is always a safe path component: no `/`, no `..`, no percent
sign. A leading `_` is reserved for sparklog itself. Names that differ only in case are refused by
the catalogue on creation, because not every file system can tell them apart.
"""

from __future__ import annotations

import re

from sparklog.errors import InvalidNameError

NAME_LENGTH_MAX = 249
WRITER_ID_LENGTH_MAX = 160
"""Ids of writers are part of their segments' file names, which have 255 characters at most."""
LOG_IDENTITY_KEY = "_sparklog/log.json"
PROBE_FOLDER = "_sparklog/probe/"
TOPICS_FOLDER = "topics/"
GROUPS_FOLDER = "groups/"

_LEGAL = re.compile(r"[a-zA-Z0-9._-]+")


def check_name(name: object, what: str = "topic") -> str:
    """Return the name if it is legal, else raise an error that says why it is not."""
    if not isinstance(name, str):
        raise InvalidNameError(f"{what} name must be a string, not {type(name).__name__}")
    shown = repr(name if len(name) <= 60 else name[:57] + "...")
    if not name:
        raise InvalidNameError(f"{what} name is empty")
    if len(name) > NAME_LENGTH_MAX:
        raise InvalidNameError(
            f"{what} name {shown} has {len(name)} characters; at most {NAME_LENGTH_MAX} are allowed"
        )
    if name in (".", ".."):
        raise InvalidNameError(f"{what} name cannot be {shown}")
    if not _LEGAL.fullmatch(name):
        raise InvalidNameError(
            f"{what} name {shown} has an illegal character; "
            "letters, digits, '.', '_' and '-' are allowed"
        )
    if name.startswith("_"):
        raise InvalidNameError(f"{what} name {shown}: a leading '_' is reserved for sparklog")
    return name


def topic_folder(topic: str) -> str:
    """The folder of a topic's table, relative to the log's root."""
    return f"{TOPICS_FOLDER}{topic}/"


def group_folder(group: str) -> str:
    """The folder of a group's table log and heartbeats, relative to the log's root."""
    return f"{GROUPS_FOLDER}{group}/"
