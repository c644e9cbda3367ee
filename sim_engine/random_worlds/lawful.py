"""What happens to a sound cluster in its life, and what operators ask of it.

In: a world at a moment, chance. Out: the world with something more in its queue. The rule that must hold: whatever is
done here, Kafka promises to lose nothing of what it declared committed: a broker dies, stops or stands still only while
all replicas of all partitions are in sync and all brokers are up, and everybody is back before the next comes.
"""

from typing import Final

from tidegauge.kafka_log.types import TopicPartition
from tidegauge.sim_engine import actions
from tidegauge.sim_engine.coordinators.coordinator_actions import RecordShareState
from tidegauge.sim_engine.coordinators.share_coordinator import StateBatch
from tidegauge.sim_engine.engine import scheduled_all
from tidegauge.sim_engine.network import Link
from tidegauge.sim_engine.random_worlds.chance import Chance
from tidegauge.sim_engine.random_worlds.plan import Plan
from tidegauge.sim_engine.world import World

_SHARED_AT_A_TIME: Final = 3


def happened(world: World, plan: Plan, chance: Chance) -> World:
    """Something lawful begins now."""
    calls = [_preferred, _reassigned, _configured, _deleted_records, _made_anew, _rough_network, _nothing]
    lives = [_killed, _killed_for_long, _stopped, _paused] if is_whole(world) else []
    return chance.one_of([*calls, *lives, *lives])(world, plan, chance)


def shared(world: World, plan: Plan, chance: Chance) -> World:
    """Share groups get on: what is delivered lies below the high watermark, and the start only rises."""
    for group in plan.share_groups:
        partition = chance.one_of(plan.partitions)
        replicas = [b.disk.replicas[partition].log for b in world.brokers.values() if partition in b.disk.replicas]
        start = max((log.log_start_offset for log in replicas), default=0)
        committed = world.truth.high_watermark(partition)
        if committed - start < _SHARED_AT_A_TIME:
            continue
        first = committed - _SHARED_AT_A_TIME
        batches = (StateBatch(first_offset=first, last_offset=committed - 1, delivery_state=0, delivery_count=1),)
        call = RecordShareState(group=group, partition=partition, start_offset=first, batches=batches)
        world = _later(world, (0, call))
    return world


def is_whole(world: World) -> bool:
    """All brokers run and are known, all replicas are in sync."""
    image = world.controller.image
    return all(
        b.running is not None and b.running.loaded and not b.running.paused and b.running.broker_epoch is not None
        for b in world.brokers.values()
    ) and all(
        set(p.isr) == set(p.replicas) and p.leader >= 0 and not p.adding
        for t in image.topics.values()
        for p in t.partitions.values()
    )


def _later(world: World, *events: tuple[int, object]) -> World:
    return scheduled_all(world, [(world.now_ms + at_ms, action) for at_ms, action in events])


def _killed(world: World, plan: Plan, chance: Chance) -> World:
    """A broker dies and is back before the controller misses it, or not much later."""
    broker = chance.one_of(plan.brokers)
    return _later(world, (0, actions.Kill(broker)), (chance.between(200, 6_000), actions.Start(broker)))


def _killed_for_long(world: World, plan: Plan, chance: Chance) -> World:
    broker = chance.one_of(plan.brokers)
    return _later(world, (0, actions.Kill(broker)), (chance.between(10_000, 16_000), actions.Start(broker)))


def _stopped(world: World, plan: Plan, chance: Chance) -> World:
    broker = chance.one_of(plan.brokers)
    return _later(world, (0, actions.Stop(broker)), (chance.between(3_000, 14_000), actions.Start(broker)))


def _paused(world: World, plan: Plan, chance: Chance) -> World:
    broker = chance.one_of(plan.brokers)
    return _later(world, (0, actions.Pause(broker)), (chance.between(500, 12_000), actions.Resume(broker)))


def _preferred(world: World, plan: Plan, chance: Chance) -> World:
    return _later(world, *((0, actions.Elect(partition)) for partition in plan.partitions))


def _reassigned(world: World, plan: Plan, chance: Chance) -> World:
    """A partition gets as many replicas as it has, some of them on other brokers."""
    partition = chance.one_of(plan.partitions)
    topic = world.controller.image.topics.get(partition.topic)
    if topic is None:
        return world
    replicas = chance.some_of(plan.brokers, len(topic.partitions[partition.partition].replicas))
    return _later(world, (0, actions.Reassign(partition, tuple(replicas))))


def _configured(world: World, plan: Plan, chance: Chance) -> World:
    topic = chance.one_of(plan.data_topics).name
    name, values = chance.one_of(_SETTINGS)
    return _later(world, (0, actions.AlterConfig(topic, name, chance.one_of(values))))


def _deleted_records(world: World, plan: Plan, chance: Chance) -> World:
    """DeleteRecords; Kafka refuses it for a topic that is only compacted."""
    can = [p for p in plan.partitions if "delete" in _policy(plan, p)]
    if not can:
        return world
    partition = chance.one_of(can)
    committed = world.truth.high_watermark(partition)
    before = -1 if chance.percent(20) else chance.below(committed + 1)
    return _later(world, (0, actions.DeleteRecords(partition, before)))


def _made_anew(world: World, plan: Plan, chance: Chance) -> World:
    """A topic is deleted, and another one gets its name."""
    topic, away_ms = chance.one_of(plan.data_topics), chance.between(1_000, 4_000)
    if not is_whole(world):
        # A coordinator that is away meanwhile never learns that the offsets of its groups are void.
        return world
    return _later(world, (0, actions.DeleteTopic(topic.name)), (away_ms, topic))


def _rough_network(world: World, plan: Plan, chance: Chance) -> World:
    link = Link(
        delay_ms=chance.between(1, 20),
        jitter_ms=chance.between(0, 50),
        lost=chance.one_of((0, 100, 300)),
        doubled=chance.one_of((0, 200)),
        reordered=chance.one_of((0, 300)),
    )
    smooth = actions.SetLink(None, None, Link())
    return _later(world, (0, actions.SetLink(None, None, link)), (chance.between(3_000, 12_000), smooth))


def _nothing(world: World, plan: Plan, chance: Chance) -> World:
    return world


def _policy(plan: Plan, partition: TopicPartition) -> str:
    return next(t.config["cleanup.policy"] for t in plan.data_topics if t.name == partition.topic)


_SETTINGS: Final = (
    ("retention.ms", ("20000", "604800000")),
    ("retention.bytes", ("3000", "-1")),
    ("segment.bytes", ("900", "4000", "1073741824")),
    ("index.interval.bytes", ("0", "4096")),
    ("min.insync.replicas", ("1", "2")),
)
