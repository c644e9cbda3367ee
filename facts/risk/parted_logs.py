"""Logs that part where batches bear no leader epoch: losses of which nobody can say which side it will be.

In: a partition's replicas, and a way to read their batches. Out: rows of `losses`, one for each lineage that may be
given up. Of message formats 0 and 1, which have no leader epochs, no log tells which of two that differ is the newer
one; only who leads decides, and where that is not on record each side is told.

A follower without epochs is cut to its high watermark (ReplicaManager#initialFetchOffset). What two of them both had
declared committed below stays different (D02, D07): consumers get one or the other, after who leads (KIP-101).
"""

from collections.abc import Sequence

import numpy as np

from tidegauge.facts.replicas.comparison import IDENTITY, ReadBatches, first_difference, records_between
from tidegauge.facts.replicas.divergence import Divergence
from tidegauge.facts.replicas.readers import readers_of
from tidegauge.facts.replicas.replica import ReplicaFacts
from tidegauge.facts.replicas.replica_set import ReplicaSet
from tidegauge.facts.risk.losses import loss_row
from tidegauge.relations import LossRow


def parted_losses(present: ReplicaSet, *, read: ReadBatches) -> list[LossRow]:
    """One row for each lineage, the leader's apart, that holds records which another has other ones in place of."""
    parted = [d for d in present.divergences if d.parted_without_epochs]
    if not parted or present.reference is None:
        return []
    lineages = _lineages([present.reference, *(d.follower for d in present.divergences)], read)
    start = min(d.difference.offset for d in parted if d.difference.offset is not None)
    led = [x for x in lineages if any(f.broker_id == present.context.assignment.leader_id for f in x)]
    rows = []
    for lineage in lineages:
        if lineage in led:
            continue
        rivals = led or [other for other in lineages if other is not lineage]
        row = _row(present, lineage, rivals, start, read)
        if row is not None:
            rows.append(row)
    return rows


def not_parted(divergences: Sequence[Divergence]) -> list[Divergence]:
    """Those of which leader epochs tell what will be cut off."""
    return [d for d in divergences if not d.parted_without_epochs]


def _lineages(replicas: Sequence[ReplicaFacts], read: ReadBatches) -> list[list[ReplicaFacts]]:
    """Replicas that hold the same batches as far as both reach, together."""
    found: list[list[ReplicaFacts]] = []
    for replica in sorted(replicas, key=lambda f: -f.log_end_offset):
        own = next((x for x in found if _same(x[0], replica, read)), None)
        if own is None:
            found.append([replica])
        else:
            own.append(replica)
    return found


def _same(one: ReplicaFacts, other: ReplicaFacts, read: ReadBatches) -> bool:
    start = max(one.summary.first_offset, other.summary.first_offset)
    end = min(one.readable_end_offset, other.readable_end_offset)
    return first_difference(one, other, start, end, read=(read, read)).offset is None


def _row(
    present: ReplicaSet,
    lineage: Sequence[ReplicaFacts],
    rivals: Sequence[Sequence[ReplicaFacts]],
    start: int,
    read: ReadBatches,
) -> LossRow | None:
    log = lineage[0]
    own = read(log, start, log.log_end_offset)
    others = {
        tuple(int(row[n]) for n in IDENTITY) for rival in rivals for row in read(rival[0], start, log.log_end_offset)
    }
    alone = np.array([tuple(int(row[n]) for n in IDENTITY) not in others for row in own], dtype=bool)
    if not len(own) or not alone.any():
        return None
    first, end = int(own["base_offset"][alone].min()), int(own["last_offset"][alone].max()) + 1
    records = records_between(own[alone], first, end)
    proven = max((min(f.checkpointed.high_watermark or 0, f.log_end_offset) for f in lineage), default=0)
    committed = records_between(own[alone], first, min(proven, end)) if proven > first else 0
    if records == 0:
        return None
    holders = [f.broker_id for f in lineage if f.log_end_offset >= end]
    rival_ids = sorted(f.broker_id for rival in rivals for f in rival)
    told = f"broker {rival_ids[0]} holds" if len(rival_ids) == 1 else f"brokers {rival_ids} hold"
    context = present.context
    return loss_row(
        context,
        first,
        end,
        records=records,
        markers=0,
        leader_epoch=None,
        held_by=holders,
        state="at_risk" if committed else "possible",
        declared_committed=committed,
        cause=f"{told} other records from offset {first} on, of a message format without leader "
        "epochs: whose records stay is up to who leads"
        + ("" if context.assignment.leader_id is not None else ", and nothing at hand tells who does"),
        groups=readers_of(context, first, None),
    )
