from tidegauge.expectations.evidence import Evidence
from tidegauge.expectations.invariants.shared.commands import SALVAGE_FROM_DIVERGENCE
from tidegauge.expectations.model import Invariant, Severity, Unknown
from tidegauge.expectations.prose import line, lines

INVARIANT = Invariant(
    code="D08",
    key="FOLLOWER_NOT_AHEAD",
    name="FollowerNotAheadOfLeader",
    severity=Severity.WARNING,
    relation="divergences",
    statement="Within one leader epoch an in-sync follower's log never reaches beyond its leader's.",
    because=line("""
        A follower only copies. One that is in sync and longer than its leader holds a tail that nobody took from it, or
        the leader lost one.
    """),
    # Out of the ISR, or where the leader has begun a newer epoch (or was elected for one and has not written yet), a
    # longer log is FollowerKeepsItsSuffix's matter.
    applies_when=line("""
        leader_is_elected AND follower_in_isr AND newer_epoch IS NULL AND coalesce(reference_led_last_epoch, true)
    """),
    unknown=(
        Unknown(
            reason="copy skew",
            evidence=Evidence.ONE_MOMENT,
            when=line("""
                follower_log_end_offset > leader_log_end_offset AND NOT snapshot_quiet
                AND coalesce(follower_copied_after_leader, true)
            """),
        ),
    ),
    breach_when="follower_log_end_offset > leader_log_end_offset",
    derived=(("ahead", "follower_log_end_offset - leader_log_end_offset"),),
    evidence=(
        "follower_log_end_offset",
        "leader_log_end_offset",
        "follower_last_leader_epoch",
        "leader_last_leader_epoch",
        "leader_epoch_start_offset",
    ),
    explanation=lines("""
        Broker {leader_id} leads {topic}-{partition}; its log ends at {leader_log_end_offset}.
        Broker {follower_id} is in its ISR; its log ends at {follower_log_end_offset}, {ahead} offsets further, and no
          newer leader epoch cuts it off.
        A follower has only what its leader had: the leader's log has become shorter, or the follower kept a tail that
          it should have truncated.
    """),
    start_offset="leader_log_end_offset",
    end_offset="follower_log_end_offset",
    next=SALVAGE_FROM_DIVERGENCE,
    implies=("D05",),
    points_to="uncommitted_tail",
    reference="AbstractFetcherThread#processPartitionData, Partition#readRecords",
)
