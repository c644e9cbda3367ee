"""Share groups in a world: what the leader of a shared partition has its coordinator write down.

In: a call. Out: records in `__share_group_state`, which begin with a snapshot. A state that cannot be appended is not
the coordinator's either.

Who consumes and acknowledges is not played here: only the state that it leaves. Source: Kafka ShareCoordinatorService.
"""

from dataclasses import replace

from tidegauge.sim_engine.coordinators import share_coordinator
from tidegauge.sim_engine.coordinators.coordinator_actions import RecordShareState
from tidegauge.sim_engine.coordinators.coordinator_effects import NONE, Write
from tidegauge.sim_engine.coordinators.share_coordinator import SharePartition, Step
from tidegauge.sim_engine.hosting.hosted import hosted_by, leader_of, put_hosted
from tidegauge.sim_engine.hosting.hosting import append_write
from tidegauge.sim_engine.turn import Turn


def record(turn: Turn, action: RecordShareState) -> None:
    """The partition's leader writes the state; the first time the group gets the partition."""
    image = turn.controller.image
    topic = image.topics.get(action.partition.topic)
    shared = topic.partitions.get(action.partition.partition) if topic is not None else None
    if topic is None or shared is None:
        turn.tell("share", "UNKNOWN_TOPIC_OR_PARTITION", partition=action.partition)
        return
    key = SharePartition(action.group, topic.topic_id, action.partition.partition)
    counts = {name: len(each.partitions) for name, each in image.topics.items()}
    settings = share_coordinator.ShareSettings(partition_count=counts.get("__share_group_state", 1))
    where = share_coordinator.ShareCoordinator(settings=settings).partition_of(key)
    leader = leader_of(image, where)
    if leader is None or leader < 0 or turn.leadership(leader, where) is None:
        turn.tell("share", "COORDINATOR_NOT_AVAILABLE", partition=action.partition)
        return
    now = hosted_by(turn, leader).shares
    if key not in now.partitions.get(where.partition, {}):
        begun = share_coordinator.initialize(now, None, key=key, state_epoch=1, now_ms=turn.now_ms)
        if _done(turn, leader, begun) != NONE:
            return
        now = hosted_by(turn, leader).shares
    wrote = share_coordinator.write_state(
        now,
        None,
        key=key,
        state_epoch=1,
        leader_epoch=shared.leader_epoch,
        start_offset=action.start_offset,
        complete_count=action.complete_count,
        batches=action.batches,
        now_ms=turn.now_ms,
    )
    _done(turn, leader, wrote)


def _done(turn: Turn, broker_id: int, step: Step) -> str:
    coordinator, effects = step
    for effect in effects:
        if isinstance(effect, Write) and (error := append_write(turn, broker_id, effect)) != NONE:
            return error
    put_hosted(turn, broker_id, replace(hosted_by(turn, broker_id), shares=coordinator))
    return NONE
