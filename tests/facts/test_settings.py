"""Settings in force: what was set dynamically, what the cluster answered, and what nobody tells."""

import pytest

from tidegauge.facts.metadata.history import MetadataHistory
from tidegauge.facts.metadata.settings import Settings
from tidegauge.snapshots.cluster_answers import (
    BrokerAnswer,
    CapturedAnswers,
    ClusterAnswers,
    ConfigAnswer,
    TopicAnswer,
)

NAME = "min.insync.replicas"


def answers(topic: dict[str, str], *brokers: dict[str, str]) -> CapturedAnswers:
    def static(values: dict[str, str]) -> dict[str, ConfigAnswer]:
        return {name: ConfigAnswer(value=value, source="static") for name, value in values.items()}

    asked = ClusterAnswers(
        started_at_ms=0,
        finished_at_ms=0,
        cluster_id=None,
        controller_id=None,
        brokers=tuple(
            BrokerAnswer(broker_id=n, host="h", port=1, rack=None, configs=static(b)) for n, b in enumerate(brokers)
        ),
        topics=(TopicAnswer(topic="t", topic_id=None, partitions=(), configs=static(topic)),),
        groups=None,
        transactions=None,
    )
    return CapturedAnswers(before=asked, after=None)


def test_nobody_tells_what_a_properties_file_says() -> None:
    settings = Settings(MetadataHistory(), None)
    assert settings.min_insync_replicas("t") is None
    assert settings.of_topic("t", "cleanup.policy") == "delete"
    assert settings.of_brokers("producer.id.expiration.ms", 5) == 5


def test_an_answer_tells_it() -> None:
    settings = Settings(MetadataHistory(), answers({NAME: "2", "cleanup.policy": "compact"}, {NAME: "2"}, {NAME: "2"}))
    assert settings.min_insync_replicas("t") == 2
    assert settings.of_topic("t", "cleanup.policy") == "compact"
    assert settings.min_insync_replicas("another") is None


def test_brokers_with_different_properties_leave_it_unknown() -> None:
    settings = Settings(MetadataHistory(), answers({NAME: "2"}, {NAME: "2"}, {NAME: "1"}))
    assert settings.min_insync_replicas("t") is None


def test_what_the_metadata_log_has_counts_first() -> None:
    history = MetadataHistory(configs={(2, "t"): {NAME: "3"}, (4, ""): {"cleanup.policy": "x"}})
    assert Settings(history, answers({NAME: "2"}, {NAME: "2"})).min_insync_replicas("t") == 3


@pytest.mark.parametrize(
    ("brokers", "expected"),
    [([], 900), ([{"transaction.max.timeout.ms": "60000"}, {"transaction.max.timeout.ms": "30000"}], 30_000)],
)
def test_the_smallest_of_the_brokers_settings(brokers: list[dict[str, str]], expected: int) -> None:
    assert Settings(MetadataHistory(), answers({}, *brokers)).of_brokers("transaction.max.timeout.ms", 900) == expected
