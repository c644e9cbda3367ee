"""Kafka's fencing rule: who comes with an older epoch is refused, so no epoch falls anywhere it is written (K19).

In: rows of other relations, which say where an epoch fell. Out: rows of `fencing_epochs`, one for each of the seven
epochs and each place where it is written, whether it fell there or not. The rule that must hold: an epoch is followed
where it is written in order: along a log, or along the records about one broker, group or partition.
"""

from collections.abc import Iterable, Sequence
from typing import Any

from spark_jobs.facts.context import Row, Rows


def partition_epochs(rows: Rows) -> list[Row]:
    """The epochs in one partition's logs, and in what the metadata log says of it."""
    found = []
    segments = _by_broker(rows.get("segments", ()))
    producers = _by_broker(rows.get("producers", ()))
    for broker_id, of_replica in segments.items():
        place = _place(of_replica[0], broker_id=broker_id)
        fallen = [r for r in of_replica if r["epoch_order_errors"]]
        found.append(_row("leader", place, regressions=sum(r["epoch_order_errors"] for r in fallen)))
        of_producers = [r for r in producers.get(broker_id, ()) if r["epoch_regressions"]]
        found.append(_row("producer", place, regressions=sum(r["epoch_regressions"] for r in of_producers)))
    for broker_id, transactions in _by_broker(rows.get("transactions", ())).items():
        place = _place(transactions[0], broker_id=broker_id)
        found.append(_coordinator(place, transactions))
    changes = [r for r in rows.get("partition_changes", ()) if not r["from_snapshot"]]
    if changes:
        for epoch in ("leader", "partition"):
            found.append(_restated(epoch, _place(changes[0]), changes))
    return found


def cluster_epochs(rows: Rows) -> list[Row]:
    """The epochs of brokers, of the quorum and of groups."""
    found = []
    for broker_id, registrations in _by_broker(rows.get("broker_registrations", ())).items():
        pairs = [
            (r["metadata_offset"], r["previous_broker_epoch"], r["broker_epoch"])
            for r in registrations
            if r["previous_broker_epoch"] is not None and r["broker_epoch"] < r["previous_broker_epoch"]
        ]
        found.append(_row("broker", _place(registrations[0], broker_id=broker_id), pairs=pairs))
    for row in rows.get("metadata_logs", ()):
        place = _place(row, broker_id=row["broker_id"])
        found.append(
            _row("quorum", place, regressions=row["epoch_order_errors"], first_offset=row["epoch_order_offset"])
        )
    for row in rows.get("groups", ()):
        place = _place(row, broker_id=row.get("broker_id"), name=row["group"])
        found.append(_row("group", place, regressions=row["epoch_regressions"] or 0))
    return found


def _coordinator(place: Row, transactions: Sequence[Row]) -> Row:
    pairs = [
        (r["marker_offset"], r["previous_coordinator_epoch"], r["coordinator_epoch"])
        for r in transactions
        if r["coordinator_epoch"] is not None
        and r["previous_coordinator_epoch"] is not None
        and r["coordinator_epoch"] < r["previous_coordinator_epoch"]
    ]
    return _row("coordinator", place, pairs=pairs)


def _restated(epoch: str, place: Row, changes: Sequence[Row]) -> Row:
    """A change record carries no epoch, and raises it; a record that says all anew may say a lower one."""
    pairs = [
        (r["metadata_offset"], r[f"previous_{epoch}_epoch"], r[f"{epoch}_epoch"])
        for r in changes
        if r["restated"] and r[f"{epoch}_epoch"] < r[f"previous_{epoch}_epoch"]
    ]
    return _row(epoch, place, pairs=pairs)


def _row(
    epoch: str,
    place: Row,
    *,
    pairs: Sequence[tuple[int, int, int]] | None = None,
    regressions: int = 0,
    first_offset: int | None = None,
) -> Row:
    """`pairs`: where it fell, from what, to what; where only a count is known, that."""
    first = min(pairs, default=None) if pairs is not None else None
    return {
        "epoch": epoch,
        **place,
        "regressions": len(pairs) if pairs is not None else regressions,
        "first_offset": first[0] if first is not None else first_offset,
        "epoch_before": first[1] if first is not None else None,
        "epoch_after": first[2] if first is not None else None,
    }


def _place(row: Row, *, broker_id: Any = None, name: str | None = None) -> Row:
    return {"topic": row["topic"], "partition": row["partition"], "broker_id": broker_id, "name": name}


def _by_broker(rows: Iterable[Row]) -> dict[Any, list[Row]]:
    found: dict[Any, list[Row]] = {}
    for row in rows:
        found.setdefault(row["broker_id"], []).append(row)
    return found
