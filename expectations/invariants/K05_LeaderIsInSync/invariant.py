from tidegauge.expectations.invariants.shared.commands import DESCRIBE_TOPIC
from tidegauge.expectations.invariants.shared.metadata import RECORD_STANDS
from tidegauge.expectations.model import Invariant, Severity
from tidegauge.expectations.prose import lines

INVARIANT = Invariant(
    code="K05",
    key="LEADER_IN_ISR",
    name="LeaderIsInSync",
    severity=Severity.CRITICAL,
    relation="partition_changes",
    statement="A partition's leader is in its ISR, or there is no leader.",
    because="A leader outside of the ISR need not hold what was committed, and everybody else truncates to it.",
    breach_when="leader_id IS NOT NULL AND NOT leader_in_isr",
    severity_when=((Severity.INFO, "topic_deleted"),),
    evidence=("metadata_offset", "leader_id", "leader_epoch", "isr", "elr", "replicas", "at_ms", "node_id", "path"),
    explanation=(
        *lines("""
            After record {metadata_offset} of the metadata log broker {leader_id} leads {topic}-{partition} in epoch
              {leader_epoch}.
            The ISR is {isr}, and broker {leader_id} is not in it: nothing vouches that it holds what was committed.
        """),
        RECORD_STANDS,
    ),
    next=DESCRIBE_TOPIC,
    implies=("D05",),
    points_to="controller_bug",
    reference="PartitionChangeBuilder#tryElection",
)
