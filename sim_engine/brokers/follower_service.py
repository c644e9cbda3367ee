"""What a leader does for those who read from it: followers, and consumers.

In: their fetches. Out: batches, or why there are none; and what the leader now knows of its followers. A fetch says
that the follower has all below its offset, so it is only believed if epoch and offset lie on the leader's own path; the
high watermark in an answer is the one from before the fetch was counted.

Source: Kafka Partition#fetchRecords, #updateFollowerFetchState, Replica#updateFetchStateOrThrow, DelayedFetch.
"""

from dataclasses import replace

from tidegauge.kafka_log.types import TopicPartition
from tidegauge.sim_engine.actions import HoldExpired
from tidegauge.sim_engine.brokers import held_fetches, leader_role, tier_reads
from tidegauge.sim_engine.log.replica_log import ReplicaLog
from tidegauge.sim_engine.log.stored_batch import StoredBatch, readable
from tidegauge.sim_engine.log.truncation import epoch_end
from tidegauge.sim_engine.messages import (
    NONE,
    ConsumeRequest,
    ConsumeResponse,
    EpochEndRequest,
    EpochEndResponse,
    FetchPartition,
    FetchRequest,
)
from tidegauge.sim_engine.settings import Generation
from tidegauge.sim_engine.turn import Turn
from tidegauge.sim_engine.world import FollowerState, HeldFetch, Running


def follower_fetch(turn: Turn, broker_id: int, source: str, request: FetchRequest) -> None:
    """A follower asks for what comes next; what it has moves the high watermark."""
    running = turn.running(broker_id)
    assert running is not None
    number = (request.broker_epoch, request.correlation)
    if number <= running.last_fetches.get(request.follower, (-2, -1)):
        return
    fetched = held_fetches.read(turn, broker_id, request)
    leading = dict(running.leading)
    moved: list[TopicPartition] = []
    for asked, found in zip(request.partitions, fetched, strict=True):
        leadership = leading.get(asked.partition)
        if leadership is None or found.error != NONE or found.diverging is not None:
            continue
        state = leadership.followers.get(request.follower)
        if state is None or state.broker_epoch > request.broker_epoch:
            continue
        now = _fetched(state, asked, found.log_end_offset, request.broker_epoch, turn.now_ms)
        leading[asked.partition] = replace(leadership, followers={**leadership.followers, request.follower: now})
        if now.log_end_offset != state.log_end_offset or request.follower not in leadership.isr:
            moved.append(asked.partition)
    others_held = {k: v for k, v in running.held_fetches.items() if k != request.follower}
    something = held_fetches.is_something(fetched)
    if not something:
        others_held[request.follower] = HeldFetch(request=request, source=source)
    turn.put_running(
        broker_id,
        replace(
            running,
            leading=leading,
            held_fetches=others_held,
            last_fetches={**running.last_fetches, request.follower: number},
        ),
    )
    for partition in moved:
        leader_role.expand_isr(turn, broker_id, partition, request.follower)
        leader_role.advance(turn, broker_id, partition)
    if something:
        held_fetches.answer(turn, broker_id, source, request, fetched)
    else:
        action = HoldExpired(broker_id, running.incarnation, request.follower, request.correlation)
        turn.after(turn.settings.fetch_wait_max_ms, action)


def _fetched(
    state: FollowerState, asked: FetchPartition, leader_end: int, broker_epoch: int, now_ms: int
) -> FollowerState:
    """A follower's state after its fetch (ReplicaState's rules of lastCaughtUpTimeMs)."""
    caught_up_ms = state.last_caught_up_ms
    if asked.fetch_offset >= leader_end:
        caught_up_ms = max(caught_up_ms, now_ms)
    elif asked.fetch_offset >= state.leader_end_at_last_fetch:
        caught_up_ms = max(caught_up_ms, state.last_fetch_ms)
    return FollowerState(
        log_end_offset=asked.fetch_offset,
        last_caught_up_ms=caught_up_ms,
        last_fetch_ms=now_ms,
        leader_end_at_last_fetch=leader_end,
        broker_epoch=broker_epoch,
        log_start_offset=asked.log_start_offset,
    )


def epoch_end_asked(turn: Turn, broker_id: int, source: str, request: EpochEndRequest) -> None:
    """Where an epoch ends here (OffsetsForLeaderEpoch)."""
    leadership = turn.leadership(broker_id, request.partition)
    error, found = NONE, (-1, -1)
    if leadership is None:
        error = "NOT_LEADER_OR_FOLLOWER"
    else:
        log = turn.log(broker_id, request.partition)
        tells_epoch = turn.generation >= Generation.KIP_279
        found = epoch_end(log, request.leader_epoch, tells_epoch=tells_epoch)
    response = EpochEndResponse(
        correlation=request.correlation,
        partition=request.partition,
        error=error,
        leader_epoch=found[0],
        end_offset=found[1],
    )
    turn.from_broker(broker_id, source, response)


# Consumers.


def consume(turn: Turn, broker_id: int, source: str, request: ConsumeRequest) -> None:
    """A consumer reads what is committed, up to the last stable offset if it wants no more than that."""
    running = turn.running(broker_id)
    assert running is not None
    turn.from_broker(broker_id, source, _consumed(turn, broker_id, running, request))


def _consumed(turn: Turn, broker_id: int, running: Running, request: ConsumeRequest) -> ConsumeResponse:
    partition = request.partition
    leadership = running.leading.get(partition)
    if leadership is None:
        return ConsumeResponse(correlation=request.correlation, partition=partition, error="NOT_LEADER_OR_FOLLOWER")
    log = turn.log(broker_id, partition)
    asked_epoch, error = request.current_leader_epoch, NONE
    if turn.generation >= Generation.KIP_320 and asked_epoch not in (-1, leadership.leader_epoch):
        error = "FENCED_LEADER_EPOCH" if asked_epoch < leadership.leader_epoch else "UNKNOWN_LEADER_EPOCH"
    elif not log.log_start_offset <= request.fetch_offset <= log.log_end_offset:
        error = "OFFSET_OUT_OF_RANGE"
    end = log.last_stable_offset if request.read_committed else log.high_watermark
    batches: tuple[StoredBatch, ...] = ()
    if error == NONE and tier_reads.is_in_tier(log, request.fetch_offset):
        error, batches = tier_reads.remote_batches(turn, broker_id, partition, request.fetch_offset)
    elif error == NONE and request.fetch_offset < end:
        batches = readable(log.batches_from(request.fetch_offset, up_to=end, max_bytes=request.max_bytes))
    return ConsumeResponse(
        correlation=request.correlation,
        partition=partition,
        error=error,
        batches=batches,
        aborted=_aborted(turn, log, partition, batches) if request.read_committed and batches else (),
        high_watermark=log.high_watermark,
        last_stable_offset=log.last_stable_offset,
        log_start_offset=log.log_start_offset,
        log_end_offset=log.log_end_offset,
    )


def _aborted(
    turn: Turn, log: ReplicaLog, partition: TopicPartition, batches: tuple[StoredBatch, ...]
) -> tuple[tuple[int, int], ...]:
    """The aborted transactions that reach into these batches, from the transaction indexes."""
    first, last = batches[0].base_offset, batches[-1].last_offset
    return tuple(
        sorted(
            (entry.producer_id, entry.first_offset)
            for entry in tier_reads.aborted_entries(turn, log, partition)
            if entry.last_offset >= first and entry.first_offset <= last
        )
    )
