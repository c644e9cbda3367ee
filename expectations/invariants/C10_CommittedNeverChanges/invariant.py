from typing import Final

from tidegauge.expectations.evidence import Evidence
from tidegauge.expectations.invariants.shared.commands import SALVAGE_FROM_EARLIER
from tidegauge.expectations.invariants.shared.diagnoses import (
    CUT_OR_LOST,
    DISK_OF_ANOTHER_MOMENT,
    DISK_REPLACED,
    LOST_ITS_TAIL,
    UNCLEAN_ELECTION_BESIDE,
    UNCLEAN_ELECTION_NAMED,
)
from tidegauge.expectations.invariants.shared.elections import GIVEN_UP_BY, NOT_ALL_ON_RECORD
from tidegauge.expectations.invariants.shared.history import (
    LOST,
    NOT_IN_THE_EARLIER_COPY,
    NOTHING_TO_COMPARE,
    ON_RECORD,
    OTHER_DISK,
    SAME_REPLICA,
)
from tidegauge.expectations.invariants.shared.lacking import CLEANED_END
from tidegauge.expectations.model import Invariant, Severity, Unknown
from tidegauge.expectations.prose import line, lines

_NOT_IN_THE_COPY: Final = Unknown(
    reason="replica not in the copy", evidence=Evidence.REPLICA, when=f"continuity = 'missing' AND NOT {LOST}"
)
_NOT_READ: Final = Unknown(
    reason="a segment could not be read", evidence=Evidence.SEGMENT, when=f"continuity = 'unread' AND NOT {LOST}"
)
_NOT_CAPTURED: Final = Unknown(
    reason="broker not captured", evidence=Evidence.BROKER, when=f"continuity = 'not captured' AND NOT {LOST}"
)
_CHANGED: Final = "first_changed_committed_offset IS NOT NULL"
_SOUND_OR_SILENT: Final = f"NOT {LOST} AND first_changed_committed_offset IS NULL"

INVARIANT = Invariant(
    code="C10",
    key="COMMITTED_IMMUTABLE",
    name="CommittedNeverChanges",
    severity=Severity.CRITICAL,
    relation="changes",
    statement=line("""
        What a replica held as committed in the earlier snapshot is there as it was, or is gone by retention,
        DeleteRecords or a cleaner.
    """),
    because=line("""
        Producers were told that these records are safe, and consumers have read them. A consumer that reads now gets
        another history; if no replica has the records, they are lost.
    """),
    applies_when=f"({LOST}) OR ({SAME_REPLICA} AND NOT {NOTHING_TO_COMPARE})",
    unknown=(
        NOT_IN_THE_EARLIER_COPY,
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
            when=line("""
                records_lost IS NULL AND change_kind = 'truncated'
                AND first_changed_offset < previous_committed_end_offset
            """),
        ),
        Unknown(
            reason="commitment not known",
            evidence=Evidence.LEDGER,
            when=line(f"""
                first_changed_offset IS NOT NULL AND {_SOUND_OR_SILENT} AND (previous_committed_end_offset IS NULL
                OR (unclean_election_offset IS NOT NULL AND first_changed_offset >= previous_committed_end_offset))
            """),
        ),
    ),
    breach_when=f"{_CHANGED} OR {LOST}",
    derived=(
        ("lost", f"CASE WHEN {LOST} THEN records_lost END"),
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
        ("moved", f"CASE WHEN {LOST} AND continuity <> 'same' THEN continuity END"),
        ("groups", "CASE WHEN cardinality(groups_affected) > 0 THEN groups_affected END"),
        ("nobody", f"CASE WHEN {LOST} AND cardinality(groups_affected) = 0 THEN 'No consumer group' END"),
        ("from_offset", "coalesce(first_lost_offset, first_changed_committed_offset)"),
        ("to_offset", "coalesce(lost_end_offset, previous_committed_end_offset)"),
        *ON_RECORD,
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
        *lines("""
            In snapshot {previous_snapshot_id} broker {broker_id} held {topic}-{partition} up to
              {previous_log_end_offset}.
            It was committed up to {by_checkpoint}: so far the checkpointed high watermarks reached.
            It was committed up to {by_metadata}: the broker was the only in-sync replica when it lost leadership, so
              each of its records was committed as it was written.
            {lost} of these records, at offsets {first_lost_offset}..{last_lost_offset}, are on no replica now: they are
              lost.
            From offset {replaced_from} on it holds batches of another leader epoch in their place.
            From offset {rewritten_from} on it holds other bytes under the same leader epoch.
            From offset {otherwise_from} on its batches are not the ones that it had.
            What it held is still on {kept}.
            Its log ends at {shorter} now.
            What became of its replica: {moved}.
        """),
        *GIVEN_UP_BY,
        OTHER_DISK,
        line("""
            {no_election} is on record: a log lost its tail (power, a disk put in place of another), or its bytes were
            changed.
        """),
        NOT_ALL_ON_RECORD,
        *lines("""
            Consumer groups {groups} had read past the first of them.
            {nobody} had committed an offset past the first of them.
        """),
    ),
    details=("changed_batches",),
    start_offset="coalesce(first_lost_offset, first_changed_committed_offset)",
    end_offset="coalesce(lost_end_offset, previous_committed_end_offset)",
    records=f"CASE WHEN {LOST} THEN records_lost END",
    next=SALVAGE_FROM_EARLIER,
    implies=("C07", "C08", "C09", "C11", "D02", "D19", "J02"),
    one_event_on_all_replicas=True,
    points_to="lost_flush",
    diagnosis=(
        UNCLEAN_ELECTION_NAMED,
        UNCLEAN_ELECTION_BESIDE,
        DISK_REPLACED,
        DISK_OF_ANOTHER_MOMENT,
        LOST_ITS_TAIL,
        CUT_OR_LOST,
    ),
    reference="log matching: KIP-101, KIP-279; Partition#maybeIncrementLeaderHW",
)
