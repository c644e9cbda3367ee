"""A world's disks at this moment, to be rendered.

In: a world. Out: a `BrokerDisk` for each broker. The rule that must hold: what a file says is what the broker had last
written to it, whether the broker is alive or dead.
"""

from sim_engine.dice import uuid_for
from sim_engine.rendering.render import BrokerDisk
from sim_engine.world import World


def disk_of(world: World, broker_id: int) -> BrokerDisk:
    """One broker's log dir."""
    disk = world.brokers[broker_id].disk
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
    )


def snapshot_of(world: World) -> list[BrokerDisk]:
    """Every broker's, dead ones too."""
    return [disk_of(world, broker_id) for broker_id in sorted(world.brokers)]
