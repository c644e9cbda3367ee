from tidegauge.expectations.invariants.shared.commands import DUMP_METADATA_RECORD
from tidegauge.expectations.invariants.shared.metadata import RECORD_STANDS
from tidegauge.expectations.model import Invariant, Severity
from tidegauge.expectations.prose import line, lines

INVARIANT = Invariant(
    code="K04",
    key="ISR_SUBSET",
    name="InSyncReplicasAreReplicas",
    severity=Severity.CRITICAL,
    relation="partition_changes",
    statement=line("""
        ISR, ELR, last known ELR, adding and removing replicas are among the replicas; no broker is in both ISR and ELR.
    """),
    because=line("""
        A broker outside of the replica list holds nothing that anyone vouches for, and could be elected leader.
    """),
    breach_when="cardinality(isr_not_replicas) > 0 OR cardinality(isr_and_elr) > 0",
    severity_when=((Severity.INFO, "topic_deleted"),),
    derived=(
        ("strangers", "CASE WHEN cardinality(isr_not_replicas) > 0 THEN isr_not_replicas END"),
        ("twice", "CASE WHEN cardinality(isr_and_elr) > 0 THEN isr_and_elr END"),
    ),
    evidence=(
        "metadata_offset",
        "replicas",
        "isr",
        "elr",
        "last_known_elr",
        "adding_replicas",
        "removing_replicas",
        "node_id",
        "path",
    ),
    explanation=(
        *lines("""
            After record {metadata_offset} of the metadata log {topic}-{partition} has replicas {replicas}, ISR {isr}
              and ELR {elr}.
            Brokers {strangers} are in one of its sets, and are no replicas of it.
            Brokers {twice} are in the ISR and in the ELR at once; the ELR is for those who left the ISR.
        """),
        RECORD_STANDS,
    ),
    next=DUMP_METADATA_RECORD,
    points_to="controller_bug",
    reference="ReplicationControlManager, PartitionRegistration#merge, KIP-966",
)
