from typing import Final

from tidegauge.expectations.evidence import Evidence
from tidegauge.expectations.model import Invariant, Severity, Unknown
from tidegauge.expectations.prose import line, lines

_A_DAY_MS: Final = 86_400_000

INVARIANT = Invariant(
    code="K18",
    key="REASSIGNMENT_ENDS",
    name="ReassignmentsEnd",
    severity=Severity.INFO,
    relation="partitions",
    statement="A reassignment gets on: its adding and removing replicas do not stay the same for a day.",
    because=line("""
        A move that stands still costs disk and network on both sides, keeps the partition at more replicas than it
        should have, and is often one to a broker that cannot take it.
    """),
    applies_when="cardinality(adding_replicas) > 0 OR cardinality(removing_replicas) > 0",
    unknown=(
        Unknown(
            reason="cluster stopped",
            evidence=None,
            when=f"cluster_stopped AND coalesce(reassigning_ms > {_A_DAY_MS}, true)",
        ),
        Unknown(
            reason="begun before the metadata log",
            evidence=Evidence.METADATA_LOG_START,
            when="reassigning_since_ms IS NULL",
        ),
        Unknown(
            reason="the instant of the capture is not known", evidence=Evidence.INSTANTS, when="reassigning_ms IS NULL"
        ),
    ),
    breach_when=f"reassigning_ms > {_A_DAY_MS}",
    derived=(("hours", "reassigning_ms / 3600000"),),
    evidence=("replicas", "adding_replicas", "removing_replicas", "isr", "reassigning_since_ms", "reassigning_ms"),
    explanation=lines("""
        {topic}-{partition} has been moving for {hours} hours: adding {adding_replicas}, removing {removing_replicas},
          since {reassigning_since_ms}.
        Its ISR is {isr}; the move ends when that holds all replicas that it adds.
    """),
    next="bin/kafka-reassign-partitions.sh --bootstrap-server <host:port> --list",
    points_to="configuration",
    reference="ReplicationControlManager, PartitionReassignmentReplicas, KIP-455",
)
