"""Ways to break one thing in what coordinators and transactional producers wrote, on every replica alike.

In: a copy of a capture. Out: the same with other bytes in it. Sizes stay, checksums are made right, so that nothing but
the one thing is wrong.
"""

import struct
from collections.abc import Callable, Mapping
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any, Final

from tests.derivation.damage import batches, edit, place, sealed, sealed_snapshot, segments
from tidegauge.kafka_log import batch as layout
from tidegauge.kafka_log.batch_writer import write_batch
from tidegauge.kafka_log.coordinator_records import (
    OtherCoordinatorRecord,
    decode_coordinator_record,
    encode_coordinator_record,
)
from tidegauge.kafka_log.corruption import Corruption
from tidegauge.kafka_log.java_hash import coordinator_partition
from tidegauge.kafka_log.records import Record, read_batch

BROKERS: Final = ("broker-1", "broker-2", "broker-3")
Change = Callable[[OtherCoordinatorRecord], OtherCoordinatorRecord | None]


def everywhere(d: Path, partition: str, change: Callable[[Path], None]) -> None:
    """The same to each replica of a partition."""
    for broker in BROKERS:
        for path in segments(d / broker / partition):
            change(path)


def records(d: Path, topic: str, partition: int, change: Callable[[], Change]) -> None:
    """Changes records of a coordinator's log, the same on each replica; at least one must be changed."""
    for broker in BROKERS:
        of_replica, changed = change(), 0
        for path in segments(d / broker / f"{topic}-{partition}"):
            for row in batches(path):
                if not int(row["attributes"]) & layout.CONTROL_BIT:
                    changed += _rewritten(path, place(row), topic, of_replica)
        assert changed, f"nothing was changed in {topic}-{partition} of {broker}"


def _rewritten(path: Path, at: tuple[int, int], topic: str, change: Change) -> int:
    start, end = at
    batch = read_batch(path.read_bytes()[start:end])
    assert not isinstance(batch, Corruption)
    made = tuple(_changed(topic, record, change) for record in batch.records)
    if made == batch.records:
        return 0
    written = write_batch(replace(batch, records=made))
    assert len(written) == end - start, "only values of one size may be exchanged"
    edit(path, lambda b: b.__setitem__(slice(start, end), written))
    return sum(1 for new, old in zip(made, batch.records, strict=True) if new != old)


def _changed(topic: str, record: Record, change: Change) -> Record:
    decoded = decode_coordinator_record(topic, record.key, record.value)
    assert not isinstance(decoded, Corruption)
    made = change(decoded)
    if made is None:
        return record
    key, value = encode_coordinator_record(topic, made)
    return replace(record, key=key, value=value)


def with_fields(record: OtherCoordinatorRecord, **fields: Any) -> OtherCoordinatorRecord:
    """A record with other values in its value; a function makes the new one of the old one."""
    assert record.value is not None
    made = {name: new(record.value[name]) if callable(new) else new for name, new in fields.items()}
    return replace(record, value={**record.value, **made})


def each(wanted: Callable[[OtherCoordinatorRecord], bool], **fields: Any) -> Callable[[], Change]:
    """Gives every record of those wanted other values."""
    return lambda: lambda r: with_fields(r, **fields) if r.value is not None and wanted(r) else None


def nth(number: int, wanted: Callable[[OtherCoordinatorRecord], bool], **fields: Any) -> Callable[[], Change]:
    """Gives the nth record (from 0) of those wanted other values, on each replica."""

    def of_replica() -> Change:
        places = count()

        def of(record: OtherCoordinatorRecord) -> OtherCoordinatorRecord | None:
            chosen = record.value is not None and wanted(record) and next(places) == number
            return with_fields(record, **fields) if chosen else None

        return of

    return of_replica


def renamed(field: str, name: str, partition_count: int) -> Callable[[], Change]:
    """Another name of the same length, that belongs to another partition, in the place of this one."""
    own = coordinator_partition(name, partition_count)
    letters = "abcdefghijklmnopqrstuvwxyz"
    other = next(n for c in letters if coordinator_partition(n := name[:-1] + c, partition_count) != own)

    def change(record: OtherCoordinatorRecord) -> OtherCoordinatorRecord | None:
        named: Mapping[str, Any] = record.key
        return replace(record, key={**named, field: other}) if named.get(field) == name else None

    return lambda: change


def header(path: Path, row: Any, at: int, form: str, value: int) -> None:
    """Another number in a batch's header, with the checksum of it."""
    start, end = place(row)

    def change(b: bytearray) -> None:
        struct.pack_into(form, b, start + at, value)
        sealed(b, start, end)

    edit(path, change)


def flipped_marker(path: Path, row: Any) -> None:
    """An end marker of the other kind."""
    start, end = place(row)
    batch = read_batch(path.read_bytes()[start:end])
    assert not isinstance(batch, Corruption)
    (record,) = batch.records
    assert record.key is not None
    version, kind = struct.unpack(">hh", record.key)
    made = replace(batch, records=(replace(record, key=struct.pack(">hh", version, 1 - kind)),))
    edit(path, lambda b: b.__setitem__(slice(start, end), write_batch(made)))


def without_index_entry(path: Path, marker_offset: int) -> None:
    """A transaction index that does not know of one marker."""

    def change(b: bytearray) -> bytes:
        entries = [b[at : at + 34] for at in range(0, len(b), 34)]
        return b"".join(e for e in entries if struct.unpack_from(">q", e, 18)[0] != marker_offset)

    edit(path, change)


def snapshot_sequence(path: Path) -> None:
    """A producer snapshot whose first producer has another last sequence."""

    def change(b: bytearray) -> bytearray:
        (sequence,) = struct.unpack_from(">i", b, 20)
        struct.pack_into(">i", b, 20, sequence + 1)
        return sealed_snapshot(b)

    edit(path, change)
