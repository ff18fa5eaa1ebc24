"""What a benchmark hands back: figures, and their ratios to a peer of the same run.

Only a ratio within one run counts: absolute figures move from machine to machine.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

OURS = "sparklog"
KAFKA = "Kafka"
PARQUET = "Parquet"


@dataclass
class Measure:
    """One figure; `ratios` names each peer and holds this value divided by the peer's."""

    name: str
    value: float
    unit: str
    panel: str
    system: str = OURS
    ratios: dict[str, float] = field(default_factory=dict)
    extra: dict[str, float] = field(default_factory=dict)

    def compare(self, peer: Measure) -> None:
        """Note the ratio to this peer."""
        self.ratios[peer.title] = self.value / peer.value

    @property
    def title(self) -> str:
        """The name with the system, where it is not ours."""
        return self.name if self.system == OURS else f"{self.system} {self.name}"

    def to_json(self) -> dict[str, Any]:
        """As kept in bench/results."""
        return asdict(self)


@dataclass
class Outcome:
    """The figures of one benchmark, and what a reader of them must know."""

    measures: list[Measure]
    notes: list[str] = field(default_factory=list)
    no_kafka: str = ""
    """Why the Kafka peer was not run, if it was not."""
