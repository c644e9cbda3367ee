"""Which losses a copy must tell, and with which offsets.

In: the world at the copy's moment, and at the beginning and the end of an earlier copy. Out: `ToldLoss` for each range
of committed records that the copy, or the two together, prove to be lost; the others with the reason why nobody can
tell. Batches are compared as the simulator holds them, and a range is promised only where its ends are certain.

    at risk    another replica still holds the records: they lie where Kafka will cut it (D05, D06), up to its log's end
    gone       no replica has them, and the earlier copy had declared them committed: C10, C08
    tiered     they were in the remote tier alone: what is found wrong with the tier tells of them (H03, H07)
"""

from collections.abc import Iterator, Sequence

from tidegauge.kafka_log.types import TopicPartition
from tidegauge.sim_engine.ledger import same_batch
from tidegauge.sim_engine.log.replica_log import ReplicaLog
from tidegauge.sim_engine.log.stored_batch import StoredBatch
from tidegauge.sim_engine.random_worlds.expected import ToldLoss
from tidegauge.sim_engine.scenarios.scenario import Finding, LostRange
from tidegauge.sim_engine.truth import Lost
from tidegauge.sim_engine.world import World

Unseen = tuple[LostRange, str]


def losses_of(
    world: World, earlier: Sequence[World], findings: Sequence[Finding]
) -> tuple[tuple[ToldLoss, ...], tuple[Unseen, ...]]:
    """Of all partitions that there are now. `earlier`: the moments between which an earlier copy was taken, if one was.
    `findings`: what faults must be reported as.
    """
    told: dict[tuple[TopicPartition, int, int], ToldLoss] = {}
    unseen: list[Unseen] = []
    for loss in _standing(world):
        answers = {_told(loss, world, before, findings) for before in earlier or (None,)}
        found = answers.pop() if len(answers) == 1 else "the earlier copy was taken while that came about"
        if isinstance(found, str):
            lost = LostRange(
                partition=loss.partition, start_offset=loss.start_offset, end_offset=loss.end_offset, committed=True
            )
            unseen.append((lost, found))
        else:
            told[found.lost.partition, found.lost.start_offset, found.lost.end_offset] = found
    return tuple(told[key] for key in sorted(told)), tuple(unseen)


def _standing(world: World) -> Iterator[Lost]:
    """Committed losses of topics that have not been deleted since."""
    begun: dict[TopicPartition, int] = {}
    for chosen in world.truth.elections:
        if chosen.kind == "first":
            begun[chosen.partition] = chosen.at_ms
    for loss in world.truth.losses:
        topic = world.controller.image.topics.get(loss.partition.topic)
        if loss.committed and topic is not None and loss.at_ms >= begun.get(loss.partition, 0):
            yield loss


def _told(loss: Lost, world: World, earlier: World | None, findings: Sequence[Finding]) -> ToldLoss | str:
    partition = loss.partition
    logs = _logs(world, partition)
    leader = world.controller.image.topics[partition.topic].partitions[partition.partition].leader
    if any(log.config.compact for log in logs.values()):
        return "its topic is compacted: a cleaner may have taken the records"
    if leader not in logs:
        return "nobody leads the partition"
    if loss.end_offset <= logs[leader].log_start_offset:
        return "retention or DeleteRecords has passed it"
    if loss.start_offset < logs[leader].log_start_offset:
        return "retention or DeleteRecords has passed a part of it"
    if logs[leader].config.remote_storage and loss.end_offset <= logs[leader].segments[0].base_offset:
        span = partition, loss.start_offset, loss.end_offset
        codes = {f.code for f in findings if (f.partition, f.start_offset, f.end_offset) == span}
        return (
            _told_as(*span, *codes)
            if codes
            else "the remote tier has another hole before it, a wider one, or nothing at all"
        )
    for broker_id, log in sorted(logs.items()):
        if broker_id == leader:
            continue
        at_risk = _first_not_held(log, logs[leader], loss.start_offset)
        if at_risk is not None and at_risk < loss.end_offset:
            if at_risk != loss.start_offset:
                return "another replica holds a part of it"
            if _same_epoch(log, logs[leader], at_risk):
                return "its leader has other bytes there, under the same epoch: they are told, and nothing is cut"
            return _told_as(partition, at_risk, log.log_end_offset, "D05", "D06")
    before = _logs(earlier, partition) if earlier is not None else {}
    gone = [run for log in before.values() if (run := _gone(log, logs, loss)) is not None]
    if not gone:
        return "no disk holds the records, and no earlier copy has them"
    start, end = max(gone, key=lambda run: run[1])
    assert earlier is not None
    declared = max(b.disk.high_watermarks.get(partition, 0) for b in earlier.brokers.values())
    if declared < end:
        return "in the earlier copy nothing proves that all of it was committed"
    return _told_as(partition, start, end, "C08", "C10")


def _told_as(partition: TopicPartition, start_offset: int, end_offset: int, *codes: str) -> ToldLoss:
    lost = LostRange(partition=partition, start_offset=start_offset, end_offset=end_offset, committed=True)
    return ToldLoss(lost=lost, codes=frozenset(codes))


def _logs(world: World, partition: TopicPartition) -> dict[int, ReplicaLog]:
    topic = world.controller.image.topics.get(partition.topic)
    found = {b: broker.disk.replicas.get(partition) for b, broker in world.brokers.items()}
    return {b: r.log for b, r in found.items() if r is not None and topic is not None and r.topic_id == topic.topic_id}


def _first_not_held(log: ReplicaLog, leader: ReplicaLog, start_offset: int) -> int | None:
    """The first batch from an offset on that a replica has and the leader has not."""
    held = {b.base_offset: b for b in leader.batches_from(start_offset)}
    for batch in log.batches_from(start_offset):
        other = held.get(batch.base_offset)
        if other is None or not same_batch(batch, other):
            return max(batch.base_offset, start_offset)
    return None


def _same_epoch(log: ReplicaLog, leader: ReplicaLog, offset: int) -> bool:
    """Whether both hold something at an offset that was written under one leader epoch."""
    epochs = [{b.leader_epoch for b in each.batches_from(offset, max_bytes=1)} for each in (log, leader)]
    return bool(epochs[0] & epochs[1])


def _gone(earlier: ReplicaLog, logs: dict[int, ReplicaLog], loss: Lost) -> tuple[int, int] | None:
    """The stretch of lost batches that an earlier log had and no log has now."""

    def is_gone(batch: StoredBatch) -> bool:
        return not any(
            same_batch(batch, b)
            for log in logs.values()
            for b in log.batches_from(batch.base_offset, up_to=batch.last_offset + 1)
        )

    had = earlier.batches_from(loss.start_offset, up_to=loss.end_offset)
    missing = [b for b in had if b.base_offset >= loss.start_offset and is_gone(b)]
    return (missing[0].base_offset, missing[-1].last_offset + 1) if missing else None
