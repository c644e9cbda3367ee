from tidegauge.expectations.invariants.shared.commands import DESCRIBE_PRODUCERS
from tidegauge.expectations.model import Invariant, Severity, Unknown
from tidegauge.expectations.prose import line, lines

INVARIANT = Invariant(
    code="E06",
    key="CROSS_EPOCH_PAYLOAD_DUP",
    name="NoRepetitionInNewEpoch",
    severity=Severity.WARNING,
    relation="producers",
    statement=line("""
        The first batches of a producer epoch are not, byte for byte, the last ones of the producer's epoch before.
    """),
    because=line("""
        A producer that raises its epoch while it waits for an answer, and sends the batch again, stores it twice: the
        leader knows sequences within an epoch only (librdkafka 4953).
    """),
    applies_when="first_sequence IS NOT NULL",
    unknown=(
        Unknown(
            reason="too many look alike to compare them all",
            evidence=None,
            when="repeated_batches = 0 AND repeats_unverified > 0",
        ),
    ),
    breach_when="repeated_batches > 0",
    evidence=(
        "repeated_batches",
        "repeated_offset",
        "repeats_offset",
        "first_offset",
        "last_offset",
        "last_timestamp_ms",
    ),
    explanation=lines("""
        Producer {producer_id} began epoch {producer_epoch} in {topic}-{partition} with batches that it had written in
          an older epoch.
        {repeated_batches} batches on broker {broker_id}, the first at offset {repeated_offset}, have the records and
          timestamps of earlier ones, the first at {repeats_offset}.
        No transaction with them was aborted: consumers read these records twice.
    """),
    start_offset="repeated_offset",
    next=DESCRIBE_PRODUCERS,
    points_to="producer_bug",
    reference="ProducerStateManager (sequences are checked within an epoch); KIP-360, librdkafka issue 4953",
)
