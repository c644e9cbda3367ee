from typing import Final

from tidegauge.expectations.invariants.shared.commands import DUMP_METADATA_RECORD
from tidegauge.expectations.invariants.shared.metadata import (
    DAMAGED,
    DELETED,
    EVIDENCED,
    RECORD_STANDS,
    alone,
    several,
)
from tidegauge.expectations.model import Invariant, Severity, Unknown
from tidegauge.expectations.prose import line, lines

_OTHER_PARTITION_EPOCH: Final = "snapshot_partition_epoch <> partition_epoch"

INVARIANT = Invariant(
    code="K01",
    key="PARTITION_EPOCH_STEP",
    name="PartitionEpochCountsRecords",
    severity=Severity.CRITICAL,
    relation="partition_changes",
    statement=line("""
        A partition epoch begins at 0 and rises by one with each record about the partition; every metadata snapshot
        says the same.
    """),
    because=line("""
        Change records carry no epoch: each node counts them. A node that counted otherwise lost a record or took one
        twice, and refuses the leader's ISR changes, or accepts stale ones.
    """),
    applies_when=EVIDENCED,
    unknown=(
        Unknown(
            reason=DAMAGED,
            evidence=None,
            when=line("""
                after_damage AND coalesce(snapshot_partition_epoch <> partition_epoch, created AND partition_epoch <> 0)
            """),
        ),
    ),
    breach_when=line("""
        (created AND NOT migrated AND partition_epoch <> 0)
        OR coalesce(snapshot_partition_epoch <> partition_epoch, false)
    """),
    severity_when=DELETED,
    derived=(
        ("begins_at", "CASE WHEN created AND partition_epoch <> 0 THEN partition_epoch END"),
        (
            "told_otherwise",
            "CASE WHEN snapshot_partition_epoch <> partition_epoch THEN snapshot_partition_epoch END",
        ),
        ("snapshot_node", alone(_OTHER_PARTITION_EPOCH)),
        ("several_nodes", several(_OTHER_PARTITION_EPOCH)),
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
        *lines("""
            Record {metadata_offset} of the metadata log left {topic}-{partition} with partition epoch
              {partition_epoch}, counted from its first record.
            That record created the partition, with partition epoch {begins_at} instead of 0.
            The metadata snapshot that ends at {snapshot_end_offset} says {told_otherwise}: the node that wrote it had
              counted other records.
            That snapshot is {snapshot_paths}, on node {snapshot_node}.
            That snapshot is {snapshot_paths}, on nodes {several_nodes}.
        """),
        RECORD_STANDS,
    ),
    next=DUMP_METADATA_RECORD,
    implies=("K19",),
    points_to="controller_bug",
    reference="PartitionRegistration#merge, ReplicationControlManager#createTopic",
)
