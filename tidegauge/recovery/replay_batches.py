"""Salvaged records as batches to be produced: keys, values, headers and timestamps as they were.

In: records in their order. Out: groups that fit into one batch each, and a batch's bytes. The rule that must hold: the
same records under the same producer id, epoch and sequence make a batch that the leader takes for the same one.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from tidegauge.kafka_log.batch import CompressionType
from tidegauge.kafka_log.batch_writer import write_batch
from tidegauge.kafka_log.records import Record, RecordBatch
from tidegauge.recovery.replay_journal import ProducerRun

_BATCH_BYTES: Final = 256 << 10
_BATCH_RECORDS: Final = 1000
_HEADER_BYTES: Final = 61
_FIELDS_BYTES: Final = 40
"""The most that a record takes beside its key, value and headers: lengths, deltas, a count."""
_HEADER_FIELDS_BYTES: Final = 10
_NOBODY: Final = (-1, -1, -1)


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchLimits:
    """How large a batch may get: what the topic takes, and no more than a throttle lets through in a second."""

    most_bytes: int
    most_records: int = _BATCH_RECORDS
    wanted_bytes: int = _BATCH_BYTES


def plain_bytes(record: Record) -> int:
    """At most so many bytes does a record take in a batch."""
    headers = sum(
        len(name.encode("utf-8", "surrogateescape")) + len(value or b"") + _HEADER_FIELDS_BYTES
        for name, value in record.headers
    )
    return len(record.key or b"") + len(record.value or b"") + headers + _FIELDS_BYTES


def packed_bytes(record: Record, most_bytes: int) -> int:
    """How large a batch with this record alone is, at its smallest; it is compressed only where it would not fit."""
    least = _HEADER_BYTES + plain_bytes(record)
    return least if least <= most_bytes else len(_smallest([record], _NOBODY, most_bytes))


def groups(records: Iterable[Record], limits: BatchLimits) -> Iterator[list[Record]]:
    """Records that go into one batch each, in their order."""
    most = min(limits.wanted_bytes, limits.most_bytes)
    group: list[Record] = []
    size = _HEADER_BYTES
    for record in records:
        added = plain_bytes(record)
        if group and (size + added > most or len(group) >= limits.most_records):
            yield group
            group, size = [], _HEADER_BYTES
        group.append(record)
        size += added
    if group:
        yield group


def batch_bytes(records: Sequence[Record], run: ProducerRun, sequence: int, most_bytes: int) -> bytes:
    """The batch as it is sent."""
    return _smallest(records, (run.producer_id, run.producer_epoch, sequence), most_bytes)


def _smallest(records: Sequence[Record], producer: tuple[int, int, int], most_bytes: int) -> bytes:
    """Without a codec where it fits so: the topic's compression.type decides what lies on the disk."""
    batch = RecordBatch(
        base_offset=0,
        last_offset=len(records) - 1,
        partition_leader_epoch=-1,
        crc=0,
        attributes=0,
        base_timestamp=records[0].timestamp,
        max_timestamp=max(record.timestamp for record in records),
        producer_id=producer[0],
        producer_epoch=producer[1],
        base_sequence=producer[2],
        records=tuple(replace(record, offset=at) for at, record in enumerate(records)),
    )
    plain = write_batch(batch)
    return plain if len(plain) <= most_bytes else write_batch(batch, codec=CompressionType.GZIP)
