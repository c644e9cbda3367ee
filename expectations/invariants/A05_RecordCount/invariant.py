from tidegauge.expectations.evidence import Evidence
from tidegauge.expectations.invariants.shared.batches import HALF_COPIED
from tidegauge.expectations.model import Invariant, Severity, Unknown
from tidegauge.expectations.prose import line, lines

INVARIANT = Invariant(
    code="A05",
    key="RECORD_COUNT",
    name="RecordCount",
    severity=Severity.WARNING,
    relation="segments",
    statement=line("""
        A batch holds as many records as it spans offsets; only cleaning leaves fewer, and nothing leaves more.
    """),
    because="The broker numbers the records of a batch one by one and refuses a batch whose count differs.",
    applies_when="batch_count > 0",
    unknown=(
        Unknown(reason="copy skew", evidence=Evidence.ONE_MOMENT, when=f"record_count_errors = 1 AND {HALF_COPIED}"),
        # It may have been compacted once, and moved here since: no cleaner's checkpoint came along.
        Unknown(
            reason="history of the policy not known",
            evidence=Evidence.METADATA_LOG_START,
            when=line("""
                NOT policy_history_known AND record_count_errors > 0 AND record_count_errors = short_batches
                AND coalesce(short_batches_held_elsewhere, 0) = 0
            """),
        ),
    ),
    breach_when="record_count_errors > 0",
    evidence=("record_count_errors", "batch_count", "record_count", "ever_compacted"),
    explanation=lines("""
        In {record_count_errors} of the {batch_count} batches of {path} the record count does not fit the offsets they
          span.
        Compaction is taken into account, so these records were never there, or the header says what is not so.
    """),
    details=("record_count",),
    next="kafka-dump-log.sh --files {path} --deep-iteration",
    points_to="wrong_writer",
    reference="LogValidator#validateBatch",
)
