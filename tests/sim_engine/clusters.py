"""Clusters for the tests of the simulator: made, loaded with traffic, broken, and looked at.

In: worlds. Out: worlds, and what their disks hold. The looking is done here in plain terms and not by the ledger, so
that the two can be compared.
"""

import random
from collections.abc import Iterable, Mapping, Sequence

from tidegauge.kafka_log.types import TopicPartition
from tidegauge.sim_engine import actions
from tidegauge.sim_engine.engine import new_world, run_for, scheduled_all, step
from tidegauge.sim_engine.log.stored_batch import NewRecord, StoredBatch
from tidegauge.sim_engine.network import CONTROLLER, Link, broker_node, client_node
from tidegauge.sim_engine.settings import Settings
from tidegauge.sim_engine.truth import digest_of
from tidegauge.sim_engine.world import World

ORDERS = TopicPartition("orders", 0)


def cluster(
    *,
    seed: int = 1,
    brokers: Sequence[int] = (1, 2, 3),
    assignment: Sequence[Sequence[int]] = ((1, 2, 3),),
    config: Mapping[str, str] | None = None,
    settings: Settings | None = None,
) -> World:
    """Brokers that are up, and the topic `orders`."""
    world = run_for(new_world(seed=seed, brokers=brokers, settings=settings), 5_000)
    world = step(world, actions.CreateTopic(name="orders", assignment=assignment, config=config or {}))
    return run_for(world, 1_000)


def values(*texts: str) -> tuple[NewRecord, ...]:
    """Records with these values."""
    return tuple(NewRecord(timestamp=-1, key=None, value=text.encode()) for text in texts)


def said(world: World, client: str, *texts: str, partition: TopicPartition = ORDERS) -> World:
    """The world after a client was told to send these values in one batch."""
    return step(world, actions.ProduceCall(client=client, partition=partition, records=values(*texts)))


def leader(world: World, partition: TopicPartition = ORDERS) -> int:
    """Who leads, as the controller has it."""
    return world.controller.image.topics[partition.topic].partitions[partition.partition].leader


def batches(world: World, broker_id: int, partition: TopicPartition = ORDERS) -> list[StoredBatch]:
    """What a broker holds from its log start on."""
    log = world.brokers[broker_id].disk.replicas[partition].log
    return log.batches_from(log.log_start_offset)


def texts(world: World, broker_id: int, partition: TopicPartition = ORDERS) -> list[str]:
    """The values that a broker holds."""
    return [(r.value or b"").decode() for b in batches(world, broker_id, partition) for r in b.records]


def epochs(world: World, broker_id: int, partition: TopicPartition = ORDERS) -> list[tuple[int, int]]:
    """A broker's leader epochs and where they start."""
    log = world.brokers[broker_id].disk.replicas[partition].log
    return [(e.leader_epoch, e.start_offset) for e in log.epochs]


def cut_off(world: World, left: str, right: str, *, heal: bool = False) -> World:
    """Cuts, or opens, both ways between two nodes."""
    kind = actions.Heal if heal else actions.Cut
    return step(step(world, kind(left, right)), kind(right, left))


def quiet(world: World) -> World:
    """All links are whole, all brokers up, and enough time passes for everybody to catch up."""
    for source, target in sorted(world.network.cuts):
        world = step(world, actions.Heal(source, target))
    world = step(world, actions.SetLink(None, None, Link()))
    for broker_id in sorted(world.brokers):
        world = step(step(world, actions.Resume(broker_id)), actions.Start(broker_id))
    world = run_for(world, 60_000)
    for name, topic in world.controller.image.topics.items():
        for number, partition in topic.partitions.items():
            if partition.leader < 0:
                # Nobody who is in sync is left: an operator takes whom there is.
                world = step(world, actions.Elect(TopicPartition(name, number), unclean=True))
    return run_for(world, 60_000)


def random_faults(
    rng: random.Random, world: World, *, duration_ms: int, clients: Iterable[str], lossy: bool
) -> list[tuple[int, object]]:
    """Brokers die and come back, stand still and go on; links are cut and healed, or lose, double and reorder."""
    events: list[tuple[int, object]] = []
    brokers = sorted(world.brokers)
    nodes = [CONTROLLER, *map(broker_node, brokers), *map(client_node, clients)]
    for _ in range(rng.randrange(2, 8)):
        at_ms = world.now_ms + rng.randrange(duration_ms)
        until_ms = at_ms + rng.choice([300, 2_000, 8_000, 15_000, 40_000])
        broker_id = rng.choice(brokers)
        match rng.choice(["kill", "power", "stop", "pause", "cut", "cut one way", "link"]):
            case "kill":
                events += [(at_ms, actions.Kill(broker_id)), (until_ms, actions.Start(broker_id))]
            case "power":
                events += [(at_ms, actions.PowerCut(broker_id)), (until_ms, actions.Start(broker_id))]
            case "stop":
                events += [(at_ms, actions.Stop(broker_id)), (until_ms, actions.Start(broker_id))]
            case "pause":
                events += [(at_ms, actions.Pause(broker_id)), (until_ms, actions.Resume(broker_id))]
            case "link" if lossy:
                link = Link(delay_ms=rng.randrange(20), jitter_ms=50, lost=300, doubled=300, reordered=500)
                events += [(at_ms, actions.SetLink(None, None, link)), (until_ms, actions.SetLink(None, None, Link()))]
            case "cut":
                left, right = rng.sample(nodes, 2)
                for way in ((left, right), (right, left)):
                    events += [(at_ms, actions.Cut(*way)), (until_ms, actions.Heal(*way))]
            case _:
                left, right = rng.sample(nodes, 2)
                events += [(at_ms, actions.Cut(left, right)), (until_ms, actions.Heal(left, right))]
    return events


def random_traffic(
    rng: random.Random, world: World, *, duration_ms: int, clients: Sequence[str], partitions: Sequence[TopicPartition]
) -> list[tuple[int, object]]:
    """Batches of one to five records, each with a value of its own."""
    events: list[tuple[int, object]] = []
    for number in range(rng.randrange(30, 120)):
        client, moment = rng.choice(clients), rng.randrange(duration_ms)
        made = values(*(f"{client} {moment} {number}.{i}" for i in range(rng.randrange(1, 6))))
        call = actions.ProduceCall(client=client, partition=rng.choice(partitions), records=made)
        events.append((world.now_ms + moment, call))
    return events


def with_events(world: World, events: list[tuple[int, object]]) -> World:
    """The world in which all of this will happen."""
    return scheduled_all(world, sorted(events, key=lambda event: event[0]))


def promises_broken(world: World) -> list[str]:
    """What was acknowledged under acks=all and is not on the leader, though the ledger tells of no loss there."""
    broken = []
    for note in world.truth.acknowledged:
        held = {
            r.offset: digest_of(r.value)
            for b in batches(world, leader(world, note.partition), note.partition)
            for r in b.records
        }
        start = world.brokers[leader(world, note.partition)].disk.replicas[note.partition].log.log_start_offset
        lost = [(each.start_offset, each.end_offset) for each in world.truth.losses if each.partition == note.partition]
        for offset, digest in enumerate(note.digests, note.base_offset):
            known = offset < start or any(a <= offset < b for a, b in lost)
            if note.acks != 0 and held.get(offset) != digest and not known:
                broken.append(f"{note.partition} {offset} acks {note.acks} of {note.client}")
    return broken


def replicas_differ(world: World) -> list[str]:
    """Partitions whose in-sync replicas do not hold the same below the true high watermark."""
    differ = []
    for name, topic in world.controller.image.topics.items():
        for number, image in topic.partitions.items():
            partition = TopicPartition(name, number)
            end = world.truth.high_watermark(partition)
            logs = {b: world.brokers[b].disk.replicas[partition].log for b in image.isr}
            start = max(log.log_start_offset for log in logs.values())
            held = {b: [x.data for x in log.batches_from(start, up_to=end)] for b, log in logs.items()}
            first = held[image.leader]
            differ += [f"{partition} on {b}" for b, data in sorted(held.items()) if data != first]
            committed = [x.data for x in world.truth.lineage(partition).committed if x.last_offset >= start]
            if committed != first:
                differ.append(f"{partition} and the ledger")
    return differ


def said_twice(world: World, partition: TopicPartition) -> list[str]:
    """Values that a leader holds more than once."""
    held = texts(world, leader(world, partition), partition)
    return sorted({text for text in held if held.count(text) > 1})
