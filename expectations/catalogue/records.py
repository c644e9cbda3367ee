"""Family A, records: what lies inside a batch against what its header says of it.

In: the columns of `segments` that the scan filled where records were at hand. Out: invariants A06 and A10. The rule
that must hold here: a snapshot of headers has no records, and says so.
"""

from typing import Final

from expectations.evidence import Evidence
from expectations.model import Invariant, Severity, Unknown

_NO_PAYLOAD: Final = Unknown(reason="no payload", evidence=Evidence.RECORDS, when="record_batches_read IS NULL")
_OTHER_BYTES: Final = ("D02", "D03", "D07", "C10", "C11", "G07")
"""Where one replica alone holds the batch: its bytes are not the others'."""

RECORD_OFFSET_DELTAS = Invariant(
    code="A06",
    key="RECORD_OFFSET_DELTAS",
    name="RecordOffsetsFitTheirBatch",
    severity=Severity.WARNING,
    relation="segments",
    statement="The records of a batch are as many as its header tells, and their offsets rise inside the batch's "
    "range.",
    because=(
        "A consumer takes each record's offset from the record. One that goes back or leaves the range is delivered "
        "twice, skipped, or ends the consumer with an error, and the checksum is right all the same: whoever wrote the "
        "batch wrote it so."
    ),
    applies_when="batch_count > 0",
    unknown=(_NO_PAYLOAD,),
    breach_when="record_form_errors > 0 OR record_offset_errors > 0",
    derived=(
        ("misformed", "CASE WHEN record_form_errors > 0 THEN record_form_errors END"),
        ("misplaced", "CASE WHEN record_offset_errors > 0 THEN record_offset_errors END"),
        ("passed_over", "CASE WHEN record_batches_passed_over > 0 THEN record_batches_passed_over END"),
    ),
    evidence=("record_batches_read", "record_batches_passed_over", "record_form_errors", "record_offset_errors"),
    details=("records", "record_offsets"),
    explanation=(
        "The records of {record_batches_read} batches of {path} were read.",
        "{passed_over} more were passed over: in a large segment batches spread evenly over it stand for all.",
        "{misformed} batches do not hold the records that their headers tell, though their checksums are right.",
        "{misplaced} batches hold records whose offsets do not rise, or lie outside the batch.",
        "No broker writes this: it checks offsets when a producer appends, so a faulty writer or tool did.",
    ),
    next="kafka-dump-log.sh --files {path} --deep-iteration",
    implies=_OTHER_BYTES,
    points_to="wrong_writer",
    reference="LogValidator#validateMessagesAndAssignOffsets, DefaultRecordBatch#iterator",
)

TIMESTAMPS = Invariant(
    code="A10",
    key="TIMESTAMPS",
    name="TimestampsFitTheirBatch",
    severity=Severity.WARNING,
    relation="segments",
    statement="The largest timestamp in a batch's header is that of its records, unless the broker stamps the batch.",
    because=(
        "Retention and lookups by time believe the header. One that is too large keeps a segment for ever, one that is "
        "too small has it deleted early."
    ),
    applies_when="batch_count > 0",
    unknown=(_NO_PAYLOAD,),
    breach_when="record_timestamp_errors > 0",
    evidence=("record_batches_read", "record_batches_passed_over", "record_timestamp_errors", "max_timestamp_ms"),
    details=("timestamps",),
    explanation=(
        "In {record_timestamp_errors} of {record_batches_read} batches that were read of {path} the largest timestamp "
        "of the records is not the one in the header.",
        "Batches with LogAppendTime, whose records have the header's timestamp, are allowed for; so are those that a "
        "cleaner rewrote, whose base timestamp is a delete horizon.",
        "The largest timestamp that retention sees in this segment is {max_timestamp_ms}.",
    ),
    next="kafka-dump-log.sh --files {path} --deep-iteration",
    implies=("B04", *_OTHER_BYTES),
    points_to="configuration",
    reference="LogValidator#validateTimestamp, MemoryRecordsBuilder#info, MemoryRecords#filterTo",
)
