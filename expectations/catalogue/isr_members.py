"""Invariants about the members of ISR and ELR: who may lead must hold what is committed (family D).

In: rows of `isr_members`. The rule that must hold here: what any replica knows to be committed, every member holds, the
leader and a member whose directory is gone not excepted.
"""

from typing import Final

from expectations.catalogue.diagnoses import (
    CUT_OR_LOST,
    DISK_OF_ANOTHER_MOMENT,
    LOST_ITS_TAIL,
    UNCLEAN_ELECTION_BESIDE,
)
from expectations.evidence import Evidence
from expectations.model import Invariant, Severity, Unknown

_DESCRIBE: Final = "bin/kafka-topics.sh --bootstrap-server <host:port> --describe --topic {topic}"
_SHORT: Final = "follower_log_end_offset < known_high_watermark"
_DIFFERS: Final = "first_differing_offset < known_high_watermark"
_GONE: Final = "NOT present AND known_high_watermark > coalesce(log_start_offset, 0)"
"""It has no log, and there is something that it ought to hold."""

_NOT_AT_HAND: Final = (
    Unknown(reason="broker not captured", evidence=Evidence.BROKER, when="NOT captured"),
    Unknown(reason="replica not in the copy", evidence=Evidence.REPLICA, when=f"{_GONE} AND log_dir_missing"),
    Unknown(
        reason="a segment could not be read",
        evidence=Evidence.SEGMENT,
        when="present AND follower_log_end_offset IS NULL",
    ),
)
_KNOWN_ELSEWHERE: Final = (
    "elsewhere",
    "CASE WHEN known_high_watermark_broker NOT IN (leader_id, follower_id) THEN known_high_watermark_broker END",
)
_NO_LOG: Final = ("no_log", "CASE WHEN NOT present THEN 'no log' END")
_MISSING: Final = (
    "missing",
    f"CASE WHEN {_SHORT} THEN known_high_watermark - follower_log_end_offset "
    f"WHEN {_GONE} THEN known_high_watermark - coalesce(log_start_offset, 0) END",
)
_EVIDENCE: Final = (
    "known_high_watermark",
    "known_high_watermark_broker",
    "leader_high_watermark",
    "present",
    "follower_log_end_offset",
    "first_differing_offset",
    "follower_clean_shutdown",
    "follower_alive",
    "elections_on_record",
)

HIGH_WATERMARK_IN_ISR = Invariant(
    code="D10",
    key="HW_ISR_BOUND",
    name="InSyncReplicasHoldCommitted",
    severity=Severity.CRITICAL,
    relation="isr_members",
    statement="Every in-sync replica holds everything below the high watermark that any replica knows.",
    because="The high watermark is the smallest log end over the ISR, so a member without all of it must not exist. A "
    "clean election may choose it, and then the missing records are lost without any warning.",
    applies_when="in_isr AND known_high_watermark IS NOT NULL",
    unknown=(
        *_NOT_AT_HAND,
        Unknown(
            reason="copy skew",
            evidence=Evidence.ONE_MOMENT,
            # The ISR, the high watermark and the member's log are of three moments; bytes that differ below both high
            # watermarks are ReplicasMatchBelowHighWatermark's in any case.
            when=f"NOT snapshot_quiet AND ({_SHORT} OR {_DIFFERS} OR {_GONE})",
        ),
    ),
    breach_when=f"CASE WHEN NOT present THEN {_GONE} ELSE {_SHORT} OR coalesce({_DIFFERS}, false) END",
    derived=(
        _MISSING,
        ("differs_from", f"CASE WHEN {_DIFFERS} THEN first_differing_offset END"),
        _KNOWN_ELSEWHERE,
        _NO_LOG,
        ("unclean_stop", "CASE WHEN NOT follower_clean_shutdown THEN 'no clean stop' END"),
    ),
    evidence=_EVIDENCE,
    explanation=(
        "By broker {known_high_watermark_broker}'s checkpointed high watermark {topic}-{partition} was declared "
        "committed up to {known_high_watermark}, which takes every in-sync replica.",
        "Broker {elsewhere}'s log is of the same lineage as broker {leader_id}'s, which leads it or led it last.",
        "Broker {follower_id} is in the ISR, and its log ends at {follower_log_end_offset}: {missing} committed "
        "offsets are not there.",
        "Broker {follower_id} is in the ISR, and has {no_log} of it: {missing} committed offsets are not there.",
        "Broker {follower_id} is in the ISR, and from offset {differs_from} on it holds other batches than the leader.",
        "Its log directory bears the mark of {unclean_stop}: if the machine lost power, the tail may never have "
        "reached the disk.",
        "A clean election may make broker {follower_id} leader; those records are lost then.",
    ),
    start_offset=f"CASE WHEN {_DIFFERS} AND first_differing_offset < follower_log_end_offset "
    "THEN first_differing_offset ELSE coalesce(follower_log_end_offset, log_start_offset, 0) END",
    end_offset="known_high_watermark",
    next=_DESCRIBE,
    points_to="lost_flush",
    diagnosis=(
        UNCLEAN_ELECTION_BESIDE,
        DISK_OF_ANOTHER_MOMENT,
        LOST_ITS_TAIL,
        CUT_OR_LOST,
    ),
    reference="Partition#maybeIncrementLeaderHW",
)

ELR_COMPLETE = Invariant(
    code="D11",
    key="ELR_COMPLETE",
    name="EligibleLeaderReplicasComplete",
    severity=Severity.CRITICAL,
    relation="isr_members",
    statement="Every eligible leader replica holds everything below the high watermark.",
    because="The controller may elect one of them as a clean leader when the ISR is empty (KIP-966). What it lacks is "
    "lost by that election, and nobody is told.",
    applies_when="in_elr AND known_high_watermark IS NOT NULL",
    unknown=(
        *_NOT_AT_HAND,
        Unknown(reason="copy skew", evidence=Evidence.ONE_MOMENT, when=f"NOT snapshot_quiet AND ({_SHORT} OR {_GONE})"),
        Unknown(
            reason="stopped uncleanly and not registered since",
            evidence=None,
            # The controller takes it out of the ELR when it registers again without a clean stop.
            when=f"{_SHORT} AND NOT follower_alive AND NOT follower_clean_shutdown",
        ),
    ),
    breach_when=f"CASE WHEN NOT present THEN {_GONE} ELSE {_SHORT} END",
    derived=(_MISSING, _KNOWN_ELSEWHERE, _NO_LOG),
    evidence=_EVIDENCE,
    explanation=(
        "By broker {known_high_watermark_broker}'s checkpointed high watermark {topic}-{partition} was declared "
        "committed up to {known_high_watermark}.",
        "Broker {elsewhere}'s log is of the same lineage as broker {leader_id}'s, which leads it or led it last.",
        "Broker {follower_id} is an eligible leader replica, and its log ends at {follower_log_end_offset}: {missing} "
        "committed offsets are not there.",
        "Broker {follower_id} is an eligible leader replica, and has {no_log} of it: {missing} committed offsets are "
        "not there.",
        "If the controller elects it, it does so as a clean election, and these records are lost.",
    ),
    start_offset="coalesce(follower_log_end_offset, log_start_offset, 0)",
    end_offset="known_high_watermark",
    next=_DESCRIBE,
    implies=("B16", "B17"),
    points_to="lost_flush",
    diagnosis=(
        UNCLEAN_ELECTION_BESIDE,
        DISK_OF_ANOTHER_MOMENT,
        LOST_ITS_TAIL,
        CUT_OR_LOST,
    ),
    reference="PartitionChangeBuilder#electAnyLeader, KIP-966",
)
