from tidegauge.expectations.evidence import Evidence
from tidegauge.expectations.invariants.shared.commands import DESCRIBE_TOPIC
from tidegauge.expectations.invariants.shared.diagnoses import (
    CUT_OR_LOST,
    DISK_OF_ANOTHER_MOMENT,
    LOST_ITS_TAIL,
    UNCLEAN_ELECTION_BESIDE,
)
from tidegauge.expectations.model import Invariant, Severity, Unknown
from tidegauge.expectations.prose import line, lines

INVARIANT = Invariant(
    code="D12",
    key="ISR_EXPANSION_EPOCH",
    name="JoinedInSyncAfterEpochStart",
    severity=Severity.CRITICAL,
    relation="divergences",
    statement=line("""
        A follower that joined the ISR under the current leader has everything from before that leader's epoch.
    """),
    because=line("""
        A leader takes a follower into the ISR once it has caught up to where the leader's own epoch began: below that
        lie records which earlier leaders may have committed. A member without them can be elected cleanly, and cuts
        them off.
    """),
    # A member that was in the ISR at the election may lag behind the start of the new epoch for a while.
    applies_when="leader_is_elected AND follower_in_isr AND joined_isr_in_current_epoch IS NOT FALSE",
    unknown=(
        Unknown(
            reason="the election is not on record",
            evidence=Evidence.METADATA_LOG_START,
            when=line("""
                joined_isr_in_current_epoch IS NULL AND (current_epoch_start_offset IS NULL
                OR follower_log_end_offset < current_epoch_start_offset)
            """),
        ),
        Unknown(
            reason="copy skew",
            evidence=Evidence.ONE_MOMENT,
            when=line("""
                NOT snapshot_quiet AND follower_copied_after_leader IS NOT TRUE
                AND follower_log_end_offset < current_epoch_start_offset
            """),
        ),
    ),
    breach_when="follower_log_end_offset < current_epoch_start_offset",
    evidence=(
        "current_epoch_start_offset",
        "follower_log_end_offset",
        "leader_log_end_offset",
        "leader_last_leader_epoch",
        "follower_last_leader_epoch",
        "follower_high_watermark",
        "leader_high_watermark",
        "follower_clean_shutdown",
        "elections_on_record",
    ),
    explanation=lines("""
        Broker {leader_id}, leader of {topic}-{partition}, began its leader epoch at offset
          {current_epoch_start_offset}.
        Broker {follower_id} joined the ISR in that epoch, and its log ends at {follower_log_end_offset}.
        It was let in before it had caught up, or lost its tail since: a clean election of broker {follower_id} loses
          what lies between.
    """),
    start_offset="follower_log_end_offset",
    end_offset="current_epoch_start_offset",
    records="current_epoch_start_offset - follower_log_end_offset",
    next=DESCRIBE_TOPIC,
    implies=("D19", "D20"),
    points_to="lost_flush",
    diagnosis=(UNCLEAN_ELECTION_BESIDE, DISK_OF_ANOTHER_MOMENT, LOST_ITS_TAIL, CUT_OR_LOST),
    reference="Partition#isFollowerInSync, KAFKA-7128",
)
