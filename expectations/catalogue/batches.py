"""Family A, batches: each batch of a log by its header, and the chain that they form.

In: the columns of `segments`. Out: invariants A01 to A09. The rule that must hold here: a tail that an append or a copy
left half-way is told apart from bytes that had been forced to disk; only the latter are lost.
"""

from typing import Final

from expectations.catalogue.diagnoses import (
    HEADER_ROTTED_ALONE,
    OFFSETS_LOST_ALONE,
    ROTTED_ALONE,
    ROTTED_TOO,
    TORN_ALONE,
)
from expectations.evidence import Evidence
from expectations.model import Invariant, Severity, Unknown

_COPIED_DURING_A_SWAP: Final = "NOT broker_quiet AND ever_compacted"
"""The cleaner replaces segments by renaming files: a copy that takes a while may hold old and new ones side by side."""

_TAIL_NOT_YET_FLUSHED: Final = (
    "is_active AND NOT clean_shutdown AND coalesce(last_offset + 1, base_offset) >= coalesce(recovery_point_offset, 0)"
)
"""The tail lies at or above the recovery point: nothing says that it had ever been forced to disk."""

_CUT_SHORT: Final = "torn_tail AND (coalesce(cut_tail, true) OR zero_tail)"
"""It looks like an append that was interrupted: a batch's beginning, or zeros; not foreign bytes."""

_DAMAGED_TAIL: Final = "crc_errors_in_tail AND NOT clean_shutdown AND last_offset >= coalesce(recovery_point_offset, 0)"
"""The log's last batch fails its checksum, and nothing says that it had ever been forced to disk."""

_HALF_COPIED: Final = f"{_DAMAGED_TAIL} AND NOT broker_quiet"
"""It may have been copied while it was written: neither its bytes nor what its header says can be judged."""

BATCH_LENGTH_CHAIN = Invariant(
    code="A01",
    key="BATCH_LENGTH_CHAIN",
    name="BatchLengthChain",
    severity=Severity.CRITICAL,
    relation="segments",
    statement="A segment file is an unbroken chain of whole batches, from its first byte to its last.",
    because=(
        "The broker appends whole batches, and each batch's length says where the next one begins. Where the chain "
        "breaks, "
        "nobody can fetch what lies behind; a recovery keeps only the part before the first break."
    ),
    applies_when="size_bytes > 0",
    unknown=(
        Unknown(
            reason="copy skew",
            evidence=Evidence.ONE_MOMENT,
            when=f"{_CUT_SHORT} AND NOT broker_quiet AND length_errors = 1 AND {_TAIL_NOT_YET_FLUSHED}"
            " AND NOT (zero_tail AND preallocate)",
        ),
    ),
    breach_when="length_errors > 0 AND NOT (zero_tail AND preallocate AND is_active AND NOT clean_shutdown)",
    severity_when=((Severity.WARNING, f"{_CUT_SHORT} AND {_TAIL_NOT_YET_FLUSHED}"),),
    derived=(
        ("torn_from_offset", "CASE WHEN torn_tail THEN coalesce(last_offset + 1, base_offset) END"),
        ("breaks_inside", "CASE WHEN NOT torn_tail THEN length_errors END"),
        (
            "flushed_end_offset",
            "CASE WHEN torn_tail AND coalesce(last_offset + 1, base_offset) < recovery_point_offset "
            "THEN recovery_point_offset END",
        ),
        ("sealed_by_offset", "CASE WHEN NOT is_active THEN next_base_offset END"),
        ("closed_size_bytes", "CASE WHEN clean_shutdown THEN size_bytes END"),
    ),
    start_offset="CASE WHEN torn_tail THEN coalesce(last_offset + 1, base_offset) END",
    evidence=("size_bytes", "valid_bytes", "length_errors", "last_offset", "recovery_point_offset", "clean_shutdown"),
    details=("length", "torn_tail"),
    explanation=(
        "{path} is {size_bytes} bytes long; its batches follow one another only up to byte {valid_bytes}.",
        "From byte {torn_tail_position} to the end no whole batch can be read: the log stops before offset "
        "{torn_from_offset}.",
        "The chain breaks in {breaks_inside} places, and readable batches follow behind a break: a recovery would "
        "cut them off too.",
        "The recovery point is {flushed_end_offset}: the broker had forced these offsets to disk, so no crash "
        "explains the tear.",
        "The segment is sealed, the next one begins at {sealed_by_offset}; the broker never writes to a sealed "
        "segment again.",
        "The broker stopped cleanly: it had written and closed all {closed_size_bytes} bytes, or what stood in "
        "their place.",
    ),
    next="kafka-dump-log.sh --files {path} | tail -n 3",
    implies=(
        "A13",
        "A16",
        "B02",
        "B04",
        "B06",
        "B10",
        "B11",
        "B14",
        "B15",
        "B17",
        "D02",
        "D07",
        "D10",
        "D11",
        "D20",
        "E01",
    ),
    points_to="torn_write",
    diagnosis=(
        ROTTED_TOO,
        TORN_ALONE,
    ),
    reference="FileLogInputStream#nextBatch, LogSegment#recover",
)

BATCH_MAGIC = Invariant(
    code="A02",
    key="BATCH_MAGIC",
    name="BatchMagic",
    severity=Severity.WARNING,
    relation="segments",
    statement=(
        "A batch's magic is that of the message format it is written in, and behind a batch of one format comes none "
        "of an older."
    ),
    because=(
        "Of format 2 the magic is not under the checksum, and one batch of an older format behind newer ones makes the "
        "broker throw away the replica's leader epochs: its next truncation falls back to the high watermark."
    ),
    applies_when="batch_count > 0",
    breach_when="magic_errors > 0 OR format_falls > 0",
    derived=(
        ("changed", "CASE WHEN magic_errors > 0 THEN magic_errors END"),
        ("fallen", "CASE WHEN format_falls > 0 THEN format_falls END"),
    ),
    start_offset="format_fall_offset",
    evidence=("magic_errors", "format_falls", "older_format_batches", "batch_count", "last_leader_epoch"),
    details=("magic",),
    explanation=(
        "{changed} of the {batch_count} batches in {path} have the checksum of message format 2, and a magic that is "
        "not 2.",
        "{fallen} batches in {path} are of an older message format than the batch before; the first begins at offset "
        "{format_fall_offset}.",
        "A log's format rises when a cluster is upgraded, and Kafka asks never to set it back: either the byte rotted, "
        "or something else than the topic's leader wrote here.",
    ),
    next="kafka-dump-log.sh --files {path} | grep -v 'magic: 2'",
    implies=("B14", "B15", "D20"),
    points_to="wrong_writer",
    reference="LogValidator#validateBatch, UnifiedLog#append; KAFKA-7897, KIP-724",
)

BATCH_CHECKSUM = Invariant(
    code="A03",
    key="BATCH_CRC32C",
    name="BatchChecksum",
    severity=Severity.CRITICAL,
    relation="segments",
    statement="The CRC-32C in each batch's header is that of the batch's bytes.",
    because=(
        "The producer computes it and every broker verifies it on append, so a batch that fails it changed after it "
        "was "
        "stored: consumers and followers that fetch it will refuse it."
    ),
    applies_when="batch_count > 0",
    unknown=(Unknown(reason="copy skew", evidence=Evidence.ONE_MOMENT, when=_HALF_COPIED),),
    breach_when="crc_errors > 0",
    severity_when=((Severity.WARNING, _DAMAGED_TAIL),),
    derived=(
        ("damaged_tail_offset", "CASE WHEN crc_errors_in_tail THEN last_offset END"),
        ("damaged_inside", "CASE WHEN NOT crc_errors_in_tail THEN crc_errors END"),
        ("flushed_end_offset", "CASE WHEN last_offset < recovery_point_offset THEN recovery_point_offset END"),
    ),
    evidence=("crc_errors", "batch_count", "last_offset", "recovery_point_offset", "clean_shutdown"),
    details=("crc",),
    explanation=(
        "{crc_errors} of the {batch_count} batches in {path} fail their checksum.",
        "It is the last batch of the log, up to offset {damaged_tail_offset}.",
        "{damaged_inside} of them cannot be a write that was interrupted: they were whole when the broker appended "
        "behind them.",
        "The recovery point is {flushed_end_offset}: the broker had forced this batch to disk.",
        "After a clean stop the broker does not verify it again: it serves these bytes until a consumer or a "
        "follower fails on them.",
    ),
    next="kafka-dump-log.sh --files {path} | grep 'isvalid: false'",
    implies=("A16", "B10", "B17", "C02", "D02", "D07", "D20"),
    points_to="bit_rot",
    diagnosis=(ROTTED_ALONE,),
    reference="DefaultRecordBatch#ensureValid, UnifiedLog#analyzeAndValidateRecords",
)

OFFSETS_MONOTONIC = Invariant(
    code="A04",
    key="OFFSETS_MONOTONIC",
    name="OffsetsMonotonic",
    severity=Severity.CRITICAL,
    relation="segments",
    statement="A batch's base offset is above the last offset of the batch before it, over all segments of the log.",
    because=(
        "The leader counts up and a follower refuses anything else. Where offsets go back, one offset names two "
        "records, "
        "and which of them a consumer gets depends on where it began to read."
    ),
    applies_when="batch_count > 0",
    unknown=(
        Unknown(
            reason="copy skew",
            evidence=Evidence.ONE_MOMENT,
            when=f"offset_order_errors = 1 AND previous_last_offset >= first_offset AND {_COPIED_DURING_A_SWAP}",
        ),
    ),
    breach_when="offset_order_errors > 0",
    derived=(
        ("overlap_before_offset", "CASE WHEN previous_last_offset >= first_offset THEN previous_last_offset END"),
    ),
    start_offset="CASE WHEN previous_last_offset >= first_offset THEN first_offset END",
    end_offset="CASE WHEN previous_last_offset >= first_offset THEN previous_last_offset + 1 END",
    evidence=("offset_order_errors", "previous_last_offset", "first_offset", "last_offset"),
    details=("offset_order",),
    explanation=(
        "{offset_order_errors} batches in {path} begin at or below an offset that stands before them.",
        "The segment's first batch begins at {first_offset}; the segments before it already reach "
        "{overlap_before_offset}.",
        "No append does that: the log was cut inside a batch, or files of two histories lie in one directory.",
    ),
    next="kafka-dump-log.sh --files {path}",
    implies=(
        "A13",
        "E04",
    ),
    points_to="restored_files",
    diagnosis=(OFFSETS_LOST_ALONE,),
    reference="UnifiedLog#append (OffsetsOutOfOrderException, UnexpectedAppendOffsetException); KAFKA-3919",
)

RECORD_COUNT = Invariant(
    code="A05",
    key="RECORD_COUNT",
    name="RecordCount",
    severity=Severity.WARNING,
    relation="segments",
    statement="A batch holds as many records as it spans offsets; only cleaning leaves fewer, and nothing leaves more.",
    because="The broker numbers the records of a batch one by one and refuses a batch whose count differs.",
    applies_when="batch_count > 0",
    unknown=(
        Unknown(reason="copy skew", evidence=Evidence.ONE_MOMENT, when=f"record_count_errors = 1 AND {_HALF_COPIED}"),
        # It may have been compacted once, and moved here since: no cleaner's checkpoint came along.
        Unknown(
            reason="history of the policy not known",
            evidence=Evidence.METADATA_LOG_START,
            when="NOT policy_history_known AND record_count_errors > 0 AND record_count_errors = short_batches "
            "AND coalesce(short_batches_held_elsewhere, 0) = 0",
        ),
    ),
    breach_when="record_count_errors > 0",
    evidence=("record_count_errors", "batch_count", "record_count", "ever_compacted"),
    details=("record_count",),
    explanation=(
        "In {record_count_errors} of the {batch_count} batches of {path} the record count does not fit the offsets "
        "they span.",
        "Compaction is taken into account, so these records were never there, or the header says what is not so.",
    ),
    next="kafka-dump-log.sh --files {path} --deep-iteration",
    points_to="wrong_writer",
    reference="LogValidator#validateBatch",
)

CONTROL_BATCH_SHAPE = Invariant(
    code="A07",
    key="CONTROL_BATCH_SHAPE",
    name="ControlBatchShape",
    severity=Severity.WARNING,
    relation="segments",
    statement=(
        "A control batch is a transaction's end marker (one record of a known type, a producer id, no sequence) or "
        "one of KRaft's."
    ),
    because=(
        "Only brokers write control batches. One of the wrong shape ends no transaction, and whoever decodes it may "
        "stop: "
        "the last stable offset, or the broker's start-up, hangs on it."
    ),
    applies_when="batch_count > 0",
    unknown=(
        Unknown(reason="copy skew", evidence=Evidence.ONE_MOMENT, when=f"control_batch_errors = 1 AND {_HALF_COPIED}"),
    ),
    breach_when="control_batch_errors > 0",
    evidence=("control_batch_errors", "batch_count"),
    details=("control_batch",),
    explanation=(
        "{control_batch_errors} control batches in {path} are neither an end marker nor a KRaft control record.",
        "An empty one that the cleaner left would be right, and is not counted.",
    ),
    next="kafka-dump-log.sh --files {path} --print-data-log | grep 'isControl: true'",
    implies=("F05", "F06", "F08"),
    points_to="wrong_writer",
    reference="EndTransactionMarker#deserialize, LogValidator#validateBatch; KIP-98",
)

PRODUCER_FIELDS = Invariant(
    code="A08",
    key="PRODUCER_FIELDS",
    name="ProducerFields",
    severity=Severity.WARNING,
    relation="segments",
    statement=(
        "A batch has a producer id exactly if it has a producer epoch, a client's data under a producer id have a "
        "sequence, and transactions have a producer id."
    ),
    because=(
        "The leader refuses any other combination. Such a batch is outside idempotence: a retry of it can be stored "
        "twice, "
        "or a transaction can never be ended."
    ),
    applies_when="batch_count > 0",
    unknown=(
        Unknown(reason="copy skew", evidence=Evidence.ONE_MOMENT, when=f"producer_field_errors = 1 AND {_HALF_COPIED}"),
    ),
    breach_when="producer_field_errors > 0",
    evidence=("producer_field_errors", "batch_count"),
    details=("producer_fields",),
    explanation=(
        "In {producer_field_errors} of the {batch_count} batches of {path} producer id, epoch, sequence and "
        "transaction flag contradict one another.",
        "The fields are under the checksum: if A03 holds, the batch was written like this.",
    ),
    next="kafka-dump-log.sh --files {path} | grep producerId",
    points_to="wrong_writer",
    reference="LogValidator#validateBatch, ProducerAppendInfo; KIP-98",
)

EPOCH_PRESENT = Invariant(
    code="A09",
    key="EPOCH_PRESENT",
    name="LeaderEpochPresent",
    severity=Severity.WARNING,
    relation="segments",
    statement=(
        "Every batch of message format 2 carries the leader epoch under which it was appended, those apart that a "
        "cleaner wrote of batches of an older format."
    ),
    because=(
        "The leader stamps it on append, outside the checksum. Without it a follower cannot tell which history a batch "
        "belongs to, and truncation goes wrong after the next election."
    ),
    applies_when="batch_count > 0",
    unknown=(
        Unknown(reason="copy skew", evidence=Evidence.ONE_MOMENT, when=f"epoch_missing_errors = 1 AND {_HALF_COPIED}"),
        # If the topic was compacted once, a cleaner of Kafka 4 may have written them of batches that had no epoch.
        Unknown(
            reason="history of the policy not known",
            evidence=Evidence.METADATA_LOG_START,
            when="NOT policy_history_known AND epoch_missing_errors > 0 AND epoch_missing_errors = epochless_first",
        ),
    ),
    breach_when="epoch_missing_errors > 0",
    evidence=("epoch_missing_errors", "batch_count", "first_leader_epoch", "last_leader_epoch"),
    details=("epoch_missing",),
    explanation=(
        "{epoch_missing_errors} of the {batch_count} batches in {path} have no leader epoch.",
        "The other batches of this file are of epochs {first_leader_epoch} to {last_leader_epoch}.",
        "The field is not under the checksum: it rotted, or the file was not written by a broker.",
    ),
    next="kafka-dump-log.sh --files {path} | grep 'partitionLeaderEpoch: -'",
    implies=("B14", "D01"),
    points_to="header_rot",
    diagnosis=(HEADER_ROTTED_ALONE,),
    reference="LogValidator (sets the partition leader epoch); KIP-101",
)
