"""Invariants of a replica between an earlier snapshot and this one (family C, over time).

In: rows of `changes`. The rule that must hold here: only the same replica, of the same topic, is held to its past; what
was copied anew is not. Records that are gone on every replica are a breach of CommittedNeverChanges whatever became of
the replica that held them, and no other invariant implies that one: a loss is always a root.
"""

from typing import Final

from expectations.catalogue.diagnoses import (
    CUT_OR_LOST,
    DISK_OF_ANOTHER_MOMENT,
    DISK_REPLACED,
    LOST_ITS_TAIL,
    UNCLEAN_ELECTION_BESIDE,
    UNCLEAN_ELECTION_NAMED,
)
from expectations.catalogue.elections import GIVEN_UP_BY, IN_SYNC_THEN, NOT_ALL_ON_RECORD
from expectations.catalogue.lacking import CLEANED_END, CLEANED_END_UNTOLD
from expectations.evidence import Evidence
from expectations.model import Invariant, Severity, Unknown

_UNTOLD_BEFORE: Final = "continuity IN ('missing before', 'unread before', 'not captured before')"
_SAME_REPLICA: Final = f"(continuity IN ('same', 'missing', 'unread', 'not captured') OR {_UNTOLD_BEFORE})"
"""A replica that should still be there. One of a deleted or re-created topic, or moved away and back, has no past."""

_NOT_IN_THE_EARLIER_COPY: Final = Unknown(
    reason="replica not in the earlier copy", evidence=Evidence.EARLIER_SNAPSHOT, when=_UNTOLD_BEFORE
)

_LOST: Final = "coalesce(records_lost, 0) > 0"

_NOT_IN_THE_COPY: Final = Unknown(
    reason="replica not in the copy", evidence=Evidence.REPLICA, when=f"continuity = 'missing' AND NOT {_LOST}"
)
_NOT_READ: Final = Unknown(
    reason="a segment could not be read", evidence=Evidence.SEGMENT, when=f"continuity = 'unread' AND NOT {_LOST}"
)
_NOT_CAPTURED: Final = Unknown(
    reason="broker not captured", evidence=Evidence.BROKER, when=f"continuity = 'not captured' AND NOT {_LOST}"
)

_ON_RECORD: Final = (
    ("no_election", "CASE WHEN unclean_election_offset IS NULL AND elections_on_record THEN 'No unclean election' END"),
    ("not_on_record", "CASE WHEN unclean_election_offset IS NULL AND NOT elections_on_record THEN 'not every' END"),
    ("other_disk", "CASE WHEN directory_replaced THEN 'another one' END"),
    *IN_SYNC_THEN,
)

_OTHER_DISK: Final = (
    "The log dir that held the replica is gone from broker {broker_id}, which has {other_disk} in its place (by "
    "directory.id)."
)
_SALVAGE: Final = (
    "tidegauge salvage <snapshot {previous_snapshot_id}> --topic {topic} --partition {partition} --from {from_offset} "
    "--to {to_offset} --out salvaged"
)
_DUMP: Final = "bin/kafka-dump-log.sh --deep-iteration --files $(ls -d <log.dirs>/{topic}-{partition})/*.log"

_NOTHING_LOST: Final = (
    # A disk that was exchanged is filled again by replication, which takes a while.
    (Severity.INFO, "directory_replaced AND records_lost = 0"),
    (Severity.WARNING, "records_lost = 0"),
)

HIGH_WATERMARK_MONOTONIC = Invariant(
    code="C07",
    key="HW_MONOTONIC",
    name="HighWatermarkNeverFalls",
    severity=Severity.WARNING,
    relation="changes",
    statement="A replica's checkpointed high watermark is not below the one that it had in the earlier snapshot.",
    because="What is below it was declared committed and shown to consumers. Kafka takes a lower one with no more than "
    "a line in its log; consumers that had read further are then beyond the end of what they may read.",
    # The metadata log's high watermark is never checkpointed.
    applies_when=f"topic <> '__cluster_metadata' AND {_SAME_REPLICA}",
    unknown=(
        _NOT_IN_THE_EARLIER_COPY,
        Unknown(reason="replica not in the copy", evidence=Evidence.REPLICA, when="continuity = 'missing'"),
        Unknown(reason="a segment could not be read", evidence=Evidence.SEGMENT, when="continuity = 'unread'"),
        Unknown(reason="broker not captured", evidence=Evidence.BROKER, when="continuity = 'not captured'"),
        Unknown(
            reason="high watermark not known",
            evidence=Evidence.CHECKPOINT,
            when="previous_high_watermark IS NULL OR high_watermark IS NULL",
        ),
        Unknown(
            reason="just after a leader change",
            evidence=None,
            # A new leader begins with what it knew as a follower, and its followers with it; the first fetches raise
            # it. A leader of clean election has all that was committed, so its epoch starts above.
            when="high_watermark < previous_high_watermark AND last_epoch_start_offset >= previous_high_watermark",
        ),
        Unknown(
            reason="log dir replaced",
            evidence=None,
            when="high_watermark < previous_high_watermark AND directory_replaced AND records_lost IS NULL",
        ),
    ),
    breach_when="high_watermark < previous_high_watermark",
    severity_when=(
        (Severity.CRITICAL, _LOST),
        (Severity.INFO, "directory_replaced AND records_lost = 0"),
    ),
    derived=(("below", "previous_high_watermark - high_watermark"), *_ON_RECORD),
    evidence=(
        "previous_snapshot_id",
        "previous_high_watermark",
        "high_watermark",
        "previous_log_end_offset",
        "log_end_offset",
        "last_epoch_start_offset",
        "records_lost",
        "unclean_election_offset",
        "directory_replaced",
        "elections_on_record",
    ),
    explanation=(
        "In snapshot {previous_snapshot_id} broker {broker_id} had checkpointed high watermark "
        "{previous_high_watermark} of {topic}-{partition}.",
        "Now it is {high_watermark}, {below} lower; its log ends at {log_end_offset}.",
        *GIVEN_UP_BY,
        _OTHER_DISK,
        "{no_election} is on record that would explain it.",
        NOT_ALL_ON_RECORD,
    ),
    start_offset="high_watermark",
    end_offset="previous_high_watermark",
    next="bin/kafka-get-offsets.sh --bootstrap-server <host:port> --topic-partitions {topic}:{partition} --time latest",
    points_to="lost_flush",
    diagnosis=(
        UNCLEAN_ELECTION_NAMED,
        UNCLEAN_ELECTION_BESIDE,
        DISK_REPLACED,
        DISK_OF_ANOTHER_MOMENT,
        LOST_ITS_TAIL,
        CUT_OR_LOST,
    ),
    reference="UnifiedLog#updateHighWatermarkMetadata (warns of a non-monotonic update)",
)

_BELOW_COMMITTED: Final = "log_end_offset < previous_log_end_offset AND log_end_offset < previous_committed_end_offset"

LOG_END_REGRESSION = Invariant(
    code="C08",
    key="LEO_REGRESSION",
    name="LogEndStaysAboveCommitted",
    severity=Severity.CRITICAL,
    relation="changes",
    statement="A replica's log ends no lower than what it held as committed in the earlier snapshot.",
    because="A log becomes shorter only when its replica follows a leader that lacks the tail, and that must not reach "
    "what was committed. Otherwise the broker lost what it had acknowledged: by an unclean election, by a loss of "
    "power before the disk had it, or with the disk.",
    applies_when=_SAME_REPLICA,
    unknown=(
        _NOT_IN_THE_EARLIER_COPY,
        Unknown(reason="replica not in the copy", evidence=Evidence.REPLICA, when="continuity = 'missing'"),
        Unknown(reason="a segment could not be read", evidence=Evidence.SEGMENT, when="continuity = 'unread'"),
        Unknown(reason="broker not captured", evidence=Evidence.BROKER, when="continuity = 'not captured'"),
        Unknown(reason="log damaged", evidence=None, when=f"damaged AND {_BELOW_COMMITTED} AND NOT {_LOST}"),
        Unknown(
            reason="log dir replaced",
            evidence=None,
            when=f"directory_replaced AND records_lost IS NULL AND {_BELOW_COMMITTED}",
        ),
        Unknown(
            reason="commitment not known",
            evidence=Evidence.LEDGER,
            when="log_end_offset < previous_log_end_offset AND (previous_committed_end_offset IS NULL OR "
            "(unclean_election_offset IS NOT NULL AND log_end_offset >= previous_committed_end_offset))",
        ),
    ),
    breach_when=_BELOW_COMMITTED,
    severity_when=_NOTHING_LOST,
    derived=(
        ("missing", "previous_committed_end_offset - log_end_offset"),
        ("elsewhere", "CASE WHEN records_lost = 0 THEN 'each of these records' END"),
        ("nowhere", f"CASE WHEN {_LOST} THEN records_lost END"),
        ("last_lost_offset", "lost_end_offset - 1"),
        ("from_offset", "coalesce(first_lost_offset, log_end_offset)"),
        ("to_offset", "coalesce(lost_end_offset, previous_committed_end_offset)"),
        *_ON_RECORD,
    ),
    evidence=(
        "previous_snapshot_id",
        "previous_log_end_offset",
        "log_end_offset",
        "previous_committed_end_offset",
        "committed_proof",
        "records_lost",
        "loss_undecided_reason",
        "unclean_election_offset",
        "directory_replaced",
        "elections_on_record",
    ),
    explanation=(
        "In snapshot {previous_snapshot_id} broker {broker_id}'s log of {topic}-{partition} ended at "
        "{previous_log_end_offset}, and was committed up to {previous_committed_end_offset} (by: {committed_proof}).",
        "Now it ends at {log_end_offset}: {missing} committed offsets are not there.",
        "{nowhere} records that it held, at offsets {first_lost_offset}..{last_lost_offset}, are on no replica now.",
        "Another replica holds {elsewhere}: nothing is lost yet, but this replica must not be elected.",
        "Whether others hold them cannot be told: {loss_undecided_reason}.",
        *GIVEN_UP_BY,
        _OTHER_DISK,
        "{no_election} is on record that would explain it: it lost its tail, as after a loss of power.",
        NOT_ALL_ON_RECORD,
    ),
    start_offset="coalesce(first_lost_offset, log_end_offset)",
    end_offset="coalesce(lost_end_offset, previous_committed_end_offset)",
    records=f"CASE WHEN {_LOST} THEN records_lost END",
    next=_SALVAGE,
    implies=("C07", "C09", "D10"),
    points_to="lost_flush",
    diagnosis=(
        UNCLEAN_ELECTION_NAMED,
        UNCLEAN_ELECTION_BESIDE,
        DISK_REPLACED,
        DISK_OF_ANOTHER_MOMENT,
        LOST_ITS_TAIL,
        CUT_OR_LOST,
    ),
    reference="UnifiedLog#truncateTo (warns below the high watermark); Partition#maybeIncrementLeaderHW",
)

LOG_START_MONOTONIC = Invariant(
    code="C09",
    key="LOG_START_MONOTONIC",
    name="LogStartNeverFalls",
    severity=Severity.INFO,
    relation="changes",
    statement="A replica's log starts no lower than it did in the earlier snapshot.",
    because="Retention and DeleteRecords only raise it. One that fell shows consumers again what was deleted, which "
    "may have been deleted because it had to be; or an old copy of the disk was put back.",
    applies_when=_SAME_REPLICA,
    unknown=(
        _NOT_IN_THE_EARLIER_COPY,
        Unknown(reason="replica not in the copy", evidence=Evidence.REPLICA, when="continuity = 'missing'"),
        Unknown(reason="a segment could not be read", evidence=Evidence.SEGMENT, when="continuity = 'unread'"),
        Unknown(reason="broker not captured", evidence=Evidence.BROKER, when="continuity = 'not captured'"),
        Unknown(reason="log damaged", evidence=None, when="log_start_offset < previous_log_start_offset AND damaged"),
        Unknown(
            reason="log dir replaced",
            evidence=None,
            # What was copied anew starts where the leader's log does; each replica had deleted by its own clock.
            when="log_start_offset < previous_log_start_offset AND directory_replaced",
        ),
        Unknown(
            reason="tiered",
            evidence=None,
            when="log_start_offset < previous_log_start_offset AND remote_storage_enable",
        ),
        Unknown(
            reason="unclean election",
            evidence=None,
            # Truncating below the log start takes the log start along.
            when="log_start_offset < previous_log_start_offset AND unclean_election_offset IS NOT NULL",
        ),
        Unknown(
            reason="log start not checkpointed",
            evidence=Evidence.CHECKPOINT,
            # The broker knows it, and only its checkpoint tells where it lies above the first segment's base.
            when="log_start_offset < previous_log_start_offset AND NOT checkpointed_log_start AND NOT broker_quiet",
        ),
    ),
    breach_when="log_start_offset < previous_log_start_offset",
    derived=(("below", "previous_log_start_offset - log_start_offset"),),
    evidence=(
        "previous_snapshot_id",
        "previous_log_start_offset",
        "log_start_offset",
        "checkpointed_log_start",
        "log_end_offset",
    ),
    explanation=(
        "In snapshot {previous_snapshot_id} broker {broker_id}'s log of {topic}-{partition} started at "
        "{previous_log_start_offset}.",
        "Now it starts at {log_start_offset}: {below} offsets that had been deleted can be read again.",
    ),
    start_offset="log_start_offset",
    end_offset="previous_log_start_offset",
    next="grep '^{topic} {partition} ' <log.dir of broker {broker_id}>/log-start-offset-checkpoint",
    points_to="retention",
    reference="UnifiedLog#maybeIncrementLogStartOffset, UnifiedLog#truncateTo",
)

_NOTHING_TO_COMPARE: Final = "coalesce(incomparable_reason, '') IN ('no batches', 'no common range')"
_CHANGED: Final = "first_changed_committed_offset IS NOT NULL"
_SOUND_OR_SILENT: Final = f"NOT {_LOST} AND first_changed_committed_offset IS NULL"

COMMITTED_IMMUTABLE = Invariant(
    code="C10",
    key="COMMITTED_IMMUTABLE",
    name="CommittedNeverChanges",
    severity=Severity.CRITICAL,
    relation="changes",
    statement="What a replica held as committed in the earlier snapshot is there as it was, or is gone by retention, "
    "DeleteRecords or a cleaner.",
    because="Producers were told that these records are safe, and consumers have read them. Where other records stand "
    "in their place, or none, whoever reads now gets another history; if no replica has them, they are lost.",
    applies_when=f"({_LOST}) OR ({_SAME_REPLICA} AND NOT {_NOTHING_TO_COMPARE})",
    unknown=(
        _NOT_IN_THE_EARLIER_COPY,
        _NOT_IN_THE_COPY,
        _NOT_READ,
        _NOT_CAPTURED,
        Unknown(
            reason=CLEANED_END,
            evidence=Evidence.CHECKPOINT,
            when=f"incomparable_reason = '{CLEANED_END}' AND {_SOUND_OR_SILENT}",
        ),
        Unknown(reason="compacted", evidence=None, when=f"incomparable_reason = 'compacted' AND {_SOUND_OR_SILENT}"),
        Unknown(reason="log damaged", evidence=None, when=f"damaged AND {_SOUND_OR_SILENT}"),
        Unknown(
            reason="not every replica was captured",
            evidence=Evidence.BROKER,
            when="records_lost IS NULL AND change_kind = 'truncated' AND first_changed_offset < "
            "previous_committed_end_offset",
        ),
        Unknown(
            reason="commitment not known",
            evidence=Evidence.LEDGER,
            when=f"first_changed_offset IS NOT NULL AND {_SOUND_OR_SILENT} AND (previous_committed_end_offset IS NULL "
            "OR (unclean_election_offset IS NOT NULL AND first_changed_offset >= previous_committed_end_offset))",
        ),
    ),
    breach_when=f"{_CHANGED} OR {_LOST}",
    derived=(
        ("lost", f"CASE WHEN {_LOST} THEN records_lost END"),
        ("last_lost_offset", "lost_end_offset - 1"),
        ("by_checkpoint", "CASE WHEN committed_proof = 'checkpoint' THEN previous_committed_end_offset END"),
        ("by_metadata", "CASE WHEN committed_proof = 'sole_isr' THEN previous_committed_end_offset END"),
        (
            "replaced_from",
            f"CASE WHEN {_CHANGED} AND change_kind = 'replaced' THEN first_changed_committed_offset END",
        ),
        (
            "rewritten_from",
            f"CASE WHEN {_CHANGED} AND change_kind = 'rewritten' THEN first_changed_committed_offset END",
        ),
        (
            "otherwise_from",
            f"CASE WHEN {_CHANGED} AND change_kind IN ('missing', 'inserted') THEN first_changed_committed_offset END",
        ),
        ("kept", f"CASE WHEN {_CHANGED} AND records_lost = 0 THEN 'another replica' END"),
        ("shorter", "CASE WHEN log_end_offset < previous_log_end_offset THEN log_end_offset END"),
        ("moved", f"CASE WHEN {_LOST} AND continuity <> 'same' THEN continuity END"),
        ("groups", "CASE WHEN cardinality(groups_affected) > 0 THEN groups_affected END"),
        ("nobody", f"CASE WHEN {_LOST} AND cardinality(groups_affected) = 0 THEN 'No consumer group' END"),
        ("from_offset", "coalesce(first_lost_offset, first_changed_committed_offset)"),
        ("to_offset", "coalesce(lost_end_offset, previous_committed_end_offset)"),
        *_ON_RECORD,
    ),
    evidence=(
        "previous_snapshot_id",
        "previous_log_end_offset",
        "previous_committed_end_offset",
        "committed_proof",
        "log_end_offset",
        "first_changed_offset",
        "change_kind",
        "continuity",
        "records_lost",
        "first_lost_offset",
        "lost_end_offset",
        "loss_undecided_reason",
        "groups_affected",
        "unclean_election_offset",
        "unclean_election_at_ms",
        "isr_before_election",
        "directory_replaced",
        "elections_on_record",
    ),
    explanation=(
        "In snapshot {previous_snapshot_id} broker {broker_id} held {topic}-{partition} up to "
        "{previous_log_end_offset}.",
        "It was committed up to {by_checkpoint}: so far the checkpointed high watermarks reached.",
        "It was committed up to {by_metadata}: the broker was the only in-sync replica when it lost leadership, so "
        "each of its records was committed as it was written.",
        "{lost} of these records, at offsets {first_lost_offset}..{last_lost_offset}, are on no replica now: they are "
        "lost.",
        "From offset {replaced_from} on it holds batches of another leader epoch in their place.",
        "From offset {rewritten_from} on it holds other bytes under the same leader epoch.",
        "From offset {otherwise_from} on its batches are not the ones that it had.",
        "What it held is still on {kept}.",
        "Its log ends at {shorter} now.",
        "What became of its replica: {moved}.",
        *GIVEN_UP_BY,
        _OTHER_DISK,
        "{no_election} is on record: a log lost its tail (power, a disk put in place of another), or its bytes were "
        "changed.",
        NOT_ALL_ON_RECORD,
        "Consumer groups {groups} had read past the first of them.",
        "{nobody} had committed an offset past the first of them.",
    ),
    start_offset="coalesce(first_lost_offset, first_changed_committed_offset)",
    end_offset="coalesce(lost_end_offset, previous_committed_end_offset)",
    records=f"CASE WHEN {_LOST} THEN records_lost END",
    details=("changed_batches",),
    next=_SALVAGE,
    implies=("C07", "C08", "C09", "C11", "D02", "D19", "J02"),
    points_to="lost_flush",
    diagnosis=(
        UNCLEAN_ELECTION_NAMED,
        UNCLEAN_ELECTION_BESIDE,
        DISK_REPLACED,
        DISK_OF_ANOTHER_MOMENT,
        LOST_ITS_TAIL,
        CUT_OR_LOST,
    ),
    one_event_on_all_replicas=True,
    reference="log matching: KIP-101, KIP-279; Partition#maybeIncrementLeaderHW",
)

OFFSET_NOT_REUSED = Invariant(
    code="C11",
    key="OFFSET_NOT_REUSED",
    name="OffsetNeverReusedInEpoch",
    severity=Severity.CRITICAL,
    relation="changes",
    statement="An offset that a replica holds under the same leader epoch as before holds the same batch.",
    because="An epoch has one leader, which gives out each offset once. Another batch under the same epoch means two "
    "writers, a leader that forgot its tail and wrote on in the same epoch, or bytes that were changed on disk. "
    "Kafka's own truncation compares epochs, and never notices.",
    applies_when=f"{_SAME_REPLICA} AND NOT {_NOTHING_TO_COMPARE}",
    unknown=(
        _NOT_IN_THE_EARLIER_COPY,
        Unknown(reason="replica not in the copy", evidence=Evidence.REPLICA, when="continuity = 'missing'"),
        Unknown(reason="a segment could not be read", evidence=Evidence.SEGMENT, when="continuity = 'unread'"),
        Unknown(reason="broker not captured", evidence=Evidence.BROKER, when="continuity = 'not captured'"),
        CLEANED_END_UNTOLD,
        Unknown(reason="compacted", evidence=None, when="incomparable_reason = 'compacted'"),
        Unknown(reason="log damaged", evidence=None, when="damaged AND identity_violation_offset IS NULL"),
        # Nobody can tell whether one leader wrote both, or two did, one after the other.
        Unknown(
            reason="message format without leader epochs",
            evidence=None,
            when="changed_without_epochs AND identity_violation_offset IS NULL",
        ),
    ),
    breach_when="identity_violation_offset IS NOT NULL",
    derived=(
        (
            "committed",
            "CASE WHEN identity_violation_offset < previous_committed_end_offset THEN "
            "previous_committed_end_offset END",
        ),
        ("from_offset", "identity_violation_offset"),
    ),
    evidence=(
        "previous_snapshot_id",
        "identity_violation_offset",
        "first_changed_offset",
        "previous_committed_end_offset",
        "compared_from_offset",
        "compared_to_end_offset",
        "ever_compacted",
        "elections_on_record",
    ),
    explanation=(
        "Broker {broker_id}'s log of {topic}-{partition} was compared with itself in snapshot {previous_snapshot_id}, "
        "offsets {compared_from_offset} up to {compared_to_end_offset}.",
        "At offset {identity_violation_offset} stands another batch of the same leader epoch than before.",
        "That offset was committed: the log was committed up to {committed}.",
    ),
    start_offset="identity_violation_offset",
    details=("changed_batches",),
    next=_DUMP,
    implies=("D03",),
    points_to="lost_flush",
    diagnosis=(
        UNCLEAN_ELECTION_BESIDE,
        DISK_OF_ANOTHER_MOMENT,
        LOST_ITS_TAIL,
        CUT_OR_LOST,
    ),
    reference="one leader per epoch: ReplicationControlManager, PartitionRegistration#merge; UnifiedLog#append",
)
