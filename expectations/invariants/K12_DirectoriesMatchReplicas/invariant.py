from tidegauge.expectations.invariants.shared.commands import DESCRIBE_TOPIC
from tidegauge.expectations.invariants.shared.metadata import DAMAGED, DELETED, RECORD_STANDS
from tidegauge.expectations.model import Invariant, Severity, Unknown
from tidegauge.expectations.prose import line, lines

INVARIANT = Invariant(
    code="K12",
    key="DIRECTORIES_ALIGNED",
    name="DirectoriesMatchReplicas",
    severity=Severity.WARNING,
    relation="partition_changes",
    statement=line("""
        A partition names one log directory for each replica, and that of an in-sync replica is one that its broker has.
    """),
    because=line("""
        A replica on a disk that its broker has lost holds nothing; counted as in sync it may be elected, and the
        leader's records count as committed without it.
    """),
    applies_when="directory_count > 0",
    unknown=(
        Unknown(
            reason=DAMAGED,
            evidence=None,
            when=line("""
                after_damage AND (directory_count <> cardinality(replicas) OR cardinality(isr_without_directory) > 0)
            """),
        ),
        # Brokers tell the controller where they put a replica after they have put it there.
        Unknown(
            reason="assignment under way",
            evidence=None,
            when=line("""
                directory_count = cardinality(replicas) AND cardinality(isr_without_directory) > 0
                AND out_of_place_ms < 60000
            """),
        ),
    ),
    breach_when="directory_count <> cardinality(replicas) OR cardinality(isr_without_directory) > 0",
    severity_when=DELETED,
    derived=(
        ("replica_count", "cardinality(replicas)"),
        ("miscounted", "CASE WHEN directory_count <> cardinality(replicas) THEN directory_count END"),
        ("homeless", "CASE WHEN cardinality(isr_without_directory) > 0 THEN isr_without_directory END"),
    ),
    evidence=(
        "metadata_offset",
        "replicas",
        "directory_count",
        "isr",
        "isr_without_directory",
        "out_of_place_offset",
        "node_id",
        "path",
    ),
    explanation=(
        *lines("""
            Record {metadata_offset} of the metadata log left {topic}-{partition} with {replica_count} replicas,
              {replicas}.
            It names {miscounted} directories for them.
            From record {out_of_place_offset} on brokers {homeless} of its ISR {isr} did not have the directory that it
              names for them.
        """),
        RECORD_STANDS,
    ),
    next=DESCRIBE_TOPIC,
    points_to="foreign_disk",
    reference="PartitionRegistration#checkDirectories, ReplicationControlManager#handleDirectoriesOffline, KIP-858",
)
