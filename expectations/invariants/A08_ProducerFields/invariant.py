from tidegauge.expectations.evidence import Evidence
from tidegauge.expectations.invariants.shared.batches import HALF_COPIED
from tidegauge.expectations.model import Invariant, Severity, Unknown
from tidegauge.expectations.prose import line, lines

INVARIANT = Invariant(
    code="A08",
    key="PRODUCER_FIELDS",
    name="ProducerFields",
    severity=Severity.WARNING,
    relation="segments",
    statement=line("""
        A batch has a producer id exactly if it has a producer epoch, a client's data under a producer id have a
        sequence, and transactions have a producer id.
    """),
    because=line("""
        The leader refuses any other combination. Such a batch is outside idempotence: a retry of it can be stored
        twice, or a transaction can never be ended.
    """),
    applies_when="batch_count > 0",
    unknown=(
        Unknown(reason="copy skew", evidence=Evidence.ONE_MOMENT, when=f"producer_field_errors = 1 AND {HALF_COPIED}"),
    ),
    breach_when="producer_field_errors > 0",
    evidence=("producer_field_errors", "batch_count"),
    explanation=lines("""
        In {producer_field_errors} of the {batch_count} batches of {path} producer id, epoch, sequence and transaction
          flag contradict one another.
        The fields are under the checksum: if A03 holds, the batch was written like this.
    """),
    details=("producer_fields",),
    next="kafka-dump-log.sh --files {path} | grep producerId",
    points_to="wrong_writer",
    reference="LogValidator#validateBatch, ProducerAppendInfo; KIP-98",
)
