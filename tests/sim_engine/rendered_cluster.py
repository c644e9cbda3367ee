"""A real Kafka cluster that is started on directories which the simulator rendered, and what its consumers read.

In: how disks are made once the ports are known. Out: a running cluster (a `KafkaCluster` that is not formatted). No
Kafka has written a byte of what its brokers find.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TypeVar

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition

from tests.real_kafka.class_archive import shared
from tests.real_kafka.cluster import DEFAULT_VERSION, KafkaCluster
from tests.real_kafka.nodes import properties
from tests.real_kafka.patience import PASSING, PATIENCE_S, wait_until
from tests.real_kafka.settings import JVM, LOGGING, ONE_OF_EACH
from tests.real_kafka.topology import combined
from tests.sim_engine.handmade import Written, voters
from tidegauge.kafka_log.control import KRaftVoters, Voter, decode_control_record, encode_control_record
from tidegauge.kafka_log.types import TopicPartition as Partition
from tidegauge.sim_engine.files.render import BrokerDisk, render_broker
from tidegauge.sim_engine.log.replica_log import append, new_log, with_high_watermark
from tidegauge.sim_engine.log.stored_batch import NewRecord, StoredBatch, stored_batch
from tidegauge.sim_engine.metadata.metadata_image import image_records
from tidegauge.sim_engine.metadata.metadata_snapshot import MetadataSnapshot, at_once, first_snapshot, snapshot_data

T = TypeVar("T")
Disks = Callable[[Sequence[Voter], str], Iterable[BrokerDisk]]
"""From the quorum and the cluster's id, brokers' disks."""


def write_disk(disk: BrokerDisk, directory: Path) -> None:
    """A log dir's files."""
    for name, file in render_broker(disk):
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("xb") as out:
            out.write(file.data)
            out.truncate(file.size_bytes)


class RenderedCluster(KafkaCluster):
    """Use as a context manager, as a `KafkaCluster`."""

    def __init__(self, directory: Path, *, nodes: int, disks: Disks) -> None:
        # Nobody cleans what is to be read as it was rendered.
        settings = {"log.cleaner.backoff.ms": "600000", **(ONE_OF_EACH if nodes == 1 else {})}
        jvm = (*JVM, *shared(DEFAULT_VERSION))
        super().__init__(directory, topology=combined(nodes), settings=settings, jvm=jvm)
        self._disks = disks

    def format(self) -> None:
        """Writes the configuration and the rendered directories in place of formatting."""
        (self.directory / "config" / "logging.properties").write_text(LOGGING[self._logs_with()][1])
        nodes = list(self._nodes.values())
        quorum = voters({n.id: n.controller_port for n in nodes}, {n.id: n.directory_id for n in nodes})
        for disk in self._disks(quorum, self.cluster_id):
            node = self._nodes[disk.broker_id]
            self._config(node).write_text(properties(node, nodes, static=False, settings=self._settings))
            write_disk(disk, self.log_dirs(node.id)[0])

    def said(self, broker_id: int) -> list[str]:
        """What a broker has logged."""
        return self._log(broker_id).read_text(errors="replace").splitlines()

    def read(self, partitions: Iterable[Partition], *, committed_only: bool) -> dict[Partition, list[Written]]:
        """Everything that a consumer gets, from the beginning to the end."""
        wanted = list(partitions)
        consumer = Consumer(
            {
                "bootstrap.servers": self.bootstrap,
                "group.id": "reads-all",
                "isolation.level": "read_committed" if committed_only else "read_uncommitted",
                "enable.auto.commit": False,
                "enable.partition.eof": True,
                "auto.offset.reset": "error",
                "log_level": 0,
            }
        )
        found: dict[Partition, list[Written]] = {each: [] for each in wanted}
        try:
            assigned = []
            for each in wanted:
                low = wait_until(partial(_low, consumer, each), what=f"a leader of {each}")
                assigned.append(TopicPartition(each.topic, each.partition, int(low)))
            consumer.assign(assigned)
            left = set(wanted)
            while left:
                message = consumer.poll(PATIENCE_S)
                assert message is not None, f"nothing more comes of {left}"
                at = Partition(str(message.topic()), int(message.partition() or 0))
                error = message.error()
                if error is not None:
                    assert error.code() == KafkaError._PARTITION_EOF, error
                    left.discard(at)
                    continue
                found[at].append(
                    Written(
                        offset=int(message.offset() or 0),
                        key=message.key(),
                        value=message.value(),
                        headers=tuple(message.headers() or ()),  # type: ignore[arg-type]
                    )
                )
        finally:
            consumer.close()
        return found

    def committed(self, group: str, partition: Partition) -> int:
        """How far a group got, as its coordinator says."""
        wanted = TopicPartition(partition.topic, partition.partition)
        consumer = Consumer({"bootstrap.servers": self.bootstrap, "group.id": group, "log_level": 0})
        try:
            (found,) = wait_until(
                lambda: _answered(lambda: consumer.committed([wanted], timeout=60)), what=f"how far {group} got"
            )
        finally:
            consumer.close()
        assert found.error is None, found.error
        return int(found.offset)

    def commit_one(self, transactional_id: str, partition: Partition, value: bytes) -> None:
        """A transaction with one record, by a client that takes over a transactional id."""
        producer = Producer({"bootstrap.servers": self.bootstrap, "transactional.id": transactional_id, "log_level": 0})
        producer.init_transactions(PATIENCE_S)
        producer.begin_transaction()
        producer.produce(partition.topic, value, partition=partition.partition)
        producer.commit_transaction(PATIENCE_S)


def _low(consumer: Consumer, partition: Partition) -> str | None:
    """Where a partition begins; None while brokers have just elected its leader."""
    at = TopicPartition(partition.topic, partition.partition)
    found = _answered(lambda: consumer.get_watermark_offsets(at, timeout=60))
    return str(found[0]) if found is not None else None


def _answered(ask: Callable[[], T]) -> T | None:
    """The answer; None while brokers are busy with themselves."""
    try:
        return ask()
    except KafkaException as error:
        if error.args[0].code() in PASSING:
            return None
        raise


def readdressed(disk: BrokerDisk, quorum: Sequence[Voter]) -> BrokerDisk:
    """The disk of a world whose controllers are found at other ports; metadata log and snapshots name the voters."""
    ports = {voter.voter_id: voter.endpoints for voter in quorum}
    before = disk.metadata
    log = new_log(before.config, now_ms=0, start_offset=before.segments[0].base_offset)
    for batch in before.batches_from(before.segments[0].base_offset):
        log = append(log, _with_endpoints(batch, ports), now_ms=0)
    log = replace(
        with_high_watermark(log, before.high_watermark), log_start_offset=before.log_start_offset, epochs=before.epochs
    )
    assert log.log_end_offset == before.log_end_offset
    snapshots = tuple(_with_other_voters(snapshot, ports) for snapshot in disk.snapshots)
    return replace(disk, metadata=log, metadata_snapshots=snapshots)


def _with_other_voters(
    snapshot: MetadataSnapshot, ports: Mapping[int, tuple[tuple[str, str, int], ...]]
) -> MetadataSnapshot:
    voters = tuple(replace(v, endpoints=ports[v.voter_id]) for v in snapshot.voters)
    if not snapshot.end_offset:
        return first_snapshot(voters, formatted_at_ms=snapshot.last_contained_ms)
    data = snapshot_data(
        image_records(snapshot.image),
        leader_epoch=snapshot.leader_epoch,
        voters=voters,
        clock=at_once(snapshot.last_contained_ms),
    )
    return replace(snapshot, data=data, voters=voters)


def _with_endpoints(batch: StoredBatch, ports: Mapping[int, tuple[tuple[str, str, int], ...]]) -> StoredBatch:
    if not batch.is_control:
        return batch
    records = []
    for each in batch.records:
        key, value, control = each.key, each.value, decode_control_record(each)
        if isinstance(control, KRaftVoters):
            voters = tuple(replace(v, endpoints=ports[v.voter_id]) for v in control.voters)
            key, value = encode_control_record(KRaftVoters(voters=voters))
        records.append(NewRecord(timestamp=each.timestamp, key=key, value=value))
    return stored_batch(
        records, base_offset=batch.base_offset, leader_epoch=batch.leader_epoch, attributes=batch.attributes
    )
