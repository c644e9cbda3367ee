"""Invariants about a partition's history in the metadata log: epochs, ELR, recovery, who may be in sync (family K).

In: rows of `partition_changes` (each record of a partition, with the state it left) and of `partitions`. The rule that
must hold here: change records carry no epoch, so the replay alone proves nothing about it; a partition's first record
and the metadata snapshots say what it must come to.
"""

from typing import Final

from expectations.catalogue.diagnoses import OUT_OF_SYNC_ELECTED
from expectations.catalogue.metadata import DUMP_RECORD, RECORD_STANDS
from expectations.evidence import Evidence
from expectations.model import Invariant, Severity, Unknown

_DESCRIBE: Final = "bin/kafka-topics.sh --bootstrap-server <host:port> --describe --topic {topic}"
_DELETED: Final = ((Severity.INFO, "topic_deleted"),)
_DAMAGED: Final = "metadata log damaged"
_EFFECTIVE_MIN_ISR: Final = "least(min_insync_replicas, cardinality(replicas))"
_OTHER_PARTITION_EPOCH: Final = "snapshot_partition_epoch <> partition_epoch"
_OTHER_LEADER_EPOCH: Final = "snapshot_leader_epoch <> leader_epoch"
_EVIDENCED: Final = "snapshot_end_offset IS NOT NULL OR (created AND NOT migrated)"


def _alone(contradicts: str) -> str:
    """SQL for the only node with a metadata snapshot that contradicts."""
    return f"CASE WHEN {contradicts} AND cardinality(snapshot_nodes) = 1 THEN snapshot_nodes[1] END"


def _several(contradicts: str) -> str:
    """SQL for all of them where there are more."""
    return f"CASE WHEN {contradicts} AND cardinality(snapshot_nodes) > 1 THEN snapshot_nodes END"


PARTITION_EPOCH_STEP = Invariant(
    code="K01",
    key="PARTITION_EPOCH_STEP",
    name="PartitionEpochCountsRecords",
    severity=Severity.CRITICAL,
    relation="partition_changes",
    statement="A partition epoch begins at 0 and rises by one with each record about the partition; every metadata "
    "snapshot says the same.",
    because="Change records carry no epoch: each node counts them. A node that counted otherwise lost a record or "
    "took one twice, and refuses the leader's ISR changes, or accepts stale ones.",
    applies_when=_EVIDENCED,
    unknown=(
        Unknown(
            reason=_DAMAGED,
            evidence=None,
            when="after_damage AND coalesce(snapshot_partition_epoch <> partition_epoch, created AND "
            "partition_epoch <> 0)",
        ),
    ),
    breach_when="(created AND NOT migrated AND partition_epoch <> 0) OR "
    "coalesce(snapshot_partition_epoch <> partition_epoch, false)",
    severity_when=_DELETED,
    derived=(
        ("begins_at", "CASE WHEN created AND partition_epoch <> 0 THEN partition_epoch END"),
        (
            "told_otherwise",
            "CASE WHEN snapshot_partition_epoch <> partition_epoch THEN snapshot_partition_epoch END",
        ),
        ("snapshot_node", _alone(_OTHER_PARTITION_EPOCH)),
        ("several_nodes", _several(_OTHER_PARTITION_EPOCH)),
    ),
    evidence=(
        "metadata_offset",
        "partition_epoch",
        "snapshot_end_offset",
        "snapshot_partition_epoch",
        "at_ms",
        "node_id",
        "path",
        "snapshot_nodes",
        "snapshot_paths",
    ),
    explanation=(
        "Record {metadata_offset} of the metadata log left {topic}-{partition} with partition epoch "
        "{partition_epoch}, counted from its first record.",
        "That record created the partition, with partition epoch {begins_at} instead of 0.",
        "The metadata snapshot that ends at {snapshot_end_offset} says {told_otherwise}: the node that wrote it had "
        "counted other records.",
        "That snapshot is {snapshot_paths}, on node {snapshot_node}.",
        "That snapshot is {snapshot_paths}, on nodes {several_nodes}.",
        RECORD_STANDS,
    ),
    next=DUMP_RECORD,
    implies=("K19",),
    points_to="controller_bug",
    reference="PartitionRegistration#merge, ReplicationControlManager#createTopic",
)

LEADER_EPOCH_STEP = Invariant(
    code="K02",
    key="LEADER_EPOCH_STEP",
    name="LeaderEpochCountsElections",
    severity=Severity.CRITICAL,
    relation="partition_changes",
    statement="A leader epoch begins at 0 and rises by one with each record that names a leader, or none; every "
    "metadata snapshot says the same.",
    because="Two leaders of one epoch write different batches that nothing tells apart. Followers find where logs "
    "part by their epochs, so a reused one hides it.",
    applies_when=_EVIDENCED,
    unknown=(
        Unknown(
            reason=_DAMAGED,
            evidence=None,
            when="after_damage AND coalesce(snapshot_leader_epoch <> leader_epoch, created AND leader_epoch <> 0)",
        ),
    ),
    breach_when="(created AND NOT migrated AND leader_epoch <> 0) OR "
    "coalesce(snapshot_leader_epoch <> leader_epoch, false)",
    severity_when=_DELETED,
    derived=(
        ("begins_at", "CASE WHEN created AND leader_epoch <> 0 THEN leader_epoch END"),
        ("told_otherwise", "CASE WHEN snapshot_leader_epoch <> leader_epoch THEN snapshot_leader_epoch END"),
        ("snapshot_node", _alone(_OTHER_LEADER_EPOCH)),
        ("several_nodes", _several(_OTHER_LEADER_EPOCH)),
    ),
    evidence=(
        "metadata_offset",
        "leader_id",
        "leader_epoch",
        "snapshot_end_offset",
        "snapshot_leader_epoch",
        "at_ms",
        "node_id",
        "path",
        "snapshot_nodes",
        "snapshot_paths",
    ),
    explanation=(
        "Record {metadata_offset} of the metadata log left {topic}-{partition} in leader epoch {leader_epoch}, counted "
        "from its first record.",
        "That record created the partition, in leader epoch {begins_at} instead of 0.",
        "The metadata snapshot that ends at {snapshot_end_offset} says {told_otherwise}: the node that wrote it had "
        "counted other elections.",
        "That snapshot is {snapshot_paths}, on node {snapshot_node}.",
        "That snapshot is {snapshot_paths}, on nodes {several_nodes}.",
        RECORD_STANDS,
    ),
    next=DUMP_RECORD,
    implies=("K19",),
    points_to="controller_bug",
    reference="PartitionRegistration#merge, PartitionChangeRecord.Leader",
)

ELR_EMPTY_ABOVE_MIN_ISR = Invariant(
    code="K06",
    key="ELR_EMPTY_ABOVE_MINISR",
    name="EligibleLeadersOnlyBelowMinIsr",
    severity=Severity.WARNING,
    relation="partition_changes",
    statement="A partition with as many in-sync replicas as min.insync.replicas asks for has no eligible leader "
    "replicas beside them.",
    because="The ELR vouches that its members hold everything committed. That is so only while nothing more can be "
    "committed without them: members kept beyond that may lack what came later, and are elected all the same.",
    applies_when="cardinality(elr) > 0 OR cardinality(last_known_elr) > 0",
    unknown=(
        Unknown(reason="min.insync.replicas not known", evidence=Evidence.SETTINGS, when="min_insync_replicas IS NULL"),
        Unknown(reason=_DAMAGED, evidence=None, when=f"after_damage AND cardinality(isr) >= {_EFFECTIVE_MIN_ISR}"),
    ),
    breach_when=f"cardinality(isr) >= {_EFFECTIVE_MIN_ISR}",
    severity_when=_DELETED,
    derived=(
        ("in_sync", "cardinality(isr)"),
        ("kept", "CASE WHEN cardinality(elr) > 0 THEN elr END"),
        ("kept_last_known", "CASE WHEN cardinality(last_known_elr) > 0 THEN last_known_elr END"),
    ),
    evidence=(
        "metadata_offset",
        "isr",
        "elr",
        "last_known_elr",
        "min_insync_replicas",
        "replicas",
        "at_ms",
        "node_id",
        "path",
    ),
    explanation=(
        "Record {metadata_offset} of the metadata log left {topic}-{partition} with {in_sync} in-sync replicas, {isr}; "
        "min.insync.replicas was {min_insync_replicas}.",
        "Its ELR still is {kept}: these brokers may be elected without what was committed since.",
        "Its last known leader still is {kept_last_known}.",
        RECORD_STANDS,
    ),
    next=_DESCRIBE,
    points_to="controller_bug",
    reference="PartitionChangeBuilder#maybePopulateTargetElr, KIP-966",
)

RECOVERING_ISR_ONE = Invariant(
    code="K08",
    key="RECOVERING_ISR_ONE",
    name="RecoveringLeaderIsAlone",
    severity=Severity.WARNING,
    relation="partition_changes",
    statement="A partition whose leader recovers from an unclean election has no in-sync replica but that leader, and "
    "only an election makes a leader recover.",
    because="What the others hold is not yet agreed with the new leader's log; counted as in sync they could be "
    "elected with what was lost, or without what is left.",
    applies_when="recovering",
    unknown=(
        Unknown(
            reason=_DAMAGED,
            evidence=None,
            when="after_damage AND (cardinality(isr) > 1 OR coalesce(NOT previous_recovering AND leader_epoch = "
            "previous_leader_epoch, false))",
        ),
    ),
    breach_when="cardinality(isr) > 1 OR coalesce(NOT previous_recovering AND leader_epoch = previous_leader_epoch, "
    "false)",
    severity_when=_DELETED,
    derived=(
        ("crowd", "CASE WHEN cardinality(isr) > 1 THEN isr END"),
        (
            "unelected",
            "CASE WHEN NOT previous_recovering AND leader_epoch = previous_leader_epoch THEN leader_epoch END",
        ),
    ),
    evidence=("metadata_offset", "leader_id", "leader_epoch", "isr", "previous_isr", "at_ms", "node_id", "path"),
    explanation=(
        "After record {metadata_offset} of the metadata log {topic}-{partition} is recovering from an unclean "
        "election, led by broker {leader_id}.",
        "Its ISR is {crowd}, while only the recovering leader may be in it.",
        "It was not recovering before, and leader epoch {unelected} did not begin with that record: nobody was "
        "elected.",
        RECORD_STANDS,
    ),
    next=_DESCRIBE,
    points_to="unclean_loss",
    diagnosis=(OUT_OF_SYNC_ELECTED,),
    reference="ReplicationControlManager#validateAlterPartitionData, KIP-704",
)

FENCED_NOT_IN_ISR = Invariant(
    code="K09",
    key="FENCED_NOT_IN_ISR",
    name="InSyncReplicasAreActive",
    severity=Severity.CRITICAL,
    relation="partition_changes",
    statement="No broker that is fenced, in controlled shutdown or unregistered is in an ISR.",
    because="Such a broker does not fetch, so it holds nothing that is written now: records count as committed that it "
    "lacks, and it may be elected; or nothing is committed at all while everybody waits for it.",
    unknown=(
        Unknown(reason=_DAMAGED, evidence=None, when="after_damage AND cardinality(isr_inactive) > 0"),
        # Many partitions of one broker may need more than one batch of records. Who had gone in an earlier batch is not
        # taken into an ISR, and not elected.
        Unknown(
            reason="change under way",
            evidence=None,
            when="cardinality(isr_inactive) > 0 AND coalesce(cardinality(isr_joined_inactive), 0) = 0 "
            "AND out_of_place_ms < 100",
        ),
    ),
    breach_when="cardinality(isr_inactive) > 0",
    severity_when=_DELETED,
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
        "Record {metadata_offset} of the metadata log left {topic}-{partition} with ISR {isr}.",
        "From record {out_of_place_offset} on brokers {isr_inactive} of it were fenced, in controlled shutdown or "
        "unregistered.",
        "Brokers {taken_in} had gone by an earlier batch of records, before that one took them into the ISR or elected "
        "them.",
        "They stayed in the ISR for {stayed_for_ms}.",
        RECORD_STANDS,
    ),
    next=_DESCRIBE,
    points_to="controller_bug",
    reference="ReplicationControlManager#handleBrokerFenced, BrokersToIsrs, KIP-841",
)

DIRECTORIES_ALIGNED = Invariant(
    code="K12",
    key="DIRECTORIES_ALIGNED",
    name="DirectoriesMatchReplicas",
    severity=Severity.WARNING,
    relation="partition_changes",
    statement="A partition names one log directory for each replica, and that of an in-sync replica is one that its "
    "broker has.",
    because="A replica on a disk that its broker has lost holds nothing; counted as in sync it may be elected, and the "
    "leader's records count as committed without it.",
    applies_when="directory_count > 0",
    unknown=(
        Unknown(
            reason=_DAMAGED,
            evidence=None,
            when="after_damage AND (directory_count <> cardinality(replicas) OR cardinality(isr_without_directory) > "
            "0)",
        ),
        # Brokers tell the controller where they put a replica after they have put it there.
        Unknown(
            reason="assignment under way",
            evidence=None,
            when="directory_count = cardinality(replicas) AND cardinality(isr_without_directory) > 0 AND "
            "out_of_place_ms < 60000",
        ),
    ),
    breach_when="directory_count <> cardinality(replicas) OR cardinality(isr_without_directory) > 0",
    severity_when=_DELETED,
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
        "Record {metadata_offset} of the metadata log left {topic}-{partition} with {replica_count} replicas, "
        "{replicas}.",
        "It names {miscounted} directories for them.",
        "From record {out_of_place_offset} on brokers {homeless} of its ISR {isr} did not have the directory that it "
        "names for them.",
        RECORD_STANDS,
    ),
    next=_DESCRIBE,
    points_to="foreign_disk",
    reference="PartitionRegistration#checkDirectories, ReplicationControlManager#handleDirectoriesOffline, KIP-858",
)

_A_DAY_MS: Final = 86_400_000

REASSIGNMENT_ENDS = Invariant(
    code="K18",
    key="REASSIGNMENT_ENDS",
    name="ReassignmentsEnd",
    severity=Severity.INFO,
    relation="partitions",
    statement="A reassignment gets on: its adding and removing replicas do not stay the same for a day.",
    because="A move that stands still costs disk and network on both sides, keeps the partition at more replicas than "
    "it should have, and is often one to a broker that cannot take it.",
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
    explanation=(
        "{topic}-{partition} has been moving for {hours} hours: adding {adding_replicas}, removing "
        "{removing_replicas}, since {reassigning_since_ms}.",
        "Its ISR is {isr}; the move ends when that holds all replicas that it adds.",
    ),
    next="bin/kafka-reassign-partitions.sh --bootstrap-server <host:port> --list",
    points_to="configuration",
    reference="ReplicationControlManager, PartitionReassignmentReplicas, KIP-455",
)
