"""What a leader gives a follower that fetches, at once or when there is something to give.

In: a turn, a fetch. Out: batches up to the log end, an error, or where the follower has to cut its log first. A fetch
that waits is answered as soon as a batch is appended, or when its time is up.
"""

from dataclasses import replace

from tidegauge.kafka_log.types import TopicPartition
from tidegauge.sim_engine.actions import HoldExpired
from tidegauge.sim_engine.brokers import tier_reads
from tidegauge.sim_engine.log.replica_log import ReplicaLog
from tidegauge.sim_engine.log.stored_batch import StoredBatch, readable
from tidegauge.sim_engine.log.truncation import diverges
from tidegauge.sim_engine.messages import NONE, FetchedPartition, FetchPartition, FetchRequest, FetchResponse
from tidegauge.sim_engine.settings import Generation
from tidegauge.sim_engine.turn import Turn
from tidegauge.sim_engine.world import HeldFetch, Leadership


def serve_held(turn: Turn, broker_id: int, partition: TopicPartition) -> None:
    """Answers followers that waited for this partition."""
    running = turn.running(broker_id)
    assert running is not None
    for follower, held in sorted(running.held_fetches.items()):
        if any(p.partition == partition for p in held.request.partitions):
            _answer_held(turn, broker_id, follower, held)


def hold_expired(turn: Turn, action: HoldExpired) -> None:
    """A follower has waited for long enough: it gets an answer without batches."""
    running = turn.running(action.broker_id)
    if running is None or running.incarnation != action.incarnation:
        return
    held = running.held_fetches.get(action.follower)
    if held is not None and held.request.correlation == action.correlation:
        _answer_held(turn, action.broker_id, action.follower, held)


def _answer_held(turn: Turn, broker_id: int, follower: int, held: HeldFetch) -> None:
    running = turn.running(broker_id)
    assert running is not None
    left = {k: v for k, v in running.held_fetches.items() if k != follower}
    turn.put_running(broker_id, replace(running, held_fetches=left))
    answer(turn, broker_id, held.source, held.request, read(turn, broker_id, held.request))


def answer(
    turn: Turn, broker_id: int, source: str, request: FetchRequest, fetched: tuple[FetchedPartition, ...]
) -> None:
    """Sends what was read to the follower."""
    response = FetchResponse(correlation=request.correlation, leader=broker_id, partitions=fetched)
    turn.from_broker(broker_id, source, response)


def is_something(fetched: tuple[FetchedPartition, ...]) -> bool:
    """Whether a fetch is answered at once: there are batches, an error, or a place to cut."""
    return any(f.batches or f.error != NONE or f.diverging is not None for f in fetched)


def read(turn: Turn, broker_id: int, request: FetchRequest) -> tuple[FetchedPartition, ...]:
    """What a fetch finds in each partition that it asks for, in order."""
    running = turn.running(broker_id)
    assert running is not None
    replicas = turn.broker(broker_id).disk.replicas
    left = turn.settings.fetch_max_bytes
    fetched = []
    for asked in request.partitions:
        leadership = running.leading.get(asked.partition)
        if leadership is None:
            error = "NOT_LEADER_OR_FOLLOWER"
            fetched.append(FetchedPartition(asked.partition, asked.fetch_offset, -1, error))
            continue
        found = _read_one(turn.generation, leadership, replicas[asked.partition].log, asked, left)
        left -= sum(b.size_bytes for b in found.batches)
        fetched.append(found)
    return tuple(fetched)


def _read_one(
    generation: Generation, leadership: Leadership, log: ReplicaLog, asked: FetchPartition, max_bytes: int
) -> FetchedPartition:
    def refused(error: str) -> FetchedPartition:
        return FetchedPartition(
            asked.partition,
            asked.fetch_offset,
            leadership.leader_epoch,
            error,
            (),
            log.high_watermark,
            log.log_start_offset,
            log.log_end_offset,
        )

    if generation >= Generation.KIP_320:
        if asked.current_leader_epoch != leadership.leader_epoch:
            older = asked.current_leader_epoch < leadership.leader_epoch
            return refused("FENCED_LEADER_EPOCH" if older else "UNKNOWN_LEADER_EPOCH")
        if (
            path := diverges(log, fetch_offset=asked.fetch_offset, last_fetched_epoch=asked.last_fetched_epoch)
        ) is not None:
            return replace(refused(NONE), diverging=path)
    if not log.log_start_offset <= asked.fetch_offset <= log.log_end_offset:
        return refused("OFFSET_OUT_OF_RANGE")
    if tier_reads.is_in_tier(log, asked.fetch_offset):
        return replace(refused(tier_reads.MOVED_TO_TIER), local_start=tier_reads.local_start(log))
    batches: tuple[StoredBatch, ...] = ()
    if asked.fetch_offset < log.log_end_offset and max_bytes > 0:
        batches = readable(log.batches_from(asked.fetch_offset, max_bytes=max_bytes))
    return FetchedPartition(
        asked.partition,
        asked.fetch_offset,
        leadership.leader_epoch,
        NONE,
        batches,
        log.high_watermark,
        log.log_start_offset,
        log.log_end_offset,
    )
