from tidegauge.expectations.evidence import Evidence
from tidegauge.expectations.invariants.shared.diagnoses import OUT_OF_SYNC_ELECTED
from tidegauge.expectations.model import Invariant, Severity, Unknown
from tidegauge.expectations.prose import line, lines

INVARIANT = Invariant(
    code="D18",
    key="UNCLEAN_LOSS_SIZE",
    name="UncleanElectionLostNothing",
    severity=Severity.CRITICAL,
    relation="partition_changes",
    statement=line("""
        No replica of the old lineage still holds records that were committed, or may have been, and that the leader of
        an unclean election does not have.
    """),
    because=line("""
        An unclean election makes a replica leader that was not in sync. What the replicas in sync had beyond it is cut
        off, and truncated as they return; until then it can be saved.
    """),
    applies_when="election IN ('unclean', 'last_known') AND NOT topic_deleted",
    unknown=(
        Unknown(
            reason="leader not captured",
            evidence=Evidence.BROKER,
            when="elected_log_captured IS FALSE AND coalesce(records_at_stake, 0) = 0",
        ),
        Unknown(
            reason="not every replica that was in sync was captured",
            evidence=Evidence.BROKER,
            when="coalesce(records_at_stake, 0) = 0 AND NOT coalesce(records_at_stake_known, false)",
        ),
    ),
    breach_when="records_at_stake > 0",
    derived=(
        ("not_all", "CASE WHEN NOT records_at_stake_known THEN 'not all of these' END"),
        ("returned", "CASE WHEN election = 'last_known' THEN ', had led last, and came back recovering' ELSE '' END"),
    ),
    evidence=(
        "metadata_offset",
        "at_ms",
        "leader_id",
        "previous_leader_id",
        "leader_epoch",
        "previous_isr",
        "isr",
        "records_at_stake",
        "records_at_stake_known",
        "old_lineage_holders",
    ),
    explanation=lines("""
        Offset {metadata_offset} of the metadata log made broker {leader_id} leader of {topic}-{partition}, leader epoch
          {leader_epoch}, while ISR was {previous_isr}: broker {leader_id} was not in it{returned}.
        Brokers {old_lineage_holders} still hold {records_at_stake} records of the old lineage that broker {leader_id}
          does not have.
        Of the brokers that were in sync, {not_all} were captured: there may be more.
        Kafka truncates them as those brokers return: keep them down until the records are saved.
    """),
    records="records_at_stake",
    next="tidegauge salvage <snapshot> --topic {topic} --partition {partition} --out salvaged",
    implies=("D05",),
    consequence_of="K07",
    points_to="unclean_loss",
    diagnosis=(OUT_OF_SYNC_ELECTED,),
    reference="PartitionChangeBuilder#electLeader, KIP-966; KAFKA-10751 asked for this number",
)
