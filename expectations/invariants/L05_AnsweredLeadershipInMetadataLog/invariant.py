from typing import Final

from tidegauge.expectations.evidence import Evidence
from tidegauge.expectations.invariants.shared.answers import OTHER_VALUE, unless_sound
from tidegauge.expectations.model import Invariant, Severity
from tidegauge.expectations.prose import line, lines

_ELECTED_LATER: Final = f"{OTHER_VALUE} OR answered_before > recomputed_highest"

INVARIANT = Invariant(
    code="L05",
    key="ANSWERED_LEADERSHIP",
    name="AnsweredLeadershipInMetadataLog",
    severity=Severity.WARNING,
    relation="cluster_answers",
    subject=("topic", "partition"),
    statement="The leader, replicas and ISR that the brokers answer are those of some state in the metadata log.",
    because=line("""
        Every broker takes them from that log. One that tells clients something else sends them to the wrong leader, or
        the captured metadata log is of another cluster or not whole.
    """),
    applies_when="kind = 'leadership'",
    unknown=unless_sound(
        _ELECTED_LATER,
        {
            "changed while copying": Evidence.ONE_MOMENT,
            "metadata log ends before the answer": Evidence.METADATA_LOG,
            "no answer": Evidence.ANSWERS,
        },
    ),
    breach_when=_ELECTED_LATER,
    derived=(
        ("other_before", "CASE WHEN NOT answered_before_text = ANY(recomputed_values) THEN answered_before_text END"),
        ("other_after", "CASE WHEN NOT answered_after_text = ANY(recomputed_values) THEN answered_after_text END"),
        ("epoch_ahead", "CASE WHEN answered_before > recomputed_highest THEN answered_before END"),
    ),
    evidence=("answered_before_text", "answered_after_text", "recomputed_values", "answered_before"),
    explanation=lines("""
        The metadata log knows of {topic}-{partition}, around the answers: {recomputed_values}.
        Before the copy the cluster answered: {other_before}.
        After the copy the cluster answered: {other_after}.
        Its leader answered leader epoch {epoch_ahead}; the metadata log ends at {recomputed_highest}.
    """),
    next="bin/kafka-topics.sh --bootstrap-server <host:port> --describe --topic {topic}",
    points_to="answered_otherwise",
    reference="KRaftMetadataCache#getTopicMetadata",
)
