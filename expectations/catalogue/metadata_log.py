"""Invariants about the metadata log: the quorum that writes it, snapshots of it, what it registers (family K).

In: rows about each node's copy of the log, its snapshots and the entries of the image. The rule that must hold here: a
copy's last records that no majority had are nobody's loss; what a metadata snapshot holds was committed.
"""

from typing import Final

from expectations.catalogue.diagnoses import WORD_OF_ITS_BROKER_IS_OLDER
from expectations.catalogue.metadata import DUMP_RECORD, RECORD_STANDS
from expectations.evidence import Evidence
from expectations.model import Invariant, Severity, Unknown

_LOG_DIR: Final = "<metadata.log.dir of node {broker_id}>/__cluster_metadata-0"
_QUORUM: Final = "bin/kafka-metadata-quorum.sh --bootstrap-server <host:port> describe --replication"

_BEYOND_EPOCHS: Final = "differing_entries - differing_epochs"

SNAPSHOT_EQUALS_LOG = Invariant(
    code="K03",
    key="SNAPSHOT_EQUALS_LOG",
    name="MetadataSnapshotEqualsLog",
    severity=Severity.CRITICAL,
    relation="metadata_snapshots",
    statement="A metadata snapshot says what the replay of the log below its end says.",
    because="A node that starts, or falls behind, takes the snapshot for the log. If they differ, it goes on with "
    "other metadata than its controllers: other leaders, other settings, other rights.",
    unknown=(
        Unknown(
            reason="log prefix deleted",
            evidence=Evidence.METADATA_LOG_START,
            when="incomparable_reason = 'the log that it stands for is gone'",
        ),
        Unknown(
            reason="the replay begins with it",
            evidence=Evidence.METADATA_LOG_START,
            when="incomparable_reason = 'the replay begins with it'",
        ),
        Unknown(
            reason="log too short",
            evidence=Evidence.METADATA_LOG,
            when="incomparable_reason = 'the log in the copy ends before it'",
        ),
        Unknown(reason="file cannot be read", evidence=Evidence.SEGMENT, when="incomparable_reason IS NOT NULL"),
        Unknown(reason="metadata log damaged", evidence=None, when=f"after_damage AND whole AND {_BEYOND_EPOCHS} > 0"),
    ),
    breach_when=f"NOT whole OR {_BEYOND_EPOCHS} > 0",
    derived=(
        ("otherwise", f"CASE WHEN whole AND {_BEYOND_EPOCHS} > 0 THEN {_BEYOND_EPOCHS} END"),
        ("cut", "CASE WHEN NOT whole THEN 'to its end' END"),
    ),
    evidence=("path", "end_offset", "leader_epoch", "entries", "differing_entries", "newest"),
    explanation=(
        "{path} on node {broker_id} stands for everything below offset {end_offset} of the metadata log.",
        "It cannot be read {cut}: the footer is missing, or a record is damaged.",
        "{otherwise} of its {entries} entries are not what the log below that offset makes of them.",
    ),
    details=("differences",),
    next=DUMP_RECORD,
    points_to="controller_bug",
    reference="SnapshotGenerator, MetadataLoader, RecordsSnapshotWriter, KIP-630",
)

BROKER_EPOCH = Invariant(
    code="K11",
    key="BROKER_EPOCH",
    name="BrokerEpochIsRegistrationOffset",
    severity=Severity.CRITICAL,
    relation="broker_registrations",
    statement="A broker's epoch is the offset of its registration and only rises, and records about a registration "
    "carry its epoch.",
    because="The broker epoch tells a broker from what it was before it restarted, perhaps with an empty disk. One "
    "that does not rise lets a request of the old process put the new one into an ISR.",
    applies_when="NOT from_snapshot OR previous_broker_epoch IS NOT NULL OR stale_records > 0",
    unknown=(
        Unknown(
            reason="metadata log damaged",
            evidence=None,
            when="after_damage AND (stale_records > 0 OR broker_epoch < batch_offset OR broker_epoch > "
            "metadata_offset)",
        ),
    ),
    breach_when="stale_records > 0 OR coalesce(broker_epoch < previous_broker_epoch, false) OR "
    "(NOT from_snapshot AND (broker_epoch < batch_offset OR broker_epoch > metadata_offset) "
    "AND NOT (same_incarnation AND coalesce(broker_epoch = previous_broker_epoch, false)))",
    derived=(
        (
            "no_offset",
            "CASE WHEN NOT from_snapshot AND (broker_epoch < batch_offset OR broker_epoch > metadata_offset) "
            "THEN metadata_offset END",
        ),
        ("fell_from", "CASE WHEN broker_epoch < previous_broker_epoch THEN previous_broker_epoch END"),
        ("stale", "CASE WHEN stale_records > 0 THEN stale_records END"),
    ),
    evidence=(
        "metadata_offset",
        "broker_epoch",
        "previous_broker_epoch",
        "stale_records",
        "release",
        "at_ms",
        "node_id",
        "path",
    ),
    explanation=(
        "Broker {broker_id} registered by record {metadata_offset} of the metadata log, with broker epoch "
        "{broker_epoch}.",
        "That is not the offset of its registration, {no_offset}.",
        "Its epoch before was {fell_from}, higher than this one.",
        "{stale} later records about this registration carry another epoch, the first at offset {stale_record_offset}.",
        RECORD_STANDS,
    ),
    next=DUMP_RECORD,
    implies=("K19",),
    points_to="stale_disk",
    diagnosis=(WORD_OF_ITS_BROKER_IS_OLDER,),
    reference="ClusterControlManager#registerBroker, #replay, KIP-903",
)

PARTITION_IDS_DENSE = Invariant(
    code="K13",
    key="PARTITION_IDS_DENSE",
    name="PartitionNumbersHaveNoGap",
    severity=Severity.CRITICAL,
    relation="topics",
    statement="A topic has partitions 0 to n-1, and no two topics have its name at a time.",
    because="Producers pick a partition by a key's hash and the count. A number that is missing has lost its record in "
    "the metadata, and with it its leader: what it holds cannot be reached.",
    unknown=(
        Unknown(
            reason="metadata log damaged",
            evidence=None,
            when="metadata_damaged AND (cardinality(missing_partitions) > 0 OR namesakes > 0)",
        ),
    ),
    breach_when="cardinality(missing_partitions) > 0 OR namesakes > 0",
    derived=(
        ("missing", "CASE WHEN cardinality(missing_partitions) > 0 THEN missing_partitions END"),
        ("others", "CASE WHEN namesakes > 0 THEN namesakes END"),
    ),
    evidence=("topic_id", "partition_count", "missing_partitions", "namesakes", "node_id", "path"),
    explanation=(
        "Topic {topic} has {partition_count} partitions by the metadata log.",
        "Partitions {missing} are not among them, while higher numbers are.",
        "{others} other topic(s) have the same name, and were not deleted.",
        "The record that created the topic stands in {path}, node {node_id}'s copy of the metadata log.",
    ),
    next="bin/kafka-topics.sh --bootstrap-server <host:port> --describe --topic {topic}",
    points_to="controller_bug",
    reference="ReplicationControlManager#createTopic, #createPartitions, TopicsDelta",
)

RAFT_EPOCH_MONOTONIC = Invariant(
    code="K14",
    key="RAFT_EPOCH_MONOTONIC",
    name="QuorumEpochNeverFalls",
    severity=Severity.CRITICAL,
    relation="metadata_logs",
    statement="In a node's metadata log leader epochs never fall, and each begins with a record that tells the new "
    "leader.",
    because="A quorum's log is a sequence of leaderships. Where an older one goes on after a newer one, or one begins "
    "unannounced, two controllers wrote at once, and each acted on its own cluster.",
    unknown=(
        Unknown(
            reason="log damaged",
            evidence=None,
            when="damaged AND epoch_order_errors = 0 AND coalesce(unannounced_epochs, 0) > 0",
        ),
    ),
    breach_when="epoch_order_errors > 0 OR unannounced_epochs > 0",
    derived=(
        ("fallen", "CASE WHEN epoch_order_errors > 0 THEN epoch_order_errors END"),
        ("silent", "CASE WHEN unannounced_epochs > 0 THEN unannounced_epochs END"),
    ),
    evidence=(
        "log_start_offset",
        "log_end_offset",
        "first_leader_epoch",
        "last_leader_epoch",
        "epoch_order_offset",
        "path",
    ),
    explanation=(
        "Node {broker_id}'s metadata log holds offsets from {log_start_offset} up to {log_end_offset}, of leader "
        "epochs {first_leader_epoch} to {last_leader_epoch}.",
        "{fallen} times a lower epoch stands after a higher one, first at offset {epoch_order_offset}.",
        "{silent} of its epochs begin without a LeaderChange record, first at offset {unannounced_offset}.",
        "The first stands in {path}.",
    ),
    start_offset="coalesce(epoch_order_offset, unannounced_offset)",
    next=DUMP_RECORD,
    implies=("D01", "D02", "D03", "D07", "B13", "B14", "K15", "K16", "K19"),
    points_to="controller_bug",
    reference="KafkaRaftClient#onBecomeLeader, LeaderState#appendLeaderChangeMessage, KIP-595",
)

_SOMETHING_TO_COMPARE: Final = "coalesce(incomparable_reason, '') NOT IN ('no batches', 'no common range')"

METADATA_LOG_MATCHING = Invariant(
    code="K15",
    key="METADATA_LOG_MATCHING",
    name="MetadataLogsMatch",
    severity=Severity.CRITICAL,
    relation="divergences",
    statement="Two nodes' metadata logs hold the same records wherever both hold an offset of one epoch, and below "
    "whatever a metadata snapshot covers.",
    because="Every node builds the cluster from its own copy. Copies that differ below the quorum's high watermark are "
    "two clusters in one: two leaders of a partition, each of them right by its own log.",
    applies_when=f"topic = '__cluster_metadata' AND {_SOMETHING_TO_COMPARE}",
    unknown=(
        Unknown(reason="not comparable", evidence=None, when="NOT comparable AND first_differing_offset IS NULL"),
        Unknown(
            reason="high watermark not known",
            evidence=Evidence.CHECKPOINT,
            # The tail of an old leader that no majority had: it goes when the node rejoins.
            when="identity_violation_offset IS NULL AND first_differing_undiverged_offset IS NULL AND "
            "first_differing_offset IS NOT NULL AND coalesce(first_differing_offset >= "
            "metadata_committed_end_offset, true)",
        ),
    ),
    breach_when="identity_violation_offset IS NOT NULL OR first_differing_undiverged_offset IS NOT NULL OR "
    "coalesce(first_differing_offset < metadata_committed_end_offset, false)",
    derived=(
        ("same_epoch", "identity_violation_offset"),
        (
            "committed",
            "CASE WHEN first_differing_offset < metadata_committed_end_offset THEN metadata_committed_end_offset END",
        ),
    ),
    evidence=(
        "first_differing_offset",
        "identity_violation_offset",
        "divergence_offset",
        "metadata_committed_end_offset",
        "leader_log_end_offset",
        "follower_log_end_offset",
        "leader_segment",
        "follower_segment",
    ),
    explanation=(
        "The metadata logs of nodes {leader_id} and {follower_id} differ from offset {first_differing_offset} on.",
        "At offset {same_epoch} both hold a batch of one leader epoch, and not the same one.",
        "Everything below {committed} is in a metadata snapshot, so it was committed.",
        "The first difference lies in __cluster_metadata-0/{leader_segment} of node {leader_id}, and in "
        "__cluster_metadata-0/{follower_segment} of node {follower_id}.",
    ),
    start_offset="first_differing_offset",
    details=("differing_batches",),
    next=_QUORUM,
    implies=("D02", "D03", "D05", "D06", "D07", "K03", "K16", "K20"),
    points_to="controller_bug",
    reference="KafkaRaftClient; the property MetadataLogMatching of the quorum's TLA+ model; KIP-595",
)

QUORUM_STATE = Invariant(
    code="K16",
    key="QUORUM_STATE",
    name="QuorumStateKeepsVote",
    severity=Severity.CRITICAL,
    relation="metadata_logs",
    statement="A node's quorum-state is of the newest epoch in its metadata log or a later one, names the leader that "
    "the epoch had, and no other candidate than the one who was elected with its vote.",
    because="The file is all that keeps a node from voting twice in an epoch. One that went back, or tells of another "
    "vote, may have made two leaders of the quorum.",
    unknown=(
        Unknown(
            reason="no quorum-state",
            evidence=Evidence.METADATA_LOG,
            when="quorum_state_present IS NOT TRUE OR quorum_leader_epoch IS NULL",
        ),
        Unknown(
            reason="copied while it ran",
            evidence=Evidence.ONE_MOMENT,
            when="NOT broker_quiet AND quorum_leader_epoch < last_leader_epoch AND NOT coalesce(quorum_leader_id <> "
            "elected_leader_id, false)",
        ),
    ),
    breach_when="quorum_leader_epoch < coalesce(last_leader_epoch, 0) OR coalesce(quorum_leader_id <> "
    "elected_leader_id, false) OR coalesce(vote_granted AND voted_id <> elected_leader_id, false)",
    derived=(
        ("went_back", "CASE WHEN quorum_leader_epoch < last_leader_epoch THEN last_leader_epoch END"),
        ("other_leader", "CASE WHEN quorum_leader_id <> elected_leader_id THEN quorum_leader_id END"),
        ("other_vote", "CASE WHEN vote_granted AND voted_id <> elected_leader_id THEN voted_id END"),
    ),
    evidence=("quorum_leader_epoch", "quorum_leader_id", "voted_id", "last_leader_epoch", "elected_leader_id"),
    explanation=(
        "Node {broker_id}'s quorum-state is of epoch {quorum_leader_epoch}.",
        "Its metadata log already holds records of epoch {went_back}.",
        "It names node {other_leader} as that epoch's leader, which was node {elected_leader_id}.",
        "It says that the vote of that epoch went to node {other_vote}, while node {elected_leader_id} was elected "
        "with it: it voted twice.",
    ),
    next=f"cat {_LOG_DIR}/quorum-state",
    points_to="controller_bug",
    reference="FileQuorumStateStore, QuorumState, KIP-595",
)

TRANSACTION_RECORDS = Invariant(
    code="K17",
    key="TXN_METADATA_RECORDS",
    name="MetadataTransactionsEnd",
    severity=Severity.WARNING,
    relation="metadata_logs",
    statement="A metadata transaction ends or is aborted before another begins, before another controller does "
    "anything else, and before anything else happens that the log or a snapshot tells of.",
    because="Nodes hold a transaction's records back until it ends. One that is left open, or ended by somebody else, "
    "is applied by halves: a topic with some of its partitions.",
    applies_when="replayed",
    unknown=(
        Unknown(reason="log damaged", evidence=None, when="damaged AND transaction_errors > 0"),
        # At the log's very end: nothing has come after it.
        Unknown(
            reason="in flight", evidence=None, when="transaction_errors = 0 AND open_transaction_offset IS NOT NULL"
        ),
    ),
    breach_when="transaction_errors > 0",
    evidence=(
        "transactions",
        "transaction_errors",
        "transaction_error_offset",
        "transaction_error",
        "path",
    ),
    explanation=(
        "Node {broker_id}'s metadata log holds {transactions} metadata transactions, and {transaction_errors} records "
        "that may not stand where they do.",
        "At offset {transaction_error_offset} {transaction_error}.",
        "That record stands in {path}.",
    ),
    # The log is one, whichever node's copy of it was read; where copies differ, that is MetadataLogsMatch's.
    subject=("topic", "partition"),
    start_offset="transaction_error_offset",
    next=DUMP_RECORD,
    implies=("K03",),
    points_to="controller_bug",
    reference="QuorumController, ActivationRecordsGenerator, MetadataBatchLoader#maybeFlushBatches, KIP-868",
)

FENCING_EPOCHS = Invariant(
    code="K19",
    key="FENCING_EPOCHS",
    name="FencingEpochsNeverFall",
    severity=Severity.CRITICAL,
    relation="fencing_epochs",
    statement="Each of the seven epochs by which Kafka fences (producer, leader, partition, coordinator, broker, "
    "quorum, group) never falls along a log, or along the records about one broker, group or partition.",
    because="Whoever comes with an older epoch is refused: that is how Kafka keeps the living from the dead. Where an "
    "epoch falls, somebody was let in who had been replaced.",
    unknown=(Unknown(reason="not followed", evidence=Evidence.COORDINATOR_LOG, when="regressions IS NULL"),),
    breach_when="regressions > 0",
    derived=(
        ("from_epoch", "epoch_before"),
        ("of_group", "name"),
        ("holder", "CASE WHEN broker_id IS NOT NULL THEN broker_id END"),
        ("in_metadata", "CASE WHEN broker_id IS NULL THEN 'in the metadata log' END"),
        ("log_path", "CASE WHEN node_id IS NULL THEN path END"),
    ),
    evidence=("epoch", "regressions", "first_offset", "epoch_before", "epoch_after", "node_id", "path"),
    explanation=(
        "In {topic}-{partition} on broker {holder} a lower {epoch} epoch stands after a higher one, {regressions} "
        "time(s).",
        "Of {topic}-{partition} a lower {epoch} epoch stands after a higher one {in_metadata}, {regressions} time(s).",
        "It fell from {from_epoch} to {epoch_after}, at offset {first_offset}.",
        "The group is {of_group}.",
        "It first does so in {log_path}.",
        "The record that says so stands in {path}, node {node_id}'s copy of the metadata log.",
    ),
    start_offset="first_offset",
    next="bin/kafka-dump-log.sh --deep-iteration --files $(ls -d <log.dirs>/{topic}-{partition})/*.log",
    points_to="controller_bug",
    reference="ProducerAppendInfo#checkProducerEpoch, Partition#makeLeader, ClusterControlManager, KIP-101, KIP-903",
)

ONE_IMAGE = Invariant(
    code="K20",
    key="ONE_IMAGE",
    name="PrincipalsAndQuotasAgree",
    severity=Severity.CRITICAL,
    relation="metadata_entries",
    statement="An ACL, a SCRAM credential, a delegation token or a quota is the same on every node that replays its "
    "own snapshot and log.",
    because="Each broker authorizes and throttles by its own image. Where they differ, what one broker refuses another "
    "allows.",
    applies_when="kind IN ('acl', 'scram', 'token', 'quota')",
    unknown=(
        Unknown(reason="metadata log damaged", evidence=None, when="after_damage AND cardinality(nodes_otherwise) > 0"),
    ),
    breach_when="cardinality(nodes_otherwise) > 0",
    derived=(
        ("recorded", "CASE WHEN value IS NOT NULL THEN metadata_offset END"),
        ("nothing", "CASE WHEN value IS NULL THEN 'no such entry' END"),
    ),
    evidence=("kind", "name", "value", "metadata_offset", "nodes_otherwise", "node_id", "path", "paths_otherwise"),
    explanation=(
        "By record {recorded} of the metadata log the {kind} {name} is {value}.",
        "By the metadata log there is {nothing}: {kind} {name}.",
        "Nodes {nodes_otherwise} begin with a metadata snapshot that has it otherwise, and the log behind that does "
        "not put it right.",
        "These snapshots are {paths_otherwise}.",
        RECORD_STANDS,
    ),
    next="bin/kafka-acls.sh --bootstrap-server <host:port of each broker> --list",
    implies=("K03",),
    points_to="controller_bug",
    reference="AclsImage, ScramImage, DelegationTokenImage, ClientQuotasImage, MetadataLoader",
)
