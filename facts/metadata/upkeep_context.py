"""What decides how a partition's logs are kept: settings, releases, and what the remote tier's metadata say.

In: the replayed metadata log, the settings and their history. Out: `UpkeepContext`, a part of `PartitionContext`. A
value that rests on Kafka's default, where a broker's properties may say otherwise, is marked as assumed; and the past
is judged by the values of then.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from tidegauge.facts.metadata.config_history import EVER, SettingCourse, SettingStep, Since
from tidegauge.facts.metadata.history import COMPACT, TOPIC_RESOURCE, MetadataHistory, default_of
from tidegauge.facts.metadata.releases import Release
from tidegauge.facts.metadata.settings import Settings
from tidegauge.kafka_log.coordinator_records import RemoteSegment

POLICY: Final = "cleanup.policy"
RETENTION_MS: Final = "retention.ms"
RETENTION_BYTES: Final = "retention.bytes"
SEGMENT_BYTES: Final = "segment.bytes"
INDEX_INTERVAL_BYTES: Final = "index.interval.bytes"
DELETE_RETENTION_MS: Final = "delete.retention.ms"
CLEANABLE_RATIO: Final = "min.cleanable.dirty.ratio"
COMPACTION_LAG_MS: Final = "min.compaction.lag.ms"
REMOTE_STORAGE: Final = "remote.storage.enable"
_FOLLOWED: Final = (
    POLICY,
    RETENTION_MS,
    RETENTION_BYTES,
    SEGMENT_BYTES,
    INDEX_INTERVAL_BYTES,
    DELETE_RETENTION_MS,
    CLEANABLE_RATIO,
    COMPACTION_LAG_MS,
    REMOTE_STORAGE,
)
_TESTING_SEGMENT_BYTES: Final = "internal.segment.bytes"
_CHECK_INTERVAL: Final = ("log.retention.check.interval.ms", 300_000)
_MILLE: Final = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class LogSettings:
    """A topic's settings, in force now and in the past; -1 is without limit. `…_known`: no mere default.

    What a broker did, it did under the value of then: whoever looks back asks the `courses`, by the setting's name.
    """

    retention_check_interval_ms: int = _CHECK_INTERVAL[1]
    segment_bytes_changed_at_ms: int | None = None
    courses: Mapping[str, SettingCourse] = field(default_factory=dict)

    def smallest(self, name: str, since: Since = EVER) -> int:
        """Of the limits that were in force since then the one that leaves least."""
        return min((v for v in self.numbers(name, since) if v >= 0), default=-1)

    def largest(self, name: str, since: Since = EVER) -> int:
        """Of the limits that were in force since then the one that leaves most."""
        values = self.numbers(name, since)
        return -1 if min(values) < 0 else max(values)

    def numbers(self, name: str, since: Since = EVER) -> tuple[int, ...]:
        """The values that were in force since then."""
        return self.of(name).numbers(since)

    def permilles(self, name: str, since: Since = EVER) -> tuple[int, ...]:
        """The same of a ratio, in thousandths."""
        return tuple(_permille(step.value) for step in self.of(name).in_force(since))

    @property
    def compact_since_ms(self) -> int | None:
        """Since when the policy has been one of compaction, when it last became one; None where no record tells."""
        found, compact = None, False
        for step in self.of(POLICY).in_force():
            became = COMPACT in step.value and not compact
            found, compact = (step.since_ms if became else found), COMPACT in step.value
        return found

    def known(self, *names: str, since: Since = EVER) -> bool:
        """Whether none of the values since then is a mere default."""
        return all(self.of(name).known(since) for name in names)

    def reaches(self, *names: str, since: Since = EVER) -> bool:
        """Whether all values since then are on record."""
        return all(self.of(name).reaches(since) for name in names)

    def of(self, name: str) -> SettingCourse:
        """A setting's course; where nobody has looked at the metadata log, Kafka's default, and nothing is known."""
        return self.courses.get(name) or _nothing_known(name)


@dataclass(frozen=True, slots=True, kw_only=True)
class UpkeepContext:
    """What is known of how a partition's logs are kept. `history_whole`: the metadata log has the topic's creation, and
    all that was set since. `metadata_end_offset`: where that log ends.

    `oldest_releases`: by broker, the oldest release of Kafka that it ever ran. `remote` are the tier's segments, of
    which `remote_known` says whether they could be read.
    """

    settings: LogSettings = field(default_factory=LogSettings)
    oldest_releases: Mapping[int, Release] = field(default_factory=dict)
    history_whole: bool = False
    metadata_end_offset: int | None = None
    remote: tuple[RemoteSegment, ...] = ()
    remote_known: bool = False
    remote_records_whole: bool = False

    def ran_since(self, broker_id: int, release: Release) -> bool | None:
        """Whether a broker never ran anything older than a release; None where its registrations do not tell."""
        oldest = self.oldest_releases.get(broker_id)
        return None if oldest is None else oldest >= release


def log_settings(history: MetadataHistory, settings: Settings, topic: str) -> LogSettings:
    """A topic's settings, as far as they concern how its log is kept."""
    own = history.configs.get((TOPIC_RESOURCE, topic), {})
    limit = _TESTING_SEGMENT_BYTES if _TESTING_SEGMENT_BYTES in own else SEGMENT_BYTES
    return LogSettings(
        retention_check_interval_ms=settings.of_brokers(*_CHECK_INTERVAL),
        segment_bytes_changed_at_ms=history.config_changed_at_ms(TOPIC_RESOURCE, topic, limit),
        courses={name: settings.course(topic, name) for name in _FOLLOWED},
    )


def oldest_releases(history: MetadataHistory) -> Mapping[int, Release]:
    """By broker the oldest release that it registered with; not of brokers with a registration that does not tell."""
    found = {}
    for broker_id, registrations in history.registrations.items():
        releases = [r.release for r in registrations]
        known = [r for r in releases if r is not None]
        if known and len(known) == len(releases):
            found[broker_id] = min(known)
    return found


def _nothing_known(name: str) -> SettingCourse:
    step = SettingStep(value=default_of(name), assumed=True, since_offset=0, since_ms=None)
    return SettingCourse(steps=(step,), from_offset=0, from_ms=None, whole=False)


def _permille(text: str) -> int:
    try:
        return round(float(text) * _MILLE)
    except ValueError:
        return _MILLE // 2
