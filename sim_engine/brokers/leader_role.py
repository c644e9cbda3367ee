"""A broker as leader: it takes batches, serves followers and consumers, moves the high watermark, asks for ISRs.

In: requests, and what the controller decided. Out: its log, answers, requests to the controller. The high watermark is
below the log end of everybody who is, or may be, in the ISR, and does not move while the ISR is smaller than
min.insync.replicas (KIP-966); an answer under acks=all leaves when it has passed the batch.

Source: Kafka Partition (makeLeader, appendRecordsToLeader, updateFollowerFetchState, maybeIncrementLeaderHW,
maybeExpandIsr, maybeShrinkIsr), ReplicaManager, DelayedProduce, Replica.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Final

from tidegauge.kafka_log.types import TopicPartition
from tidegauge.sim_engine import ledger
from tidegauge.sim_engine.actions import ProduceExpired
from tidegauge.sim_engine.brokers import held_fetches
from tidegauge.sim_engine.brokers.disk_room import took_room
from tidegauge.sim_engine.log.producers import KeptBatch, Refusal, coordinator_refusal, refusal
from tidegauge.sim_engine.log.replica_log import ReplicaLog, append, with_epoch, with_high_watermark
from tidegauge.sim_engine.log.stored_batch import StoredBatch, data_batch
from tidegauge.sim_engine.messages import (
    NONE,
    AlterPartitionRequest,
    AlterPartitionResponse,
    ProduceRequest,
    ProduceResponse,
)
from tidegauge.sim_engine.metadata.controller import PartitionImage
from tidegauge.sim_engine.settings import Generation
from tidegauge.sim_engine.turn import Turn
from tidegauge.sim_engine.world import FollowerState, HeldProduce, Leadership, PendingIsr

LOCAL: Final = "local"
"""The source of a batch that the broker writes itself (a coordinator): `WRITTEN` hears when it is replicated."""

Written = Callable[[Turn, int, TopicPartition, int, str], None]
"""(turn, broker, partition, number given to `hold_local`, error)"""

WRITTEN: list[Written] = []

LeadershipChanged = Callable[[Turn, int, TopicPartition, int | None], None]
"""(turn, broker, partition, leader epoch; None if the broker leads it no longer)"""

LEADERSHIP_LISTENERS: list[LeadershipChanged] = []


# Taking and leaving a leadership.


def lead(turn: Turn, broker_id: int, partition: TopicPartition, image: PartitionImage) -> None:
    """The metadata log names this broker the partition's leader, or changes what it leads (Partition#makeLeader)."""
    running = turn.running(broker_id)
    assert running is not None
    now = running.leading.get(partition)
    if now is not None and image.partition_epoch <= now.partition_epoch:
        return
    if partition in running.following:
        turn.put_following(broker_id, partition, None)
    fresh = now is None or image.leader_epoch > now.leader_epoch
    log = turn.log(broker_id, partition)
    followers = {}
    for member in image.replicas:
        if member != broker_id:
            known = None if fresh or now is None else now.followers.get(member)
            caught_up = turn.now_ms if member in image.isr else 0
            followers[member] = known or FollowerState(last_caught_up_ms=caught_up)
    if fresh:
        log = with_epoch(log, image.leader_epoch, log.log_end_offset)
        turn.put_log(broker_id, partition, log)
    leadership = Leadership(
        leader_epoch=image.leader_epoch,
        partition_epoch=image.partition_epoch,
        replicas=image.replicas,
        isr=image.isr,
        epoch_start_offset=log.log_end_offset if fresh or now is None else now.epoch_start_offset,
        recovering=image.recovering,
        followers=followers,
        held=now.held if now is not None else (),
    )
    turn.put_leadership(broker_id, partition, leadership)
    if fresh:
        ledger.leading_begun(turn, broker_id, partition, image.leader_epoch)
    if image.recovering:
        _ask_for_isr(turn, broker_id, partition, leadership.isr, recovered=True)
    advance(turn, broker_id, partition)
    if fresh:
        for listener in LEADERSHIP_LISTENERS:
            listener(turn, broker_id, partition, image.leader_epoch)


def leave(turn: Turn, broker_id: int, partition: TopicPartition) -> None:
    """The broker no longer leads this partition; requests that wait for it get an error."""
    leadership = turn.leadership(broker_id, partition)
    if leadership is None:
        return
    turn.put_leadership(broker_id, partition, None)
    for held in leadership.held:
        _answer_held(turn, broker_id, partition, held, "NOT_LEADER_OR_FOLLOWER", leadership.leader_epoch)
    for listener in LEADERSHIP_LISTENERS:
        listener(turn, broker_id, partition, None)


# Batches.


def produce(turn: Turn, broker_id: int, source: str, request: ProduceRequest) -> None:
    """A client's batch (ReplicaManager#appendRecords)."""
    partition = request.partition
    leadership = turn.leadership(broker_id, partition)

    def answer(error: str, base_offset: int = -1) -> None:
        if request.acks != 0:
            response = ProduceResponse(
                correlation=request.correlation,
                partition=partition,
                error=error,
                base_offset=base_offset,
                leader_epoch=leadership.leader_epoch if leadership is not None else -1,
            )
            turn.from_broker(broker_id, source, response)

    if leadership is None:
        answer("NOT_LEADER_OR_FOLLOWER")
        return
    if request.acks == -1 and len(leadership.isr) < min_insync(turn, broker_id, partition, leadership):
        answer("NOT_ENOUGH_REPLICAS")
        return
    log = turn.log(broker_id, partition)
    batch = data_batch(
        request.records,
        base_offset=log.log_end_offset,
        leader_epoch=leadership.leader_epoch,
        producer=request.producer,
        codec=request.codec,
    )
    base_offset, last_offset = batch.base_offset, batch.last_offset
    refused = refusal(log.producers, batch, transaction_version=request.transaction_version)
    if isinstance(refused, Refusal):
        answer(refused.value)
        return
    if isinstance(refused, KeptBatch):
        base_offset, last_offset = refused.base_offset, refused.last_offset
    elif not append_batch(turn, broker_id, partition, batch):
        return
    if request.acks != -1:
        answer(NONE, base_offset)
        return
    if turn.log(broker_id, partition).high_watermark > last_offset:
        answer(NONE, base_offset)
        return
    turn.sequence += 1
    held = HeldProduce(
        number=turn.sequence,
        source=source,
        correlation=request.correlation,
        required_offset=last_offset + 1,
        base_offset=base_offset,
    )
    _hold(turn, broker_id, partition, held, request.timeout_ms)


def append_batch(turn: Turn, broker_id: int, partition: TopicPartition, batch: StoredBatch) -> bool:
    """Appends a batch that was made for this leader's log end and epoch, and hands it to who waits for it.

    Out: False if there is no room for it, which nobody will be told: the broker halts.
    """
    if not took_room(turn, broker_id, partition, batch):
        return False
    turn.put_log(broker_id, partition, append(turn.log(broker_id, partition), batch, now_ms=turn.now_ms))
    advance(turn, broker_id, partition)
    held_fetches.serve_held(turn, broker_id, partition)
    return True


def append_local(
    turn: Turn,
    broker_id: int,
    partition: TopicPartition,
    make: Callable[[int, int], StoredBatch],
    *,
    number: int,
    timeout_ms: int = 5_000,
    transaction_version: int = 0,
) -> str:
    """A batch that this broker writes itself, acks=all. `make` gets offset and leader epoch.

    Out: an error at once, or NONE, and then `WRITTEN` hears of `number`.
    """
    leadership = turn.leadership(broker_id, partition)
    if leadership is None:
        return "NOT_LEADER_OR_FOLLOWER"
    if len(leadership.isr) < min_insync(turn, broker_id, partition, leadership):
        return "NOT_ENOUGH_REPLICAS"
    log = turn.log(broker_id, partition)
    batch = make(log.log_end_offset, leadership.leader_epoch)
    refused = coordinator_refusal(log.producers, batch, transaction_version=transaction_version)
    if refused is not None:
        return refused.value
    held = HeldProduce(
        number=number,
        source=LOCAL,
        correlation=number,
        required_offset=batch.last_offset + 1,
        base_offset=batch.base_offset,
    )
    _hold(turn, broker_id, partition, held, timeout_ms)
    # Without room nobody hears of it again: the broker halts.
    append_batch(turn, broker_id, partition, batch)
    return NONE


def _hold(turn: Turn, broker_id: int, partition: TopicPartition, held: HeldProduce, timeout_ms: int) -> None:
    leadership = turn.leadership(broker_id, partition)
    running = turn.running(broker_id)
    assert leadership is not None
    assert running is not None
    turn.put_leadership(broker_id, partition, replace(leadership, held=(*leadership.held, held)))
    turn.after(timeout_ms, ProduceExpired(broker_id, running.incarnation, partition, held.number))


def produce_expired(turn: Turn, action: ProduceExpired) -> None:
    """A request was held for too long."""
    running = turn.running(action.broker_id)
    leadership = turn.leadership(action.broker_id, action.partition)
    if running is None or running.incarnation != action.incarnation or leadership is None:
        return
    late = [h for h in leadership.held if h.number == action.number]
    if late:
        left = tuple(h for h in leadership.held if h.number != action.number)
        turn.put_leadership(action.broker_id, action.partition, replace(leadership, held=left))
        _answer_held(turn, action.broker_id, action.partition, late[0], "REQUEST_TIMED_OUT", leadership.leader_epoch)


def _answer_held(
    turn: Turn, broker_id: int, partition: TopicPartition, held: HeldProduce, error: str, leader_epoch: int
) -> None:
    if held.source == LOCAL:
        for listener in WRITTEN:
            listener(turn, broker_id, partition, held.number, error)
        return
    response = ProduceResponse(
        correlation=held.correlation,
        partition=partition,
        error=error,
        base_offset=held.base_offset if error == NONE else -1,
        leader_epoch=leader_epoch,
    )
    turn.from_broker(broker_id, held.source, response)


# The high watermark.


def min_insync(turn: Turn, broker_id: int, partition: TopicPartition, leadership: Leadership) -> int:
    """min.insync.replicas, which a partition of fewer replicas cannot exceed (Partition#effectiveMinIsr)."""
    running = turn.running(broker_id)
    assert running is not None
    said = running.image.min_insync_replicas(partition.topic) if partition.topic in running.image.topics else 1
    return min(said, len(leadership.replicas))


def advance(turn: Turn, broker_id: int, partition: TopicPartition) -> None:
    """Moves the high watermark as far as it may go (Partition#maybeIncrementLeaderHW)."""
    leadership = turn.leadership(broker_id, partition)
    if leadership is None:
        return
    log = turn.log(broker_id, partition)
    if log.high_watermark == log.log_end_offset:
        _complete(turn, broker_id, partition, leadership, log)
        return
    minimum = min_insync(turn, broker_id, partition, leadership)
    if turn.generation >= Generation.ELR and len(leadership.isr) < minimum:
        return
    end = log.log_end_offset
    maximal = leadership.maximal_isr
    for member, state in leadership.followers.items():
        if state.log_end_offset < end and (
            member in maximal
            or (caught_up(turn, state, log.log_end_offset) and _may_join(turn, broker_id, member, state.broker_epoch))
        ):
            end = state.log_end_offset
    if end > log.high_watermark:
        start, log = log.high_watermark, with_high_watermark(log, end)
        turn.put_log(broker_id, partition, log)
        ledger.committed_by(turn, broker_id, partition, log, leadership.leader_epoch, start=start)
        _complete(turn, broker_id, partition, leadership, log)


def caught_up(turn: Turn, state: FollowerState, leader_end: int) -> bool:
    """Whether a follower keeps up (ReplicaState#isCaughtUp)."""
    return (
        state.log_end_offset == leader_end
        or turn.now_ms - state.last_caught_up_ms <= turn.settings.replica_lag_time_max_ms
    )


def _complete(turn: Turn, broker_id: int, partition: TopicPartition, leadership: Leadership, log: ReplicaLog) -> None:
    ready = [h for h in leadership.held if h.required_offset <= log.high_watermark]
    if not ready:
        return
    left = tuple(h for h in leadership.held if h.required_offset > log.high_watermark)
    turn.put_leadership(broker_id, partition, replace(leadership, held=left))
    enough = len(leadership.maximal_isr) >= min_insync(turn, broker_id, partition, leadership)
    error = NONE if enough else "NOT_ENOUGH_REPLICAS_AFTER_APPEND"
    for held in ready:
        _answer_held(turn, broker_id, partition, held, error, leadership.leader_epoch)


# The ISR.


def expand_isr(turn: Turn, broker_id: int, partition: TopicPartition, follower: int) -> None:
    """Asks for a follower to be let in, if it has caught up (Partition#maybeExpandIsr)."""
    leadership = turn.leadership(broker_id, partition)
    if leadership is None or leadership.pending is not None or follower in leadership.isr or leadership.recovering:
        return
    state, log = leadership.followers[follower], turn.log(broker_id, partition)
    if (
        state.log_end_offset >= log.high_watermark
        and state.log_end_offset >= leadership.epoch_start_offset
        and _may_join(turn, broker_id, follower, state.broker_epoch)
    ):
        _ask_for_isr(turn, broker_id, partition, (*leadership.isr, follower))


def tick_isr(turn: Turn, broker_id: int) -> int:
    """Puts followers out that do not keep up, and asks again where no answer came (Partition#maybeShrinkIsr)."""
    running = turn.running(broker_id)
    assert running is not None
    for partition, leadership in sorted(running.leading.items()):
        if leadership.pending is not None:
            if turn.now_ms - leadership.pending.asked_at_ms >= turn.settings.controller_request_timeout_ms:
                pending = leadership.pending
                _ask_for_isr(turn, broker_id, partition, pending.isr, recovered=pending.recovered)
            continue
        if leadership.recovering:
            _ask_for_isr(turn, broker_id, partition, leadership.isr, recovered=True)
            continue
        end = turn.log(broker_id, partition).log_end_offset
        kept = tuple(
            m
            for m in leadership.isr
            if m == broker_id or (m in leadership.followers and caught_up(turn, leadership.followers[m], end))
        )
        if kept != leadership.isr:
            _ask_for_isr(turn, broker_id, partition, kept)
    return turn.settings.replica_lag_time_max_ms // 2


def _may_join(turn: Turn, broker_id: int, follower: int, broker_epoch: int) -> bool:
    """Whether the leader's image lets a follower be in an ISR (Partition#isReplicaIsrEligible)."""
    running = turn.running(broker_id)
    assert running is not None
    known = running.image.brokers.get(follower)
    return known is not None and known.may_lead and known.broker_epoch == broker_epoch


def _ask_for_isr(
    turn: Turn, broker_id: int, partition: TopicPartition, isr: tuple[int, ...], *, recovered: bool = False
) -> None:
    running, leadership = turn.running(broker_id), turn.leadership(broker_id, partition)
    assert running is not None
    assert leadership is not None
    if running.broker_epoch is None:
        return
    pending = PendingIsr(
        isr=isr, asked_at_ms=turn.now_ms, partition_epoch=leadership.partition_epoch, recovered=recovered
    )
    turn.put_leadership(broker_id, partition, replace(leadership, pending=pending))
    epochs = {m: s.broker_epoch for m, s in leadership.followers.items() if m in isr and s.broker_epoch >= 0}
    request = AlterPartitionRequest(
        broker_id=broker_id,
        broker_epoch=running.broker_epoch,
        partition=partition,
        leader_epoch=leadership.leader_epoch,
        partition_epoch=leadership.partition_epoch,
        isr=isr,
        broker_epochs={**epochs, broker_id: running.broker_epoch},
        recovered=recovered,
    )
    turn.to_controller(broker_id, request)


def isr_answered(turn: Turn, broker_id: int, source: str, response: AlterPartitionResponse) -> None:
    """The controller decided about an ISR (Partition#handleAlterPartitionUpdate)."""
    leadership = turn.leadership(broker_id, response.partition)
    if (
        leadership is None
        or leadership.pending is None
        or leadership.pending.partition_epoch != response.asked_partition_epoch
    ):
        return
    recovered = leadership.pending.recovered
    leadership = replace(leadership, pending=None)
    if (
        response.error == NONE
        and response.leader_epoch == leadership.leader_epoch
        and response.leader == broker_id
        and response.partition_epoch >= leadership.partition_epoch
    ):
        leadership = replace(
            leadership,
            isr=response.isr,
            partition_epoch=response.partition_epoch,
            recovering=leadership.recovering and not recovered,
        )
    turn.put_leadership(broker_id, response.partition, leadership)
    advance(turn, broker_id, response.partition)
