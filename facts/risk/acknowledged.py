"""Acknowledged records: whether the leader, and every member of the ISR, has what producers were told is written.

In: a ledger of acknowledgements, which no cluster keeps and a simulated one does; a partition's replicas. Out: columns
of `partitions`. An acknowledgement names an offset, and the epoch of the leader that answered; a log has the record if
in it that offset belongs to the epoch to which it belonged there, by the batches themselves, and by the
leader-epoch-checkpoint only where no batch is left. What retention or DeleteRecords took is not missing.

The epoch is that of the answer, unless the offset lies below the start of that epoch: then an earlier leader had
written the record, and the producer, who had not heard of it, sent it again (ProducerStateEntry#findDuplicateBatch).
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tidegauge.facts.context import Acknowledged
from tidegauge.facts.replicas.replica import ReplicaFacts
from tidegauge.facts.replicas.replica_set import ReplicaSet
from tidegauge.relations import PartitionRow


@dataclass(frozen=True, slots=True, kw_only=True)
class Missing:
    """What one replica lacks: how many records, and from where to where."""

    broker_id: int
    records: int
    start_offset: int
    end_offset: int


def acknowledged_columns(replicas: ReplicaSet) -> PartitionRow:
    """The columns; all null where nobody kept a ledger."""
    told = replicas.context.acknowledged
    if told is None:
        return {}
    must_have = set(replicas.context.assignment.isr) | {replicas.context.assignment.leader_id}
    written = [_Written(told=a, leader_epoch=_written_in(a, replicas.live)) for a in told]
    lacking = [m for f in replicas.live if f.broker_id in must_have and (m := _missing_from(f, written)) is not None]
    undecided = any(_has(f, w) is None for f in replicas.live if f.broker_id in must_have for w in written)
    return {
        "acknowledged_records": sum(a.last_offset - a.base_offset + 1 for a in told),
        "acknowledged_missing": max((m.records for m in lacking), default=None if undecided else 0),
        "acknowledged_missing_on": sorted(m.broker_id for m in lacking),
        "first_acknowledged_missing_offset": min((m.start_offset for m in lacking), default=None),
        "acknowledged_missing_end_offset": max((m.end_offset for m in lacking), default=None),
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class _Written:
    """What was told, and the epoch in which it was written; None where no replica's epochs tell."""

    told: Acknowledged
    leader_epoch: int | None


def _written_in(told: Acknowledged, replicas: Iterable[ReplicaFacts]) -> int | None:
    for replica in replicas:
        starts = [int(r["start_offset"]) for r in replica.summary.epoch_runs if r["leader_epoch"] == told.leader_epoch]
        listed = replica.vector.start_of(told.leader_epoch)
        if starts or listed is not None:
            start = min([*starts, *([int(listed)] if listed is not None else [])])
            return told.leader_epoch if told.base_offset >= start else _epoch_at(replica, told.base_offset)
    return None


def _epoch_at(replica: ReplicaFacts, offset: int) -> int | None:
    """The epoch that a log's offset belongs to. A checkpoint that says something else than the batches is not asked."""
    for run in replica.summary.epoch_runs:
        if int(run["start_offset"]) <= offset < int(run["end_offset"]):
            return int(run["leader_epoch"])
    return replica.vector.epoch_at(offset)


def _may_be_cleaned(replica: ReplicaFacts, told: Acknowledged, leader_epoch: int) -> bool:
    """No batch is left there, and by its neighbours there may have been one of that epoch.

    Who copies a cleaned log has a checkpoint by the batches that are left, where an epoch begins later than it did.
    """
    if not replica.ever_compacted:
        return False
    runs = replica.summary.epoch_runs
    before = max((int(r["leader_epoch"]) for r in runs if int(r["start_offset"]) <= told.base_offset), default=0)
    after = min((int(r["leader_epoch"]) for r in runs if int(r["end_offset"]) > told.base_offset), default=leader_epoch)
    covered = any(int(r["start_offset"]) <= told.base_offset < int(r["end_offset"]) for r in runs)
    return not covered and before <= leader_epoch <= after


def _missing_from(replica: ReplicaFacts, written: Sequence[_Written]) -> Missing | None:
    """What of it a replica lacks; None if nothing."""
    gone = [w.told for w in written if w.told.base_offset >= replica.log_start_offset and _has(replica, w) is False]
    if not gone:
        return None
    return Missing(
        broker_id=replica.broker_id,
        records=sum(a.last_offset - a.base_offset + 1 for a in gone),
        start_offset=min(a.base_offset for a in gone),
        end_offset=max(a.last_offset for a in gone) + 1,
    )


def _has(replica: ReplicaFacts, written: _Written) -> bool | None:
    """None where the offset is of an older epoch than the answer, and no replica tells whether it was so then.

    And where it lies below the log's first epoch: the log start has passed it, and is checkpointed a minute later.
    """
    told = written.told
    epoch = _epoch_at(replica, told.base_offset)
    if told.last_offset >= replica.log_end_offset:
        return False
    if epoch is None:
        return None
    if written.leader_epoch is not None:
        return epoch == written.leader_epoch or (
            None if _may_be_cleaned(replica, told, written.leader_epoch) else False
        )
    # An offset is written anew only in a higher epoch than that of the leader that had it.
    return None if epoch < told.leader_epoch else epoch == told.leader_epoch
