from tidegauge.expectations.invariants.shared.batches import NO_PAYLOAD, OTHER_BYTES
from tidegauge.expectations.model import Invariant, Severity
from tidegauge.expectations.prose import line, lines

INVARIANT = Invariant(
    code="A10",
    key="TIMESTAMPS",
    name="TimestampsFitTheirBatch",
    severity=Severity.WARNING,
    relation="segments",
    statement=line("""
        The largest timestamp in a batch's header is that of its records, unless the broker stamps the batch.
    """),
    because=line("""
        Retention and lookups by time believe the header. One that is too large keeps a segment forever, one that is
        too small has it deleted early.
    """),
    applies_when="batch_count > 0",
    unknown=(NO_PAYLOAD,),
    breach_when="record_timestamp_errors > 0",
    evidence=("record_batches_read", "record_batches_passed_over", "record_timestamp_errors", "max_timestamp_ms"),
    explanation=lines("""
        In {record_timestamp_errors} of {record_batches_read} batches that were read of {path} the largest timestamp of
          the records is not the one in the header.
        Batches with LogAppendTime, whose records have the header's timestamp, are allowed for; so are those that a
          cleaner rewrote, whose base timestamp is a delete horizon.
        The largest timestamp that retention sees in this segment is {max_timestamp_ms}.
    """),
    details=("timestamps",),
    next="kafka-dump-log.sh --files {path} --deep-iteration",
    implies=("B04", *OTHER_BYTES),
    points_to="configuration",
    reference="LogValidator#validateTimestamp, MemoryRecordsBuilder#info, MemoryRecords#filterTo",
)
