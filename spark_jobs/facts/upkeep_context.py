"""What decides how a partition's logs are kept: settings, releases, and what the remote tier's metadata say.

In: the replayed metadata log, the settings in force. Out: `UpkeepContext`, a part of `PartitionContext`. The rule that
must hold: a value that rests on Kafka's default, where a broker's properties may say otherwise, is marked as assumed.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from kafka_log.coordinator_records import RemoteSegment
from spark_jobs.facts.context import Release
from spark_jobs.facts.metadata import TOPIC_RESOURCE, MetadataHistory
from spark_jobs.facts.settings import Settings

_SEGMENT_BYTES: Final = "segment.bytes"
_TESTING_SEGMENT_BYTES: Final = "internal.segment.bytes"
"""What Kafka's own tests set to have segments below the floor of segment.bytes; it goes first (LogConfig)."""
_POLICY: Final = "cleanup.policy"
_CHECK_INTERVAL: Final = ("log.retention.check.interval.ms", 300_000)
_DEFAULT: Final = "default"
_MILLE: Final = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class LogSettings:
    """A topic's settings in force; -1 is without limit. `…_known`: no mere default."""

    retention_ms: int = 604_800_000
    retention_bytes: int = -1
    retention_known: bool = False
    retention_check_interval_ms: int = _CHECK_INTERVAL[1]
    segment_bytes: int = 1 << 30
    segment_bytes_known: bool = False
    segment_bytes_changed_at_ms: int | None = None
    index_interval_bytes: int = 4096
    file_delete_delay_ms: int = 60_000
    delete_retention_ms: int = 86_400_000
    delete_retention_known: bool = False
    cleanable_permille: int = 500
    cleanable_known: bool = False
    compaction_lag_ms: int = 0
    policy_changed_at_ms: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class UpkeepContext:
    """What is known of how a partition's logs are kept. `history_whole`: the metadata log has the topic's creation.

    `oldest_releases`: by broker, the oldest release of Kafka that it ever ran. `remote` are the tier's segments, of
    which `remote_known` says whether they could be read.
    """

    settings: LogSettings = field(default_factory=LogSettings)
    oldest_releases: Mapping[int, Release] = field(default_factory=dict)
    history_whole: bool = False
    remote: tuple[RemoteSegment, ...] = ()
    remote_known: bool = False
    remote_records_whole: bool = False

    def ran_since(self, broker_id: int, release: Release) -> bool | None:
        """Whether a broker never ran anything older than a release; None where its registrations do not tell."""
        oldest = self.oldest_releases.get(broker_id)
        return None if oldest is None else oldest >= release


def log_settings(history: MetadataHistory, settings: Settings, topic: str) -> LogSettings:
    """A topic's settings, as far as they concern how its log is kept."""

    def number(name: str) -> int:
        text = settings.of_topic(topic, name)
        return int(text) if text.lstrip("-").isdigit() else -1

    def assumed(name: str) -> bool:
        return settings.sourced(topic, name).source == _DEFAULT

    def changed_at(name: str) -> int | None:
        return history.config_changed_at_ms.get((TOPIC_RESOURCE, topic, name))

    testing = history.configs.get((TOPIC_RESOURCE, topic), {}).get(_TESTING_SEGMENT_BYTES)
    limit = _TESTING_SEGMENT_BYTES if testing is not None else _SEGMENT_BYTES
    return LogSettings(
        retention_ms=number("retention.ms"),
        retention_bytes=number("retention.bytes"),
        retention_known=not assumed("retention.ms") and not assumed("retention.bytes"),
        retention_check_interval_ms=settings.of_brokers(*_CHECK_INTERVAL),
        segment_bytes=int(testing) if testing is not None and testing.isdigit() else number(_SEGMENT_BYTES),
        segment_bytes_known=testing is not None or not assumed(_SEGMENT_BYTES),
        segment_bytes_changed_at_ms=changed_at(limit),
        index_interval_bytes=number("index.interval.bytes"),
        file_delete_delay_ms=number("file.delete.delay.ms"),
        delete_retention_ms=number("delete.retention.ms"),
        delete_retention_known=not assumed("delete.retention.ms"),
        cleanable_known=not assumed("min.cleanable.dirty.ratio"),
        cleanable_permille=_permille(settings.of_topic(topic, "min.cleanable.dirty.ratio")),
        compaction_lag_ms=number("min.compaction.lag.ms"),
        policy_changed_at_ms=changed_at(_POLICY),
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


def _permille(text: str) -> int:
    try:
        return round(float(text) * _MILLE)
    except ValueError:
        return _MILLE // 2
