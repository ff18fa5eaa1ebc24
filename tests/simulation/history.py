"""What the callers saw: every send, every read, every look at the end, in the order of steps.

A history holds no judgement. `step` is the scheduler's step counter, the only order that all
actors share: one operation precedes another if it ended before the other began.
"""

from __future__ import annotations

import enum
from collections import Counter
from dataclasses import dataclass, field


class Status(enum.Enum):
    """The outcome of a send as its caller saw it."""

    OK = "ok"
    FAIL = "fail"
    UNKNOWN = "unknown"


@dataclass
class Send:
    """One record that somebody tried to append. Its value is unique in the whole run."""

    session: str
    """The producer object that sent it."""
    producer: str
    """The producer's id if it outlives the object, else the session's name."""
    topic: str
    index: int
    """The place in send order: of the session, or, for a named producer, of its id."""
    value: bytes
    began: int
    named: bool = False
    status: Status = Status.UNKNOWN
    partition: int = -1
    offset: int = -1
    """Where it stands, if its caller was told."""
    ended: int | None = None
    error: str = ""


@dataclass
class Read:
    """One record that a consumer got."""

    session: str
    topic: str
    partition: int
    offset: int
    value: bytes
    step: int


@dataclass
class ConsumerSession:
    """One consumer object, from its first poll to its last."""

    name: str
    topic: str
    began: int
    drained: bool = False
    """Whether it read on, after all faults and writers had stopped, until nothing more came."""


@dataclass
class EndOffsets:
    """One answer to `log.end_offsets`."""

    topic: str
    topic_id: str
    offsets: dict[int, int]
    began: int
    ended: int


@dataclass
class History:
    """Everything that happened in one run, as its callers saw it."""

    sends: list[Send] = field(default_factory=list)
    reads: list[Read] = field(default_factory=list)
    consumers: list[ConsumerSession] = field(default_factory=list)
    ends: list[EndOffsets] = field(default_factory=list)
    admin: Counter[str] = field(default_factory=Counter)
    refused_own: list[str] = field(default_factory=list)
    """Topics that their only creator could not create because they stood: its own doing."""

    def counts(self) -> dict[str, int]:
        """How many operations of each kind there were."""
        statuses = Counter(send.status.value for send in self.sends)
        return {
            **{status.value: statuses[status.value] for status in Status},
            "reads": len(self.reads),
            **dict(sorted(self.admin.items())),
        }
