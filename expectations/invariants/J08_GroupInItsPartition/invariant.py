from tidegauge.expectations.invariants.shared.commands import DUMP_OFFSETS_LOG
from tidegauge.expectations.invariants.shared.coordinators import COUNT_NOT_KNOWN, MISPLACED, NAMES_HASHED
from tidegauge.expectations.invariants.shared.lacking import NO_METADATA_LOG
from tidegauge.expectations.model import Invariant, Severity
from tidegauge.expectations.prose import line, lines

INVARIANT = Invariant(
    code="J08",
    key="GROUP_PLACED",
    name="GroupInItsPartition",
    severity=Severity.CRITICAL,
    relation="groups",
    statement="A group's records lie in the partition that the hash of its id gives.",
    because=line("""
        The leader of that partition is the group's coordinator. Nobody finds records in another partition: the group
        starts from nothing, or two coordinators each have one half of it. It happens when the topic's partition count
        was changed, or when a directory was put in the place of another.
    """),
    unknown=(NAMES_HASHED, NO_METADATA_LOG, COUNT_NOT_KNOWN),
    breach_when=MISPLACED,
    evidence=("expected_partition", "partition_count", "record_count", "kind", "committed_partitions"),
    explanation=lines("""
        Group {group} has {record_count} records in {topic}-{partition}, offsets {first_record_offset} to
          {last_record_offset}.
        The hash of its id modulo {partition_count} partitions gives partition {expected_partition}.
        Its coordinator is the leader of that one, and does not know of these records.
    """),
    start_offset="first_record_offset",
    end_offset="last_record_offset + 1",
    records="record_count",
    next=DUMP_OFFSETS_LOG,
    points_to="coordinator_bug",
    reference="GroupCoordinatorService#partitionFor (Utils.abs of String#hashCode modulo the partition count)",
)
