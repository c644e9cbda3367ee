"""Faults of where logs are kept: a disk without room, a remote tier that lacks what it should hold.

In: a world, its plan, chance. Out: the world afterwards and what was done where. A tier is hurt only where it holds
something, so a tiered partition is written to before, and its brokers get the time to copy.

Source: KIP-405; Kafka RemoteLogManager, LogDirFailureChannel.
"""

from typing import Final

from tidegauge.kafka_log.types import TopicPartition
from tidegauge.sim_engine import actions
from tidegauge.sim_engine.disks.disk_actions import DeleteRemoteSegment, FillDisk, FreeDisk, HurtDisk, LoseRemoteObject
from tidegauge.sim_engine.disks.disk_faults import FaultKind
from tidegauge.sim_engine.engine import run_for, scheduled_all, step
from tidegauge.sim_engine.log.stored_batch import NewRecord
from tidegauge.sim_engine.random_worlds.chance import Chance
from tidegauge.sim_engine.random_worlds.fault_kinds import WorldFault
from tidegauge.sim_engine.random_worlds.plan import Plan
from tidegauge.sim_engine.random_worlds.struck import Blow, Struck, topic_id_of
from tidegauge.sim_engine.world import World

_BATCHES: Final = 40
_COPIED_MS: Final = 30_000
_HALTED_MS: Final = 15_000


def full_disk(world: World, plan: Plan, chance: Chance) -> Blow:
    """There is room for a batch or two more; then the broker halts, in the middle of the next one."""
    broker_id, at_ms = chance.one_of(plan.brokers), world.now_ms
    held = tuple(sorted(world.brokers[broker_id].disk.replicas))
    world = run_for(step(world, FillDisk(broker_id=broker_id, room_bytes=chance.below(400))), _HALTED_MS)
    if chance.percent(50):
        world = step(world, FreeDisk(broker_id=broker_id))
        world = scheduled_all(world, [(world.now_ms + chance.between(200, 9_000), actions.Start(broker_id))])
    return world, (Struck(kind=WorldFault.FULL_DISK, at_ms=at_ms, broker_id=broker_id, partitions=held),)


def remote_tier_gap(world: World, plan: Plan, chance: Chance) -> Blow:
    """Every replica deletes local segments of which no copy was made."""
    partition = _tiered(world, plan)
    if partition is None:
        return world, ()
    world = _written(world, plan, partition)
    at_ms = world.now_ms
    for broker_id in plan.brokers:
        replica = world.brokers[broker_id].disk.replicas.get(partition)
        for _ in replica.log.segments[:-1] if replica is not None else ():
            hurt = HurtDisk(broker_id=broker_id, kind=FaultKind.REMOTE_TIER_GAP, partition=partition)
            world = step(world, hurt)
    return world, (_struck(world, WorldFault.REMOTE_TIER_GAP, partition, at_ms),)


def wrong_remote_deletion(world: World, plan: Plan, chance: Chance) -> Blow:
    """A segment in the middle of the tier is deleted, and the metadata topic tells so."""
    partition = _tiered(world, plan)
    if partition is None:
        return world, ()
    world = run_for(_written(world, plan, partition), _COPIED_MS)
    at_ms = world.now_ms
    world = run_for(step(world, DeleteRemoteSegment(partition=partition)), 3_000)
    return world, (_struck(world, WorldFault.WRONG_REMOTE_DELETION, partition, at_ms),)


def lost_remote_segment(world: World, plan: Plan, chance: Chance) -> Blow:
    """The store loses an object and tells nobody."""
    partition = _tiered(world, plan)
    if partition is None:
        return world, ()
    world = run_for(_written(world, plan, partition), _COPIED_MS)
    topic_id = topic_id_of(world, partition)
    kept = [
        o.about for o in world.remote.objects.values() if (o.about.partition, o.about.topic_id) == (partition, topic_id)
    ]
    if not kept:
        return world, ()
    about = chance.one_of(sorted(kept, key=lambda each: (each.start_offset, each.segment_id)))
    at_ms = world.now_ms
    world = step(world, LoseRemoteObject(partition=partition, offset=about.start_offset))
    struck = Struck(
        kind=WorldFault.LOST_REMOTE_SEGMENT,
        at_ms=at_ms,
        partition=partition,
        topic_id=topic_id,
        start_offset=about.start_offset,
        end_offset=about.end_offset,
        detail=about.segment_id,
    )
    return world, (struck,)


def _tiered(world: World, plan: Plan) -> TopicPartition | None:
    """A tiered partition that is led."""
    for name in sorted(t.name for t in plan.data_topics if t.config.get("remote.storage.enable") == "true"):
        topic = world.controller.image.topics.get(name)
        led = [n for n, p in sorted(topic.partitions.items()) if p.leader >= 0] if topic is not None else []
        if led:
            return TopicPartition(name, led[0])
    return None


def _written(world: World, plan: Plan, partition: TopicPartition) -> World:
    """Some segments more than what the clients write anyway."""
    for number in range(_BATCHES):
        record = NewRecord(timestamp=-1, key=None, value=f"kept {world.now_ms} {number}".encode())
        call = actions.ProduceCall(client=plan.producers[0].client, partition=partition, records=(record,))
        world = run_for(step(world, call), 20)
    return run_for(world, 1_000)


def _struck(world: World, kind: WorldFault, partition: TopicPartition, at_ms: int) -> Struck:
    return Struck(kind=kind, at_ms=at_ms, partition=partition, topic_id=topic_id_of(world, partition))
