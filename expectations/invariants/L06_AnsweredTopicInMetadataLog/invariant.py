from tidegauge.expectations.evidence import Evidence
from tidegauge.expectations.invariants.shared.answers import OTHER_VALUE, unless_sound
from tidegauge.expectations.model import Invariant, Severity
from tidegauge.expectations.prose import lines

INVARIANT = Invariant(
    code="L06",
    key="ANSWERED_TOPIC_ID",
    name="AnsweredTopicInMetadataLog",
    severity=Severity.WARNING,
    relation="cluster_answers",
    subject=("topic",),
    statement="Every topic that the cluster answers is in the metadata log, under the same id.",
    because="A topic that the metadata log lacks, or has under another id, was created somewhere else.",
    applies_when="kind = 'topic'",
    unknown=unless_sound(
        OTHER_VALUE,
        {
            "changed while copying": Evidence.ONE_MOMENT,
            "metadata log ends before the answer": Evidence.METADATA_LOG,
            "no answer": Evidence.ANSWERS,
        },
    ),
    breach_when=OTHER_VALUE,
    derived=(("unknown_topic", "CASE WHEN cardinality(recomputed_values) = 0 THEN topic END"),),
    evidence=("answered_before_text", "answered_after_text", "recomputed_values"),
    explanation=lines("""
        The cluster answered topic {topic} with id {answered_before_text} before the copy.
        The cluster answered topic {topic} with id {answered_after_text} after the copy.
        The metadata log knows that name under the ids {recomputed_values}.
        The metadata log knows no topic {unknown_topic}.
    """),
    next="bin/kafka-topics.sh --bootstrap-server <host:port> --describe --topic {topic}",
    points_to="answered_otherwise",
    reference="KIP-516",
)
