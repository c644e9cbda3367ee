"""Family E: producers' sequences, as idempotence promises them, on every replica.

In: the columns of `producers`, in which each break of a sequence already has its cause. Out: invariants E01 to E07. The
rule that must hold here: what cleaning, expiry or the coordinator's own writes explain is not a breach, and what
cleaning may have taken away with it is not called sound either.
"""

from typing import Final

from expectations.catalogue.diagnoses import BATCH_LOST_ALONE, IDENTITY_OF_ANOTHER, SAME_ON_ALL
from expectations.catalogue.lacking import NO_METADATA_LOG
from expectations.evidence import Evidence
from expectations.model import Invariant, Severity, Unknown

_CLEANED: Final = Unknown(reason="compacted", evidence=None, when="ever_compacted AND explained_gaps > 0")
"""The cleaner removes batches, and with them the evidence whether others were lost before it came."""

_BACK_IN_EPOCH: Final = Unknown(
    reason="setting not known", evidence=Evidence.SETTINGS, when="unsettled_batches > 0 AND epoch_regressions = 0"
)
_REPEATED: Final = Unknown(
    reason="setting not known", evidence=Evidence.SETTINGS, when="unsettled_batches > 0 AND duplicate_batches = 0"
)
_OVERLAPPING: Final = Unknown(
    reason="setting not known", evidence=Evidence.SETTINGS, when="unsettled_batches > 0 AND overlapping_batches = 0"
)
"""A producer that a broker had forgotten may go back; where nothing tells producer.id.expiration.ms, it may have."""

_SHOW_PRODUCER: Final = (
    "kafka-transactions.sh --bootstrap-server HOST:PORT describe-producers --topic {topic} --partition {partition}"
)

SEQUENCE_CONTIGUOUS = Invariant(
    code="E01",
    key="SEQ_CONTIGUOUS",
    name="SequenceContiguous",
    severity=Severity.CRITICAL,
    relation="producers",
    statement=(
        "Within a producer epoch each batch's first sequence follows the last one of the producer's batch before "
        "it, and 0 "
        "follows 2147483647."
    ),
    because=(
        "The leader refuses a batch that does not follow on, so a gap in the stored sequences is records that a "
        "producer had "
        "acknowledged and that are not in the log."
    ),
    applies_when="first_sequence IS NOT NULL",
    unknown=(_CLEANED,),
    breach_when="lost_gaps > 0",
    records="missing_sequences",
    evidence=("lost_gaps", "missing_sequences", "first_sequence", "last_sequence", "first_offset", "last_offset"),
    details=("lost",),
    explanation=(
        "Producer {producer_id} in epoch {producer_epoch} wrote to {topic}-{partition} from offset {first_offset} to "
        "{last_offset}, sequences {first_sequence} to {last_sequence}.",
        "On broker {broker_id} its sequences break off and go on higher {lost_gaps} times: {missing_sequences} "
        "records are "
        "missing.",
        "Compaction, deletion and the expiry of the producer's state were looked at and do not explain it.",
        "If all replicas have the gap, the leader lost the batch or never had it; if only this one has, this log did.",
    ),
    next=_SHOW_PRODUCER,
    points_to="producer_bug",
    diagnosis=(
        SAME_ON_ALL,
        BATCH_LOST_ALONE,
    ),
    reference="ProducerAppendInfo#checkSequence, #inSequence; KIP-98",
)

SEQUENCE_STARTS_AT_ZERO = Invariant(
    code="E02",
    key="SEQ_STARTS_AT_ZERO",
    name="SequenceStartsAtZero",
    severity=Severity.CRITICAL,
    relation="producers",
    statement="The first batch of a new producer epoch, of a producer that the log knows, has sequence 0.",
    because=(
        "A producer counts from 0 again after its epoch was raised, and the leader refuses any other start: if the "
        "stored "
        "sequences begin higher, the epoch's first batches are missing."
    ),
    applies_when="first_sequence IS NOT NULL",
    unknown=(_CLEANED,),
    breach_when="nonzero_starts > 0",
    derived=(("lost_at_least", "CASE WHEN first_sequence > 0 THEN first_sequence END"),),
    start_offset="first_offset",
    end_offset="first_offset + 1",
    records="CASE WHEN first_sequence > 0 THEN first_sequence END",
    evidence=("nonzero_starts", "first_sequence", "first_offset", "last_offset"),
    details=("nonzero_start",),
    explanation=(
        "The log of {topic}-{partition} on broker {broker_id} knows producer {producer_id} from an earlier epoch.",
        "Its first batch in epoch {producer_epoch} stands at offset {first_offset} and begins with sequence "
        "{first_sequence}.",
        "The {lost_at_least} records with the sequences before it are not in the log.",
    ),
    next=_SHOW_PRODUCER,
    points_to="producer_bug",
    diagnosis=(
        SAME_ON_ALL,
        BATCH_LOST_ALONE,
    ),
    reference="ProducerAppendInfo#checkSequence; KIP-98, KIP-890",
)

PRODUCER_EPOCH_MONOTONIC = Invariant(
    code="E03",
    key="PRODUCER_EPOCH_MONOTONIC",
    name="ProducerEpochMonotonic",
    severity=Severity.CRITICAL,
    relation="producers",
    statement="A producer id's epoch never falls as offsets rise.",
    because=(
        "A higher epoch fences every older instance of the producer. A batch of a lower one behind it is a zombie's "
        "write that "
        "should have been refused: exactly-once is broken."
    ),
    unknown=(_BACK_IN_EPOCH,),
    breach_when="epoch_regressions > 0",
    evidence=("epoch_regressions", "producer_epoch", "first_offset", "last_offset", "last_timestamp_ms"),
    details=("epoch_regression",),
    explanation=(
        "{epoch_regressions} batches of producer {producer_id} in epoch {producer_epoch} stand behind batches or "
        "markers of a "
        "higher epoch of the same producer.",
        "The last of them is at offset {last_offset} of {topic}-{partition}, written at {last_timestamp_ms}.",
        "The producer's state had not expired in between, so the leader knew that the epoch was fenced.",
    ),
    next=_SHOW_PRODUCER,
    implies=("F02", "K19"),
    points_to="producer_bug",
    reference="ProducerAppendInfo#checkProducerEpoch; KIP-98, KIP-360",
)

DUPLICATE_SEQUENCE = Invariant(
    code="E04",
    key="DUP_SEQUENCE",
    name="NoDuplicateSequence",
    severity=Severity.CRITICAL,
    relation="producers",
    statement="No two data batches of a producer epoch carry the same sequences.",
    because=(
        "The leader remembers a producer's last five batches and answers a retry without storing it again. Stored "
        "twice, every "
        "consumer reads the records twice."
    ),
    applies_when="first_sequence IS NOT NULL",
    unknown=(_REPEATED,),
    breach_when="duplicate_batches > 0",
    evidence=("duplicate_batches", "first_sequence", "last_sequence", "first_offset", "last_offset"),
    details=("duplicate",),
    explanation=(
        "Producer {producer_id} in epoch {producer_epoch} has {duplicate_batches} batches in {topic}-{partition} whose "
        "sequences the log already held.",
        "They were stored on broker {broker_id} between the offsets {first_offset} and {last_offset}; consumers "
        "read those "
        "records twice.",
        "Expiry of the producer's state, which would make the leader forget, does not explain it.",
    ),
    next=_SHOW_PRODUCER,
    points_to="producer_bug",
    diagnosis=(SAME_ON_ALL,),
    reference="ProducerStateEntry#findDuplicateBatch; KIP-98",
)

SEQUENCE_OVERLAP = Invariant(
    code="E05",
    key="SEQ_OVERLAP",
    name="NoSequenceOverlap",
    severity=Severity.CRITICAL,
    relation="producers",
    statement="The sequences of two batches of a producer epoch are never the same in part only.",
    because=(
        "A client retries a batch as it was. Sequences that overlap in part come from a client that cut its batches "
        "anew, and "
        "some records are stored twice without anyone being able to tell by batch."
    ),
    applies_when="first_sequence IS NOT NULL",
    unknown=(_OVERLAPPING,),
    breach_when="overlapping_batches > 0",
    evidence=("overlapping_batches", "first_sequence", "last_sequence", "first_offset", "last_offset"),
    details=("overlap",),
    explanation=(
        "Producer {producer_id} in epoch {producer_epoch} has {overlapping_batches} batches in {topic}-{partition} "
        "that begin "
        "with sequences the log already held and end with new ones.",
        "They lie between the offsets {first_offset} and {last_offset} on broker {broker_id}; the leader should "
        "have refused "
        "them as out of order.",
    ),
    next=_SHOW_PRODUCER,
    points_to="producer_bug",
    diagnosis=(SAME_ON_ALL,),
    reference="ProducerAppendInfo#checkSequence; KIP-98",
)

PRODUCER_ID_ALLOCATED = Invariant(
    code="E07",
    key="PID_ALLOCATED",
    name="ProducerIdAllocated",
    severity=Severity.WARNING,
    relation="producers",
    statement="Every producer id in a log is below the next one that the controller would hand out.",
    because=(
        "Brokers get producer ids from the controller in blocks. An id that was never handed out is foreign data, "
        "or the "
        "metadata log went back: then the id will be given to a second producer."
    ),
    unknown=(
        NO_METADATA_LOG,
        Unknown(
            reason="the metadata log names no producer id block",
            evidence=Evidence.METADATA_LOG,
            when="next_producer_id IS NULL",
        ),
        # Blocks handed out while the copy was made are in the logs and not in the metadata log read before them.
        Unknown(
            reason="copy skew",
            evidence=Evidence.ONE_MOMENT,
            when="producer_id >= next_producer_id AND NOT snapshot_quiet",
        ),
    ),
    breach_when="producer_id >= next_producer_id",
    derived=(("above_by", "producer_id - next_producer_id"),),
    start_offset="first_offset",
    end_offset="last_offset + 1",
    evidence=("producer_id", "next_producer_id", "first_offset", "last_offset"),
    explanation=(
        "{topic}-{partition} on broker {broker_id} has batches of producer {producer_id}, offsets {first_offset} to "
        "{last_offset}.",
        "By the metadata log the next producer id to be handed out is {next_producer_id}: this one was not handed "
        "out yet.",
    ),
    next="kafka-dump-log.sh --cluster-metadata-decoder --files __cluster_metadata-0/00000000000000000000.log "
    "| grep PRODUCER_IDS_RECORD",
    points_to="foreign_disk",
    diagnosis=(IDENTITY_OF_ANOTHER,),
    reference="ProducerIdControlManager#generateNextProducerId; KIP-730, KAFKA-15552",
)
