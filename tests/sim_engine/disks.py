"""Disks with one small partition, and ways to hurt it that a seed draws."""

import random
from dataclasses import replace

from tests.sim_engine.random_logs import SMALL, START_MS, random_log
from tidegauge.kafka_log.types import TopicPartition
from tidegauge.sim_engine.disks.disk_faults import (
    DiskFault,
    bit_flip,
    damaged_index,
    full_disk,
    lost_flush,
    lost_segment,
    torn_write,
)
from tidegauge.sim_engine.files.render import BrokerDisk, Replica
from tidegauge.sim_engine.log.replica_log import LogConfig, ReplicaLog, new_log
from tidegauge.sim_engine.log.stored_batch import NewRecord, data_batch

ORDERS = TopicPartition("orders", 0)
KEPT = replace(SMALL, compact=False, producer_expiration_ms=2**31 - 1)
TOPIC_ID = "aaaaaaaaaaaaaaaaaaaaAQ"


def disk_of(log: ReplicaLog, *, clean: bool = False) -> BrokerDisk:
    """A broker's disk with one partition; its checkpoints are those of this moment."""
    return BrokerDisk(
        broker_id=1,
        cluster_id="cccccccccccccccccccccc",
        directory_id="dddddddddddddddddddddd",
        replicas={ORDERS: Replica(log=log, topic_id=TOPIC_ID)},
        metadata=new_log(LogConfig(), now_ms=START_MS),
        quorum_leader_id=1,
        quorum_leader_epoch=1,
        high_watermarks={ORDERS: log.high_watermark},
        recovery_points={ORDERS: log.flushed_end_offset},
        clean_broker_epoch=7 if clean else None,
    )


def hurt_disk(seed: int) -> tuple[BrokerDisk, BrokerDisk, DiskFault]:
    """A disk before and after a fault."""
    draw = random.Random(seed)
    log = random_log(seed, KEPT, batches=draw.randrange(10, 60))
    disk = disk_of(log)
    offset = draw.randrange(log.log_end_offset)
    segment = draw.choice(log.segments)
    # Not the base offset: no checksum covers it, and what a broker makes of it depends on where its index points.
    byte = draw.choice((draw.randrange(8, 16), draw.randrange(17, 61), draw.randrange(61, 300)))
    last = log.active.batches[-1]
    next_batch = data_batch(
        [NewRecord(timestamp=START_MS, key=b"k", value=bytes(50))],
        base_offset=log.log_end_offset,
        leader_epoch=log.latest_epoch,
    )
    made = draw.choice(
        (
            lambda: torn_write(disk, ORDERS, kept_bytes=draw.randrange(1, last.size_bytes)),
            lambda: full_disk(disk, ORDERS, next_batch, room_bytes=draw.randrange(next_batch.size_bytes)),
            lambda: lost_flush(disk, ORDERS, start_offset=offset, end_offset=log.log_end_offset),
            lambda: lost_flush(disk, ORDERS, start_offset=0, end_offset=log.log_end_offset - 1),
            lambda: bit_flip(disk, ORDERS, offset=offset, byte=byte, bit=draw.randrange(8)),
            lambda: bit_flip(disk, ORDERS, offset=log.log_end_offset - 1, byte=byte, bit=draw.randrange(8)),
            lambda: lost_segment(disk, ORDERS, base_offset=segment.base_offset),
            lambda: damaged_index(disk, ORDERS, base_offset=segment.base_offset, suffix=".index", data=None),
        )
    )()
    return (disk, *made) if made is not None else hurt_disk(seed + 1_000_003)
