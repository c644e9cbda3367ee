from tidegauge.expectations.invariants.shared.commands import DUMP_METADATA_RECORD
from tidegauge.expectations.invariants.shared.metadata import DAMAGED, DELETED, RECORD_STANDS
from tidegauge.expectations.model import Invariant, Severity, Unknown
from tidegauge.expectations.prose import line, lines

INVARIANT = Invariant(
    code="K21",
    key="REASSIGNMENT_DISJOINT",
    name="AddedReplicasAreNotRemoved",
    severity=Severity.WARNING,
    relation="partition_changes",
    statement="No broker is among a partition's adding and its removing replicas at once.",
    because=line("""
        A reassignment adds who is in the target alone, and removes who is not in it. It ends when the adding replicas
        are in sync, and the removing ones are dropped then: a broker that is both copies the whole log, and deletes it.
    """),
    unknown=(
        # A record that could not be read may have emptied one of the two sets.
        Unknown(reason=DAMAGED, evidence=None, when="after_damage AND adding_replicas && removing_replicas"),
    ),
    breach_when="adding_replicas && removing_replicas",
    severity_when=DELETED,
    evidence=("metadata_offset", "adding_replicas", "removing_replicas", "replicas", "isr", "at_ms", "node_id", "path"),
    explanation=(
        *lines("""
            Record {metadata_offset} of the metadata log left {topic}-{partition}, with replicas {replicas}, in a
              reassignment that adds brokers {adding_replicas} and removes brokers {removing_replicas}.
            A broker in both sets is taken in, and dropped with its log as soon as all that are added are in sync.
        """),
        RECORD_STANDS,
    ),
    next=DUMP_METADATA_RECORD,
    points_to="controller_bug",
    reference="PartitionReassignmentReplicas (each set is what the other side lacks), KIP-455",
    since="0.1",
)
