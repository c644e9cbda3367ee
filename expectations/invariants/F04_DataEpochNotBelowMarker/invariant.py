from tidegauge.expectations.model import Invariant, Severity
from tidegauge.expectations.prose import line, lines

INVARIANT = Invariant(
    code="F04",
    key="DATA_EPOCH_AFTER_MARKER",
    name="DataEpochNotBelowMarker",
    severity=Severity.WARNING,
    relation="transactions",
    statement=line("""
        Under transaction version 2 a producer's first data behind an end marker have at least its epoch, and sequence
        0.
    """),
    because=line("""
        The marker raises the producer epoch, so that what was sent before it is refused when it comes late. Data of an
        older epoch behind it leaked into the next transaction, and share its outcome.
    """),
    applies_when="previous_marker_bumped AND client_transaction_version = 2",
    breach_when="producer_epoch < previous_marker_producer_epoch OR first_sequence <> 0",
    derived=(
        ("stale", "CASE WHEN producer_epoch < previous_marker_producer_epoch THEN producer_epoch END"),
        ("begins_with", "CASE WHEN first_sequence <> 0 THEN first_sequence END"),
    ),
    evidence=(
        "transactional_id",
        "producer_epoch",
        "first_sequence",
        "previous_marker_offset",
        "previous_marker_producer_epoch",
        "outcome",
    ),
    explanation=lines("""
        Producer {producer_id}'s transaction before ended with the marker at {previous_marker_offset} of
          {topic}-{partition}, producer epoch {previous_marker_producer_epoch}.
        Its next data, from offset {first_offset} on, have producer epoch {stale}: they were sent before that marker.
        Its next data, from offset {first_offset} on, begin with sequence {begins_with} instead of 0.
        They became part of the next transaction, which is {outcome}.
    """),
    start_offset="first_offset",
    end_offset="last_offset + 1",
    records="record_count",
    next=line("""
        bin/kafka-transactions.sh --bootstrap-server <host:port> describe-producers --topic {topic} --partition
        {partition}
    """),
    implies=("E02", "E03", "F03", "K19"),
    points_to="coordinator_bug",
    reference="ProducerAppendInfo#checkSequence, #checkProducerEpoch; KIP-890",
)
