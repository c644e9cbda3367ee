"""Ways to break one thing in how logs are kept: records, segments, indexes, cleaned logs, the remote tier.

In: a copy of a capture (or of a simulated cluster). Out: the same with other bytes or files in it. Checksums are made
right, and replicas that should be alike are changed alike, so that nothing but the one thing is wrong.
"""

import json
import re
import shutil
import struct
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from tests.derivation.damage import batches, edit, place, sealed
from tidegauge.kafka_log.batch_writer import write_batch
from tidegauge.kafka_log.coordinator_records import (
    RemoteLogRecord,
    decode_remote_log_fields,
    encode_remote_log_record,
)
from tidegauge.kafka_log.corruption import Corruption
from tidegauge.kafka_log.records import RecordBatch, read_batch

BROKERS: Final = ("broker-1", "broker-2", "broker-3")
RemoteChange = Callable[[RemoteLogRecord], Mapping[str, Any] | None]
_SEGMENT_ID: Final = "remote_log_segment_id"


def first_record(path: Path, at: int) -> int:
    """Where in a segment's file the first record of an uncompressed batch begins, behind its length."""
    start, _ = place(batches(path)[at])
    position = start + 61
    data = path.read_bytes()
    while data[position] & 0x80:
        position += 1
    return position + 1


def set_in_record(path: Path, at: int, place_in_record: int, value: int) -> None:
    """One byte of a batch's first record: 1 is its timestamp delta, 2 its offset delta where both are small."""
    position = first_record(path, at) + place_in_record
    start, end = place(batches(path)[at])

    def change(data: bytearray) -> None:
        assert data[position] == 0, "the deltas of a batch's first record are 0"
        data[position] = value
        sealed(data, start, end)

    edit(path, change)


def rewritten(path: Path, at: int, change: Callable[[RecordBatch], RecordBatch]) -> None:
    """A batch with other records in it; what follows moves along."""
    start, end = place(batches(path)[at])

    def changed(data: bytearray) -> bytes:
        batch = read_batch(bytes(data[start:end]))
        assert not isinstance(batch, Corruption)
        return bytes(data[:start]) + write_batch(change(batch)) + bytes(data[end:])

    edit(path, changed)


def without_batch(path: Path, at: int) -> None:
    """A segment without one of its batches, as a cleaner might leave it, and without indexes that would name it."""
    start, end = place(batches(path)[at])
    edit(path, lambda data: data[:start] + data[end:])
    for suffix in (".index", ".timeindex"):
        path.with_suffix(suffix).write_bytes(b"")


def merged(replica: Path, first: int, second: int) -> None:
    """Two neighbouring segments made one, with indexes that are right."""
    one, other = (replica / f"{base:020d}.log" for base in (first, second))
    size, distance = one.stat().st_size, second - first
    for suffix, form, move in ((".index", ">ii", (distance, size)), (".timeindex", ">qi", (0, distance))):
        own, theirs = one.with_suffix(suffix), other.with_suffix(suffix)
        entries = [
            struct.pack(form, *(a + b for a, b in zip(entry, move, strict=True)))
            for entry in struct.iter_unpack(form, theirs.read_bytes())
        ]
        own.write_bytes(own.read_bytes() + b"".join(entries))
    one.write_bytes(one.read_bytes() + other.read_bytes())
    for path in replica.glob(f"{second:020d}.*"):
        if path.suffix != ".snapshot":
            path.unlink()


def checkpointed(log_dir: Path, name: str, topic: str, partition: int, offset: int) -> None:
    """A line of an offset checkpoint, in the place of an older one."""
    path = log_dir / name
    lines = path.read_text().splitlines()[2:] if path.exists() else []
    kept = [line for line in lines if not line.startswith(f"{topic} {partition} ")]
    kept.append(f"{topic} {partition} {offset}")
    path.write_text("\n".join(["0", str(len(kept)), *kept]) + "\n")


def only_what_is_there(d: Path) -> None:
    """Offset checkpoints without the lines of partitions that a copy leaves out."""
    for broker in BROKERS:
        for path in (d / broker).glob("*-offset-checkpoint"):
            lines = [line.rsplit(" ", 2) for line in path.read_text().splitlines()[2:]]
            kept = [" ".join(line) for line in lines if (d / broker / f"{line[0]}-{line[1]}").is_dir()]
            path.write_text("\n".join(["0", str(len(kept)), *kept]) + "\n")


def two_log_dirs(broker: Path, partition: str) -> None:
    """A broker with two log dirs, and one partition in both."""
    names = sorted(p.name for p in broker.iterdir())
    for log_dir in ("d1", "d2"):
        (broker / log_dir).mkdir()
    for name in names:
        if name in (".kafka_cleanshutdown", "meta.properties"):
            shutil.copy(broker / name, broker / "d2")
        shutil.move(broker / name, broker / "d1")
    properties = broker / "d2/meta.properties"
    properties.write_text(re.sub("(?m)^directory.id=.*", "directory.id=" + "B" * 22, properties.read_text()))
    shutil.copytree(broker / "d1" / partition, broker / "d2" / partition)


def shutdown_epoch(broker: Path, epoch: int) -> None:
    """Another broker epoch in the marker of a clean stop."""
    path = broker / ".kafka_cleanshutdown"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"brokerEpoch": epoch}))


def remote_records(d: Path, change: RemoteChange) -> None:
    """Changes records of the remote tier's metadata, the same on each replica; at least one must be changed."""
    for broker in BROKERS:
        changed = 0
        for path in sorted((d / broker).glob("__remote_log_metadata-*/*.log")):
            for at in range(len(batches(path))):
                changed += _remote_batch(path, at, change)
        assert changed, f"nothing was changed in the metadata of {broker}"


def _remote_batch(path: Path, at: int, change: RemoteChange) -> int:
    start, end = place(batches(path)[at])
    batch = read_batch(path.read_bytes()[start:end])
    assert not isinstance(batch, Corruption)
    made = []
    for record in batch.records:
        told = decode_remote_log_fields(record.value or b"")
        assert not isinstance(told, Corruption)
        fields = change(told)
        if fields is not None:
            record = replace(record, value=encode_remote_log_record(replace(told, fields={**told.fields, **fields})))
        made.append(record)
    if tuple(made) == batch.records:
        return 0
    written = write_batch(replace(batch, records=tuple(made)))
    edit(path, lambda data: data[:start] + written + data[end:])
    for suffix in (".index", ".timeindex"):
        path.with_suffix(suffix).write_bytes(b"")
    return 1


def of_remote_segment(topic: str, begins_at: int, **values: Any) -> RemoteChange:
    """Other fields in the first record of the segment that begins there."""

    def change(record: RemoteLogRecord) -> Mapping[str, Any] | None:
        said: Mapping[str, Any] = record.fields
        owner = said[_SEGMENT_ID]["topic_id_partition"]
        wanted = owner["name"] == topic and owner["partition"] == 0 and said.get("start_offset") == begins_at
        return values if wanted else None

    return change
