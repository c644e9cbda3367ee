"""Producer snapshots: `<offset>.snapshot`, the producers' state up to an offset.

In: a file's bytes. Out: its entries and its damage. Entries of a file whose checksum does not match are still handed
out, beside the `Corruption`; whether to believe them is the reader's business.

    0    version        i16   1
    2    crc            u32   CRC-32C over everything behind it
    6    count          i32
    10   entries        46 bytes each: producer id i64, producer epoch i16, last sequence i32, last offset i64,
                        offset delta i32, timestamp i64, coordinator epoch i32, current transaction's first offset i64

Source: ProducerStateManager#readSnapshot, ProducerSnapshot schema version 1.
"""

import struct
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from tidegauge.kafka_log.corruption import Corruption, Damage
from tidegauge.kafka_log.crc32c import crc32c

_HEADER: Final = struct.Struct(">hIi")
_ENTRY: Final = struct.Struct(">qhiqiqiq")
_CRC_FROM: Final = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerSnapshotEntry:
    """One producer. -1 stays -1 (no sequence, no offset, no coordinator); no open transaction is None."""

    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_offset: int
    offset_delta: int
    timestamp: int
    coordinator_epoch: int
    current_transaction_first_offset: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerSnapshot:
    """A snapshot's content; `version` None if the file is too short to say."""

    version: int | None
    entries: tuple[ProducerSnapshotEntry, ...]
    corruptions: tuple[Corruption, ...]


def parse_producer_snapshot(data: bytes) -> ProducerSnapshot:
    """Reads a producer snapshot."""

    def damage(kind: Damage, detail: str) -> Corruption:
        return Corruption(kind=kind, position=0, end_position=len(data), detail=detail)

    if len(data) < _HEADER.size:
        detail = f"{len(data)} bytes are too few for a producer snapshot"
        return ProducerSnapshot(version=None, entries=(), corruptions=(damage(Damage.FORM, detail),))
    version, crc, count = _HEADER.unpack_from(data)
    corruptions = []
    if version != 1:
        corruptions.append(damage(Damage.VERSION, f"version {version}, only 1 is known"))
    if crc32c(data[_CRC_FROM:]) != crc:
        corruptions.append(damage(Damage.CRC, "the checksum does not match"))
    whole = (len(data) - _HEADER.size) // _ENTRY.size
    if count < 0 or len(data) != _HEADER.size + count * _ENTRY.size:
        corruptions.append(damage(Damage.COUNT, f"{count} entries are declared, the file has room for {whole}"))
    entries = tuple(
        ProducerSnapshotEntry(
            producer_id=v[0],
            producer_epoch=v[1],
            last_sequence=v[2],
            last_offset=v[3],
            offset_delta=v[4],
            timestamp=v[5],
            coordinator_epoch=v[6],
            current_transaction_first_offset=v[7] if v[7] >= 0 else None,
        )
        for v in _ENTRY.iter_unpack(data[_HEADER.size : _HEADER.size + whole * _ENTRY.size])
    )
    return ProducerSnapshot(version=version, entries=entries[: max(count, 0)], corruptions=tuple(corruptions))


def write_producer_snapshot(entries: Iterable[ProducerSnapshotEntry]) -> bytes:
    """The bytes of a producer snapshot of version 1 with these entries (ProducerStateManager#writeSnapshot)."""
    packed = [
        _ENTRY.pack(
            e.producer_id,
            e.producer_epoch,
            e.last_sequence,
            e.last_offset,
            e.offset_delta,
            e.timestamp,
            e.coordinator_epoch,
            -1 if e.current_transaction_first_offset is None else e.current_transaction_first_offset,
        )
        for e in entries
    ]
    covered = struct.pack(">i", len(packed)) + b"".join(packed)
    return struct.pack(">hI", 1, crc32c(covered)) + covered
