from typing import Final

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

_DIFFERS: Final = "first_differing_offset < known_high_watermark"

INVARIANT = Invariant(
    code="D10",
    key="HW_ISR_BOUND",
    name="InSyncReplicasHoldCommitted",
    severity=Severity.CRITICAL,
    relation="isr_members",
    statement="Every in-sync replica holds everything below the high watermark that any replica knows.",
    because=line("""
        The high watermark is the smallest log end over the ISR, so a member without all of it must not exist. A clean
        election may choose it, and then the missing records are lost without any warning.
    """),
    applies_when="in_isr AND known_high_watermark IS NOT NULL",
    unknown=(
        *NOT_AT_HAND,
        Unknown(
            reason="copy skew",
            evidence=Evidence.ONE_MOMENT,
            # The ISR, the high watermark and the member's log are of three moments; bytes that differ below both high
            # watermarks are ReplicasMatchBelowHighWatermark's in any case.
            when=f"NOT snapshot_quiet AND ({SHORT} OR {_DIFFERS} OR {GONE})",
        ),
    ),
    breach_when=f"CASE WHEN NOT present THEN {GONE} ELSE {SHORT} OR coalesce({_DIFFERS}, false) END",
    derived=(
        MISSING,
        ("differs_from", f"CASE WHEN {_DIFFERS} THEN first_differing_offset END"),
        KNOWN_ELSEWHERE,
        NO_LOG,
        ("unclean_stop", "CASE WHEN NOT follower_clean_shutdown THEN 'no clean stop' END"),
    ),
    evidence=EVIDENCE,
    explanation=lines("""
        By broker {known_high_watermark_broker}'s checkpointed high watermark {topic}-{partition} was declared committed
          up to {known_high_watermark}, which takes every in-sync replica.
        Broker {elsewhere}'s log is of the same lineage as broker {leader_id}'s, which leads it or led it last.
        Broker {follower_id} is in the ISR, and its log ends at {follower_log_end_offset}: {missing} committed offsets
          are not there.
        Broker {follower_id} is in the ISR, and has {no_log} of it: {missing} committed offsets are not there.
        Broker {follower_id} is in the ISR, and from offset {differs_from} on it holds other batches than the leader.
        Its log directory has the mark of {unclean_stop}: if the machine lost power, the tail may never have reached
          the disk.
        A clean election may make broker {follower_id} leader; those records are lost then.
    """),
    start_offset=line(f"""
        CASE WHEN {_DIFFERS} AND first_differing_offset < follower_log_end_offset THEN first_differing_offset
        ELSE coalesce(follower_log_end_offset, log_start_offset, 0) END
    """),
    end_offset="known_high_watermark",
    next=DESCRIBE_TOPIC,
    points_to="lost_flush",
    diagnosis=(UNCLEAN_ELECTION_BESIDE, DISK_OF_ANOTHER_MOMENT, LOST_ITS_TAIL, CUT_OR_LOST),
    reference="Partition#maybeIncrementLeaderHW",
)
