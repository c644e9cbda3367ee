from tidegauge.expectations.evidence import Evidence
from tidegauge.expectations.invariants.shared.commands import DUMP_BATCHES
from tidegauge.expectations.invariants.shared.diagnoses import (
    CUT_OR_LOST,
    DISK_OF_ANOTHER_MOMENT,
    LOST_ITS_TAIL,
    UNCLEAN_ELECTION_BESIDE,
)
from tidegauge.expectations.invariants.shared.history import NOT_IN_THE_EARLIER_COPY, NOTHING_TO_COMPARE, SAME_REPLICA
from tidegauge.expectations.invariants.shared.lacking import CLEANED_END_UNTOLD
from tidegauge.expectations.model import Invariant, Severity, Unknown
from tidegauge.expectations.prose import line, lines

INVARIANT = Invariant(
    code="C11",
    key="OFFSET_NOT_REUSED",
    name="OffsetNeverReusedInEpoch",
    severity=Severity.CRITICAL,
    relation="changes",
    statement="An offset that a replica holds under the same leader epoch as before holds the same batch.",
    because=line("""
        An epoch has one leader, which gives out each offset once. Another batch under the same epoch means two writers,
        a leader that forgot its tail and wrote on in the same epoch, or bytes that were changed on disk. Kafka's own
        truncation compares epochs, and never notices.
    """),
    applies_when=f"{SAME_REPLICA} AND NOT {NOTHING_TO_COMPARE}",
    unknown=(
        NOT_IN_THE_EARLIER_COPY,
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
            line("""
                CASE
                WHEN identity_violation_offset < previous_committed_end_offset THEN previous_committed_end_offset END
            """),
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
    explanation=lines("""
        Broker {broker_id}'s log of {topic}-{partition} was compared with itself in snapshot {previous_snapshot_id},
          offsets {compared_from_offset} up to {compared_to_end_offset}.
        At offset {identity_violation_offset} there is another batch than before, of the same leader epoch.
        That offset was committed: the log was committed up to {committed}.
    """),
    details=("changed_batches",),
    start_offset="identity_violation_offset",
    next=DUMP_BATCHES,
    implies=("D03",),
    points_to="lost_flush",
    diagnosis=(UNCLEAN_ELECTION_BESIDE, DISK_OF_ANOTHER_MOMENT, LOST_ITS_TAIL, CUT_OR_LOST),
    reference="one leader per epoch: ReplicationControlManager, PartitionRegistration#merge; UnifiedLog#append",
)
