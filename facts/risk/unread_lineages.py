"""Lineages that only their leader epochs tell of: the log is not at hand, its leader-epoch-checkpoint is.

In: a partition's replicas, those whose logs could not be read among them, and a way to read batches. Out: rows of
`losses`. Where a newer leader epoch begins below the end of what every log at hand holds, and no record tells of a
clean election, what lies above is given up by Kafka when the two meet, and may have been committed: it is a possible
loss, and never nothing.

Sources: LeaderEpochFileCache#assign, AbstractFetcherThread#getOffsetTruncationState (KIP-101, KIP-279).
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

from tidegauge.facts.replicas.comparison import ReadBatches, markers_between, records_between
from tidegauge.facts.replicas.readers import readers_of
from tidegauge.facts.replicas.replica import ReplicaFacts
from tidegauge.facts.replicas.replica_set import ReplicaSet, is_of_this_topic
from tidegauge.facts.replicas.succession import succession
from tidegauge.facts.risk.losses import election_cause, loss_row
from tidegauge.kafka_log.internal_topics import CLUSTER_METADATA
from tidegauge.relations import LossRow


@dataclass(frozen=True, slots=True, kw_only=True)
class _Begun:
    """A leader epoch that a broker has from an offset on, by its own checkpoint; `newest` is the last one there."""

    broker_id: int
    leader_epoch: int
    start_offset: int
    newest: int


def possibly_given_up(present: ReplicaSet, *, read: ReadBatches) -> list[LossRow]:
    """What the newest lineage at hand holds beyond the start of a newer one that is not: split by who holds it."""
    context = present.context
    epochs = [e for f in present.live if (e := f.vector.latest_epoch) is not None]
    if not epochs or context.assignment.topic_deleted or context.topic == CLUSTER_METADATA:
        return []
    newest = max(epochs)
    begun = min(_newer(present, newest), key=lambda b: (b.start_offset, b.broker_id), default=None)
    holders = [f for f in present.live if f.vector.latest_epoch == newest]
    if begun is None:
        return []
    since = succession(context, after_epoch=newest, until_epoch=begun.newest)
    if since.on_record and since.changes and since.unclean is None:
        return []
    log = max(holders, key=lambda f: (f.log_end_offset, -f.broker_id))
    start = max(begun.start_offset, log.log_start_offset)
    if start >= log.log_end_offset:
        return []
    cause = (
        f"broker {begun.broker_id}'s leader-epoch-checkpoint has leader epoch {begun.leader_epoch} from offset "
        f"{begun.start_offset} on, and its log is not in the copy. Whether it holds these records, and whether they "
        "were committed, is not known"
    )
    if since.unclean is not None:
        cause = f"{election_cause(since.unclean)}; {cause}"
    return list(_rows(present, log, holders, start, cause, read))


def _newer(present: ReplicaSet, newest: int) -> Iterator[_Begun]:
    for replica in present.facts:
        checkpoint = replica.given.epoch_checkpoint
        if replica.end_known or replica.given.place.is_future or checkpoint is None:
            continue
        later = [e for e in checkpoint.entries if e.leader_epoch > newest and e.start_offset >= 0]
        if later and is_of_this_topic(present.context, replica):
            first = min(later, key=lambda e: e.leader_epoch)
            yield _Begun(
                broker_id=replica.broker_id,
                leader_epoch=first.leader_epoch,
                start_offset=first.start_offset,
                newest=max(e.leader_epoch for e in later),
            )


def _rows(
    present: ReplicaSet,
    log: ReplicaFacts,
    holders: list[ReplicaFacts],
    start: int,
    cause: str,
    read: ReadBatches,
) -> Iterator[LossRow]:
    context, end = present.context, log.log_end_offset
    batches = read(log, start, end)
    edges = sorted({start, end, *(f.log_end_offset for f in holders if start < f.log_end_offset < end)})
    for low, high in pairwise(edges):
        held_by = [f for f in holders if f.log_end_offset >= high]
        records = records_between(batches, low, high)
        if records == 0:
            continue
        declared = max(min(f.checkpointed.high_watermark or 0, high) for f in held_by)
        epoch = log.vector.epoch_at(low)
        yield loss_row(
            context,
            low,
            high,
            records=records,
            markers=markers_between(batches, low, high),
            leader_epoch=int(epoch) if epoch is not None else None,
            held_by=[f.broker_id for f in held_by],
            state="possible",
            declared_committed=records_between(batches, low, declared) if declared > low else 0,
            cause=cause,
            groups=readers_of(context, low, epoch),
        )
