from tidegauge.expectations.invariants.shared.commands import DESCRIBE_TOPIC
from tidegauge.expectations.invariants.shared.diagnoses import OUT_OF_SYNC_ELECTED
from tidegauge.expectations.invariants.shared.metadata import DAMAGED, DELETED, RECORD_STANDS
from tidegauge.expectations.model import Invariant, Severity, Unknown
from tidegauge.expectations.prose import line, lines

INVARIANT = Invariant(
    code="K08",
    key="RECOVERING_ISR_ONE",
    name="RecoveringLeaderIsAlone",
    severity=Severity.WARNING,
    relation="partition_changes",
    statement=line("""
        A partition whose leader recovers from an unclean election has no in-sync replica but that leader, and only an
        election makes a leader recover.
    """),
    because=line("""
        What the others hold is not yet agreed with the new leader's log; counted as in sync they could be elected with
        what was lost, or without what is left.
    """),
    applies_when="recovering",
    unknown=(
        Unknown(
            reason=DAMAGED,
            evidence=None,
            when=line("""
                after_damage AND (cardinality(isr) > 1 OR coalesce(NOT previous_recovering
                AND leader_epoch = previous_leader_epoch, false))
            """),
        ),
    ),
    breach_when=line("""
        cardinality(isr) > 1 OR coalesce(NOT previous_recovering AND leader_epoch = previous_leader_epoch, false)
    """),
    severity_when=DELETED,
    derived=(
        ("crowd", "CASE WHEN cardinality(isr) > 1 THEN isr END"),
        (
            "unelected",
            "CASE WHEN NOT previous_recovering AND leader_epoch = previous_leader_epoch THEN leader_epoch END",
        ),
    ),
    evidence=("metadata_offset", "leader_id", "leader_epoch", "isr", "previous_isr", "at_ms", "node_id", "path"),
    explanation=(
        *lines("""
            After record {metadata_offset} of the metadata log {topic}-{partition} is recovering from an unclean
              election, led by broker {leader_id}.
            Its ISR is {crowd}, while only the recovering leader may be in it.
            It was not recovering before, and leader epoch {unelected} did not begin with that record: nobody was
              elected.
        """),
        RECORD_STANDS,
    ),
    next=DESCRIBE_TOPIC,
    points_to="unclean_loss",
    diagnosis=(OUT_OF_SYNC_ELECTED,),
    reference="ReplicationControlManager#validateAlterPartitionData, KIP-704",
)
