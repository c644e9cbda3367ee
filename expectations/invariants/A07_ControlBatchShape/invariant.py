from tidegauge.expectations.evidence import Evidence
from tidegauge.expectations.invariants.shared.batches import HALF_COPIED
from tidegauge.expectations.model import Invariant, Severity, Unknown
from tidegauge.expectations.prose import line, lines

INVARIANT = Invariant(
    code="A07",
    key="CONTROL_BATCH_SHAPE",
    name="ControlBatchShape",
    severity=Severity.WARNING,
    relation="segments",
    statement=line("""
        A control batch is a transaction's end marker (one record of a known type, a producer id, no sequence) or one of
        KRaft's.
    """),
    because=line("""
        Only brokers write control batches. One of the wrong shape ends no transaction, and whoever decodes it may stop:
        the last stable offset, or the broker's start-up, hangs on it.
    """),
    applies_when="batch_count > 0",
    unknown=(
        Unknown(reason="copy skew", evidence=Evidence.ONE_MOMENT, when=f"control_batch_errors = 1 AND {HALF_COPIED}"),
    ),
    breach_when="control_batch_errors > 0",
    evidence=("control_batch_errors", "batch_count"),
    explanation=lines("""
        {control_batch_errors} control batches in {path} are neither an end marker nor a KRaft control record.
        An empty one that the cleaner left would be right, and is not counted.
    """),
    details=("control_batch",),
    next="kafka-dump-log.sh --files {path} --print-data-log | grep 'isControl: true'",
    implies=("F05", "F06", "F08"),
    points_to="wrong_writer",
    reference="EndTransactionMarker#deserialize, LogValidator#validateBatch; KIP-98",
)
