"""Kafka's fencing rule: who comes with an older epoch is refused, so no epoch falls anywhere it is written (K19).

In: rows of other relations, which say where an epoch fell. Out: rows of `fencing_epochs`, one for each of the seven
epochs and each place where it is written, whether it fell there or not. An epoch is followed where it is written in
order: along a log, or along the records about one broker, group or partition.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple, TypeVar

from tidegauge.relations import FencingEpochRow, PartitionChangeRow, Rows, SegmentRow, TransactionRow

R = TypeVar("R")
Fall = tuple[int, int, int]
"""Where an epoch fell, from what, to what."""


class _Record(NamedTuple):
    """A record of the metadata log: its offset, whose copy it was read from, and in which file it stands."""

    metadata_offset: int
    node_id: int | None
    path: str | None


def partition_epochs(rows: Rows) -> list[FencingEpochRow]:
    """The epochs in one partition's logs, and in what the metadata log says of it."""
    found = []
    segments = _by_broker(rows.get("segments", ()), lambda r: r["broker_id"])
    producers = _by_broker(rows.get("producers", ()), lambda r: r["broker_id"])
    for broker_id, of_replica in segments.items():
        place = _place(of_replica[0]["topic"], of_replica[0]["partition"], broker_id=broker_id)
        fallen = [r for r in of_replica if r["epoch_order_errors"]]
        path = (fallen[0] if fallen else of_replica[-1])["path"]
        found.append(_row("leader", place, regressions=sum(r["epoch_order_errors"] for r in fallen), path=path))
        of_producers = [r for r in producers.get(broker_id, ()) if r["epoch_regressions"]]
        lower = min((r["first_offset"] for r in of_producers), default=None)
        regressions = sum(r["epoch_regressions"] for r in of_producers)
        found.append(_row("producer", place, regressions=regressions, path=_segment(of_replica, lower)))
    for broker_id, transactions in _by_broker(rows.get("transactions", ()), lambda r: r["broker_id"]).items():
        place = _place(transactions[0]["topic"], transactions[0]["partition"], broker_id=broker_id)
        found.append(_coordinator(place, transactions, segments.get(broker_id, [])))
    changes = [r for r in rows.get("partition_changes", ()) if not r["from_snapshot"]]
    return found + (_restated(changes) if changes else [])


def cluster_epochs(rows: Rows) -> list[FencingEpochRow]:
    """The epochs of brokers, of the quorum and of groups."""
    found = []
    for broker_id, registrations in _by_broker(rows.get("broker_registrations", ()), lambda r: r["broker_id"]).items():
        falls = [
            (r["metadata_offset"], before, r["broker_epoch"])
            for r in registrations
            if (before := r["previous_broker_epoch"]) is not None and r["broker_epoch"] < before
        ]
        place = _place(registrations[0]["topic"], registrations[0]["partition"], broker_id=broker_id)
        records = [_Record(r["metadata_offset"], r["node_id"], r["path"]) for r in registrations]
        found.append(_of_records("broker", place, falls, records))
    for log in rows.get("metadata_logs", ()):
        place = _place(log["topic"], log["partition"], broker_id=log["broker_id"])
        found.append(
            _row(
                "quorum",
                place,
                regressions=log["epoch_order_errors"],
                first_offset=log["epoch_order_offset"],
                path=log["path"],
            )
        )
    for group in rows.get("groups", ()):
        place = _place(group["topic"], group["partition"], broker_id=group["broker_id"], name=group["group"])
        found.append(_row("group", place, regressions=group["epoch_regressions"]))
    return found


def _coordinator(
    place: FencingEpochRow, transactions: Sequence[TransactionRow], segments: Sequence[SegmentRow]
) -> FencingEpochRow:
    falls = [
        (offset, before, after)
        for r in transactions
        if (offset := r["marker_offset"]) is not None
        and (after := r["coordinator_epoch"]) is not None
        and (before := r["previous_coordinator_epoch"]) is not None
        and after < before
    ]
    return _row("coordinator", place, falls=falls, path=_segment(segments, min(falls)[0] if falls else None))


def _segment(segments: Sequence[SegmentRow], offset: int | None) -> str | None:
    """The file of the segment in which an offset lies; without one, of the newest."""
    holding = [s for s in segments if offset is None or s["base_offset"] <= offset]
    return holding[-1]["path"] if holding else None


def _restated(changes: Sequence[PartitionChangeRow]) -> list[FencingEpochRow]:
    """A change record carries no epoch, and raises it; a record that says all anew may say a lower one."""
    place = _place(changes[0]["topic"], changes[0]["partition"])
    records = [_Record(r["metadata_offset"], r["node_id"], r["path"]) for r in changes]
    said = [r for r in changes if r["restated"]]
    leader = [
        (r["metadata_offset"], before, r["leader_epoch"])
        for r in said
        if (before := r["previous_leader_epoch"]) is not None and r["leader_epoch"] < before
    ]
    partition = [
        (r["metadata_offset"], before, r["partition_epoch"])
        for r in said
        if (before := r["previous_partition_epoch"]) is not None and r["partition_epoch"] < before
    ]
    return [_of_records("leader", place, leader, records), _of_records("partition", place, partition, records)]


def _of_records(
    epoch: str, place: FencingEpochRow, falls: Sequence[Fall], records: Sequence[_Record]
) -> FencingEpochRow:
    """Told with the file in which the first record stands that says a lower epoch; where none does, the last one's."""
    first = min(falls)[0] if falls else None
    said = [r.path for r in records if first in (None, r.metadata_offset)]
    path = said[-1] if said else None
    return _row(epoch, place, falls=falls, path=path, node_id=records[0].node_id if records else None)


def _row(
    epoch: str,
    place: FencingEpochRow,
    *,
    falls: Sequence[Fall] | None = None,
    regressions: int = 0,
    first_offset: int | None = None,
    path: str | None = None,
    node_id: int | None = None,
) -> FencingEpochRow:
    """`falls`: each that there is; where only a count is known, that."""
    first = min(falls, default=None) if falls is not None else None
    return {
        **place,
        "epoch": epoch,
        "regressions": len(falls) if falls is not None else regressions,
        "first_offset": first[0] if first is not None else first_offset,
        "epoch_before": first[1] if first is not None else None,
        "epoch_after": first[2] if first is not None else None,
        "node_id": node_id,
        "path": path,
    }


def _place(topic: str, partition: int, *, broker_id: int | None = None, name: str | None = None) -> FencingEpochRow:
    return {"topic": topic, "partition": partition, "broker_id": broker_id, "name": name}


def _by_broker(rows: Iterable[R], broker_of: Callable[[R], int]) -> dict[int, list[R]]:
    found: dict[int, list[R]] = {}
    for row in rows:
        found.setdefault(broker_of(row), []).append(row)
    return found
