"""Logs that a seed makes: plain, idempotent and transactional producers, tombstones, codecs, leader epochs, rolls.

In: a seed, a configuration. Out: a `ReplicaLog`. Each is a log that a broker could have.
"""

import random
from dataclasses import dataclass, field

from tidegauge.kafka_log.batch import CompressionType
from tidegauge.sim_engine.log.replica_log import LogConfig, ReplicaLog, append, new_log, with_high_watermark
from tidegauge.sim_engine.log.stored_batch import NewRecord, Producer, StoredBatch, data_batch, marker_batch

NONE = CompressionType.NONE
START_MS = 1_790_000_000_000
SMALL = LogConfig(segment_bytes=1500, index_interval_bytes=200, segment_index_bytes=65_536, compact=True, delete=False)


@dataclass
class Writer:
    """One producer: its epoch and next sequence, and whether a transaction of it is open."""

    producer_id: int
    transactional: bool
    version_2: bool
    epoch: int = 0
    sequence: int = 0
    open: bool = False
    draw: random.Random = field(default_factory=random.Random)


def random_log(
    seed: int, config: LogConfig = SMALL, *, batches: int = 60, keys: int = 12, codecs: bool = True, quiet: int = 0
) -> ReplicaLog:
    """A log with so many batches; the high watermark is at its end, or not far below.

    `quiet`: then every transaction ends, and so many more are written without a producer id.
    """
    draw = random.Random(seed)
    log = new_log(config, now_ms=START_MS)
    writers = [
        Writer(producer_id=100 + i, transactional=i % 2 == 1, version_2=i % 4 == 1) for i in range(draw.randrange(1, 6))
    ]
    now, leader_epoch = START_MS, 0
    for _ in range(batches):
        now += draw.randrange(500)
        leader_epoch += draw.random() < 0.05
        codec = draw.choice((*[CompressionType.NONE] * 6, *CompressionType))
        batch = _next(draw, writers, log.log_end_offset, leader_epoch, now, keys, codec if codecs else NONE)
        log = append(log, batch, now_ms=now)
    for writer in [w for w in writers if w.open and quiet]:
        log = append(log, _marker(draw, writer, log.log_end_offset, leader_epoch, now), now_ms=now)
    for _ in range(quiet):
        batch = _next(draw, [], log.log_end_offset, leader_epoch, now, keys, NONE)
        log = append(log, batch, now_ms=now)
    lag = draw.choice((0, 0, draw.randrange(10)))
    return with_high_watermark(log, log.log_end_offset - lag)


def _next(
    draw: random.Random,
    writers: list[Writer],
    offset: int,
    leader_epoch: int,
    now: int,
    keys: int,
    codec: CompressionType,
) -> StoredBatch:
    writer = draw.choice([*writers, None])
    if writer is not None and writer.open and draw.random() < 0.4:
        return _marker(draw, writer, offset, leader_epoch, now)
    records = [_record(draw, now, keys) for _ in range(draw.randrange(1, 5))]
    if writer is None:
        return data_batch(records, base_offset=offset, leader_epoch=leader_epoch, codec=codec)
    if not writer.open and draw.random() < 0.05:
        writer.epoch, writer.sequence = writer.epoch + 1, 0
    producer = Producer(
        producer_id=writer.producer_id,
        producer_epoch=writer.epoch,
        base_sequence=writer.sequence,
        transactional=writer.transactional,
    )
    writer.sequence += len(records)
    writer.open = writer.transactional
    return data_batch(records, base_offset=offset, leader_epoch=leader_epoch, producer=producer, codec=codec)


def _marker(draw: random.Random, writer: Writer, offset: int, leader_epoch: int, now: int) -> StoredBatch:
    writer.open = False
    if writer.version_2:
        writer.epoch, writer.sequence = writer.epoch + 1, 0
    return marker_batch(
        base_offset=offset,
        leader_epoch=leader_epoch,
        timestamp=now,
        producer_id=writer.producer_id,
        producer_epoch=writer.epoch,
        committed=draw.random() < 0.5,
        coordinator_epoch=3,
    )


def _record(draw: random.Random, now: int, keys: int) -> NewRecord:
    key = f"key-{draw.randrange(keys)}".encode()
    value = None if draw.random() < 0.2 else draw.randbytes(draw.randrange(40))
    headers = (("trace", draw.randbytes(4)),) if draw.random() < 0.1 else ()
    return NewRecord(timestamp=now - draw.randrange(50), key=key, value=value, headers=headers)


def ends(log: ReplicaLog) -> list[int]:
    """Where each batch ends."""
    return [b.last_offset + 1 for s in log.segments for b in s.batches]
