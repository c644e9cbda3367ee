"""Settings in force: by the metadata log, and by what the cluster answered.

In: the replayed metadata log, the answers that a snapshot keeps. Out: a topic's and the brokers' settings. What was set
dynamically is in the metadata log, of the same moment as the copy, and counts first; what a broker's properties file
says is in no file of a log dir, so there an answer decides; without one, a default that such a file may change is not
taken for known where it matters.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Final

from tidegauge.facts.metadata.config_history import ConfigChange, SettingCourse, SettingStep, course
from tidegauge.facts.metadata.expiration import Expiration
from tidegauge.facts.metadata.history import (
    BROKER_RESOURCE,
    GROUP_RESOURCE,
    TOPIC_RESOURCE,
    EffectiveConfig,
    MetadataHistory,
    broker_config_of,
    default_of,
    effective_topic_config,
)
from tidegauge.snapshots.cluster_answers import CapturedAnswers, ConfigAnswer

_PRODUCER_EXPIRATION: Final = "producer.id.expiration.ms"
_FROM_THE_CONTROLLER: Final = "eligible.leader.replicas.version"
_MIN_INSYNC_REPLICAS: Final = "min.insync.replicas"
_GOES_FIRST: Final[Mapping[str, str]] = {"segment.bytes": "internal.segment.bytes"}
"""What Kafka's own tests set to have segments below the floor of segment.bytes (LogConfig)."""


class Settings:
    """Settings by topic and by broker. The last answer counts: it is nearest to the end of the copy."""

    def __init__(self, history: MetadataHistory, answers: CapturedAnswers | None) -> None:
        self._history = history
        self._courses: dict[tuple[str, str], SettingCourse] = {}
        self._own_brokers: dict[str, set[str]] = defaultdict(set)
        """Broker config -> the brokers that have had it set dynamically each for itself."""
        for resource_type, resource, name in history.config_changes:
            if resource_type == BROKER_RESOURCE and resource:
                self._own_brokers[name].add(resource)
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
        found = effective_topic_config(self._history, topic, _MIN_INSYNC_REPLICAS)
        if found.source != "default":
            return _integer(found.value)
        answered = self._answered(topic, _MIN_INSYNC_REPLICAS)
        if answered is not None:
            return _integer(answered)
        return _integer(found.value) if self._history.features.get(_FROM_THE_CONTROLLER) else None

    def course(self, topic: str, name: str) -> SettingCourse:
        """What a topic's setting has been since the topic was created, or since the metadata log tells of it."""
        if (topic, name) not in self._courses:
            self._courses[topic, name] = self._course(topic, name)
        return self._courses[topic, name]

    def _course(self, topic: str, name: str) -> SettingCourse:
        changes, birth = self._history.config_changes, self._history.birth_of(topic)
        now = self.sourced(topic, name)
        static, assumed = (now.value, False) if now.source == "answered" else (default_of(name), True)
        if name == _MIN_INSYNC_REPLICAS and self._history.features.get(_FROM_THE_CONTROLLER):
            assumed = False
        shared = changes.get((BROKER_RESOURCE, "", broker_config_of(name)), ())
        own = [changes.get((TOPIC_RESOURCE, topic, each), ()) for each in (_GOES_FIRST.get(name, ""), name)]
        beside = [
            [*own, changes[BROKER_RESOURCE, broker, broker_config_of(name)], shared]
            for broker in sorted(self._own_brokers.get(broker_config_of(name), ()))
        ]
        return course(
            [*own, shared],
            birth,
            static=static,
            static_assumed=assumed,
            beside=tuple(course(layers, birth, static=static, static_assumed=assumed).steps for layers in beside),
        )

    def of_group(self, group: str, name: str, default: str) -> SettingCourse:
        """What a group's setting has been, of those that no broker's properties stand in for (GroupConfig)."""
        changes = self._history.config_changes.get((GROUP_RESOURCE, group, name), ())
        return course([changes], self._history.beginning, static=default, static_assumed=False)

    def levels(self, feature: str) -> SettingCourse:
        """Which levels a feature of the cluster has had, 0 where it has none (KIP-584)."""
        changes = [
            ConfigChange(
                metadata_offset=c.metadata_offset,
                in_force_offset=c.metadata_offset,
                at_ms=c.at_ms,
                value=str(c.level),
            )
            for c in self._history.feature_levels
            if c.name == feature
        ]
        return course([changes], self._history.beginning, static="0", static_assumed=False)

    def of_brokers(self, name: str, default: int) -> int:
        """A broker setting as answered, or set dynamically, else Kafka's default; the smallest where brokers differ."""
        answered = [c[name].value for c in self._brokers.values() if name in c]
        dynamic = [c[name] for (kind, _), c in self._history.configs.items() if kind == BROKER_RESOURCE and name in c]
        known = [_integer(v) for v in answered or dynamic if v is not None]
        return min((v for v in known if v is not None), default=default)

    def producer_expiration(self) -> Expiration:
        """How long brokers remember idle producers: as answered, or as set dynamically; else nothing tells it."""
        changes = self._history.config_changes
        shared = changes.get((BROKER_RESOURCE, "", _PRODUCER_EXPIRATION), ())
        own = self._own_brokers.get(_PRODUCER_EXPIRATION, set())
        if not shared and not own:
            answered = [
                _integer(c[_PRODUCER_EXPIRATION].value or "")
                for c in self._brokers.values()
                if _PRODUCER_EXPIRATION in c
            ]
            known = [value for value in answered if value is not None]
            return Expiration(milliseconds=min(known, default=None))

        def course_of(layers: Sequence[Sequence[ConfigChange]], *beside: tuple[SettingStep, ...]) -> SettingCourse:
            return course(layers, self._history.beginning, static="", static_assumed=True, beside=beside)

        each = [
            course_of([changes[BROKER_RESOURCE, broker, _PRODUCER_EXPIRATION], shared]).steps for broker in sorted(own)
        ]
        return Expiration(course=course_of([shared], *each))

    def _answered(self, topic: str, name: str) -> str | None:
        """As answered; any broker answers for a topic, by its own properties, so not where these differ."""
        own = broker_config_of(name)
        if len({c[own].value for c in self._brokers.values() if own in c}) > 1:
            return None
        configs = self._topics.get(topic, {})
        return configs[name].value if name in configs else None


def _integer(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdigit() else None
