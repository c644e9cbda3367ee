"""The remote tier, and what can be missing there.

In: a seed. Out: the story's moments. Source: KIP-405; Kafka RemoteLogManager,
UnifiedLog#isSegmentEligibleForDeletion.
"""

from typing import Final

from tidegauge.kafka_log.internal_topics import REMOTE_LOG_METADATA
from tidegauge.kafka_log.types import TopicPartition
from tidegauge.sim_engine import actions
from tidegauge.sim_engine.disks.disk_actions import DeleteRemoteSegment, HurtDisk, LoseRemoteObject
from tidegauge.sim_engine.disks.disk_faults import FaultKind
from tidegauge.sim_engine.engine import run_for, step
from tidegauge.sim_engine.log.remote_metadata import RemoteView
from tidegauge.sim_engine.scenarios.scenario import Moment, Played, Scenario
from tidegauge.sim_engine.scenarios.stage import (
    CHECKPOINTED_MS,
    ORDERS,
    A,
    B,
    C,
    cluster,
    found,
    killed,
    lost,
    numbered,
    started,
    with_next_producer,
    with_producer,
)
from tidegauge.sim_engine.world import World

_METADATA_PARTITIONS: Final = 1
_TIERED: Final = {"segment.bytes": "1000", "remote.storage.enable": "true"}
_SHORT: Final = {**_TIERED, "local.retention.bytes": "1500"}
_COPIED_MS: Final = 70_000
"""Two rounds of the leader's RemoteLogManager."""
_RETAINED_MS: Final = 400_000
"""Local retention has come by, too."""


def remote_tier_gap(seed: int) -> Played:
    """A tiered topic on A, B and C, with segments of 40 records. A writes 0-119 and copies the first two segments to
    the tier. 120-199 follow. Before A's RemoteLogManager comes by again, A, B and C delete their first three segments,
    and of the third no copy was ever made.

    Truth: the records 80-119 are neither in the tier nor on any disk, though the log starts at 0: who reads from the
    beginning gets stuck there. They are lost as the leader deletes them.

    An audit finds that each broker's local log begins above the end of the tier (H06), and the hole (H03).
    """
    world = with_producer(cluster(seed, config=_TIERED, others=(_metadata_topic(),)), "app")
    world = run_for(numbered(world, "app", 0, 120), _COPIED_MS)
    world = numbered(world, "app", 120, 200)
    for _ in range(3):
        for broker_id in (A, B, C):
            world = step(world, HurtDisk(broker_id=broker_id, kind=FaultKind.REMOTE_TIER_GAP, partition=ORDERS))
    moment = Moment(
        name="gap",
        what="The third segment is nowhere.",
        world=run_for(world, CHECKPOINTED_MS),
        losses=(lost(80, 120),),
        findings=tuple(found(code, broker_id, 80, 120) for code in ("H03", "H06") for broker_id in (A, B, C)),
    )
    return Played((moment,))


def remote_tier_deletion(seed: int) -> Played:
    """A tiered topic on A, B and C, of which all keep only the newest segments; 0-199 are written, and the older ones
    are in the tier alone. A deletes one of them from the middle, as a tool with a wrong idea of the log start would.

    Truth: the records 40-79 are lost when the object is removed. The metadata topic tells of the deletion, and the log
    still starts at 0.

    An audit finds the hole between the log start and the local log, on each broker (H03).
    """
    world = step(_mostly_remote(seed), DeleteRemoteSegment(partition=ORDERS))
    moment = Moment(
        name="deleted",
        what="A segment in the middle of the tier was deleted.",
        world=run_for(world, CHECKPOINTED_MS),
        losses=(lost(40, 80),),
        findings=tuple(found("H03", broker_id, 40, 80) for broker_id in (A, B, C)),
    )
    return Played((moment,))


def remote_object_lost(seed: int) -> Played:
    """A tiered topic on A, B and C, of which all keep only the newest segments; 0-199 are written, and the older ones
    are in the tier alone. The remote store loses the object of the first segment. B's disk is replaced, and B begins
    anew behind the tier.

    Truth: the records 0-39 are lost with the object. B has its log from where the tier ends, with epochs and producers
    from the tier, and is in sync.

    An audit finds that the first segment has no files in the remote store (H07), which lies beside the snapshot.
    """
    world = step(_mostly_remote(seed), LoseRemoteObject(partition=ORDERS, offset=0))
    world = step(killed(world, B), actions.Wipe(B))
    moment = Moment(
        name="lost",
        what="The store lacks the first segment; B began behind the tier.",
        world=run_for(started(world, B), CHECKPOINTED_MS),
        losses=(lost(0, 40),),
        findings=(found("H07", None, 0, 40),),
    )
    return Played((moment,))


def remote_tier_unclean_election(seed: int) -> Played:
    """A tiered topic on A and B, unclean elections on. Both hold 0-99. B is stopped; A goes on alone to 199, and copies
    what it closes. A dies, B is elected uncleanly, takes 100 records of its own at 100-199, and copies them in turn.

    Truth: the committed records 100-199 of A are lost as B is elected. Copies of most of them are in the tier, under an
    epoch that B's log ends at 100; nobody reads them there.

    An audit finds the unclean election (K07) and what it gave up (D18), that A holds 100 records which it will cut
    (D05), that they had been declared committed (D06), and that A and B differ in what both had declared so (D02);
    beside the ledger, that B lacks what was acknowledged (D19).
    """
    config = {**_TIERED, "unclean.leader.election.enable": "true"}
    world = cluster(seed, assignment=((A, B),), config=config, others=(_metadata_topic(),))
    world = numbered(with_producer(world, "app"), "app", 0, 100)
    world = run_for(step(world, actions.Stop(B)), 10_000)
    world = run_for(numbered(world, "app", 100, 200), _COPIED_MS)
    world = with_next_producer(started(killed(world, A), B), "app-2")
    world = run_for(numbered(world, "app-2", 300, 400), _COPIED_MS)
    moment = Moment(
        name="elected",
        what="B leads; the tier holds two copies of offsets 80-199, of different lineages.",
        world=world,
        losses=(lost(100, 200),),
        findings=(
            found("D02", A, 100, 200),
            found("D05", A, 100, 200),
            found("D06", A, 100, 200),
            found("D18"),
            found("D19", None, 100, 200),
            found("K07"),
        ),
    )
    return Played((moment,))


def view_of(world: World) -> RemoteView:
    """What the tier's metadata tell, as C holds them."""
    log = world.brokers[C].disk.replicas[TopicPartition(REMOTE_LOG_METADATA, 0)].log
    view = RemoteView()
    for batch in log.batches_from(0):
        for record in batch.records:
            view = view.read(record.value or b"")
    return view


def _mostly_remote(seed: int) -> World:
    """0-199 are written and copied, but for the active segment; locally the newest ones are kept."""
    world = with_producer(cluster(seed, config=_SHORT, others=(_metadata_topic(),)), "app")
    return run_for(numbered(world, "app", 0, 200), _RETAINED_MS)


def _metadata_topic() -> actions.CreateTopic:
    config = {"remote.storage.enable": "false", "retention.ms": "-1", "cleanup.policy": "delete"}
    assignment = ((C, A, B),) * _METADATA_PARTITIONS
    return actions.CreateTopic(name=REMOTE_LOG_METADATA, assignment=assignment, config=config)


SCENARIOS: Final = (
    Scenario(
        name="remote-tier-gap", about="records are neither in the remote tier nor on any disk", play=remote_tier_gap
    ),
    Scenario(
        name="remote-tier-deletion",
        about="a segment in the middle of the remote tier is deleted",
        play=remote_tier_deletion,
    ),
    Scenario(
        name="remote-object-lost", about="the remote store loses an object and tells nobody", play=remote_object_lost
    ),
    Scenario(
        name="remote-tier-unclean-election",
        about="copies of what an unclean election gave up stay in the remote tier",
        play=remote_tier_unclean_election,
    ),
)
