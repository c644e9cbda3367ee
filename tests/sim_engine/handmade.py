"""A small cluster built by hand, every file of which Kafka must accept, and the records that a consumer must then read.

In: who votes, where brokers keep their files, whether they stopped in good order. Out: their disks, and of every
partition the records in the order of their offsets, with what a reader of committed data sees of them.

    many        three partitions, several segments, an idempotent producer and one without sequences, two leader epochs
    codecs      each codec, batches of many records, headers, keys, tombstones
    txn         transactions that were committed and aborted, of two producers at once; one that is still open
    deleted     its log starts inside a segment (DeleteRecords)
    empty       nothing
    __consumer_offsets, __transaction_state    what a group committed, and a transactional id at rest
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from tidegauge.kafka_log.batch import CompressionType
from tidegauge.kafka_log.control import Voter
from tidegauge.kafka_log.java_hash import coordinator_partition
from tidegauge.kafka_log.metadata_records import MetadataRecord
from tidegauge.kafka_log.types import TopicPartition
from tidegauge.sim_engine.coordinators.group_records import GROUPS_WRITE, CommittedOffset, offset_record
from tidegauge.sim_engine.coordinators.transaction_metadata import (
    TransactionMetadata,
    completed,
    created,
    partitions_added,
    prepared,
    written_record,
)
from tidegauge.sim_engine.files.leftovers import Leftover, LeftSegment
from tidegauge.sim_engine.files.render import Beside, BrokerDisk, RenamedReplica, Replica
from tidegauge.sim_engine.log.replica_log import (
    LogConfig,
    ReplicaLog,
    append,
    new_log,
    with_high_watermark,
    with_log_start,
)
from tidegauge.sim_engine.log.stored_batch import NewRecord, Producer, data_batch, marker_batch
from tidegauge.sim_engine.metadata.controller import (
    ClusterImage,
    applied,
    begin_shutdown,
    create_topic,
    fence,
    register,
    unfence,
)
from tidegauge.sim_engine.metadata.metadata_log import FEATURES, MetadataLog, begun, record, written
from tidegauge.sim_engine.metadata.metadata_snapshot import (
    MetadataSnapshot,
    bootstrap_checkpoint,
    bootstrap_records,
    cut_behind,
    first_snapshot,
    taken,
)

NOW_MS = 1_763_000_000_000
CONFIG = {"retention.ms": "-1", "internal.segment.bytes": "4096", "segment.index.bytes": "8192"}
INTERNAL = {"__consumer_offsets": 3, "__transaction_state": 3}
TOPICS = {"many": 3, "codecs": 1, "txn": 1, "deleted": 1, "empty": 1, **INTERNAL}
"""Topics and how many partitions they have."""
TOPIC_IDS = {name: f"{number:06d}BBBBBBBBBBBBBBBQ" for number, name in enumerate(TOPICS, 1)}
INTERNAL_CONFIG = {"cleanup.policy": "compact", "compression.type": "producer", "segment.bytes": "1048576"}
GROUP, COMMITTED_OFFSET = "made-by-hand", 20
"""A group, and how far it got with `many-0`."""
TRANSACTIONAL_ID, TRANSACTIONAL_PRODUCER_ID = "made-by-hand", 1010
LOG_CONFIG = LogConfig(segment_bytes=4096, index_interval_bytes=1024, segment_index_bytes=8192, retention_ms=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """One record as a consumer sees it."""

    offset: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()
    committed: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Handmade:
    """The disks, and what is in the partitions."""

    disks: tuple[BrokerDisk, ...]
    records: Mapping[TopicPartition, tuple[Written, ...]]

    def visible(self, *, committed_only: bool) -> dict[TopicPartition, list[Written]]:
        """What a consumer reads; committed data end where the first open transaction begins."""
        seen = {}
        logs = self.disks[0].replicas
        for partition, records in self.records.items():
            end = logs[partition].log.last_stable_offset if committed_only else logs[partition].log.high_watermark
            seen[partition] = [each for each in records if each.offset < end and (each.committed or not committed_only)]
        return seen


class _Partition:
    """A leader's log under construction; its followers have the same batches."""

    def __init__(self, log: ReplicaLog) -> None:
        self.log = log
        self.records: list[Written] = []
        self.now_ms = NOW_MS

    def put(
        self,
        values: Sequence[tuple[bytes | None, bytes | None]],
        *,
        leader_epoch: int,
        producer: Producer | None = None,
        codec: CompressionType = CompressionType.NONE,
        headers: tuple[tuple[str, bytes | None], ...] = (),
        committed: bool = True,
    ) -> None:
        """One batch."""
        self.now_ms += 7
        base = self.log.log_end_offset
        new = [NewRecord(timestamp=self.now_ms, key=k, value=v, headers=headers) for k, v in values]
        batch = data_batch(new, base_offset=base, leader_epoch=leader_epoch, producer=producer, codec=codec)
        self.log = append(self.log, batch, now_ms=self.now_ms)
        self.records += [
            Written(offset=base + i, key=k, value=v, headers=headers, committed=committed)
            for i, (k, v) in enumerate(values)
        ]

    def mark(self, producer_id: int, *, committed: bool, leader_epoch: int) -> None:
        """A transaction's end."""
        self.now_ms += 3
        batch = marker_batch(
            base_offset=self.log.log_end_offset,
            leader_epoch=leader_epoch,
            timestamp=self.now_ms,
            producer_id=producer_id,
            producer_epoch=0,
            committed=committed,
            coordinator_epoch=0,
        )
        self.log = append(self.log, batch, now_ms=self.now_ms)


def voters(ports: Mapping[int, int], directory_ids: Mapping[int, str]) -> tuple[Voter, ...]:
    """The quorum, with the ports of its controllers."""
    return tuple(
        Voter(
            voter_id=node,
            directory_id=directory_ids[node],
            endpoints=(("CONTROLLER", "127.0.0.1", port),),
            min_kraft_version=0,
            max_kraft_version=1,
        )
        for node, port in sorted(ports.items())
    )


def handmade(quorum: Sequence[Voter], *, cluster_id: str, clean: bool, cut_metadata: bool = False) -> Handmade:
    """The cluster, all of it stopped in the same moment; in good order, or killed."""
    nodes = [voter.voter_id for voter in quorum]
    first = first_snapshot(quorum, formatted_at_ms=NOW_MS)
    metadata, image, broker_epochs = metadata_of(quorum, clean=clean, small_segments=cut_metadata)
    partitions = _partitions()
    end = metadata.log.log_end_offset
    log = with_high_watermark(metadata.log, end)
    snapshots: tuple[MetadataSnapshot, ...] = (first,)
    if cut_metadata:
        middle = log.segments[len(log.segments) // 2].base_offset
        snapshots = (taken(log, first, now_ms=NOW_MS + 60_000, end_offset=middle),)
        log = cut_behind(log, snapshots[0])
    finished = {p: with_high_watermark(made.log, made.log.log_end_offset) for p, made in partitions.items()}
    finished[TopicPartition("deleted", 0)] = with_log_start(finished[TopicPartition("deleted", 0)], 30)
    records = {p: tuple(made.records) for p, made in partitions.items() if p.topic not in INTERNAL}
    deleted = TopicPartition("deleted", 0)
    records[deleted] = tuple(each for each in records[deleted] if each.offset >= 30)
    assert image.topics.keys() == {p.topic for p in partitions}
    disks = tuple(
        BrokerDisk(
            broker_id=voter.voter_id,
            cluster_id=cluster_id,
            directory_id=voter.directory_id,
            replicas={p: Replica(log=each, topic_id=TOPIC_IDS[p.topic]) for p, each in finished.items()},
            metadata=log,
            metadata_snapshots=snapshots,
            quorum_leader_id=nodes[0],
            quorum_leader_epoch=1,
            voted_id=nodes[0],
            voted_directory_id=quorum[0].directory_id,
            high_watermarks={p: each.high_watermark for p, each in finished.items()},
            recovery_points={p: each.log_end_offset if clean else 0 for p, each in finished.items()},
            log_starts={deleted: 30},
            clean_broker_epoch=broker_epochs[voter.voter_id] if clean else None,
        )
        for voter in quorum
    )
    return Handmade(disks=disks, records=records)


def metadata_of(
    quorum: Sequence[Voter], *, clean: bool, small_segments: bool, topics: Mapping[str, int] = TOPICS
) -> tuple[MetadataLog, ClusterImage, dict[int, int]]:
    """The metadata log, its image, and the brokers' epochs."""
    nodes = [voter.voter_id for voter in quorum]
    config = LogConfig(segment_bytes=1024) if small_segments else LogConfig()
    metadata = begun(leader_id=nodes[0], voters=quorum, now_ms=NOW_MS, config=config)
    image = ClusterImage()
    epochs: dict[int, int] = {}

    def write(records: list[MetadataRecord]) -> None:
        nonlocal metadata, image
        if records:
            metadata = written(metadata, records, now_ms=NOW_MS + metadata.end_offset)
            image = applied(image, records)

    write(
        [
            record("BeginTransactionRecord", 0, name="Bootstrap records"),
            *bootstrap_records(),
            record("EndTransactionRecord", 0),
        ]
    )
    for voter in quorum:
        write([_controller(voter)])
    for voter in quorum:
        epochs[voter.voter_id] = metadata.end_offset
        registered = register(
            image,
            broker_id=voter.voter_id,
            broker_epoch=metadata.end_offset,
            incarnation_id=f"{voter.voter_id:06d}AAAAAAAAAAAAAAAA",
            log_dirs=[voter.directory_id],
            previous_broker_epoch=None,
            endpoints=[("EXTERNAL", "127.0.0.1", 19090 + voter.voter_id)],
        )
        write(registered)
        write(unfence(image, voter.voter_id))
    write([record("ProducerIdsRecord", 0, broker_id=nodes[0], broker_epoch=epochs[nodes[0]], next_producer_id=2000)])
    minimum = str(min(2, len(nodes)))
    for name, count in topics.items():
        assignment = [[*nodes[i % len(nodes) :], *nodes[: i % len(nodes)]] for i in range(count)]
        settings = {**(INTERNAL_CONFIG if name in INTERNAL else CONFIG), "min.insync.replicas": minimum}
        write(create_topic(image, name, TOPIC_IDS[name], assignment, config=settings))
    # A leader elected anew, twice: the epochs that `many` is written in.
    for leader in (nodes[-1], nodes[0]):
        many = record("PartitionChangeRecord", 2, partition_id=0, topic_id=TOPIC_IDS["many"], leader=leader)
        write([many])
    if clean:
        for node in nodes:
            write(begin_shutdown(image, node))
            write(fence(image, node))
    return metadata, image, epochs


def _controller(voter: Voter) -> MetadataRecord:
    return record(
        "RegisterControllerRecord",
        0,
        controller_id=voter.voter_id,
        incarnation_id=f"{voter.voter_id:06d}CCCCCCCCCCCCCCCA",
        zk_migration_ready=False,
        end_points=tuple(
            {"name": name, "host": host, "port": port, "security_protocol": 0} for name, host, port in voter.endpoints
        ),
        features=tuple(
            {"name": name, "min_supported_version": low, "max_supported_version": high} for name, low, high in FEATURES
        ),
    )


def _partitions() -> dict[TopicPartition, _Partition]:
    made = {TopicPartition("many", number): _many(number) for number in range(3)}
    made[TopicPartition("codecs", 0)] = _codecs()
    made[TopicPartition("txn", 0)] = _transactions()
    deleted = made[TopicPartition("deleted", 0)] = _Partition(new_log(LOG_CONFIG, now_ms=NOW_MS))
    for number in range(12):
        deleted.put([(None, f"deleted {number} {i}".encode()) for i in range(7)], leader_epoch=0)
    made[TopicPartition("empty", 0)] = _Partition(new_log(LOG_CONFIG, now_ms=NOW_MS))
    for topic, count in INTERNAL.items():
        for number in range(count):
            made[TopicPartition(topic, number)] = _Partition(new_log(replace(LOG_CONFIG, compact=True), now_ms=NOW_MS))
    offsets = made[TopicPartition("__consumer_offsets", coordinator_partition(GROUP, 3))]
    commit = CommittedOffset(offset=COMMITTED_OFFSET, commit_ms=NOW_MS, leader_epoch=0, topic_id=TOPIC_IDS["many"])
    offsets.put([offset_record(GROUP, TopicPartition("many", 0), commit)], leader_epoch=0, producer=GROUPS_WRITE)
    transactions = made[TopicPartition("__transaction_state", coordinator_partition(TRANSACTIONAL_ID, 3))]
    for each in _transaction_states():
        transactions.put([written_record(each, server_version=2)], leader_epoch=0)
    return made


def _transaction_states() -> Iterator[TransactionMetadata]:
    """A transaction of the first version, from beginning to end."""
    partition = TopicPartition("txn", 0)
    known = created(TRANSACTIONAL_ID, TRANSACTIONAL_PRODUCER_ID, 60_000, now_ms=NOW_MS)
    known = replace(known, producer_epoch=0)
    yield known
    yield (known := partitions_added(known, [partition], 0, now_ms=NOW_MS))
    yield (known := prepared(known, commit=True, client_version=0, next_producer_id=-1, now_ms=NOW_MS))
    yield completed(known, now_ms=NOW_MS)


def _many(number: int) -> _Partition:
    partition = _Partition(new_log(LOG_CONFIG, now_ms=NOW_MS))
    sequence = 0
    for batch in range(60):
        # The metadata log tells of leader epochs 0, 1 and 2 of partition 0, and of none but 0 of the others.
        epoch = batch // 20 if number == 0 else 0
        values = [(f"k{i}".encode(), f"many-{number} {batch} {i} ".encode() * 5) for i in range(1 + batch % 4)]
        producer = None
        if batch % 3:
            producer = Producer(producer_id=1000 + number, producer_epoch=0, base_sequence=sequence)
            sequence += len(values)
        partition.put(values, leader_epoch=epoch, producer=producer)
    return partition


def _codecs() -> _Partition:
    partition = _Partition(new_log(LOG_CONFIG, now_ms=NOW_MS))
    for round_ in range(4):
        for codec in CompressionType:
            values: list[tuple[bytes | None, bytes | None]] = [
                (f"{codec.name} {i % 9}".encode(), f"value {round_} {i} ".encode() * (1 + i % 6)) for i in range(40)
            ]
            values += [(b"gone", None), (None, b"")]
            headers = (("codec", codec.name.encode()), ("none", None), ("", b"\x00\xff"))
            partition.put(values, leader_epoch=0, codec=codec, headers=headers)
    return partition


def _transactions() -> _Partition:
    partition = _Partition(new_log(LOG_CONFIG, now_ms=NOW_MS))
    sequences = {1010: 0, 1011: 0, 1012: 0}

    def put(producer_id: int, text: str, *, committed: bool) -> None:
        values = [(None, f"{text} {i}".encode()) for i in range(3)]
        producer = Producer(
            producer_id=producer_id, producer_epoch=0, base_sequence=sequences[producer_id], transactional=True
        )
        partition.put(values, leader_epoch=0, producer=producer, committed=committed)
        sequences[producer_id] += len(values)

    for number in range(30):
        # Two at once, one of which is aborted every third time.
        aborted = number % 3 == 1
        put(1010, f"kept {number}", committed=True)
        put(1011, f"maybe {number}", committed=not aborted)
        partition.mark(1010, committed=True, leader_epoch=0)
        put(1011, f"maybe more {number}", committed=not aborted)
        partition.mark(1011, committed=not aborted, leader_epoch=0)
    put(1012, "open", committed=False)
    put(1010, "behind an open one", committed=True)
    partition.mark(1010, committed=True, leader_epoch=0)
    return partition


def with_leftovers(disk: BrokerDisk) -> BrokerDisk:
    """The disk with files and directories that wait to be removed, and, of a killed broker, what the cleaner left."""
    many = disk.replicas[TopicPartition("many", 0)]
    first, second, third, *_ = many.log.segments
    left = [LeftSegment(segment=third, leftover=Leftover.DELETED, producers=())]
    if disk.clean_broker_epoch is None:
        left += [
            LeftSegment(segment=first, leftover=Leftover.SWAP),
            LeftSegment(segment=second, leftover=Leftover.CLEANED),
        ]
    renamed = tuple(
        RenamedReplica(
            partition=TopicPartition(topic, 0),
            beside=beside,
            unique=f"{number:032x}",
            replica=Replica(log=many.log, topic_id="000007BBBBBBBBBBBBBBBQ"),
        )
        for number, (topic, beside) in enumerate((("gone", Beside.DELETED), ("lost", Beside.STRAY)), 1)
    )
    replicas = {**disk.replicas, TopicPartition("many", 0): replace(many, leftovers=tuple(left))}
    bootstrap = bootstrap_checkpoint(formatted_at_ms=NOW_MS)
    return replace(disk, replicas=replicas, renamed=renamed, bootstrap=bootstrap)
