from tidegauge.expectations.evidence import Evidence
from tidegauge.expectations.model import Invariant, Severity, Unknown
from tidegauge.expectations.prose import line, lines

INVARIANT = Invariant(
    code="F14",
    key="TXN_OFFSET_COMMITS",
    name="PendingCommitsBelongToOpenTransaction",
    severity=Severity.WARNING,
    relation="groups",
    statement=line("""
        An offset that was committed in a transaction, and waits for its end, belongs to a transaction that its
        coordinator has open.
    """),
    because=line("""
        Until the end marker comes, the group's coordinator answers UNSTABLE_OFFSET_COMMIT to every consumer that asks
        where to begin. If no coordinator has the transaction open, the marker never comes, and the group is stuck.
    """),
    applies_when="pending_commits > 0",
    unknown=(
        Unknown(
            reason="the coordinator's records were not captured",
            evidence=Evidence.COORDINATOR_LOG,
            when="NOT transactions_known",
        ),
        Unknown(reason="copy skew", evidence=Evidence.ONE_MOMENT, when="orphaned_commits > 0 AND NOT snapshot_quiet"),
    ),
    breach_when="orphaned_commits > 0",
    evidence=("pending_commits", "orphaned_commits", "orphaned_producer_id", "orphaned_first_offset"),
    explanation=lines("""
        Group {group} has {pending_commits} committed offsets in {topic}-{partition} whose transactions have no end
          marker yet.
        {orphaned_commits} of them, from offset {orphaned_first_offset} on, were written by producer
          {orphaned_producer_id}.
        No coordinator has a transaction of that producer and epoch open that lists {topic}-{partition}.
        Consumers of the group get UNSTABLE_OFFSET_COMMIT for these partitions and wait.
    """),
    start_offset="orphaned_first_offset",
    next=line("""
        bin/kafka-transactions.sh --bootstrap-server <host:port> describe-producers --topic {topic} --partition
        {partition}
    """),
    points_to="coordinator_bug",
    reference=line("""
        OffsetMetadataManager#completeTransaction, TransactionCoordinator#handleAddPartitionsToTransaction; KIP-447
    """),
)
