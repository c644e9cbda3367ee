"""Producer snapshots of two replicas at one offset: do they tell the same of the same producers (D16)?

In: the producer snapshots of a reference and of a follower. Out: columns of `divergences`. Only what both must have
computed from the same batches is compared: producers whose last batch lies above both log starts, in a transaction (if
they are in one) that began above both.

A follower that becomes leader goes on from its own state: where it differs, it refuses sound batches as out of order,
or takes a batch for new that it has. A producer that one replica has forgotten and the other has not is no
disagreement: expiry goes by each broker's clock, and a snapshot may be taken before or after it. Nor is it one that a
replica which read its log anew after a cleaner had been there knows an earlier batch as the producer's last.

Source: ProducerStateManager#takeSnapshot, #updateMapEndOffset, #removeExpiredProducers.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from tidegauge.facts.replicas.replica import ReplicaFacts
from tidegauge.kafka_log.producer_snapshot import ProducerSnapshotEntry
from tidegauge.relations import DivergenceRow


@dataclass(frozen=True, slots=True, kw_only=True)
class _Difference:
    offset: int
    producer_id: int
    leader: ProducerSnapshotEntry
    follower: ProducerSnapshotEntry


def agreement_columns(leader: ReplicaFacts, follower: ReplicaFacts, *, shared_end: int) -> DivergenceRow:
    """What their snapshots below `shared_end`, up to where both hold one log, say of each other."""
    start = max(leader.log_start_offset, follower.log_start_offset)
    ours, theirs = _snapshots(leader), _snapshots(follower)
    offsets = [o for o in sorted(ours.keys() & theirs.keys()) if start < o <= shared_end]
    cleaned = leader.ever_compacted or follower.ever_compacted
    found = [d for offset in offsets for d in _differences(offset, ours[offset], theirs[offset], start, cleaned)]
    first = found[0] if found else None
    return {
        "compared_producer_snapshots": len(offsets),
        "producer_state_differences": len(found),
        "differing_snapshot_offset": first.offset if first is not None else None,
        "differing_producer_id": first.producer_id if first is not None else None,
        "leader_producer_state": _told(first.leader) if first is not None else None,
        "follower_producer_state": _told(first.follower) if first is not None else None,
    }


def _snapshots(replica: ReplicaFacts) -> Mapping[int, tuple[ProducerSnapshotEntry, ...]]:
    return {s.offset: s.content.entries for s in replica.given.snapshots if not s.content.corruptions}


def _differences(
    offset: int,
    ours: Iterable[ProducerSnapshotEntry],
    theirs: Iterable[ProducerSnapshotEntry],
    start: int,
    cleaned: bool,
) -> Iterable[_Difference]:
    others = {entry.producer_id: entry for entry in theirs}
    for entry in ours:
        other = others.get(entry.producer_id)
        if other is None or not (_begins_at_or_above(entry, start) and _begins_at_or_above(other, start)):
            continue
        if cleaned and entry.last_offset != other.last_offset:
            continue  # Whoever read the log again found no later batch of it: a cleaner had taken them.
        if _compared(entry, cleaned) != _compared(other, cleaned):
            yield _Difference(offset=offset, producer_id=entry.producer_id, leader=entry, follower=other)


def _begins_at_or_above(entry: ProducerSnapshotEntry, start: int) -> bool:
    """All that the entry tells comes from batches at or above an offset; one without a batch tells of none."""
    begun = entry.current_transaction_first_offset
    return (
        entry.last_offset >= 0 and entry.last_offset - entry.offset_delta >= start and (begun is None or begun >= start)
    )


def _compared(entry: ProducerSnapshotEntry, cleaned: bool) -> tuple[int | None, ...]:
    """Not the coordinator epoch: a replica that forgot the producer for a while knows none.

    Of a log that was `cleaned` only what its last batch says, not what markers and the batches before it did.
    """
    of_the_batch = (entry.producer_epoch, entry.last_sequence, entry.last_offset, entry.offset_delta)
    return of_the_batch if cleaned else (*of_the_batch, entry.timestamp, entry.current_transaction_first_offset)


def _told(entry: ProducerSnapshotEntry) -> str:
    begun = entry.current_transaction_first_offset
    return (
        f"epoch {entry.producer_epoch}, last sequence {entry.last_sequence} at offset {entry.last_offset}, "
        f"{'no transaction open' if begun is None else f'a transaction open from offset {begun}'}"
    )
