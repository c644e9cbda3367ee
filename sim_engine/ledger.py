"""How the truth is kept: what a leader commits, what an election leaves behind.

In: the moments at which a leader moves its high watermark, a controller chooses a leader, a client is told. Out: notes
in `Truth`. These functions look at everything at once, as nobody in the cluster can, and change nothing but the ledger.

    committed         a leader's high watermark has passed it
    lost, committed   a leader is chosen that lacks committed batches; or a leader that another has replaced
                      declares batches committed that its successor does not have
    lost, tiered      local segments or remote objects go that were the only ones to hold a range
    lost, acked       the same for batches that a client was told of under acks 1, before they were committed
"""

from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from tidegauge.kafka_log.types import TopicPartition
from tidegauge.sim_engine.log.persistent import Trail
from tidegauge.sim_engine.log.replica_log import ReplicaLog
from tidegauge.sim_engine.log.stored_batch import StoredBatch
from tidegauge.sim_engine.log.tiering import nowhere
from tidegauge.sim_engine.truth import Acknowledged, Consumed, Lineage, Lost, Truncated, Watermark
from tidegauge.sim_engine.turn import Turn

_NOT_IN_TIER: Final = ", not in the remote tier"


def same_batch(left: StoredBatch, right: StoredBatch) -> bool:
    """Whether two replicas hold the same batch."""
    return left is right or (left.base_offset == right.base_offset and left.data == right.data)


def committed_by(
    turn: Turn, broker_id: int, partition: TopicPartition, log: ReplicaLog, leader_epoch: int, *, start: int
) -> None:
    """A leader has moved its high watermark from `start` to that of `log`."""
    lineage = turn.truth.lineage(partition)
    if leader_epoch < lineage.leader_epoch and lineage.leader >= 0 and lineage.leader != broker_id:
        lineage = _committed_by_old_leader(turn, broker_id, partition, log, lineage, leader_epoch, start)
        _note_offsets(turn, partition, lineage)
        return
    committed = lineage.committed
    if log.high_watermark > lineage.high_watermark:
        for batch in log.batches_from(lineage.high_watermark, up_to=log.high_watermark):
            committed = committed.appended(batch)
    lineage = replace(
        lineage,
        committed=committed,
        high_watermark=max(lineage.high_watermark, log.high_watermark),
        last_stable_offset=max(lineage.last_stable_offset, log.last_stable_offset),
    )
    _note_offsets(turn, partition, lineage)


def _committed_by_old_leader(
    turn: Turn,
    broker_id: int,
    partition: TopicPartition,
    log: ReplicaLog,
    lineage: Lineage,
    leader_epoch: int,
    start: int,
) -> Lineage:
    """What a replaced leader still declares committed is so only if its successor has it."""
    successor = turn.replica(lineage.leader, partition)
    held = successor.log.batches_from(start, up_to=log.high_watermark) if successor is not None else []
    declared = log.batches_from(start, up_to=log.high_watermark)
    same = 0
    while same < len(declared) and same < len(held) and same_batch(declared[same], held[same]):
        same += 1
    if same < len(declared):
        _note_loss(
            turn,
            partition,
            (declared[same].base_offset, log.high_watermark),
            leader_epoch=leader_epoch,
            cause="committed by a replaced leader",
            broker_id=broker_id,
            committed=True,
        )
    committed, high_watermark = lineage.committed, lineage.high_watermark
    for batch in declared[:same]:
        if batch.base_offset >= high_watermark:
            committed = committed.appended(batch)
            high_watermark = batch.last_offset + 1
    return replace(lineage, committed=committed, high_watermark=high_watermark)


def leader_chosen(turn: Turn, partition: TopicPartition, *, leader: int, leader_epoch: int, cause: str) -> None:
    """From now on this leader's log is the partition's: what it lacks of what was promised is lost."""
    lineage = turn.truth.lineage(partition)
    replica = turn.replica(leader, partition)
    lineage = replace(lineage, leader=leader, leader_epoch=leader_epoch)
    if replica is not None:
        lineage = _without_lost(turn, partition, lineage, replica.log, cause)
    elif lineage.high_watermark:
        lineage = _cut_to(turn, partition, lineage, 0, cause)
    turn.truth = turn.truth.with_lineage(partition, lineage)
    tier_checked(turn, partition, cause)


def leading_begun(turn: Turn, broker_id: int, partition: TopicPartition, leader_epoch: int) -> None:
    """A chosen leader begins: what it cut since it was chosen is lost too."""
    if turn.truth.lineage(partition).leader_epoch == leader_epoch:
        leader_chosen(turn, partition, leader=broker_id, leader_epoch=leader_epoch, cause="truncation before leading")


def tier_checked(turn: Turn, partition: TopicPartition, cause: str) -> None:
    """Notes what of a tiered partition is neither in its leader's log nor in the store, where it was so far."""
    lineage = turn.truth.lineage(partition)
    replica = turn.replica(lineage.leader, partition) if lineage.leader >= 0 else None
    if replica is None or not replica.log.config.remote_storage:
        return
    left = nowhere(replica.log, turn.remote, partition, replica.topic_id)
    for known in turn.truth.losses if left else ():
        # What was noted before is not lost again.
        if known.partition == partition and known.cause.endswith(_NOT_IN_TIER):
            pieces = [((s, min(e, known.start_offset)), (max(s, known.end_offset), e)) for s, e in left]
            left = [(s, e) for pair in pieces for s, e in pair if s < e]
    for offsets in left:
        _note_loss(
            turn,
            partition,
            offsets,
            leader_epoch=lineage.leader_epoch,
            cause=cause + _NOT_IN_TIER,
            broker_id=lineage.leader,
            committed=True,
        )


def log_lost(turn: Turn, broker_id: int, partition: TopicPartition, cause: str) -> None:
    """A running leader's own log has become another one."""
    lineage = turn.truth.lineage(partition)
    if lineage.leader == broker_id:
        leader_chosen(turn, partition, leader=broker_id, leader_epoch=lineage.leader_epoch, cause=cause)


def _without_lost(turn: Turn, partition: TopicPartition, lineage: Lineage, log: ReplicaLog, cause: str) -> Lineage:
    end = first_lacking(lineage.committed, log)
    if end is not None:
        lineage = _cut_to(turn, partition, lineage, end, _because(turn, partition, lineage.leader, end, cause))
    gone = [a for a in lineage.waiting if not _holds(log, a)]
    for acked in gone:
        _note_loss(
            turn,
            partition,
            (acked.base_offset, acked.last_offset + 1),
            leader_epoch=acked.leader_epoch,
            cause=_because(turn, partition, lineage.leader, acked.base_offset, cause),
            broker_id=lineage.leader,
            committed=False,
        )
    return replace(lineage, waiting=tuple(a for a in lineage.waiting if a not in gone)) if gone else lineage


def _because(turn: Turn, partition: TopicPartition, leader: int, offset: int, cause: str) -> str:
    """Why a leader lacks an offset: it had it once and was cut, or never had it."""
    for cut in reversed(turn.truth.truncations[:]):
        if cut.broker_id == leader and cut.partition == partition and cut.start_offset <= offset < cut.end_offset:
            return f"{cause} after {cut.cause}"
    return cause


def _cut_to(turn: Turn, partition: TopicPartition, lineage: Lineage, offset: int, cause: str) -> Lineage:
    kept = next((i for i, b in enumerate(lineage.committed) if b.last_offset >= offset), len(lineage.committed))
    _note_loss(
        turn,
        partition,
        (offset, lineage.high_watermark),
        leader_epoch=lineage.leader_epoch,
        cause=cause,
        broker_id=lineage.leader,
        committed=True,
    )
    cut = replace(
        lineage,
        committed=lineage.committed.cut(kept),
        high_watermark=offset,
        last_stable_offset=min(lineage.last_stable_offset, offset),
    )
    _note_offsets(turn, partition, cut)
    return cut


def first_lacking(committed: Trail[StoredBatch], log: ReplicaLog) -> int | None:
    """The first committed offset that a log, from its start on, does not hold as it was committed; None if it has all.

    Of a compacted log only the end can be compared; of a tiered one `tier_checked` looks at what is not local.
    """
    start = _first_local(log)
    promised = [b for b in committed if b.last_offset >= start]
    if not promised:
        return None
    if log.config.compact:
        return log.log_end_offset if promised[-1].last_offset >= log.log_end_offset else None
    held = log.batches_from(max(start, promised[0].base_offset))
    for at, batch in enumerate(promised):
        if at >= len(held) or not same_batch(batch, held[at]):
            return max(batch.base_offset, start)
    return None


def _first_local(log: ReplicaLog) -> int:
    """Where the part of a log begins that its broker must have."""
    local = log.segments[0].base_offset if log.config.remote_storage else 0
    return max(log.log_start_offset, local)


def _holds(log: ReplicaLog, acked: Acknowledged) -> bool:
    if acked.last_offset >= log.log_end_offset:
        return False
    if acked.last_offset < _first_local(log):
        return True
    found = log.batches_from(acked.base_offset, up_to=acked.last_offset + 1)
    return any(b.leader_epoch == acked.leader_epoch and b.base_offset <= acked.base_offset for b in found)


def acknowledged(turn: Turn, note: Acknowledged) -> None:
    """A client was told that its batch is written."""
    truth = replace(turn.truth, acknowledged=turn.truth.acknowledged.appended(note))
    turn.truth = truth
    lineage = truth.lineage(note.partition)
    if note.acks != 1 or (note.last_offset < lineage.high_watermark and note.leader_epoch == lineage.leader_epoch):
        return
    replica = turn.replica(lineage.leader, note.partition) if lineage.leader >= 0 else None
    if replica is not None and not _holds(replica.log, note):
        _note_loss(
            turn,
            note.partition,
            (note.base_offset, note.last_offset + 1),
            leader_epoch=note.leader_epoch,
            cause="acknowledged by a replaced leader",
            broker_id=lineage.leader,
            committed=False,
        )
        return
    if note.last_offset >= lineage.high_watermark:
        turn.truth = turn.truth.with_lineage(note.partition, replace(lineage, waiting=(*lineage.waiting, note)))


def consumed(turn: Turn, client: str, partition: TopicPartition, batches: Iterable[StoredBatch]) -> None:
    """A consumer was given these batches."""
    trail = turn.truth.consumed
    for batch in batches:
        trail = trail.appended(
            Consumed(
                at_ms=turn.now_ms,
                client=client,
                partition=partition,
                base_offset=batch.base_offset,
                last_offset=batch.last_offset,
                leader_epoch=batch.leader_epoch,
            )
        )
    turn.truth = replace(turn.truth, consumed=trail)


def truncated(
    turn: Turn, broker_id: int, partition: TopicPartition, before: ReplicaLog, after: ReplicaLog, cause: str
) -> None:
    """A replica was cut, if it was."""
    if after.log_end_offset >= before.log_end_offset:
        return
    note = Truncated(
        at_ms=turn.now_ms,
        partition=partition,
        broker_id=broker_id,
        start_offset=after.log_end_offset,
        end_offset=before.log_end_offset,
        leader_epoch=before.latest_epoch,
        cause=cause,
    )
    turn.truth = replace(turn.truth, truncations=turn.truth.truncations.appended(note))


def _note_loss(
    turn: Turn,
    partition: TopicPartition,
    offsets: tuple[int, int],
    *,
    leader_epoch: int,
    cause: str,
    broker_id: int,
    committed: bool,
) -> None:
    loss = Lost(
        at_ms=turn.now_ms,
        partition=partition,
        start_offset=offsets[0],
        end_offset=offsets[1],
        leader_epoch=leader_epoch,
        cause=cause,
        broker_id=broker_id,
        committed=committed,
    )
    turn.truth = replace(turn.truth, losses=turn.truth.losses.appended(loss))


def _note_offsets(turn: Turn, partition: TopicPartition, lineage: Lineage) -> None:
    """The lineage from now on; a note, if an offset has moved."""
    before = turn.truth.lineage(partition)
    if (before.high_watermark, before.last_stable_offset) == (lineage.high_watermark, lineage.last_stable_offset):
        turn.truth = turn.truth.with_lineage(partition, lineage)
        return
    if lineage.waiting:
        waiting = tuple(a for a in lineage.waiting if a.last_offset >= lineage.high_watermark)
        lineage = replace(lineage, waiting=waiting)
    note = Watermark(
        at_ms=turn.now_ms,
        partition=partition,
        high_watermark=lineage.high_watermark,
        last_stable_offset=lineage.last_stable_offset,
        leader=lineage.leader,
        leader_epoch=lineage.leader_epoch,
    )
    truth = replace(turn.truth, watermarks=turn.truth.watermarks.appended(note))
    turn.truth = truth.with_lineage(partition, lineage)
