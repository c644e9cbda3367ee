from tidegauge.expectations.evidence import Evidence
from tidegauge.expectations.invariants.shared.answers import OTHER_VALUE, unless_sound
from tidegauge.expectations.model import Invariant, Severity
from tidegauge.expectations.prose import line, lines

INVARIANT = Invariant(
    code="L07",
    key="ANSWERED_CONFIG",
    name="AnsweredConfigInMetadataLog",
    severity=Severity.WARNING,
    relation="cluster_answers",
    subject=("broker_id", "topic", "name"),
    statement=line("""
        A setting that the cluster answers as set on a topic or a broker has that value in the metadata log.
    """),
    because=line("""
        Brokers take these settings from the metadata log. One that runs with another value keeps, deletes or accepts
        records by rules that nobody set.
    """),
    applies_when="kind IN ('topic_config', 'broker_config')",
    unknown=unless_sound(
        OTHER_VALUE,
        {
            "changed while copying": Evidence.ONE_MOMENT,
            "metadata log ends before the answer": Evidence.METADATA_LOG,
            "not listed": Evidence.ANSWERS,
        },
    ),
    breach_when=OTHER_VALUE,
    derived=(
        ("of_topic", "CASE WHEN kind = 'topic_config' THEN topic END"),
        ("of_broker", "CASE WHEN kind = 'broker_config' THEN broker_id END"),
    ),
    evidence=("name", "answered_before_text", "answered_after_text", "recomputed_values"),
    explanation=lines("""
        Topic {of_topic} runs with {name} = {answered_before_text} by the answer before the copy.
        Topic {of_topic} runs with {name} = {answered_after_text} by the answer after the copy.
        Broker {of_broker} runs with {name} = {answered_before_text} by the answer before the copy.
        Broker {of_broker} runs with {name} = {answered_after_text} by the answer after the copy.
        The metadata log has {recomputed_values}.
    """),
    next="bin/kafka-configs.sh --bootstrap-server <host:port> --describe --all --entity-type <topics|brokers>",
    points_to="answered_otherwise",
    reference="ConfigHelper#describeConfigs, ConfigurationControlManager",
)
