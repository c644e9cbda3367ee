"""A topic's settings as its log needs them.

In: settings by Kafka's names, of the topic over those of the cluster. Out: a `LogConfig`. What is not said has Kafka's
default; -1 means no limit.
"""

from collections.abc import Mapping
from typing import Final

from tidegauge.sim_engine.log.replica_log import LogConfig

_NUMBERS: Final = {
    "segment.bytes": "segment_bytes",
    "internal.segment.bytes": "segment_bytes",
    "segment.ms": "segment_ms",
    "index.interval.bytes": "index_interval_bytes",
    "segment.index.bytes": "segment_index_bytes",
    "delete.retention.ms": "delete_retention_ms",
    "min.compaction.lag.ms": "min_compaction_lag_ms",
    "file.delete.delay.ms": "file_delete_delay_ms",
}
_LIMITS: Final = {
    "retention.ms": "retention_ms",
    "retention.bytes": "retention_bytes",
    "max.compaction.lag.ms": "max_compaction_lag_ms",
    "local.retention.ms": "local_retention_ms",
    "local.retention.bytes": "local_retention_bytes",
}
_AS_THE_TOPIC: Final = -2
"""Of the local settings: no other limit than the topic's own."""
_UNLIMITED_LAG: Final = 2**63 - 1


def log_config(topic: Mapping[str, str], cluster: Mapping[str, str], *, producer_expiration_ms: int) -> LogConfig:
    """The settings of one topic's logs."""
    said = {**cluster, **topic}
    numbers = {field: int(said[name]) for name, field in _NUMBERS.items() if name in said}
    limits = {
        field: None if int(said[name]) in (-1, _AS_THE_TOPIC, _UNLIMITED_LAG) else int(said[name])
        for name, field in _LIMITS.items()
        if name in said
    }
    policies = said.get("cleanup.policy", "delete").split(",")
    ratio = float(said.get("min.cleanable.dirty.ratio", "0.5"))
    return LogConfig(
        **numbers,
        **limits,  # type: ignore[arg-type]
        compact="compact" in policies,
        delete="delete" in policies,
        remote_storage=said.get("remote.storage.enable") == "true",
        min_cleanable_dirty_ratio=ratio,
        producer_expiration_ms=producer_expiration_ms,
    )
