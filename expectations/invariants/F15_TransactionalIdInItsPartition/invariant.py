from tidegauge.expectations.invariants.shared.commands import DUMP_TRANSACTION_LOG
from tidegauge.expectations.invariants.shared.coordinators import COUNT_NOT_KNOWN, MISPLACED, NAMES_HASHED
from tidegauge.expectations.invariants.shared.lacking import NO_METADATA_LOG
from tidegauge.expectations.model import Invariant, Severity
from tidegauge.expectations.prose import line, lines

INVARIANT = Invariant(
    code="F15",
    key="TXN_ID_PLACED",
    name="TransactionalIdInItsPartition",
    severity=Severity.CRITICAL,
    relation="transactional_ids",
    statement="A transactional id's records lie in the partition that the hash of its name gives.",
    because=line("""
        The leader of that partition is the id's coordinator. Records elsewhere are another coordinator's: two of them
        may fence and decide for the same producer. It happens when the topic's partition count was changed, or when a
        directory was put in the place of another.
    """),
    unknown=(NAMES_HASHED, NO_METADATA_LOG, COUNT_NOT_KNOWN),
    breach_when=MISPLACED,
    evidence=("expected_partition", "partition_count", "record_count", "state", "updated_at_ms"),
    explanation=lines("""
        Transactional id {transactional_id} has {record_count} records in {topic}-{partition}, offsets
          {first_record_offset} to {last_record_offset}.
        The hash of its name modulo {partition_count} partitions gives partition {expected_partition}.
        Its coordinator is the leader of that one, and does not know of these records.
    """),
    start_offset="first_record_offset",
    end_offset="last_record_offset + 1",
    records="record_count",
    next=DUMP_TRANSACTION_LOG,
    points_to="coordinator_bug",
    reference="TransactionStateManager#partitionFor (Utils.abs of String#hashCode modulo the partition count)",
)
