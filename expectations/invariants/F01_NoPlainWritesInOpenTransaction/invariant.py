from tidegauge.expectations.invariants.shared.commands import DESCRIBE_PRODUCERS
from tidegauge.expectations.model import Invariant, Severity
from tidegauge.expectations.prose import line, lines

INVARIANT = Invariant(
    code="F01",
    key="NON_TXN_IN_OPEN_TXN",
    name="NoPlainWritesInOpenTransaction",
    severity=Severity.CRITICAL,
    relation="producers",
    statement="While a transaction of a producer is open in a partition, the producer writes nothing else there.",
    because=line("""
        The leader refuses such a batch. One that is stored is visible at once or not at all, whatever becomes of the
        transaction around it.
    """),
    applies_when="first_sequence IS NOT NULL",
    breach_when="nontransactional_batches > 0",
    evidence=(
        "nontransactional_batches",
        "nontransactional_offset",
        "first_offset",
        "last_offset",
        "last_timestamp_ms",
    ),
    explanation=lines("""
        Producer {producer_id}, epoch {producer_epoch}, has a transaction open in {topic}-{partition} on broker
          {broker_id}.
        Inside of it {nontransactional_batches} of its batches, the first at offset {nontransactional_offset}, are not
          part of a transaction.
        Consumers of committed records skip them if it is aborted, and should not: nobody asked for that.
    """),
    start_offset="nontransactional_offset",
    next=DESCRIBE_PRODUCERS,
    points_to="producer_bug",
    reference="ProducerAppendInfo#appendDataBatch (InvalidTxnStateException); KIP-98",
)
