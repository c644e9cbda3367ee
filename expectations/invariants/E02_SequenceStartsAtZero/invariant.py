from tidegauge.expectations.invariants.shared.commands import FIND_PRODUCER
from tidegauge.expectations.invariants.shared.diagnoses import BATCH_LOST_ALONE, SAME_ON_ALL
from tidegauge.expectations.invariants.shared.producers import CLEANED
from tidegauge.expectations.model import Invariant, Severity
from tidegauge.expectations.prose import line, lines

INVARIANT = Invariant(
    code="E02",
    key="SEQ_STARTS_AT_ZERO",
    name="SequenceStartsAtZero",
    severity=Severity.CRITICAL,
    relation="producers",
    statement="The first batch of a new producer epoch, of a producer that the log knows, has sequence 0.",
    because=line("""
        A producer counts from 0 again after its epoch was raised, and the leader refuses any other start: if the stored
        sequences begin higher, the epoch's first batches are missing.
    """),
    applies_when="first_sequence IS NOT NULL",
    unknown=(CLEANED,),
    breach_when="nonzero_starts > 0",
    derived=(("lost_at_least", "CASE WHEN first_sequence > 0 THEN first_sequence END"),),
    evidence=("nonzero_starts", "first_sequence", "first_offset", "last_offset"),
    explanation=lines("""
        The log of {topic}-{partition} on broker {broker_id} knows producer {producer_id} from an earlier epoch.
        Its first batch in epoch {producer_epoch} is at offset {first_offset} and begins with sequence
          {first_sequence}.
        The {lost_at_least} records with the sequences before it are not in the log.
    """),
    details=("nonzero_start",),
    start_offset="first_offset",
    end_offset="first_offset + 1",
    records="CASE WHEN first_sequence > 0 THEN first_sequence END",
    next=FIND_PRODUCER,
    points_to="producer_bug",
    diagnosis=(SAME_ON_ALL, BATCH_LOST_ALONE),
    reference="ProducerAppendInfo#checkSequence; KIP-98, KIP-890",
)
