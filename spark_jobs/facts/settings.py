"""Settings in force: by the metadata log, and by what the cluster answered.

In: the replayed metadata log, the answers that a snapshot keeps. Out: a topic's and the brokers' settings. The rule
that must hold: what was set dynamically is in the metadata log, of the same moment as the copy, and counts first; what
a broker's properties file says is in no file of a log dir, so there an answer decides; without one, a default that such
a file may change is not taken for known where it matters.
"""

from collections.abc import Mapping

from snapshots.cluster_answers import CapturedAnswers, ConfigAnswer
from spark_jobs.facts.metadata import EffectiveConfig, MetadataHistory, broker_config_of, effective_topic_config

_BROKER_RESOURCE = 4
_FROM_THE_CONTROLLER = "eligible.leader.replicas.version"


class Settings:
    """Settings by topic and by broker. The last answer counts: it is nearest to the end of the copy."""

    def __init__(self, history: MetadataHistory, answers: CapturedAnswers | None) -> None:
        self._history = history
        self._topics: dict[str, Mapping[str, ConfigAnswer]] = {}
        self._brokers: dict[int, Mapping[str, ConfigAnswer]] = {}
        for asked in (answers.before, answers.after) if answers is not None else ():
            if asked is not None:
                self._topics.update({t.topic: t.configs for t in asked.topics if t.configs is not None})
                self._brokers.update({b.broker_id: b.configs for b in asked.brokers if b.configs is not None})

    def of_topic(self, topic: str, name: str) -> str:
        """A topic's setting."""
        return self.sourced(topic, name).value

    def sourced(self, topic: str, name: str) -> EffectiveConfig:
        """A topic's setting with where it comes from: topic, broker, answered, or Kafka's default."""
        found = effective_topic_config(self._history, topic, name)
        answered = self._answered(topic, name) if found.source == "default" else None
        return found if answered is None else EffectiveConfig(value=answered, source="answered")

    def min_insync_replicas(self, topic: str) -> int | None:
        """The effective min.insync.replicas; None where a broker's properties may say otherwise than Kafka's default.

        With eligible leader replicas on, the controller keeps the cluster's value in the metadata log (KIP-966).
        """
        found = effective_topic_config(self._history, topic, "min.insync.replicas")
        if found.source != "default":
            return _integer(found.value)
        answered = self._answered(topic, "min.insync.replicas")
        if answered is not None:
            return _integer(answered)
        return _integer(found.value) if self._history.features.get(_FROM_THE_CONTROLLER) else None

    def of_brokers(self, name: str, default: int) -> int:
        """A broker setting as answered, or set dynamically, else Kafka's default; the smallest where brokers differ."""
        answered = [c[name].value for c in self._brokers.values() if name in c]
        dynamic = [c[name] for (kind, _), c in self._history.configs.items() if kind == _BROKER_RESOURCE and name in c]
        known = [_integer(v) for v in answered or dynamic if v is not None]
        return min((v for v in known if v is not None), default=default)

    def _answered(self, topic: str, name: str) -> str | None:
        """As answered; any broker answers for a topic, by its own properties, so not where these differ."""
        own = broker_config_of(name)
        if len({c[own].value for c in self._brokers.values() if own in c}) > 1:
            return None
        configs = self._topics.get(topic, {})
        return configs[name].value if name in configs else None


def _integer(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdigit() else None
