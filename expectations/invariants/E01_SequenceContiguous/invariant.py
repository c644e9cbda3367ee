from tidegauge.expectations.invariants.shared.commands import FIND_PRODUCER
from tidegauge.expectations.invariants.shared.diagnoses import BATCH_LOST_ALONE, SAME_ON_ALL
from tidegauge.expectations.invariants.shared.producers import CLEANED
from tidegauge.expectations.model import Invariant, Severity
from tidegauge.expectations.prose import line, lines

INVARIANT = Invariant(
    code="E01",
    key="SEQ_CONTIGUOUS",
    name="SequenceContiguous",
    severity=Severity.CRITICAL,
    relation="producers",
    statement=line("""
        Within a producer epoch each batch's first sequence follows the last one of the producer's batch before it, and
        0 follows 2147483647.
    """),
    because=line("""
        The leader refuses a batch that does not follow on, so a gap in the stored sequences is records that a producer
        had acknowledged and that are not in the log.
    """),
    applies_when="first_sequence IS NOT NULL",
    unknown=(CLEANED,),
    breach_when="lost_gaps > 0",
    evidence=("lost_gaps", "missing_sequences", "first_sequence", "last_sequence", "first_offset", "last_offset"),
    explanation=lines("""
        Producer {producer_id} in epoch {producer_epoch} wrote to {topic}-{partition} from offset {first_offset} to
          {last_offset}, sequences {first_sequence} to {last_sequence}.
        On broker {broker_id} its sequences break off and go on higher {lost_gaps} times: {missing_sequences} records
          are missing.
        Compaction, deletion and the expiry of the producer's state were looked at and do not explain it.
        If all replicas have the gap, the leader lost the batch or never had it; if only this one has, this log did.
    """),
    details=("lost",),
    records="missing_sequences",
    next=FIND_PRODUCER,
    points_to="producer_bug",
    diagnosis=(SAME_ON_ALL, BATCH_LOST_ALONE),
    reference="ProducerAppendInfo#checkSequence, #inSequence; KIP-98",
)
