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

_OTHER_LEADER_EPOCH: Final = "snapshot_leader_epoch <> leader_epoch"

INVARIANT = Invariant(
    code="K02",
    key="LEADER_EPOCH_STEP",
    name="LeaderEpochCountsElections",
    severity=Severity.CRITICAL,
    relation="partition_changes",
    statement=line("""
        A leader epoch begins at 0 and rises by one with each record that names a leader, or none; every metadata
        snapshot says the same.
    """),
    because=line("""
        Two leaders of one epoch write different batches that nothing tells apart. Followers find where logs part by
        their epochs, so a reused one hides it.
    """),
    applies_when=EVIDENCED,
    unknown=(
        Unknown(
            reason=DAMAGED,
            evidence=None,
            when="after_damage AND coalesce(snapshot_leader_epoch <> leader_epoch, created AND leader_epoch <> 0)",
        ),
    ),
    breach_when=line("""
        (created AND NOT migrated AND leader_epoch <> 0) OR coalesce(snapshot_leader_epoch <> leader_epoch, false)
    """),
    severity_when=DELETED,
    derived=(
        ("begins_at", "CASE WHEN created AND leader_epoch <> 0 THEN leader_epoch END"),
        ("told_otherwise", "CASE WHEN snapshot_leader_epoch <> leader_epoch THEN snapshot_leader_epoch END"),
        ("snapshot_node", alone(_OTHER_LEADER_EPOCH)),
        ("several_nodes", several(_OTHER_LEADER_EPOCH)),
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
        *lines("""
            Record {metadata_offset} of the metadata log left {topic}-{partition} in leader epoch {leader_epoch},
              counted from its first record.
            That record created the partition, in leader epoch {begins_at} instead of 0.
            The metadata snapshot that ends at {snapshot_end_offset} says {told_otherwise}: the node that wrote it had
              counted other elections.
            That snapshot is {snapshot_paths}, on node {snapshot_node}.
            That snapshot is {snapshot_paths}, on nodes {several_nodes}.
        """),
        RECORD_STANDS,
    ),
    next=DUMP_METADATA_RECORD,
    implies=("K19",),
    points_to="controller_bug",
    reference="PartitionRegistration#merge, PartitionChangeRecord.Leader",
)
