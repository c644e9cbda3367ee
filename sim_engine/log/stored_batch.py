"""A batch as a leader appends it: its bytes, made once, and what brokers look at without reading them again.

In: records, a producer's numbers, a codec; offset and leader epoch from the leader. Out: `StoredBatch`. Every replica
of the batch shares this one value, so equal batches are the same bytes by construction; what differs on a disk (rot,
torn writes, cleaning) makes another value.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import Final

from tidegauge.kafka_log.batch import COMPRESSION_MASK, CONTROL_BIT, TRANSACTIONAL_BIT, CompressionType
from tidegauge.kafka_log.batch_writer import write_batch
from tidegauge.kafka_log.control import EndTxnMarker, decode_control_record, encode_control_record
from tidegauge.kafka_log.corruption import Corruption
from tidegauge.kafka_log.records import Record, RecordBatch, read_batch

NO_PRODUCER: Final = -1
NO_SEQUENCE: Final = -1
MAX_SEQUENCE: Final = 2**31 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredBatch:
    """One batch on a log. `records` are those of the batch as it was written; `data` are its bytes.

    If it is `damaged`, the bytes are no longer those: what its broker holds in memory is right, what it reads is not.
    """

    base_offset: int
    last_offset: int
    leader_epoch: int
    attributes: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    records: tuple[Record, ...]
    data: bytes
    committed: bool | None = None
    coordinator_epoch: int = -1
    damaged: bool = False

    @property
    def size_bytes(self) -> int:
        """Bytes on disk."""
        return len(self.data)

    @property
    def codec(self) -> CompressionType:
        """How its records are compressed."""
        return CompressionType(self.attributes & COMPRESSION_MASK)

    @property
    def is_transactional(self) -> bool:
        """Part of a transaction, its end marker included."""
        return bool(self.attributes & TRANSACTIONAL_BIT)

    @property
    def is_control(self) -> bool:
        """Holds control records."""
        return bool(self.attributes & CONTROL_BIT)

    @property
    def is_marker(self) -> bool:
        """Ends a transaction."""
        return self.committed is not None

    @property
    def last_sequence(self) -> int:
        """Sequence of the last record, past 2147483647 from 0 on; -1 for a batch without sequences."""
        if self.base_sequence == NO_SEQUENCE:
            return NO_SEQUENCE
        return add_sequence(self.base_sequence, self.last_offset - self.base_offset)


@dataclass(frozen=True, slots=True, kw_only=True)
class NewRecord:
    """A record that has no offset yet."""

    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Producer:
    """Whose batch it is: id, epoch, and the first record's sequence."""

    producer_id: int
    producer_epoch: int
    base_sequence: int
    transactional: bool = False


def add_sequence(sequence: int, by: int) -> int:
    """Sequences count up to 2147483647 and go on with 0 (DefaultRecordBatch#incrementSequence)."""
    return (sequence + by) & MAX_SEQUENCE


def data_batch(
    records: Sequence[NewRecord],
    *,
    base_offset: int,
    leader_epoch: int,
    producer: Producer | None = None,
    codec: CompressionType = CompressionType.NONE,
) -> StoredBatch:
    """A batch of a client's records."""
    attributes = TRANSACTIONAL_BIT if producer is not None and producer.transactional else 0
    return stored_batch(
        records, base_offset=base_offset, leader_epoch=leader_epoch, attributes=attributes | codec, producer=producer
    )


def marker_batch(
    *,
    base_offset: int,
    leader_epoch: int,
    timestamp: int,
    producer_id: int,
    producer_epoch: int,
    committed: bool,
    coordinator_epoch: int,
) -> StoredBatch:
    """A transaction's end marker (EndTransactionMarker)."""
    key, value = encode_control_record(EndTxnMarker(committed=committed, coordinator_epoch=coordinator_epoch))
    return stored_batch(
        [NewRecord(timestamp=timestamp, key=key, value=value)],
        base_offset=base_offset,
        leader_epoch=leader_epoch,
        attributes=TRANSACTIONAL_BIT | CONTROL_BIT,
        producer=Producer(producer_id=producer_id, producer_epoch=producer_epoch, base_sequence=NO_SEQUENCE),
        committed=committed,
        coordinator_epoch=coordinator_epoch,
    )


def stored_batch(
    records: Sequence[NewRecord],
    *,
    base_offset: int,
    leader_epoch: int,
    attributes: int = 0,
    producer: Producer | None = None,
    committed: bool | None = None,
    coordinator_epoch: int = -1,
) -> StoredBatch:
    """A batch of these records at consecutive offsets, compressed as the attributes say."""
    assert records, "nobody writes an empty batch"
    batch = RecordBatch(
        base_offset=base_offset,
        last_offset=base_offset + len(records) - 1,
        partition_leader_epoch=leader_epoch,
        crc=0,
        attributes=attributes,
        base_timestamp=records[0].timestamp,
        max_timestamp=max(r.timestamp for r in records),
        producer_id=producer.producer_id if producer is not None else NO_PRODUCER,
        producer_epoch=producer.producer_epoch if producer is not None else NO_PRODUCER,
        base_sequence=producer.base_sequence if producer is not None else NO_SEQUENCE,
        records=tuple(
            Record(offset=base_offset + i, timestamp=r.timestamp, key=r.key, value=r.value, headers=r.headers)
            for i, r in enumerate(records)
        ),
    )
    return as_stored(batch, committed=committed, coordinator_epoch=coordinator_epoch)


def as_stored(
    batch: RecordBatch, *, data: bytes | None = None, committed: bool | None = None, coordinator_epoch: int = -1
) -> StoredBatch:
    """The batch with its bytes, which are written anew if they are not given."""
    return StoredBatch(
        base_offset=batch.base_offset,
        last_offset=batch.last_offset,
        leader_epoch=batch.partition_leader_epoch,
        attributes=batch.attributes,
        base_timestamp=batch.base_timestamp,
        max_timestamp=batch.max_timestamp,
        producer_id=batch.producer_id,
        producer_epoch=batch.producer_epoch,
        base_sequence=batch.base_sequence,
        records=batch.records,
        data=data
        if data is not None
        else write_batch(batch, codec=CompressionType(batch.attributes & COMPRESSION_MASK)),
        committed=committed,
        coordinator_epoch=coordinator_epoch,
    )


def readable(batches: Iterable[StoredBatch]) -> tuple[StoredBatch, ...]:
    """As many as a reader takes: it sees the wrong checksum of a damaged batch, and asks for it again and again."""
    return tuple(takewhile(lambda batch: not batch.damaged, batches))


def read_stored(data: bytes) -> StoredBatch | Corruption:
    """A batch from its bytes, as a broker takes it from its disk or from another broker."""
    batch = read_batch(data)
    if isinstance(batch, Corruption):
        return batch
    marker = decode_control_record(batch.records[0]) if batch.attributes & CONTROL_BIT and batch.records else None
    if isinstance(marker, EndTxnMarker):
        return as_stored(batch, data=data, committed=marker.committed, coordinator_epoch=marker.coordinator_epoch)
    return as_stored(batch, data=data)
