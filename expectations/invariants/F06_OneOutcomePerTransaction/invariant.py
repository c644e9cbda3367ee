from tidegauge.expectations.model import Invariant, Severity
from tidegauge.expectations.prose import line, lines

INVARIANT = Invariant(
    code="F06",
    key="ONE_OUTCOME_PER_TXN",
    name="OneOutcomePerTransaction",
    severity=Severity.CRITICAL,
    relation="transactions",
    statement="A transaction is ended as committed or as aborted, never as both.",
    because=line("""
        Consumers that read between the two markers saw one outcome, later ones the other; other partitions may follow
        either.
    """),
    breach_when="contradicting_markers > 0",
    evidence=(
        "transactional_id",
        "outcome",
        "marker_offset",
        "contradicting_markers",
        "repeated_markers",
        "coordinator_epoch",
    ),
    explanation=lines("""
        Producer {producer_id}'s transaction at offsets {first_offset}..{last_offset} of {topic}-{partition} was ended
          as {outcome} by the marker at {marker_offset}.
        {contradicting_markers} further marker(s) of the same producer epoch say the opposite, with no data in between:
          they speak of the same {record_count} records.
        A marker sent again by a new coordinator is of the same kind; these are not.
    """),
    start_offset="first_offset",
    end_offset="marker_offset + 1",
    records="record_count",
    next="bin/kafka-transactions.sh --bootstrap-server <host:port> describe --transactional-id {transactional_id}",
    points_to="coordinator_bug",
    reference="TransactionCoordinator#endTransaction, ProducerStateManager#completeTxn",
)
