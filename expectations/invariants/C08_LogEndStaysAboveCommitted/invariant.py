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
    ON_RECORD,
    OTHER_DISK,
    SAME_REPLICA,
)
from tidegauge.expectations.model import Invariant, Severity, Unknown
from tidegauge.expectations.prose import line, lines

_NOTHING_LOST: Final = (
    # A disk that was exchanged is filled again by replication, which takes a while.
    (Severity.INFO, "directory_replaced AND records_lost = 0"),
    (Severity.WARNING, "records_lost = 0"),
)
_BELOW_COMMITTED: Final = "log_end_offset < previous_log_end_offset AND log_end_offset < previous_committed_end_offset"

INVARIANT = Invariant(
    code="C08",
    key="LEO_REGRESSION",
    name="LogEndStaysAboveCommitted",
    severity=Severity.CRITICAL,
    relation="changes",
    statement="A replica's log ends no lower than what it held as committed in the earlier snapshot.",
    because=line("""
        A log becomes shorter only when its replica follows a leader that lacks the tail, and that must not reach what
        was committed. Otherwise the broker lost what it had acknowledged: by an unclean election, by a loss of power
        before the disk had it, or with the disk.
    """),
    applies_when=SAME_REPLICA,
    unknown=(
        NOT_IN_THE_EARLIER_COPY,
        Unknown(reason="replica not in the copy", evidence=Evidence.REPLICA, when="continuity = 'missing'"),
        Unknown(reason="a segment could not be read", evidence=Evidence.SEGMENT, when="continuity = 'unread'"),
        Unknown(reason="broker not captured", evidence=Evidence.BROKER, when="continuity = 'not captured'"),
        Unknown(reason="log damaged", evidence=None, when=f"damaged AND {_BELOW_COMMITTED} AND NOT {LOST}"),
        Unknown(
            reason="log dir replaced",
            evidence=None,
            when=f"directory_replaced AND records_lost IS NULL AND {_BELOW_COMMITTED}",
        ),
        Unknown(
            reason="commitment not known",
            evidence=Evidence.LEDGER,
            when=line("""
                log_end_offset < previous_log_end_offset AND (previous_committed_end_offset IS NULL
                OR (unclean_election_offset IS NOT NULL AND log_end_offset >= previous_committed_end_offset))
            """),
        ),
    ),
    breach_when=_BELOW_COMMITTED,
    severity_when=_NOTHING_LOST,
    derived=(
        ("missing", "previous_committed_end_offset - log_end_offset"),
        ("elsewhere", "CASE WHEN records_lost = 0 THEN 'each of these records' END"),
        ("nowhere", f"CASE WHEN {LOST} THEN records_lost END"),
        ("last_lost_offset", "lost_end_offset - 1"),
        ("from_offset", "coalesce(first_lost_offset, log_end_offset)"),
        ("to_offset", "coalesce(lost_end_offset, previous_committed_end_offset)"),
        *ON_RECORD,
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
        *lines("""
            In snapshot {previous_snapshot_id} broker {broker_id}'s log of {topic}-{partition} ended at
              {previous_log_end_offset}, and was committed up to {previous_committed_end_offset} (by:
              {committed_proof}).
            Now it ends at {log_end_offset}: {missing} committed offsets are not there.
            {nowhere} records that it held, at offsets {first_lost_offset}..{last_lost_offset}, are on no replica now.
            Another replica holds {elsewhere}: nothing is lost yet, but this replica must not be elected.
            Whether others hold them cannot be told: {loss_undecided_reason}.
        """),
        *GIVEN_UP_BY,
        OTHER_DISK,
        "{no_election} is on record that would explain it: it lost its tail, as after a loss of power.",
        NOT_ALL_ON_RECORD,
    ),
    start_offset="coalesce(first_lost_offset, log_end_offset)",
    end_offset="coalesce(lost_end_offset, previous_committed_end_offset)",
    records=f"CASE WHEN {LOST} THEN records_lost END",
    next=SALVAGE_FROM_EARLIER,
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
