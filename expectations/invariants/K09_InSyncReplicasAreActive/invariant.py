from tidegauge.expectations.invariants.shared.commands import DESCRIBE_TOPIC
from tidegauge.expectations.invariants.shared.metadata import DAMAGED, DELETED, RECORD_STANDS
from tidegauge.expectations.model import Invariant, Severity, Unknown
from tidegauge.expectations.prose import line, lines

INVARIANT = Invariant(
    code="K09",
    key="FENCED_NOT_IN_ISR",
    name="InSyncReplicasAreActive",
    severity=Severity.CRITICAL,
    relation="partition_changes",
    statement="No broker that is fenced, in controlled shutdown or unregistered is in an ISR.",
    because=line("""
        Such a broker does not fetch, so it holds nothing that is written now: records count as committed that it lacks,
        and it may be elected; or nothing is committed at all while everybody waits for it.
    """),
    unknown=(
        Unknown(reason=DAMAGED, evidence=None, when="after_damage AND cardinality(isr_inactive) > 0"),
        # Many partitions of one broker may need more than one batch of records. Who had gone in an earlier batch is not
        # taken into an ISR, and not elected.
        Unknown(
            reason="change under way",
            evidence=None,
            when=line("""
                cardinality(isr_inactive) > 0 AND coalesce(cardinality(isr_joined_inactive), 0) = 0
                AND out_of_place_ms < 100
            """),
        ),
    ),
    breach_when="cardinality(isr_inactive) > 0",
    severity_when=DELETED,
    derived=(
        ("stayed_for_ms", "out_of_place_ms"),
        ("taken_in", "CASE WHEN cardinality(isr_joined_inactive) > 0 THEN isr_joined_inactive END"),
    ),
    evidence=(
        "metadata_offset",
        "isr",
        "isr_inactive",
        "isr_joined_inactive",
        "leader_id",
        "out_of_place_offset",
        "out_of_place_ms",
        "node_id",
        "path",
    ),
    explanation=(
        *lines("""
            Record {metadata_offset} of the metadata log left {topic}-{partition} with ISR {isr}.
            From record {out_of_place_offset} on brokers {isr_inactive} of it were fenced, in controlled shutdown or
              unregistered.
            Brokers {taken_in} had gone by an earlier batch of records, before that one took them into the ISR or
              elected them.
            They stayed in the ISR for {stayed_for_ms}.
        """),
        RECORD_STANDS,
    ),
    next=DESCRIBE_TOPIC,
    points_to="controller_bug",
    reference="ReplicationControlManager#handleBrokerFenced, BrokersToIsrs, KIP-841",
)
