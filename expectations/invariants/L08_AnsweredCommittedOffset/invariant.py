from typing import Final

from tidegauge.expectations.evidence import Evidence
from tidegauge.expectations.invariants.shared.answers import NO_COORDINATOR, unless_sound
from tidegauge.expectations.model import Invariant, Severity, Unknown
from tidegauge.expectations.prose import line, lines

_COMMIT_OUTSIDE: Final = line("""
    CASE WHEN recomputed_lowest IS NULL THEN answered_before IS NOT NULL AND answered_after IS NOT NULL
    ELSE recomputed_lowest < least(answered_before, answered_after)
    OR recomputed_lowest > greatest(answered_before, answered_after) END
""")

INVARIANT = Invariant(
    code="L08",
    key="ANSWERED_COMMITTED_OFFSET",
    name="AnsweredCommittedOffset",
    severity=Severity.WARNING,
    relation="cluster_answers",
    subject=("group", "topic", "partition"),
    statement="A group's committed offset in its coordinator's log is the one that the coordinator answers.",
    because=line("""
        The coordinator answers from memory, and loads its memory from that log when it moves. If they differ, the group
        will go on somewhere else after the next election: it repeats records, or skips them.
    """),
    applies_when="kind = 'committed_offset'",
    unknown=(
        Unknown(reason="not asked", evidence=Evidence.ANSWERS, when="incomparable_reason = 'not asked'"),
        *unless_sound(
            _COMMIT_OUTSIDE,
            NO_COORDINATOR
            | {
                "changed while copying": Evidence.ONE_MOMENT,
                "no answer": Evidence.ANSWERS,
                "last record may not be replicated": None,
            },
        ),
    ),
    breach_when=_COMMIT_OUTSIDE,
    derived=(("nothing", "CASE WHEN recomputed_lowest IS NULL THEN 'no committed offset' END"),),
    evidence=("answered_before", "answered_after", "recomputed_lowest"),
    explanation=lines("""
        The coordinator of group {group} answered offset {answered_before} for {topic}-{partition} before the copy.
        It answered {answered_after} after the copy.
        Its log has {recomputed_lowest}.
        Its log has {nothing} of the group there.
    """),
    start_offset="least(answered_before, answered_after, recomputed_lowest)",
    end_offset="greatest(answered_before, answered_after, recomputed_lowest)",
    next="bin/kafka-consumer-groups.sh --bootstrap-server <host:port> --describe --group {group}",
    points_to="answered_otherwise",
    reference="OffsetMetadataManager#fetchAllOffsets, GroupCoordinatorService#onElection",
)
