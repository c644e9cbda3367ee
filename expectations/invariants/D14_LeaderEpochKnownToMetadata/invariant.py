from typing import Final

from tidegauge.expectations.evidence import Evidence
from tidegauge.expectations.invariants.shared.diagnoses import DISK_OF_ANOTHER_MOMENT, IDENTITY_OF_ANOTHER
from tidegauge.expectations.model import Invariant, Severity, Unknown
from tidegauge.expectations.prose import line, lines

_ABOVE_METADATA: Final = line("""
    (last_leader_epoch > metadata_leader_epoch OR checkpoint_last_leader_epoch > metadata_leader_epoch)
""")

INVARIANT = Invariant(
    code="D14",
    key="EPOCH_LE_METADATA",
    name="LeaderEpochKnownToMetadata",
    severity=Severity.CRITICAL,
    relation="replicas",
    statement="No log holds a leader epoch above the one in the metadata log.",
    because=line("""
        Epochs are handed out by the controller. A higher one means that the metadata went back in time, or that the log
        comes from another cluster; the controller will hand out the same epochs again, and two leaders share one.
    """),
    # A directory of an earlier topic of the same name has its own epochs.
    applies_when=line("""
        metadata_known AND metadata_leader_epoch IS NOT NULL AND topic <> '__cluster_metadata'
        AND (last_leader_epoch IS NOT NULL OR checkpoint_last_leader_epoch IS NOT NULL) AND (topic_id IS NULL
        OR metadata_topic_id IS NULL OR topic_id = metadata_topic_id)
    """),
    unknown=(
        Unknown(reason="metadata log damaged", evidence=None, when=f"metadata_damaged AND {_ABOVE_METADATA}"),
        # A broker that finds it when it starts takes it for a stray (LogManager#isStrayKraftReplica).
        Unknown(
            reason="no partition.metadata",
            evidence=Evidence.REPLICA,
            when=f"coalesce(may_be_earlier_topics, false) AND {_ABOVE_METADATA}",
        ),
        Unknown(reason="copy skew", evidence=Evidence.ONE_MOMENT, when=f"NOT snapshot_quiet AND {_ABOVE_METADATA}"),
    ),
    breach_when=line("""
        coalesce(last_leader_epoch, -1) > metadata_leader_epoch
        OR coalesce(checkpoint_last_leader_epoch, -1) > metadata_leader_epoch
    """),
    derived=(
        ("batch_epoch", "CASE WHEN last_leader_epoch > metadata_leader_epoch THEN last_leader_epoch END"),
        (
            "checkpoint_epoch",
            "CASE WHEN checkpoint_last_leader_epoch > metadata_leader_epoch THEN checkpoint_last_leader_epoch END",
        ),
    ),
    evidence=(
        "last_leader_epoch",
        "checkpoint_last_leader_epoch",
        "metadata_leader_epoch",
        "topic_id",
        "metadata_topic_id",
        "elections_on_record",
    ),
    explanation=lines("""
        By the metadata log {topic}-{partition} is in leader epoch {metadata_leader_epoch}, the highest ever given out.
        The last batch on broker {broker_id} has leader epoch {batch_epoch}.
        The leader-epoch-checkpoint on broker {broker_id} ends with epoch {checkpoint_epoch}.
        So the metadata log has lost records, or this log was written in another cluster.
    """),
    next="bin/kafka-metadata-quorum.sh --bootstrap-server <host:port> describe --replication",
    implies=("D13", "D15", "J02"),
    points_to="foreign_disk",
    diagnosis=(DISK_OF_ANOTHER_MOMENT, IDENTITY_OF_ANOTHER),
    reference="ReplicationControlManager, PartitionRegistration#merge: an epoch only rises",
)
