"""Invariants about the metadata log: who may lead, who is in sync (family K).

In: rows of `partition_changes` (each record of a partition, with the state it left) and of `partitions`. The rule that
must hold here: a cluster that was stopped on purpose is no breach, and neither is a fault that the controller handles
as it should.
"""

from typing import Final

from expectations.catalogue.diagnoses import OUT_OF_SYNC_ELECTED
from expectations.evidence import Evidence
from expectations.model import Invariant, Severity, Unknown

_DESCRIBE: Final = "bin/kafka-topics.sh --bootstrap-server <host:port> --describe --topic {topic}"

DUMP_RECORD: Final = "bin/kafka-dump-log.sh --cluster-metadata-decoder --files {path}"
RECORD_STANDS: Final = "Record {metadata_offset} stands in {path}, node {node_id}'s copy of the metadata log."

_EFFECTIVE_MIN_ISR: Final = (
    "CASE WHEN min_insync_replicas > cardinality(replicas) THEN cardinality(replicas) ELSE min_insync_replicas END"
)
"""A topic with fewer replicas than min.insync.replicas needs no more than it has (Partition#effectiveMinIsr)."""

ISR_SUBSET = Invariant(
    code="K04",
    key="ISR_SUBSET",
    name="InSyncReplicasAreReplicas",
    severity=Severity.CRITICAL,
    relation="partition_changes",
    statement="ISR, ELR, last known ELR, adding and removing replicas are among the replicas; no broker is in both "
    "ISR and ELR.",
    because="A broker outside of the replica list holds nothing that anyone vouches for, and could be elected leader.",
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
        "After record {metadata_offset} of the metadata log {topic}-{partition} has replicas {replicas}, ISR {isr} "
        "and ELR {elr}.",
        "Brokers {strangers} are in one of its sets, and are no replicas of it.",
        "Brokers {twice} are in the ISR and in the ELR at once; the ELR is for those who left the ISR.",
        RECORD_STANDS,
    ),
    next=DUMP_RECORD,
    points_to="controller_bug",
    reference="ReplicationControlManager, PartitionRegistration#merge, KIP-966",
)

LEADER_IN_ISR = Invariant(
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
        "After record {metadata_offset} of the metadata log broker {leader_id} leads {topic}-{partition} in epoch "
        "{leader_epoch}.",
        "The ISR is {isr}, and broker {leader_id} is not in it: nothing vouches that it holds what was committed.",
        RECORD_STANDS,
    ),
    next=_DESCRIBE,
    implies=("D05",),
    points_to="controller_bug",
    reference="PartitionChangeBuilder#tryElection",
)

CLEAN_ELECTION = Invariant(
    code="K07",
    key="CLEAN_ELECTION",
    name="ElectionsAreClean",
    severity=Severity.CRITICAL,
    relation="partition_changes",
    statement="A new leader was in the ISR before, or in the ELR where the ISR was empty, or led last where both were "
    "and has lost nothing since.",
    because="Any other leader may lack committed records; whatever it lacks is deleted from every replica that has it.",
    unknown=(
        Unknown(
            reason="leader not captured",
            evidence=Evidence.BROKER,
            when="election = 'last_known' AND elected_log_captured IS FALSE AND coalesce(records_at_stake, 0) = 0",
        ),
        Unknown(
            reason="what it lacked, if anything, may have been cut off since",
            evidence=Evidence.EARLIER_SNAPSHOT,
            when="election = 'last_known' AND coalesce(records_at_stake, 0) = 0 AND NOT "
            "coalesce(records_at_stake_known, false)",
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
            "CASE WHEN records_at_stake = 0 AND records_at_stake_known AND elected_log_captured IS NOT FALSE "
            "THEN 'no record' END",
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
        "{topic}-{partition} was led by broker {previous_leader_id}, with ISR {previous_isr} and ELR {previous_elr}.",
        "{topic}-{partition} had {leaderless}, ISR {previous_isr} and ELR {previous_elr}.",
        "Record {metadata_offset} of the metadata log, written at {at_ms}, made broker {leader_id} leader in epoch "
        "{leader_epoch}; it was in {outsider}, so it need not hold what was committed.",
        "Record {metadata_offset} of the metadata log, written at {at_ms}, made broker {leader_id}, which had led "
        "last, leader again in epoch {leader_epoch} and marked it as {returned}: it had stopped uncleanly, and lacks "
        "what others hold.",
        "{at_stake} records of the old lineage, committed or not proven otherwise, are held by brokers {holders} and "
        "not by the new leader.",
        "The replicas of the old lineage were captured, and hold {nothing_at_stake} that may have been committed and "
        "that the new leader lacks.",
        "The new leader's log {unseen}, nor one that follows from it, so what it lacks cannot be told.",
        "Of the old ISR {not_told} were captured with their old logs, so what was lost cannot be told in full.",
        RECORD_STANDS,
    ),
    records="CASE WHEN records_at_stake > 0 THEN records_at_stake END",
    next=_DESCRIBE,
    implies=("D18", "D19", "C07", "C08"),
    points_to="unclean_loss",
    diagnosis=(OUT_OF_SYNC_ELECTED,),
    reference="PartitionChangeBuilder#electAnyLeader, #isValidNewLeader, KIP-966",
)

MIN_ISR = Invariant(
    code="K10",
    key="MIN_ISR",
    name="InSyncReplicasSuffice",
    severity=Severity.WARNING,
    relation="partitions",
    statement="A partition has as many in-sync replicas as min.insync.replicas asks for; while it has not, its high "
    "watermark stands still.",
    because="Below the minimum, writes with acks=all are refused and nothing more is committed. A high watermark that "
    "moved "
    "all the same declared records committed that too few brokers hold.",
    # A stopped cluster leaves every ISR empty, on purpose.
    breach_when=f"NOT cluster_stopped AND cardinality(isr) < {_EFFECTIVE_MIN_ISR}",
    severity_when=(
        # Ordinary while a broker is down, and the controller keeps the ELR for it. A high watermark above what every
        # member of ISR and ELR holds is not.
        (
            Severity.INFO,
            "NOT snapshot_quiet OR high_watermark_lower IS NULL OR high_watermark_upper IS NULL "
            "OR high_watermark_lower <= high_watermark_upper",
        ),
    ),
    derived=(
        ("in_sync", "cardinality(isr)"),
        ("needed", _EFFECTIVE_MIN_ISR),
        (
            "moved",
            "CASE WHEN snapshot_quiet AND high_watermark_lower > high_watermark_upper "
            "THEN high_watermark_lower - high_watermark_upper END",
        ),
        ("leaderless", "CASE WHEN leader_id IS NULL THEN 'no leader' END"),
    ),
    evidence=(
        "leader_id",
        "replicas",
        "isr",
        "elr",
        "min_insync_replicas",
        "active_replicas",
        "high_watermark_lower",
        "high_watermark_upper",
    ),
    explanation=(
        "{topic}-{partition}, led by broker {leader_id}, has {in_sync} in-sync replica(s), {isr}; it needs {needed}.",
        "{topic}-{partition} has {leaderless} and {in_sync} in-sync replica(s), {isr}; it needs {needed}.",
        "{active_replicas} of its replicas {replicas} are on registered, unfenced brokers; the ELR is {elr}.",
        "Until the ISR grows, producers with acks=all get NOT_ENOUGH_REPLICAS and the high watermark stays where it "
        "is.",
        "Yet a checkpointed high watermark, {high_watermark_lower}, is {moved} above {high_watermark_upper}, the most "
        "that all "
        "of ISR and ELR hold: it moved while too few were in sync.",
    ),
    start_offset="CASE WHEN snapshot_quiet AND high_watermark_lower > high_watermark_upper THEN high_watermark_upper "
    "END",
    end_offset="CASE WHEN snapshot_quiet AND high_watermark_lower > high_watermark_upper THEN high_watermark_lower END",
    next="bin/kafka-topics.sh --bootstrap-server <host:port> --describe --under-min-isr-partitions",
    points_to="broker_down",
    reference="Partition#isUnderMinIsr in #maybeIncrementLeaderHW, KIP-966",
)
