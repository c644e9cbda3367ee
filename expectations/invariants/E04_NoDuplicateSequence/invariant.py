from typing import Final

from tidegauge.expectations.evidence import Evidence
from tidegauge.expectations.invariants.shared.commands import FIND_PRODUCER
from tidegauge.expectations.invariants.shared.diagnoses import SAME_ON_ALL
from tidegauge.expectations.model import Invariant, Severity, Unknown
from tidegauge.expectations.prose import line, lines

_REPEATED: Final = Unknown(
    reason="setting not known", evidence=Evidence.SETTINGS, when="unsettled_batches > 0 AND duplicate_batches = 0"
)

INVARIANT = Invariant(
    code="E04",
    key="DUP_SEQUENCE",
    name="NoDuplicateSequence",
    severity=Severity.CRITICAL,
    relation="producers",
    statement="No two data batches of a producer epoch carry the same sequences.",
    because=line("""
        The leader remembers a producer's last five batches and answers a retry without storing it again. Stored twice,
        every consumer reads the records twice.
    """),
    applies_when="first_sequence IS NOT NULL",
    unknown=(_REPEATED,),
    breach_when="duplicate_batches > 0",
    evidence=("duplicate_batches", "first_sequence", "last_sequence", "first_offset", "last_offset"),
    explanation=lines("""
        Producer {producer_id} in epoch {producer_epoch} has {duplicate_batches} batches in {topic}-{partition} whose
          sequences the log already held.
        They were stored on broker {broker_id} between the offsets {first_offset} and {last_offset}; consumers read
          those records twice.
        Expiry of the producer's state, which would make the leader forget, does not explain it.
    """),
    details=("duplicate",),
    next=FIND_PRODUCER,
    points_to="producer_bug",
    diagnosis=(SAME_ON_ALL,),
    reference="ProducerStateEntry#findDuplicateBatch; KIP-98",
)
