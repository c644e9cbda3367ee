"""A small cluster at many moments, while it is written to: what a live copy is made of.

In: how many moments. Out: a `Moment` every half second. Followers have what their leader had a moment before; high
watermarks are what everybody has; checkpoint files are some moments old; segments roll and the oldest are retained
away; a leadership moves in the middle, cleanly. Nothing is wrong with it.
"""

from collections.abc import Mapping

from tests.sim_engine.handmade import NOW_MS, TOPIC_IDS, metadata_of, voters
from tidegauge.kafka_log.types import TopicPartition
from tidegauge.sim_engine.files.leftovers import LeftSegment, taken_away
from tidegauge.sim_engine.files.render import BrokerDisk, Replica
from tidegauge.sim_engine.log.replica_log import (
    LogConfig,
    ReplicaLog,
    append,
    delete_segments,
    new_log,
    with_epoch,
    with_high_watermark,
)
from tidegauge.sim_engine.log.stored_batch import NewRecord, data_batch
from tidegauge.sim_engine.metadata.metadata_log import record, written
from tidegauge.sim_engine.rendering.live_copy import Moment

DIRECTORY_IDS = {1: "AQEBAQEBAQEBAQEBAQEBAQ", 2: "AgICAgICAgICAgICAgICAg", 3: "AwMDAwMDAwMDAwMDAwMDAw"}
QUORUM = voters({1: 29091, 2: 29092, 3: 29093}, DIRECTORY_IDS)
STEP_MS = 500
CONFIG = LogConfig(segment_bytes=2048, index_interval_bytes=512, segment_index_bytes=4096, retention_bytes=8192)
PARTITIONS = tuple(TopicPartition("many", number) for number in range(3))
CHECKPOINT_EVERY = 10


class _Replicated:
    """One partition: its leader's log, and what its followers have of it."""

    def __init__(self, number: int) -> None:
        self.leader = 1 + number
        self.epoch = 2 if number == 0 else 0
        start = with_epoch(new_log(CONFIG, now_ms=NOW_MS), self.epoch, 0)
        self.logs: dict[int, ReplicaLog] = dict.fromkeys((1, 2, 3), start)
        self.left: dict[int, tuple[LeftSegment, ...]] = dict.fromkeys((1, 2, 3), ())

    def step(self, moment: int, now_ms: int) -> None:
        log = self.logs[self.leader]
        for other in (1, 2, 3):
            if other != self.leader:
                self._set(other, with_high_watermark(log, self.logs[other].high_watermark), now_ms)
        log = with_high_watermark(log, log.log_end_offset)
        for i in range(1 + moment % 3):
            value = NewRecord(timestamp=now_ms + i, key=None, value=f"{moment} {i} ".encode() * 20)
            log = append(
                log, data_batch([value], base_offset=log.log_end_offset, leader_epoch=self.epoch), now_ms=now_ms
            )
        self._set(self.leader, log, now_ms)

    def move(self, leader: int) -> None:
        """Everybody has everything; another one leads, in a new epoch."""
        log = self.logs[self.leader]
        self.logs = dict.fromkeys(self.logs, with_high_watermark(log, log.log_end_offset))
        self.leader, self.epoch = leader, self.epoch + 1
        self.logs[leader] = with_epoch(self.logs[leader], self.epoch, log.log_end_offset)

    def _set(self, broker: int, log: ReplicaLog, now_ms: int) -> None:
        kept = delete_segments(log, now_ms=now_ms)
        self.left[broker] = (*self.left[broker], *taken_away(log, kept))[-3:]
        self.logs[broker] = kept


def moments(count: int) -> list[Moment]:
    """The cluster, moment by moment."""
    metadata, _, _ = metadata_of(QUORUM, clean=False, small_segments=False, topics={"many": 3})
    replicated = {p: _Replicated(p.partition) for p in PARTITIONS}
    checkpoints: dict[int, Mapping[TopicPartition, int]] = {broker: {} for broker in (1, 2, 3)}
    found = []
    for moment in range(count):
        now_ms = NOW_MS + moment * STEP_MS
        for partition, each in replicated.items():
            if moment == count // 2 and partition.partition == 0:
                each.move(2)
                change = record("PartitionChangeRecord", 2, partition_id=0, topic_id=TOPIC_IDS["many"], leader=2)
                metadata = written(metadata, [change], now_ms=now_ms)
            else:
                each.step(moment, now_ms)
        metadata = written(metadata, [record("NoOpRecord", 0)], now_ms=now_ms)
        for broker in checkpoints:
            if (moment + broker) % CHECKPOINT_EVERY == 0:
                checkpoints[broker] = {p: each.logs[broker].high_watermark for p, each in replicated.items()}
        found.append(
            Moment(
                at_ms=now_ms,
                disks=tuple(
                    BrokerDisk(
                        broker_id=broker,
                        cluster_id="BAQEBAQEBAQEBAQEBAQEBA",
                        directory_id=DIRECTORY_IDS[broker],
                        replicas={
                            p: Replica(log=each.logs[broker], topic_id=TOPIC_IDS["many"], leftovers=each.left[broker])
                            for p, each in replicated.items()
                        },
                        metadata=metadata.log,
                        quorum_leader_id=1,
                        quorum_leader_epoch=1,
                        high_watermarks=checkpoints[broker],
                    )
                    for broker in (1, 2, 3)
                ),
            )
        )
    return found
