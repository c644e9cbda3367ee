from typing import Final

from tidegauge.expectations.causes import Believe, Rule
from tidegauge.expectations.evidence import Evidence
from tidegauge.expectations.invariants.shared.batches import DAMAGED_TAIL, HALF_COPIED
from tidegauge.expectations.model import Invariant, Severity, Unknown
from tidegauge.expectations.prose import line, lines

_ROTTED_ALONE: Final = Rule(
    on="one",
    points_to="bit_rot",
    because=line("""
        Only this replica has it; the others hold these offsets under right checksums. Delete this replica's directory
        while its broker is down: it is copied again.
    """),
    believe=Believe.OTHERS,
)

INVARIANT = Invariant(
    code="A03",
    key="BATCH_CRC32C",
    name="BatchChecksum",
    severity=Severity.CRITICAL,
    relation="segments",
    statement="The CRC-32C in each batch's header is that of the batch's bytes.",
    because=line("""
        The producer computes it and every broker verifies it on append, so a batch that fails it changed after it was
        stored: consumers and followers that fetch it will refuse it.
    """),
    applies_when="batch_count > 0",
    unknown=(Unknown(reason="copy skew", evidence=Evidence.ONE_MOMENT, when=HALF_COPIED),),
    breach_when="crc_errors > 0",
    severity_when=((Severity.WARNING, DAMAGED_TAIL),),
    derived=(
        ("damaged_tail_offset", "CASE WHEN crc_errors_in_tail THEN last_offset END"),
        ("damaged_inside", "CASE WHEN NOT crc_errors_in_tail THEN crc_errors END"),
        ("flushed_end_offset", "CASE WHEN last_offset < recovery_point_offset THEN recovery_point_offset END"),
    ),
    evidence=("crc_errors", "batch_count", "last_offset", "recovery_point_offset", "clean_shutdown"),
    explanation=lines("""
        {crc_errors} of the {batch_count} batches in {path} fail their checksum.
        It is the last batch of the log, up to offset {damaged_tail_offset}.
        {damaged_inside} of them cannot be a write that was interrupted: they were whole when the broker appended behind
          them.
        The recovery point is {flushed_end_offset}: the broker had forced this batch to disk.
        After a clean stop the broker does not verify it again: it serves these bytes until a consumer or a follower
          fails on them.
    """),
    details=("crc",),
    next="kafka-dump-log.sh --files {path} | grep 'isvalid: false'",
    implies=("A16", "B10", "B17", "C02", "D02", "D07", "D20"),
    points_to="bit_rot",
    diagnosis=(_ROTTED_ALONE,),
    reference="DefaultRecordBatch#ensureValid, UnifiedLog#analyzeAndValidateRecords",
)
