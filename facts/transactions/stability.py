"""Did the last stable offset move between two snapshots, and what holds it (F12)?

In: a partition's replicas in an earlier snapshot and now. Out: columns of `changes`, on the row of the replica that
speaks for the partition. A transaction is called stuck only if it is open at the same offset, of the same producer, in
both.
"""

from tidegauge.facts.producers.state import Transaction
from tidegauge.facts.replicas.replica_set import ReplicaSet
from tidegauge.facts.replicas.watermarks import last_stable_offset
from tidegauge.relations import ChangeRow


def stability_columns(present: ReplicaSet, earlier: ReplicaSet) -> ChangeRow:
    """Last stable offsets then and now, and the transaction that holds both."""
    now, before = _last_stable(present), _last_stable(earlier)
    held_now, held_before = _held_by(present, now), _held_by(earlier, before)
    stuck = (
        held_now is not None
        and held_before is not None
        and (held_now.producer_id, held_now.first_offset) == (held_before.producer_id, held_before.first_offset)
    )
    return {
        "previous_last_stable_offset": before,
        "last_stable_offset": now,
        "previous_captured_at_ms": earlier.context.cluster.captured_at_ms,
        "captured_at_ms": present.context.cluster.captured_at_ms,
        "max_transaction_timeout_ms": present.context.settings.max_transaction_timeout_ms,
        "stuck_producer_id": held_now.producer_id if stuck and held_now is not None else None,
        "stuck_since_at_ms": held_now.last_timestamp if stuck and held_now is not None else None,
    }


def _last_stable(replicas: ReplicaSet) -> int | None:
    reference, lower = replicas.reference, replicas.bounds.lower
    if reference is None or lower is None:
        return None
    return last_stable_offset(
        high_watermark=lower,
        first_unstable_offset=reference.replay.first_unstable_offset(lower),
        log_start_offset=reference.log_start_offset,
    )


def _held_by(replicas: ReplicaSet, last_stable: int | None) -> Transaction | None:
    """The open transaction that begins at the last stable offset; one below the log start holds it there."""
    reference = replicas.reference
    if reference is None or last_stable is None or last_stable == replicas.bounds.lower:
        return None
    return next(iter(reference.replay.open_transactions), None)
