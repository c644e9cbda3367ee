from tidegauge.expectations.evidence import Evidence
from tidegauge.expectations.invariants.shared.commands import DESCRIBE_TOPIC
from tidegauge.expectations.invariants.shared.diagnoses import OUT_OF_SYNC_ELECTED
from tidegauge.expectations.invariants.shared.metadata import RECORD_STANDS
from tidegauge.expectations.model import Invariant, Severity, Unknown
from tidegauge.expectations.prose import line, lines

INVARIANT = Invariant(
    code="K07",
    key="CLEAN_ELECTION",
    name="ElectionsAreClean",
    severity=Severity.CRITICAL,
    relation="partition_changes",
    statement=line("""
        A new leader was in the ISR before, or in the ELR where the ISR was empty, or led last where both were and has
        lost nothing since.
    """),
    because=line("""
        Any other leader may lack committed records; whatever it lacks is deleted from every replica that has it.
    """),
    unknown=(
        Unknown(
            reason="leader not captured",
            evidence=Evidence.BROKER,
            when="election = 'last_known' AND elected_log_captured IS FALSE AND coalesce(records_at_stake, 0) = 0",
        ),
        Unknown(
            reason="what it lacked, if anything, may have been cut off since",
            evidence=Evidence.EARLIER_SNAPSHOT,
            when=line("""
                election = 'last_known' AND coalesce(records_at_stake, 0) = 0
                AND NOT coalesce(records_at_stake_known, false)
            """),
        ),
    ),
    # Who led last, elected after its own unclean stop, is marked as recovering: its disk may lack what it had.
    breach_when="election = 'unclean' OR (election = 'last_known' AND coalesce(records_at_stake, 0) > 0)",
    severity_when=((Severity.INFO, "topic_deleted"),),
    derived=(
        ("at_stake", "CASE WHEN records_at_stake > 0 THEN records_at_stake END"),
        ("holders", "CASE WHEN records_at_stake > 0 THEN old_lineage_holders END"),
        (
            "nothing_at_stake",
            line("""
                CASE WHEN records_at_stake = 0 AND records_at_stake_known
                AND elected_log_captured IS NOT FALSE THEN 'no record' END
            """),
        ),
        ("not_told", "CASE WHEN NOT records_at_stake_known THEN 'not all of them' END"),
        ("unseen", "CASE WHEN elected_log_captured IS FALSE THEN 'is not in the copy' END"),
        ("leaderless", "CASE WHEN previous_leader_id IS NULL THEN 'no leader' END"),
        ("outsider", "CASE WHEN election = 'unclean' THEN 'neither set' END"),
        ("returned", "CASE WHEN election = 'last_known' THEN 'recovering' END"),
    ),
    evidence=(
        "metadata_offset",
        "at_ms",
        "previous_leader_id",
        "leader_id",
        "leader_epoch",
        "previous_isr",
        "previous_elr",
        "isr",
        "node_id",
        "path",
    ),
    explanation=(
        *lines("""
            {topic}-{partition} was led by broker {previous_leader_id}, with ISR {previous_isr} and ELR {previous_elr}.
            {topic}-{partition} had {leaderless}, ISR {previous_isr} and ELR {previous_elr}.
            Record {metadata_offset} of the metadata log, written at {at_ms}, made broker {leader_id} leader in epoch
              {leader_epoch}; it was in {outsider}, so it need not hold what was committed.
            Record {metadata_offset} of the metadata log, written at {at_ms}, made broker {leader_id}, which had led
              last, leader again in epoch {leader_epoch} and marked it as {returned}: it had stopped uncleanly, and
              lacks what others hold.
            {at_stake} records of the old lineage, committed or not proven otherwise, are held by brokers {holders} and
              not by the new leader.
            The replicas of the old lineage were captured, and hold {nothing_at_stake} that may have been committed and
              that the new leader lacks.
            The new leader's log {unseen}, nor one that follows from it, so what it lacks cannot be told.
            Of the old ISR {not_told} were captured with their old logs, so what was lost cannot be told in full.
        """),
        RECORD_STANDS,
    ),
    records="CASE WHEN records_at_stake > 0 THEN records_at_stake END",
    next=DESCRIBE_TOPIC,
    implies=("D18", "D19", "C07", "C08"),
    points_to="unclean_loss",
    diagnosis=(OUT_OF_SYNC_ELECTED,),
    reference="PartitionChangeBuilder#electAnyLeader, #isValidNewLeader, KIP-966",
)
