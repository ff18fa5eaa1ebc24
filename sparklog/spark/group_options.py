"""The options by which a query is a member of a consumer group: the consumer's own names."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sparklog.config import ConsumerConfig
from sparklog.errors import InvalidConfigError
from sparklog.groups.session import SessionSettings
from sparklog.names import check_name

if TYPE_CHECKING:
    from sparklog.spark.options import OptionReader

MAX_POLL_INTERVAL_MS = 3_600_000
"""A micro-batch may take long; what shows that a query lives is its planner's heartbeat."""

_NAMES = (
    "session.timeout.ms",
    "heartbeat.interval.ms",
    "max.poll.interval.ms",
    "metadata.max.age.ms",
    "group.instance.id",
    "partition.assignment.strategy",
)


@dataclass(frozen=True)
class GroupOptions:
    """A query's part in a group."""

    settings: SessionSettings

    @classmethod
    def take(cls, reader: OptionReader) -> GroupOptions | None:
        """From `group.id` and the member's options; None without a group."""
        group = reader.take("group.id", _group, None)
        given: dict[str, Any] = {}
        for name in _NAMES:
            value = reader.take(name, _as_given(name), None)
            if value is not None:
                given[name.replace(".", "_")] = value
        if group is None:
            if given:
                names = ", ".join(name.replace("_", ".") for name in given)
                raise InvalidConfigError(f"{names} are for members of a group: set group.id too")
            return None
        given.setdefault("max_poll_interval_ms", MAX_POLL_INTERVAL_MS)
        checked = ConsumerConfig.of(**given)
        return cls(
            SessionSettings(
                group=group,
                strategies=checked.partition_assignment_strategy,
                client_id="spark",
                instance_id=checked.group_instance_id,
                session_timeout_ms=checked.session_timeout_ms,
                heartbeat_interval_ms=checked.heartbeat_interval_ms,
                max_poll_interval_ms=checked.max_poll_interval_ms,
                metadata_max_age_ms=checked.metadata_max_age_ms,
            )
        )


def _group(text: str) -> str:
    return check_name(text, "group")


def _as_given(name: str) -> Callable[[str], object]:
    """A list stays a list; the consumer's configuration checks the rest."""
    if name == "partition.assignment.strategy":
        return lambda text: [part.strip() for part in text.split(",")]
    return lambda text: text
