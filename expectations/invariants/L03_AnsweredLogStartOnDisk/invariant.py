from tidegauge.expectations.invariants.shared.answers import LEADERSHIP, OUTSIDE, unless_sound
from tidegauge.expectations.model import Invariant, Severity
from tidegauge.expectations.prose import line, lines

INVARIANT = Invariant(
    code="L03",
    key="ANSWERED_LOG_START",
    name="AnsweredLogStartOnDisk",
    severity=Severity.WARNING,
    relation="cluster_answers",
    subject=("broker_id", "topic", "partition"),
    statement="The leader's log on disk starts where the leader answers that its first readable record is.",
    because=line("""
        A consumer that starts at the earliest offset is sent there. If the disk starts later, the segments between are
        gone, and the leader will fail to read them.
    """),
    applies_when="kind = 'log_start_offset'",
    unknown=unless_sound(OUTSIDE, LEADERSHIP | {"log start not yet checkpointed": None, "tiered": None}),
    breach_when=OUTSIDE,
    derived=(
        (
            "gone_from",
            "CASE WHEN answered_after < recomputed_lowest THEN answered_after END",
        ),
        ("kept_from", "CASE WHEN answered_before > recomputed_highest THEN recomputed_highest END"),
    ),
    evidence=("answered_before", "answered_after", "recomputed_lowest", "asked_after_at_ms"),
    explanation=lines("""
        Leader {broker_id} answered {answered_before} as the log start of {topic}-{partition} before the copy.
        It answered {answered_after} after the copy.
        Its log on disk starts at {recomputed_lowest}.
        What the leader offers from {gone_from} on is not on its disk.
        The disk still counts as readable, from {kept_from} on, what the leader had deleted.
    """),
    start_offset="least(answered_after, recomputed_lowest)",
    end_offset="greatest(answered_before, recomputed_lowest)",
    next=line("""
        bin/kafka-get-offsets.sh --bootstrap-server <host:port> --topic-partitions {topic}:{partition} --time earliest
    """),
    points_to="answered_otherwise",
    reference="UnifiedLog#maybeIncrementLogStartOffset, UnifiedLog#fetchOffsetByTimestamp",
)
