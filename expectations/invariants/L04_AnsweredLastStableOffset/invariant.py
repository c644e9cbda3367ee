from tidegauge.expectations.invariants.shared.answers import LEADERSHIP, OUTSIDE, unless_sound
from tidegauge.expectations.model import Invariant, Severity
from tidegauge.expectations.prose import line, lines

INVARIANT = Invariant(
    code="L04",
    key="ANSWERED_LAST_STABLE_OFFSET",
    name="AnsweredLastStableOffset",
    severity=Severity.WARNING,
    relation="cluster_answers",
    subject=("broker_id", "topic", "partition"),
    statement=line("""
        The last stable offset that replaying the leader's log gives lies between what the leader answered before and
        after the copy.
    """),
    because=line("""
        Readers of committed data stop there. Above the truth they are given records of undecided transactions; below it
        they wait for a transaction that is over.
    """),
    applies_when="kind = 'last_stable_offset'",
    unknown=unless_sound(OUTSIDE, LEADERSHIP | {"log damaged": None, "head of the log is gone": None}),
    breach_when=OUTSIDE,
    derived=(
        ("served_beyond", "CASE WHEN answered_before > recomputed_highest THEN recomputed_highest END"),
        ("held_back", "CASE WHEN answered_after < recomputed_lowest THEN recomputed_lowest END"),
    ),
    evidence=("answered_before", "answered_after", "recomputed_lowest", "recomputed_highest", "asked_before_at_ms"),
    explanation=lines("""
        Leader {broker_id} of {topic}-{partition} let readers of committed data read up to {answered_before} before the
          copy.
        It let them read up to {answered_after} after the copy.
        Its log says that a transaction is undecided from {served_beyond} on, so they were given too much.
        Its log says that every transaction below {held_back} was decided by then, so they are held back.
    """),
    start_offset="least(answered_after, recomputed_highest)",
    end_offset="greatest(answered_before, recomputed_lowest)",
    next=line("""
        bin/kafka-transactions.sh --bootstrap-server <host:port> describe-producers --topic {topic} --partition
        {partition}
    """),
    points_to="answered_otherwise",
    reference="UnifiedLog#lastStableOffset, UnifiedLog#fetchLastStableOffsetMetadata, KIP-98",
)
