from tidegauge.expectations.model import Invariant, Severity
from tidegauge.expectations.prose import line, lines

INVARIANT = Invariant(
    code="A02",
    key="BATCH_MAGIC",
    name="BatchMagic",
    severity=Severity.WARNING,
    relation="segments",
    statement=line("""
        A batch's magic is that of the message format it is written in, and behind a batch of one format comes none of
        an older.
    """),
    because=line("""
        Of format 2 the magic is not under the checksum, and one batch of an older format behind newer ones makes the
        broker throw away the replica's leader epochs: its next truncation falls back to the high watermark.
    """),
    applies_when="batch_count > 0",
    breach_when="magic_errors > 0 OR format_falls > 0",
    derived=(
        ("changed", "CASE WHEN magic_errors > 0 THEN magic_errors END"),
        ("fallen", "CASE WHEN format_falls > 0 THEN format_falls END"),
    ),
    evidence=("magic_errors", "format_falls", "older_format_batches", "batch_count", "last_leader_epoch"),
    explanation=lines("""
        {changed} of the {batch_count} batches in {path} have the checksum of message format 2, and a magic that is not
          2.
        {fallen} batches in {path} are of an older message format than the batch before; the first begins at offset
          {format_fall_offset}.
        A log's format rises when a cluster is upgraded, and Kafka asks never to set it back: either the byte rotted, or
          something else than the topic's leader wrote here.
    """),
    details=("magic",),
    start_offset="format_fall_offset",
    next="kafka-dump-log.sh --files {path} | grep -v 'magic: 2'",
    implies=("B14", "B15", "D20"),
    points_to="wrong_writer",
    reference="LogValidator#validateBatch, UnifiedLog#append; KAFKA-7897, KIP-724",
)
