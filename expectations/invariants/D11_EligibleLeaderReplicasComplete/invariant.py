from tidegauge.expectations.evidence import Evidence
from tidegauge.expectations.invariants.shared.commands import DESCRIBE_TOPIC
from tidegauge.expectations.invariants.shared.diagnoses import (
    CUT_OR_LOST,
    DISK_OF_ANOTHER_MOMENT,
    LOST_ITS_TAIL,
    UNCLEAN_ELECTION_BESIDE,
)
from tidegauge.expectations.invariants.shared.isr_members import (
    EVIDENCE,
    GONE,
    KNOWN_ELSEWHERE,
    MISSING,
    NO_LOG,
    NOT_AT_HAND,
    SHORT,
)
from tidegauge.expectations.model import Invariant, Severity, Unknown
from tidegauge.expectations.prose import line, lines

INVARIANT = Invariant(
    code="D11",
    key="ELR_COMPLETE",
    name="EligibleLeaderReplicasComplete",
    severity=Severity.CRITICAL,
    relation="isr_members",
    statement="Every eligible leader replica holds everything below the high watermark.",
    because=line("""
        The controller may elect one of them as a clean leader when the ISR is empty (KIP-966). What it lacks is lost by
        that election, and no error or metric shows it.
    """),
    applies_when="in_elr AND known_high_watermark IS NOT NULL",
    unknown=(
        *NOT_AT_HAND,
        Unknown(reason="copy skew", evidence=Evidence.ONE_MOMENT, when=f"NOT snapshot_quiet AND ({SHORT} OR {GONE})"),
        Unknown(
            reason="stopped uncleanly and not registered since",
            evidence=None,
            # The controller takes it out of the ELR when it registers again without a clean stop.
            when=f"{SHORT} AND NOT follower_alive AND NOT follower_clean_shutdown",
        ),
    ),
    breach_when=f"CASE WHEN NOT present THEN {GONE} ELSE {SHORT} END",
    derived=(MISSING, KNOWN_ELSEWHERE, NO_LOG),
    evidence=EVIDENCE,
    explanation=lines("""
        By broker {known_high_watermark_broker}'s checkpointed high watermark {topic}-{partition} was declared committed
          up to {known_high_watermark}.
        Broker {elsewhere}'s log is of the same lineage as broker {leader_id}'s, which leads it or led it last.
        Broker {follower_id} is an eligible leader replica, and its log ends at {follower_log_end_offset}: {missing}
          committed offsets are not there.
        Broker {follower_id} is an eligible leader replica, and has {no_log} of it: {missing} committed offsets are not
          there.
        If the controller elects it, it does so as a clean election, and these records are lost.
    """),
    start_offset="coalesce(follower_log_end_offset, log_start_offset, 0)",
    end_offset="known_high_watermark",
    next=DESCRIBE_TOPIC,
    implies=("B16", "B17"),
    points_to="lost_flush",
    diagnosis=(UNCLEAN_ELECTION_BESIDE, DISK_OF_ANOTHER_MOMENT, LOST_ITS_TAIL, CUT_OR_LOST),
    reference="PartitionChangeBuilder#electAnyLeader, KIP-966",
)
