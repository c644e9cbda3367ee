from typing import Final

from tidegauge.expectations.evidence import Evidence
from tidegauge.expectations.invariants.shared.answers import LEADERSHIP, OUTSIDE, unless_sound
from tidegauge.expectations.model import Invariant, Severity, Unknown
from tidegauge.expectations.prose import line, lines

_PRODUCER_OUTSIDE: Final = line(f"""
    CASE WHEN cardinality(recomputed_values) = 0 THEN answered_before IS NOT NULL ELSE coalesce({OUTSIDE}, false)
    OR (answered_before_text = answered_after_text AND NOT answered_before_text = ANY(recomputed_values)) END
""")

INVARIANT = Invariant(
    code="L09",
    key="ANSWERED_PRODUCER",
    name="AnsweredProducerState",
    severity=Severity.WARNING,
    relation="cluster_answers",
    subject=("broker_id", "topic", "partition", "producer_id"),
    statement=line("""
        A producer's epoch, last sequence and open transaction by the leader's log are those that the leader remembers.
    """),
    because=line("""
        By what it remembers the leader takes a batch for new, for a repetition or for a gap. If the log says otherwise,
        records are doubled or refused after the next restart.
    """),
    applies_when="kind = 'producer'",
    unknown=(
        Unknown(reason="not asked", evidence=Evidence.ANSWERS, when="incomparable_reason = 'not asked'"),
        *unless_sound(
            _PRODUCER_OUTSIDE,
            LEADERSHIP
            | {"log damaged": None, "head of the log is gone": None, "changed while copying": Evidence.ONE_MOMENT},
        ),
    ),
    breach_when=_PRODUCER_OUTSIDE,
    derived=(("unknown_producer", "CASE WHEN cardinality(recomputed_values) = 0 THEN producer_id END"),),
    evidence=("answered_before_text", "answered_after_text", "recomputed_values"),
    explanation=lines("""
        Leader {broker_id} of {topic}-{partition} remembers producer {producer_id} before the copy:
          {answered_before_text}.
        It remembers it after the copy: {answered_after_text}.
        Its log gives: {recomputed_values}.
        Neither its newest producer snapshot nor the log behind it knows producer {unknown_producer}.
    """),
    next=line("""
        bin/kafka-transactions.sh --bootstrap-server <host:port> describe-producers --topic {topic} --partition
        {partition}
    """),
    points_to="answered_otherwise",
    reference="ProducerStateManager#activeProducers, KIP-664",
)
