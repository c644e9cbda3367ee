"""Which salvaged records survived all the same: what the replicas that stay hold, under whatever offset.

In: the batches of the copies that Kafka keeps. Out: for a salvaged record, the surviving one that is the same. One
surviving record stands for one salvaged record, never for two; one whose transaction was aborted survived for nobody.

Three ways to be the same, the strongest first:

    batch      the very batch: offset, leader epoch and checksum
    sequence   the same producer id, epoch and sequence, and the same content: the producer sent it again
    content    the same key, value and headers: a producer without sequences, or another instance, wrote it again

A content that two applications may each have written on purpose is one too; that is why it is told how.
"""

import hashlib
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from tidegauge.kafka_log.allowance import Allowance
from tidegauge.kafka_log.corruption import Corruption
from tidegauge.kafka_log.records import Record, RecordBatch, read_batch
from tidegauge.recovery.replica_batches import Identity, ReplicaBatches, identity, is_control

_NONE: Final = b"\xff"
_SOME: Final = b"\x00"
_LARGEST_SEQUENCE: Final = 0x7FFFFFFF

Sequenced = tuple[int, int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Duplicate:
    """A surviving record, and how it is known to be the same."""

    broker_id: int
    offset: int
    by: str


@dataclass(slots=True, kw_only=True)
class Survivors:
    """The surviving records from some offset on."""

    batches: dict[Identity, int] = field(default_factory=dict)
    """Batch -> the broker that holds it."""
    sequences: dict[Sequenced, tuple[int, int, bytes]] = field(default_factory=dict)
    """(producer id, epoch, sequence) -> broker, offset, content."""
    contents: dict[bytes, deque[tuple[int, int]]] = field(default_factory=dict)
    """Content -> (broker, offset) of the records with it that stand for none yet."""
    unreadable: list[str] = field(default_factory=list)
    """Batches whose records nobody could compare: a salvaged record may stand in them."""

    def same_as(self, batch: RecordBatch, at: int, batch_identity: Identity) -> Duplicate | None:
        """The surviving record that is the salvaged batch's record `at`; it stands for no other from now on."""
        record = batch.records[at]
        holder = self.batches.get(batch_identity)
        if holder is not None:
            return Duplicate(broker_id=holder, offset=record.offset, by="batch")
        digest = content_of(record)
        known = self.sequences.get(sequence_of(batch, record)) if batch.base_sequence >= 0 else None
        if known is not None and known[2] == digest:
            self._taken(digest, known[1])
            return Duplicate(broker_id=known[0], offset=known[1], by="sequence")
        left = self.contents.get(digest)
        if not left:
            return None
        broker, offset = left.popleft()
        return Duplicate(broker_id=broker, offset=offset, by="content")

    def _taken(self, digest: bytes, offset: int) -> None:
        self.contents[digest] = deque(place for place in self.contents.get(digest, ()) if place[1] != offset)


def survivors_of(copies: Sequence[ReplicaBatches], start: int, salvaged: set[Identity]) -> Survivors:
    """Indexes what the copies hold from an offset on. `salvaged`: batches that are known by themselves."""
    found = Survivors()
    seen: set[Identity] = set()
    for copy in copies:
        outcomes, allowance = copy.outcomes(start), Allowance()
        found.unreadable += (f"broker {copy.replica.broker_id}, {told}" for told in copy.damaged(start, None))
        for row, data in copy.batches(start, None):
            own = identity(row)
            if own in salvaged:
                found.batches.setdefault(own, copy.replica.broker_id)
            if own in seen or own in salvaged or is_control(row) or outcomes.of(row) == "aborted":
                continue
            seen.add(own)
            batch = read_batch(data, allowance=allowance)
            if isinstance(batch, Corruption):
                where = f"broker {copy.replica.broker_id}, offsets {row['base_offset']}..{row['last_offset']}"
                found.unreadable.append(f"{where}: {batch.detail}")
            else:
                _index(found, batch, copy.replica.broker_id)
    return found


def _index(found: Survivors, batch: RecordBatch, broker: int) -> None:
    for record in batch.records:
        digest = content_of(record)
        if batch.base_sequence >= 0:
            found.sequences.setdefault(sequence_of(batch, record), (broker, record.offset, digest))
        found.contents.setdefault(digest, deque()).append((broker, record.offset))


def sequence_of(batch: RecordBatch, record: Record) -> Sequenced:
    """A record's sequence: the batch's first one, further by the offset delta, and 0 behind the largest."""
    sequence = (batch.base_sequence + record.offset - batch.base_offset) & _LARGEST_SEQUENCE
    return batch.producer_id, batch.producer_epoch, sequence


def content_of(record: Record) -> bytes:
    """SHA-256 of key, value and headers, each with its length, null told from empty."""
    digest = hashlib.sha256()
    for part in _parts(record):
        digest.update(_NONE if part is None else _SOME + len(part).to_bytes(4, "big") + part)
    return digest.digest()


def _parts(record: Record) -> Iterator[bytes | None]:
    yield record.key
    yield record.value
    for name, value in record.headers:
        yield name.encode(errors="surrogateescape")
        yield value
