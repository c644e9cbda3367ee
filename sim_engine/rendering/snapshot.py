"""A world's disks at this moment, to be rendered.

In: a world. Out: a `BrokerDisk` for each broker. What a file says is what the broker had last written to it, whether
the broker is alive or dead.
"""

from tidegauge.kafka_log.log_dir import PARTITION_METADATA
from tidegauge.sim_engine.brokers.waiting_files import swept
from tidegauge.sim_engine.dice import uuid_for
from tidegauge.sim_engine.files.render import BrokerDisk
from tidegauge.sim_engine.metadata.metadata_snapshot import bootstrap_checkpoint
from tidegauge.sim_engine.world import Disk, World


def disk_of(world: World, broker_id: int) -> BrokerDisk:
    """One broker's log dir."""
    broker = world.brokers[broker_id]
    disk = swept(broker.disk, now_ms=world.now_ms) if broker.running is not None else broker.disk
    return BrokerDisk(
        broker_id=broker_id,
        cluster_id=uuid_for(world.seed, "cluster"),
        directory_id=disk.directory_id,
        replicas=disk.replicas,
        metadata=disk.metadata,
        quorum_leader_id=disk.quorum_leader_id,
        quorum_leader_epoch=disk.quorum_leader_epoch,
        high_watermarks=disk.high_watermarks,
        recovery_points=disk.recovery_points,
        log_starts=disk.log_starts,
        cleaner_offsets=disk.cleaner_offsets,
        clean_broker_epoch=disk.clean_broker_epoch,
        renamed=disk.renamed,
        metadata_snapshots=disk.metadata_snapshots,
        bootstrap=_bootstrap(world),
        written_at_ms={**disk.written_at_ms, **_created(disk)},
        other_files={waiting.path: waiting.data for waiting in disk.waiting_files},
    )


def _created(disk: Disk) -> dict[str, int]:
    """partition.metadata is written when a log is made, and never again."""
    return {
        f"{partition}/{PARTITION_METADATA}": replica.created_at_ms
        for partition, replica in disk.replicas.items()
        if replica.created_at_ms is not None
    }


def _bootstrap(world: World) -> bytes | None:
    settings = world.settings
    return bootstrap_checkpoint(formatted_at_ms=settings.started_at_ms) if settings.formatted_before_4_4 else None


def snapshot_of(world: World) -> list[BrokerDisk]:
    """Every broker's, dead ones too."""
    return [disk_of(world, broker_id) for broker_id in sorted(world.brokers)]
