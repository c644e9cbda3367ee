from typing import Final

from tidegauge.expectations.evidence import Evidence
from tidegauge.expectations.invariants.shared.commands import FIND_PRODUCER
from tidegauge.expectations.invariants.shared.diagnoses import SAME_ON_ALL
from tidegauge.expectations.model import Invariant, Severity, Unknown
from tidegauge.expectations.prose import line, lines

_OVERLAPPING: Final = Unknown(
    reason="setting not known", evidence=Evidence.SETTINGS, when="unsettled_batches > 0 AND overlapping_batches = 0"
)
"""A producer that a broker had forgotten may go back; where nothing tells producer.id.expiration.ms, it may have."""

INVARIANT = Invariant(
    code="E05",
    key="SEQ_OVERLAP",
    name="NoSequenceOverlap",
    severity=Severity.CRITICAL,
    relation="producers",
    statement="The sequences of two batches of a producer epoch are never the same in part only.",
    because=line("""
        A client retries a batch as it was. Sequences that overlap in part come from a client that cut its batches
        differently. Some records are stored twice, and no comparison of whole batches can show it.
    """),
    applies_when="first_sequence IS NOT NULL",
    unknown=(_OVERLAPPING,),
    breach_when="overlapping_batches > 0",
    evidence=("overlapping_batches", "first_sequence", "last_sequence", "first_offset", "last_offset"),
    explanation=lines("""
        Producer {producer_id} in epoch {producer_epoch} has {overlapping_batches} batches in {topic}-{partition} that
          begin with sequences the log already held and end with new ones.
        They lie between the offsets {first_offset} and {last_offset} on broker {broker_id}; the leader should have
          refused them as out of order.
    """),
    details=("overlap",),
    next=FIND_PRODUCER,
    points_to="producer_bug",
    diagnosis=(SAME_ON_ALL,),
    reference="ProducerAppendInfo#checkSequence; KIP-98",
)
