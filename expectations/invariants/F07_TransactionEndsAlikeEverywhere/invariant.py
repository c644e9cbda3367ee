from tidegauge.expectations.model import Invariant, Severity
from tidegauge.expectations.prose import line, lines

INVARIANT = Invariant(
    code="F07",
    key="TXN_ATOMIC",
    name="TransactionEndsAlikeEverywhere",
    severity=Severity.CRITICAL,
    relation="transaction_outcomes",
    statement=line("""
        The end markers of a transaction say the same in all of its partitions, and what its coordinator decided.
    """),
    because=line("""
        A transaction is all or nothing. Where its partitions disagree, consumers of committed records see one half of
        it, and no retry brings the other.
    """),
    applies_when="partitions > 1 OR decided_outcome IS NOT NULL",
    # A partition that has both counts as either: that it contradicts itself is told of it alone (F06).
    breach_when=line("""
        (partitions > committed_partitions AND partitions > aborted_partitions)
        OR coalesce(decided_outcome = 'committed' AND partitions > committed_partitions, FALSE)
        OR coalesce(decided_outcome = 'aborted' AND partitions > aborted_partitions, FALSE)
    """),
    evidence=(
        "transactional_id",
        "decided_outcome",
        "committed_partitions",
        "aborted_partitions",
        "committed_on",
        "aborted_on",
    ),
    explanation=lines("""
        A transaction of producer {producer_id} (end markers of producer epoch {marker_epoch}) has markers in
          {partitions} partitions.
        It belongs to transactional id {transactional_id}.
        It is committed on {committed_on}.
        It is aborted on {aborted_on}.
        Its coordinator's log says {decided_outcome}.
    """),
    next="bin/kafka-transactions.sh --bootstrap-server <host:port> describe --transactional-id {transactional_id}",
    points_to="coordinator_bug",
    reference="TransactionCoordinator#endTransaction, TransactionMarkerChannelManager; KIP-98, KIP-890",
)
