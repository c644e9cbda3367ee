"""A broker's periodic work: checkpoints, retention, cleaning, forgetting producers.

In: a timer. Out: checkpoint files as they are on the disk from now on, logs without what may go, and when the timer is
due again. Between two checkpoints the files are old, and that is what a dead broker leaves.

Source: Kafka ReplicaManager#checkpointHighWatermarks, LogManager#checkpointLogRecoveryOffsets,
#checkpointLogStartOffsets, #cleanupLogs.
"""

from collections.abc import Mapping
from dataclasses import replace

from tidegauge.kafka_log.log_dir import (
    LOG_START_OFFSET_CHECKPOINT,
    RECOVERY_POINT_OFFSET_CHECKPOINT,
    REPLICATION_OFFSET_CHECKPOINT,
)
from tidegauge.kafka_log.types import TopicPartition
from tidegauge.sim_engine.actions import BrokerTick, Timer
from tidegauge.sim_engine.brokers import remote_log_manager
from tidegauge.sim_engine.controllers import metadata_upkeep
from tidegauge.sim_engine.disks import disk_wiring
from tidegauge.sim_engine.files.render import Replica
from tidegauge.sim_engine.log.replica_log import delete_segments, expire_producers
from tidegauge.sim_engine.turn import Turn
from tidegauge.sim_engine.world import Disk


def begin(turn: Turn, broker_id: int) -> None:
    """Starts every timer of a broker that has loaded its logs."""
    running, settings = turn.running(broker_id), turn.settings
    assert running is not None
    delays = {
        Timer.REGISTER: 0,
        Timer.HEARTBEAT: settings.heartbeat_interval_ms,
        Timer.FETCHERS: settings.fetch_backoff_ms,
        Timer.ISR: settings.replica_lag_time_max_ms // 2,
        Timer.HIGH_WATERMARKS: settings.high_watermark_checkpoint_interval_ms,
        Timer.LOG_STARTS: settings.log_start_checkpoint_interval_ms,
        Timer.RECOVERY_POINTS: settings.recovery_point_checkpoint_interval_ms,
        Timer.RETENTION: settings.retention_check_interval_ms,
        Timer.CLEANER: settings.cleaner_backoff_ms,
        Timer.PRODUCERS: settings.producer_expiration_check_interval_ms,
        Timer.COORDINATORS: settings.heartbeat_interval_ms,
    }
    for timer, delay_ms in delays.items():
        turn.after(delay_ms, BrokerTick(broker_id, running.incarnation, timer))


def tick_high_watermarks(turn: Turn, broker_id: int) -> int:
    """Writes replication-offset-checkpoint."""
    disk = turn.broker(broker_id).disk
    disk = replace(disk, high_watermarks={p: r.log.high_watermark for p, r in disk.replicas.items()})
    turn.put_disk(broker_id, written(disk, turn.now_ms, REPLICATION_OFFSET_CHECKPOINT))
    return turn.settings.high_watermark_checkpoint_interval_ms


def tick_recovery_points(turn: Turn, broker_id: int) -> int:
    """Writes recovery-point-offset-checkpoint."""
    disk = turn.broker(broker_id).disk
    points = {p: r.log.flushed_end_offset for p, r in disk.replicas.items()}
    disk = replace(disk, recovery_points=points)
    turn.put_disk(broker_id, written(disk, turn.now_ms, RECOVERY_POINT_OFFSET_CHECKPOINT))
    return turn.settings.recovery_point_checkpoint_interval_ms


def tick_log_starts(turn: Turn, broker_id: int) -> int:
    """Writes log-start-offset-checkpoint; the node's metadata log is looked after as often."""
    disk = metadata_upkeep.cleaned(turn.broker(broker_id).disk, turn.settings, now_ms=turn.now_ms)
    disk = replace(disk, log_starts=log_starts_of(disk.replicas))
    turn.put_disk(broker_id, written(disk, turn.now_ms, LOG_START_OFFSET_CHECKPOINT))
    return turn.settings.log_start_checkpoint_interval_ms


def written(disk: Disk, now_ms: int, *names: str) -> Disk:
    """The disk on which these checkpoint files have just been written."""
    return replace(disk, written_at_ms={**disk.written_at_ms, **dict.fromkeys(names, now_ms)})


def log_starts_of(replicas: Mapping[TopicPartition, Replica]) -> dict[TopicPartition, int]:
    """Logs that start inside their first segment, and tiered ones (LogManager#checkpointLogStartOffsetsInDir)."""
    return {
        p: r.log.log_start_offset
        for p, r in replicas.items()
        if r.log.config.remote_storage or r.log.log_start_offset > r.log.segments[0].base_offset
    }


def tick_retention(turn: Turn, broker_id: int) -> int:
    """Deletes segments that are too old, too many, or below the log start."""
    for partition, replica in sorted(turn.broker(broker_id).disk.replicas.items()):
        if replica.log.config.remote_storage:
            remote_log_manager.retained(turn, broker_id, partition)
        else:
            turn.put_log(broker_id, partition, delete_segments(replica.log, now_ms=turn.now_ms))
    return turn.settings.retention_check_interval_ms


def tick_cleaner(turn: Turn, broker_id: int) -> int:
    """Gives each compacted log to the cleaners."""
    for partition, replica in sorted(turn.broker(broker_id).disk.replicas.items()):
        if replica.log.config.compact:
            disk_wiring.clean(turn, broker_id, partition)
    return turn.settings.cleaner_backoff_ms


def tick_producers(turn: Turn, broker_id: int) -> int:
    """Forgets producers that have been silent for too long."""
    for partition, replica in sorted(turn.broker(broker_id).disk.replicas.items()):
        turn.put_log(broker_id, partition, expire_producers(replica.log, now_ms=turn.now_ms))
    return turn.settings.producer_expiration_check_interval_ms
