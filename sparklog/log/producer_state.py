"""What a topic remembers of a producer: its epoch, and how many records it has appended.

`txn.version = epoch << 40 | sequence`. The sequence counts the records that this producer id has
appended to the topic, over all epochs, so it tells a restarted producer how far it had come. The
rule that makes appends idempotent:

    lower epoch than stands            fenced
    ends at or before what stands      a duplicate: acknowledged without writing
    begins exactly at what stands      appended
    anything else                      a gap or an overlap: an error, nothing is written
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from sparklog.errors import OutOfOrderSequenceError, ProducerFencedError
from sparklog.table.actions import Action, Txn
from sparklog.table.table_state import TableState

SEQUENCE_BITS = 40
SEQUENCE_MAX = (1 << SEQUENCE_BITS) - 1


@dataclass(frozen=True)
class ProducerState:
    """A producer's standing in one topic."""

    epoch: int
    sequence: int

    @property
    def version(self) -> int:
        """As a `txn` action carries it."""
        return self.epoch << SEQUENCE_BITS | self.sequence

    def stands_in(self, actions: Iterable[Action]) -> bool:
        """Whether these actions are those that brought the producer here."""
        return any(isinstance(a, Txn) and a.version == self.version for a in actions)

    @classmethod
    def from_version(cls, version: int) -> ProducerState:
        """From what a `txn` action carries."""
        return cls(version >> SEQUENCE_BITS, version & SEQUENCE_MAX)


def producer_state(state: TableState, app_id: str) -> ProducerState | None:
    """What the table remembers of this writer, if anything."""
    txn = state.txns.get(app_id)
    return None if txn is None else ProducerState.from_version(txn.version)


def check_not_fenced(standing: ProducerState | None, app_id: str, epoch: int) -> None:
    """Raise if a newer epoch than the producer's own has started."""
    if standing is not None and standing.epoch > epoch:
        raise ProducerFencedError(
            f"{app_id} has epoch {epoch}, but epoch {standing.epoch} has started: another producer "
            "with the same id took over; close this one"
        )


def is_duplicate(
    standing: ProducerState | None, app_id: str, epoch: int, base_sequence: int, count: int
) -> bool:
    """Whether these records stand already; raises if they may not be appended at all."""
    standing = standing or ProducerState(epoch, 0)
    check_not_fenced(standing, app_id, epoch)
    if base_sequence == standing.sequence and base_sequence + count <= SEQUENCE_MAX:
        return False
    if epoch == standing.epoch and base_sequence + count <= standing.sequence:
        return True
    raise OutOfOrderSequenceError(
        f"{app_id} would append records {base_sequence}..{base_sequence + count - 1}, but the "
        f"topic has {standing.sequence} of it: open the producer anew"
    )
