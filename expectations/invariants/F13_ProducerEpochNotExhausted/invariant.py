from tidegauge.expectations.model import Invariant, Severity
from tidegauge.expectations.prose import line, lines

INVARIANT = Invariant(
    code="F13",
    key="EPOCH_EXHAUSTION",
    name="ProducerEpochNotExhausted",
    severity=Severity.WARNING,
    relation="transactional_ids",
    statement="No producer begins a transaction, or writes data, in the last producer epoch, 32767.",
    because=line("""
        The last epoch is kept to fence a producer with. Its coordinator hands out a new producer id before; where it
        does not, the epoch cannot be raised any more: the producer can neither be fenced nor go on (KAFKA-18660,
        KAFKA-20090).
    """),
    applies_when="producer_epoch IS NOT NULL",
    breach_when=line("""
        (producer_epoch > 32766 AND state IN ('Empty', 'Ongoing')) OR coalesce(largest_data_epoch > 32766, FALSE)
    """),
    derived=(
        ("own", "CASE WHEN producer_epoch > 32766 AND state IN ('Empty', 'Ongoing') THEN producer_epoch END"),
        ("written", "CASE WHEN largest_data_epoch > 32766 THEN largest_data_epoch END"),
    ),
    evidence=("producer_id", "producer_epoch", "state", "largest_data_epoch", "next_producer_id", "updated_at_ms"),
    explanation=lines("""
        Transactional id {transactional_id} (producer id {producer_id}) is in state {state}.
        Its coordinator let it begin with producer epoch {own}, the last there is.
        Data of it carry producer epoch {written}, the last there is.
        A new producer id should have been handed out after epoch 32766.
    """),
    next="bin/kafka-transactions.sh --bootstrap-server <host:port> describe --transactional-id {transactional_id}",
    points_to="client_behaviour",
    reference="TransactionMetadata#isProducerEpochExhausted; KAFKA-18660, KAFKA-19367, KAFKA-20090",
)
