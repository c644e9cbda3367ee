from tidegauge.expectations.invariants.shared.batches import NO_PAYLOAD, OTHER_BYTES
from tidegauge.expectations.model import Invariant, Severity
from tidegauge.expectations.prose import line, lines

INVARIANT = Invariant(
    code="A06",
    key="RECORD_OFFSET_DELTAS",
    name="RecordOffsetsFitTheirBatch",
    severity=Severity.WARNING,
    relation="segments",
    statement=line("""
        The records of a batch are as many as its header tells, and their offsets rise inside the batch's range.
    """),
    because=line("""
        A consumer takes each record's offset from the record. One that goes back or leaves the range is delivered
        twice, skipped, or ends the consumer with an error, and yet the checksum is right: whoever wrote the
        batch wrote it so.
    """),
    applies_when="batch_count > 0",
    unknown=(NO_PAYLOAD,),
    breach_when="record_form_errors > 0 OR record_offset_errors > 0",
    derived=(
        ("misformed", "CASE WHEN record_form_errors > 0 THEN record_form_errors END"),
        ("misplaced", "CASE WHEN record_offset_errors > 0 THEN record_offset_errors END"),
        ("passed_over", "CASE WHEN record_batches_passed_over > 0 THEN record_batches_passed_over END"),
    ),
    evidence=("record_batches_read", "record_batches_passed_over", "record_form_errors", "record_offset_errors"),
    explanation=lines("""
        The records of {record_batches_read} batches of {path} were read.
        {passed_over} more were passed over: in a large segment batches spread evenly over it stand for all.
        {misformed} batches do not hold the records that their headers tell, though their checksums are right.
        {misplaced} batches hold records whose offsets do not rise, or lie outside the batch.
        No broker writes this: it checks offsets when a producer appends, so a faulty writer or tool did.
    """),
    details=("records", "record_offsets"),
    next="kafka-dump-log.sh --files {path} --deep-iteration",
    implies=OTHER_BYTES,
    points_to="wrong_writer",
    reference="LogValidator#validateMessagesAndAssignOffsets, DefaultRecordBatch#iterator",
)
