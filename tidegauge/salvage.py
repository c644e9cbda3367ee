"""Salvage: records that one replica alone holds, out of a snapshot, before Kafka truncates them.

In: a snapshot, a partition, a range of offsets, and the broker whose copy is wanted (by default the one that holds
batches its partition's other copies lack). Out: `records.jsonl`, a record a line, and `<topic>-<partition>/`, the same
batches byte for byte, which `kafka-dump-log.sh` and a broker read. The rule that must hold: nothing is written into the
snapshot, nothing is written over, and each record says whether another copy has it too.
"""

import base64
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Final

import numpy as np
from numpy.typing import NDArray

from kafka_log.batch import CONTROL_BIT, TRANSACTIONAL_BIT
from kafka_log.corruption import Corruption
from kafka_log.log_dir import is_headers_file
from kafka_log.records import RecordBatch, read_batch
from kafka_log.scan import scan_batches
from snapshots.adopt import Snapshot, open_snapshot
from snapshots.errors import SnapshotError
from snapshots.listing import ReplicaFiles, listing
from snapshots.location import Location, open_bytes

_IDENTITY: Final = ("base_offset", "last_offset", "partition_leader_epoch", "crc", "size_bytes")
Identity = tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Salvaged:
    """What was written: how many records, how many of them another copy holds too, and what could not be read."""

    broker_id: int
    records: int
    surviving_elsewhere: int
    start_offset: int | None
    end_offset: int | None
    unreadable: tuple[str, ...]
    directory: Path


def salvage(
    directory: Location,
    *,
    topic: str,
    partition: int,
    out: Path,
    start: int = 0,
    end: int | None = None,
    broker: int | None,
) -> Salvaged:
    """Writes the records of [start, end) of one replica into a new directory. Raises `SnapshotError`."""
    snapshot = open_snapshot(directory)
    copies: dict[int, ReplicaFiles] = {
        r.broker_id: r
        for r in listing(snapshot.manifest).replicas()
        if (r.topic, r.partition, r.state) == (topic, partition, "live")
    }
    if not copies:
        raise SnapshotError(f"{directory} holds no replica of {topic}-{partition}. Check the name and the partition.")
    if any(is_headers_file(s.log.path) for r in copies.values() for s in r.segments):
        raise SnapshotError(
            f"{directory} was captured with --mode headers: it holds no records of {topic}-{partition} that "
            "could be salvaged. Capture the replica's broker again with --mode full while it is still down."
        )
    if out.exists() and any(out.iterdir()):
        raise SnapshotError(f"{out} is not empty, and nothing is written over. Name a new directory with --out.")
    batches = {b: _identities(snapshot, r, start, end) for b, r in copies.items()}
    chosen = broker if broker is not None else _only_holder(batches, directory, topic, partition)
    if chosen not in copies:
        raise SnapshotError(f"{directory} holds no replica of {topic}-{partition} of broker {chosen}.")
    elsewhere = set().union(*(ids for b, ids in batches.items() if b != chosen))
    return _write(snapshot, copies[chosen], out, start, end, elsewhere)


def _identities(snapshot: Snapshot, replica: ReplicaFiles, start: int, end: int | None) -> set[Identity]:
    return {
        tuple(int(row[name]) for name in _IDENTITY)
        for _, headers in _headers(snapshot, replica, start, end)
        for row in headers
    }


def _only_holder(batches: dict[int, set[Identity]], directory: Location, topic: str, partition: int) -> int:
    """The one broker whose batches in the range no other copy has. Two such copies need a word from the user."""
    holders = []
    for broker, own in batches.items():
        others = set().union(*(ids for b, ids in batches.items() if b != broker))
        if own - others:
            holders.append(broker)
    if len(holders) > 1:
        raise SnapshotError(
            f"Brokers {', '.join(map(str, sorted(holders)))} each hold batches of {topic}-{partition} in that range "
            f"that no other copy in {directory} has. Say whose to take: --broker ID"
        )
    return holders[0] if holders else max(batches, key=lambda b: (len(batches[b]), -b))


def _headers(
    snapshot: Snapshot, replica: ReplicaFiles, start: int, end: int | None
) -> Iterator[tuple[Location, NDArray[Any]]]:
    """Sound batches that touch the range, segment by segment."""
    bases = [s.base_offset for s in replica.segments]
    for segment, next_base in zip(replica.segments, [*bases[1:], None], strict=True):
        if (end is not None and segment.base_offset >= end) or (next_base is not None and next_base <= start):
            continue
        path = snapshot.root / segment.log.path
        with open_bytes(path) as file:
            for block in scan_batches(file.readinto):
                touched = (block.headers["last_offset"] >= start) & (block.headers["crc_valid"] == 1)
                if end is not None:
                    touched &= block.headers["base_offset"] < end
                rows = block.headers[touched]
                if len(rows):
                    yield path, rows.copy()


def _write(
    snapshot: Snapshot, replica: ReplicaFiles, out: Path, start: int, end: int | None, elsewhere: set[Identity]
) -> Salvaged:
    target = out / f"{replica.topic}-{replica.partition}"
    target.mkdir(parents=True)
    log: IO[bytes] | None = None
    records = surviving = 0
    first: int | None = None
    last: int | None = None
    unreadable: list[str] = []
    with (out / "records.jsonl").open("x", encoding="utf-8") as lines:
        try:
            for path, headers in _headers(snapshot, replica, start, end):
                with open_bytes(path) as source:
                    for row in headers:
                        data = _bytes_of(source, row)
                        if log is None:
                            log = (target / f"{int(row['base_offset']):020d}.log").open("xb")
                        log.write(data)
                        if int(row["attributes"]) & CONTROL_BIT:
                            continue
                        batch = read_batch(data)
                        if isinstance(batch, Corruption):
                            unreadable.append(f"offsets {row['base_offset']}..{row['last_offset']}: {batch.detail}")
                            continue
                        survives = tuple(int(row[name]) for name in _IDENTITY) in elsewhere
                        for line in _lines(batch, survives=survives, start=start, end=end):
                            lines.write(json.dumps(line) + "\n")
                            records += 1
                            surviving += survives
                            first = line["offset"] if first is None else first
                            last = line["offset"]
        finally:
            if log is not None:
                log.close()
    return Salvaged(
        broker_id=replica.broker_id,
        records=records,
        surviving_elsewhere=surviving,
        start_offset=first,
        end_offset=last + 1 if last is not None else None,
        unreadable=tuple(unreadable),
        directory=out,
    )


def _bytes_of(source: Any, row: np.void) -> bytes:
    source.seek(int(row["position"]))
    data: bytes = source.read(int(row["size_bytes"]))
    return data


def _lines(batch: RecordBatch, *, survives: bool, start: int, end: int | None) -> Iterator[dict[str, Any]]:
    for at, record in enumerate(batch.records):
        if record.offset < start or (end is not None and record.offset >= end):
            continue
        yield {
            "offset": record.offset,
            "timestamp_ms": record.timestamp,
            "leader_epoch": batch.partition_leader_epoch,
            "producer_id": batch.producer_id if batch.producer_id >= 0 else None,
            "producer_epoch": batch.producer_epoch if batch.producer_id >= 0 else None,
            "sequence": (batch.base_sequence + at) & 0x7FFFFFFF if batch.base_sequence >= 0 else None,
            "transactional": bool(batch.attributes & TRANSACTIONAL_BIT),
            "key": _text(record.key),
            "value": _text(record.value),
            "headers": [[name, _text(value)] for name, value in record.headers],
            "survives_elsewhere": survives,
        }


def _text(data: bytes | None) -> str | None:
    """Bytes in JSON: base64."""
    return None if data is None else base64.b64encode(data).decode()
