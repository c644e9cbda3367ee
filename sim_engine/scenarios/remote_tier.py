"""A hole between the remote tier and the local log.

In: a seed. Out: the story's moments. Source: KIP-405; Kafka RemoteLogManager,
UnifiedLog#isSegmentEligibleForDeletion.
"""

from dataclasses import replace
from typing import Final

from kafka_log.types import TopicPartition
from sim_engine import actions
from sim_engine.dice import uuid_for
from sim_engine.engine import run_for, step
from sim_engine.faults.disk_actions import HurtDisk
from sim_engine.faults.disk_faults import FaultKind
from sim_engine.log.remote_metadata import (
    RemoteState,
    RemoteView,
    metadata_partition,
    moved,
    segment_record,
    update_record,
)
from sim_engine.log.stored_batch import NewRecord
from sim_engine.log.tiering import copied, gaps
from sim_engine.scenarios.scenario import Moment, Played, Scenario
from sim_engine.scenarios.stage import (
    CHECKPOINTED_MS,
    ORDERS,
    SETTLED_MS,
    A,
    B,
    C,
    cluster,
    numbered,
    with_producer,
)
from sim_engine.world import World

_METADATA: Final = "__remote_log_metadata"
_METADATA_PARTITIONS: Final = 1
_TIERED: Final = {"segment.bytes": "1000", "remote.storage.enable": "true"}


def remote_tier_gap(seed: int) -> Played:
    """A tiered topic on A, B and C, with segments of 40 records. The first segment is copied to the tier; A, B and C
    delete it from their disks, and the second one too, of which no copy was ever made.

    Truth: the records of the second segment are neither in the tier nor on any disk, though the log starts at 0: who
    reads from the beginning gets stuck there.

    An audit finds nothing: no invariant compares the tier's metadata with local logs.
    """
    world = cluster(seed, config=_TIERED, others=(_metadata_topic(),))
    world = run_for(numbered(with_producer(world, "app"), "app", 0, 200), CHECKPOINTED_MS)
    world = _with_first_segment_in_tier(world)
    for _ in range(2):
        for broker_id in (A, B, C):
            world = step(world, HurtDisk(broker_id=broker_id, kind=FaultKind.REMOTE_TIER_GAP, partition=ORDERS))
    moment = Moment(
        name="gap",
        what="The second segment is nowhere.",
        world=run_for(world, CHECKPOINTED_MS),
        unseen="Coverage of the tier is judged by no invariant (family H is not in the catalogue).",
    )
    return Played((moment,))


def remote_gaps(world: World, broker_id: int) -> list[tuple[int, int]]:
    """What neither a broker nor the tier holds, from the log start on."""
    return gaps(world.brokers[broker_id].disk.replicas[ORDERS].log, view_of(world), ORDERS)


def view_of(world: World) -> RemoteView:
    """What the tier's metadata tell, as A holds them."""
    log = world.brokers[A].disk.replicas[TopicPartition(_METADATA, 0)].log
    view = RemoteView()
    for batch in log.batches_from(0):
        for record in batch.records:
            view = view.read(record.value or b"")
    return view


def _metadata_topic() -> actions.CreateTopic:
    return actions.CreateTopic(name=_METADATA, assignment=((A, B, C),) * _METADATA_PARTITIONS)


def _with_first_segment_in_tier(world: World) -> World:
    """A copies the first segment: the metadata say that it has begun, and that it is finished."""
    replica = world.brokers[A].disk.replicas[ORDERS]
    stored = copied(
        replica.log,
        replica.log.segments[0],
        partition=ORDERS,
        topic_id=replica.topic_id,
        segment_id=uuid_for(world.seed, "first segment"),
        broker_id=A,
        now_ms=world.now_ms,
    )
    finished = moved(stored.about, RemoteState.COPY_SEGMENT_FINISHED, broker_id=A, now_ms=world.now_ms + SETTLED_MS)
    where = TopicPartition(_METADATA, metadata_partition(replica.topic_id, ORDERS.partition, _METADATA_PARTITIONS))
    world = with_producer(world, "tier")
    for record in (segment_record(stored.about), update_record(finished)):
        world = run_for(_told(world, where, record), SETTLED_MS)
    return world


def _told(world: World, where: TopicPartition, record: NewRecord) -> World:
    said = replace(record, timestamp=world.now_ms)
    return step(world, actions.ProduceCall(client="tier", partition=where, records=(said,)))


SCENARIOS: Final = (
    Scenario(
        name="remote-tier-gap", about="records are neither in the remote tier nor on any disk", play=remote_tier_gap
    ),
)
