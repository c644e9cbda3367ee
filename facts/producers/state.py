"""What a replay of producers keeps: states, epochs, breaks in sequences, transactions and their end markers.

In: nothing; `replay` fills them. Out: values. What a broker would remember (`ProducerSnapshotEntry`) is kept apart from
what an auditor notes of it (all here).
"""

from dataclasses import dataclass, field
from typing import Final

from tidegauge.facts.segments.summary import FORWARD_LIMIT

SEQUENCE_MASK: Final = 0x7FFFFFFF
"""Sequences are 31 bits wide, and 0 follows the last one."""
EXPLAINED_CAUSES: Final = frozenset({"compacted", "retained", "expired", "coordinator", "damaged"})
UNKNOWN: Final = "unknown"
"""Outcome of a transaction whose end marker cannot be read, or may be a batch that cannot be."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SequenceBreak:
    """One break: the sequence that should have come, the one that came, where, and why."""

    producer_id: int
    producer_epoch: int
    expected_sequence: int
    found_sequence: int
    offset: int
    end_offset: int
    previous_offset: int
    cause: str

    @property
    def explained(self) -> bool:
        """Something that Kafka does soundly accounts for it."""
        return self.cause in EXPLAINED_CAUSES


@dataclass(slots=True, kw_only=True)
class Transaction:
    """One transaction of one producer on one partition, while it is being replayed."""

    producer_id: int
    producer_epoch: int
    first_offset: int
    last_offset: int
    records: int
    first_timestamp: int
    last_timestamp: int
    outcome: str = "open"
    marker_offset: int | None = None
    marker_producer_epoch: int | None = None
    coordinator_epoch: int | None = None
    previous_coordinator_epoch: int | None = None
    last_stable_offset: int | None = None
    repeated_markers: int = 0
    contradicting_markers: int = 0
    first_sequence: int | None = None
    previous_marker: "EndMarker | None" = None

    @property
    def is_open(self) -> bool:
        """It has no end marker; one whose outcome is not known may have one."""
        return self.outcome == "open"

    def lost_its_marker(self, marker_epoch: int, outcome: str) -> bool:
        """Whether a marker is a later transaction's, in a log that a cleaner may have taken this one's marker from.

        A replica that was away for longer than delete.retention.ms gets what a cleaner has left of the log: it may hold
        batches from before, and never see the marker that ended them. A coordinator raises the epoch by one, or, where
        it fences, by two.
        """
        return marker_epoch - self.producer_epoch > (2 if outcome == "aborted" else 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class EndMarker:
    """A producer's end marker; `bumped`: its epoch is above that of the data that it ended."""

    offset: int
    producer_epoch: int
    bumped: bool


@dataclass(slots=True, kw_only=True)
class ProducerEpoch:
    """What one producer wrote in one producer epoch; sequences are None while it has only markers."""

    producer_id: int
    producer_epoch: int
    first_sequence: int | None = None
    last_sequence: int | None = None
    first_offset: int
    last_offset: int
    last_timestamp: int
    lost_gaps: int = 0
    missing_sequences: int = 0
    explained_gaps: int = 0
    nonzero_starts: int = 0
    epoch_regressions: int = 0
    duplicate_batches: int = 0
    overlapping_batches: int = 0
    unsettled_batches: int = 0
    """Batches that go back behind what was written, and are sound if the producer had been forgotten meanwhile."""
    nontransactional_batches: int = 0
    nontransactional_offset: int | None = None
    breaks: list[SequenceBreak] = field(default_factory=list)
    highest_sequence: int | None = None
    went_back: list[tuple[int, int]] = field(default_factory=list)
    """(offset, highest sequence before it) of each batch that repeats what was written."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LastRun:
    """A producer's last run of batches: how its last ones look, and the transaction that it is part of."""

    producer_epoch: int
    first_offset: int
    last_offset: int
    looks: tuple[int, ...]
    transaction: Transaction | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Repeat:
    """A run whose first batch looks like one of the last of the producer's run in an older epoch."""

    producer_id: int
    producer_epoch: int
    offset: int
    end_offset: int
    before: LastRun
    transaction: Transaction | None


def ahead(sequence: int, of: int | None) -> bool:
    """Whether a sequence is past another, the wrap taken into account."""
    return of is None or 0 < (sequence - of) & SEQUENCE_MASK < FORWARD_LIMIT
