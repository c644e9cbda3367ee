"""How a world is set up: the protocol that its brokers speak, and their timers.

Nothing flows in or out here: these are values. The defaults are those of Kafka 4.4, but for what a note says.

Source: ReplicationConfigs, ServerLogConfigs, QuorumConfig, KRaftConfigs, RemoteLogManagerConfig.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum


class Generation(IntEnum):
    """What replication did about leader epochs, in the order in which Kafka learned it."""

    HIGH_WATERMARK = 0
    """Before 0.11: a new follower cuts its log at its own high watermark."""
    KIP_101 = 1
    """0.11: it asks the leader where its own newest epoch ended."""
    KIP_279 = 2
    """2.0: the leader answers with the epoch that it knows, and they go on until they have a common one."""
    KIP_320 = 3
    """2.1, and in fetches since 2.7: requests carry the leader epoch, and leaders refuse another one than theirs."""
    ELR = 4
    """4.0 (KIP-966): the controller keeps eligible leader replicas; below min.insync.replicas nothing is committed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """One world's settings. `broker_config` are the cluster's defaults of topic settings, by Kafka's names."""

    generation: Generation = Generation.ELR
    cluster: str = "simulated"
    started_at_ms: int = 1_700_000_000_000
    racks: Mapping[int, str] = field(default_factory=dict)
    broker_config: Mapping[str, str] = field(default_factory=dict)
    heartbeat_interval_ms: int = 2_000
    session_timeout_ms: int = 9_000
    registration_retry_ms: int = 1_000
    load_ms: int = 500
    """How long a broker needs to load its logs; not a setting of Kafka's."""
    replica_lag_time_max_ms: int = 30_000
    fetch_wait_max_ms: int = 500
    fetch_backoff_ms: int = 1_000
    fetch_timeout_ms: int = 3_000
    """When a follower gives up an answer (Kafka: 30 s, but its TCP connection tells it earlier)."""
    fetch_max_bytes: int = 1 << 20
    metadata_timeout_ms: int = 8_000
    controller_request_timeout_ms: int = 5_000
    high_watermark_checkpoint_interval_ms: int = 5_000
    log_start_checkpoint_interval_ms: int = 60_000
    recovery_point_checkpoint_interval_ms: int = 60_000
    retention_check_interval_ms: int = 300_000
    cleaner_backoff_ms: int = 15_000
    producer_expiration_check_interval_ms: int = 600_000
    remote_task_interval_ms: int = 30_000
    """How often a leader looks for segments to copy or to delete (remote.log.manager.task.interval.ms)."""
    remote_transfer_ms: int = 200
    """How long the remote store takes to store or remove a segment; not a setting of Kafka's."""
    metadata_segment_bytes: int = 1 << 30
    metadata_bytes_between_snapshots: int = 20 << 20
    metadata_snapshot_max_interval_ms: int = 3_600_000
    metadata_retention_bytes: int = 100 << 20
    metadata_retention_ms: int = 604_800_000
    formatted_before_4_4: bool = False
    """Nodes that were formatted by an older release keep its bootstrap.checkpoint."""
    preferred_election_interval_ms: int | None = None
    """Kafka's leader.imbalance.check.interval.seconds is 300 s; None leaves it to the operator."""
    no_op_interval_ms: int | None = None
    """A controller writes a record without meaning each 500 ms; None spares a world's queue and log the many."""
    producer_expiration_ms: int = 86_400_000
