"""Kafka's fencing rule: who comes with an older epoch is refused, so no epoch falls anywhere it is written (K19).

In: rows of other relations, which say where an epoch fell. Out: rows of `fencing_epochs`, one for each of the seven
epochs and each place where it is written, whether it fell there or not. The rule that must hold: an epoch is followed
where it is written in order: along a log, or along the records about one broker, group or partition.
"""

from collections.abc import Iterable, Sequence
from typing import Any

from tidegauge.facts.rows import Row, Rows


def partition_epochs(rows: Rows) -> list[Row]:
    """The epochs in one partition's logs, and in what the metadata log says of it."""
    found = []
    segments = _by_broker(rows.get("segments", ()))
    producers = _by_broker(rows.get("producers", ()))
    for broker_id, of_replica in segments.items():
        place = _place(of_replica[0], broker_id=broker_id)
        fallen = [r for r in of_replica if r["epoch_order_errors"]]
        path = (fallen[0] if fallen else of_replica[-1])["path"]
        found.append(_row("leader", place, regressions=sum(r["epoch_order_errors"] for r in fallen), path=path))
        of_producers = [r for r in producers.get(broker_id, ()) if r["epoch_regressions"]]
        lower = min((r["first_offset"] for r in of_producers), default=None)
        regressions = sum(r["epoch_regressions"] for r in of_producers)
        found.append(_row("producer", place, regressions=regressions, path=_segment(of_replica, lower)))
    for broker_id, transactions in _by_broker(rows.get("transactions", ())).items():
        place = _place(transactions[0], broker_id=broker_id)
        found.append(_coordinator(place, transactions, segments.get(broker_id, [])))
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
        place = _place(registrations[0], broker_id=broker_id)
        found.append(_row("broker", place, pairs=pairs, path=_path_of(registrations, pairs), records=registrations))
    for row in rows.get("metadata_logs", ()):
        place = _place(row, broker_id=row["broker_id"])
        found.append(
            _row(
                "quorum",
                place,
                regressions=row["epoch_order_errors"],
                first_offset=row["epoch_order_offset"],
                path=row["path"],
            )
        )
    for row in rows.get("groups", ()):
        place = _place(row, broker_id=row.get("broker_id"), name=row["group"])
        found.append(_row("group", place, regressions=row["epoch_regressions"] or 0))
    return found


def _coordinator(place: Row, transactions: Sequence[Row], segments: Sequence[Row]) -> Row:
    pairs = [
        (r["marker_offset"], r["previous_coordinator_epoch"], r["coordinator_epoch"])
        for r in transactions
        if r["coordinator_epoch"] is not None
        and r["previous_coordinator_epoch"] is not None
        and r["coordinator_epoch"] < r["previous_coordinator_epoch"]
    ]
    return _row("coordinator", place, pairs=pairs, path=_segment(segments, min(pairs, default=(None,))[0]))


def _segment(segments: Sequence[Row], offset: int | None) -> str | None:
    """The file of the segment in which an offset lies; without one, of the newest."""
    holding = [s for s in segments if offset is None or s["base_offset"] <= offset]
    return str(holding[-1]["path"]) if holding else None


def _restated(epoch: str, place: Row, changes: Sequence[Row]) -> Row:
    """A change record carries no epoch, and raises it; a record that says all anew may say a lower one."""
    pairs = [
        (r["metadata_offset"], r[f"previous_{epoch}_epoch"], r[f"{epoch}_epoch"])
        for r in changes
        if r["restated"] and r[f"{epoch}_epoch"] < r[f"previous_{epoch}_epoch"]
    ]
    return _row(epoch, place, pairs=pairs, path=_path_of(changes, pairs), records=changes)


def _path_of(records: Iterable[Row], pairs: Sequence[tuple[int, int, int]]) -> str | None:
    """The file in which the first record stands that says a lower epoch; where none does, that of the last record."""
    first = min(pairs, default=(None,))[0]
    said = [r["path"] for r in records if first in (None, r["metadata_offset"])]
    return said[-1] if said else None


def _row(
    epoch: str,
    place: Row,
    *,
    pairs: Sequence[tuple[int, int, int]] | None = None,
    regressions: int = 0,
    first_offset: int | None = None,
    path: str | None = None,
    records: Sequence[Row] = (),
) -> Row:
    """`pairs`: where it fell, from what, to what; where only a count is known, that. `records`: the metadata log's."""
    first = min(pairs, default=None) if pairs is not None else None
    return {
        "epoch": epoch,
        **place,
        "regressions": len(pairs) if pairs is not None else regressions,
        "first_offset": first[0] if first is not None else first_offset,
        "epoch_before": first[1] if first is not None else None,
        "epoch_after": first[2] if first is not None else None,
        "node_id": records[0]["node_id"] if records else None,
        "path": path,
    }


def _place(row: Row, *, broker_id: Any = None, name: str | None = None) -> Row:
    return {"topic": row["topic"], "partition": row["partition"], "broker_id": broker_id, "name": name}


def _by_broker(rows: Iterable[Row]) -> dict[Any, list[Row]]:
    found: dict[Any, list[Row]] = {}
    for row in rows:
        found.setdefault(row["broker_id"], []).append(row)
    return found
