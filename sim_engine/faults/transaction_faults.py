"""Faults that leave transactions in a state that no sound cluster leaves them in.

In: the faults of `coordinator_actions`. Out: logs and coordinators with the fault in them, and its note in the ledger.
A fault does once, at a leader or a coordinator, what the bug of its kind did; everything else goes on as ever.

    LoseMarkers       a coordinator completes a transaction of which a partition has no end
    DoubleMarker      a partition has two ends of one transaction (sound: a coordinator that heard no answer)
    WriteUnverified   a late batch of a V1 producer begins a transaction that nobody will end (KAFKA-14402, KIP-890)
"""

from dataclasses import replace

from tidegauge.sim_engine.brokers import leader_role
from tidegauge.sim_engine.coordinators.coordinator_actions import DoubleMarker, LoseMarkers, WriteUnverified
from tidegauge.sim_engine.hosting.hosted import hosted_by, leader_of, put_hosted
from tidegauge.sim_engine.log.stored_batch import Producer, StoredBatch, add_sequence, data_batch, marker_batch
from tidegauge.sim_engine.turn import Turn

_NOBODY: int = -1


def lose_markers(turn: Turn, action: LoseMarkers) -> None:
    """From now on, or no longer. What is lost is noted when it is (`hosting`)."""
    for broker_id in turn.broker_ids:
        if turn.running(broker_id) is None:
            continue
        hosted = hosted_by(turn, broker_id)
        lost = hosted.transactions.lost_markers - {action.partition}
        lost = lost | {action.partition} if action.lost else lost
        transactions = replace(hosted.transactions, lost_markers=lost)
        put_hosted(turn, broker_id, replace(hosted, transactions=transactions))


def double_marker(turn: Turn, action: DoubleMarker) -> None:
    """The newest marker once more."""
    leader = _leader(turn, action)
    if leader is None:
        return
    log = turn.log(leader, action.partition)
    newest = next((b for s in reversed(log.segments) for b in reversed(list(s.batches)) if b.is_marker), None)
    if newest is None:
        return

    def make(base_offset: int, leader_epoch: int) -> StoredBatch:
        return marker_batch(
            base_offset=base_offset,
            leader_epoch=leader_epoch,
            timestamp=turn.now_ms,
            producer_id=newest.producer_id,
            producer_epoch=newest.producer_epoch,
            committed=newest.committed is True,
            coordinator_epoch=newest.coordinator_epoch,
        )

    error = leader_role.append_local(turn, leader, action.partition, make, number=_NOBODY)
    turn.note_fault("doubled marker", str(action.partition), detail=error, on_disk=error == "NONE")


def write_unverified(turn: Turn, action: WriteUnverified) -> None:
    """A batch that the leader does not ask about."""
    leader = _leader(turn, action)
    leadership = turn.leadership(leader, action.partition) if leader is not None else None
    if leader is None or leadership is None:
        return
    log = turn.log(leader, action.partition)
    state = log.producers.states.get(action.producer_id)
    epoch, sequence = action.producer_epoch, action.base_sequence
    if epoch is None:
        epoch = state.producer_epoch if state is not None else 0
    if sequence is None:
        known = state is not None and state.producer_epoch == epoch and state.last_sequence >= 0
        sequence = add_sequence(state.last_sequence, 1) if known and state is not None else 0
    records = tuple(r if r.timestamp >= 0 else replace(r, timestamp=turn.now_ms) for r in action.records)
    batch = data_batch(
        records,
        base_offset=log.log_end_offset,
        leader_epoch=leadership.leader_epoch,
        producer=Producer(
            producer_id=action.producer_id,
            producer_epoch=epoch,
            base_sequence=sequence,
            transactional=action.transactional,
        ),
    )
    leader_role.append_batch(turn, leader, action.partition, batch)
    turn.note_fault(
        "unverified write" if action.transactional else "unchecked sequence",
        str(action.partition),
        detail=f"producer {action.producer_id} epoch {epoch} offset {batch.base_offset}",
        on_disk=True,
    )


def _leader(turn: Turn, action: DoubleMarker | WriteUnverified) -> int | None:
    leader = leader_of(turn.controller.image, action.partition)
    if leader is None or leader < 0 or turn.leadership(leader, action.partition) is None:
        return None
    return leader
