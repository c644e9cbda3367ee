from tidegauge.expectations.invariants.shared.commands import DUMP_METADATA_RECORD
from tidegauge.expectations.model import Invariant, Severity, Unknown
from tidegauge.expectations.prose import line, lines

INVARIANT = Invariant(
    code="K14",
    key="RAFT_EPOCH_MONOTONIC",
    name="QuorumEpochNeverFalls",
    severity=Severity.CRITICAL,
    relation="metadata_logs",
    statement=line("""
        In a node's metadata log leader epochs never fall, and each begins with a record that tells the new leader.
    """),
    because=line("""
        A quorum's log is a sequence of leaderships. Where an older one goes on after a newer one, or one begins
        unannounced, two controllers wrote at once, and each acted on its own cluster.
    """),
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
    explanation=lines("""
        Node {broker_id}'s metadata log holds offsets from {log_start_offset} up to {log_end_offset}, of leader epochs
          {first_leader_epoch} to {last_leader_epoch}.
        {fallen} times a lower epoch comes after a higher one, first at offset {epoch_order_offset}.
        {silent} of its epochs begin without a LeaderChange record, first at offset {unannounced_offset}.
        The first is in {path}.
    """),
    start_offset="coalesce(epoch_order_offset, unannounced_offset)",
    next=DUMP_METADATA_RECORD,
    implies=("D01", "D02", "D03", "D07", "B13", "B14", "K15", "K16", "K19"),
    points_to="controller_bug",
    reference="KafkaRaftClient#onBecomeLeader, LeaderState#appendLeaderChangeMessage, KIP-595",
)
