"""Requests of Kafka's protocol, byte by byte, for what no client library lets one send.

In: a broker's address and fields. Out: what the broker answers. What is sent twice here is the same bytes, so that a
retry is a retry: same producer id, epoch and sequence.

Versions are the newest that still have the old, inflexible encoding where one is enough.
"""

import itertools
import socket
import struct
import time
from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType
from typing import Final

from confluent_kafka import KafkaError

from tests.kafka_log import writing
from tests.real_kafka.patience import PASSING, PATIENCE_S
from tidegauge.kafka_log.varint import read_unsigned, write_unsigned

_PRODUCE, _METADATA, _INIT_PRODUCER_ID, _EPOCH_END, _MOVE_REPLICA, _LOG_DIRS = 0, 3, 22, 23, 34, 35
_ELECT_LEADERS, _REASSIGN, _PRODUCERS, _DESCRIBE = 43, 45, 61, 75
_CLIENT_ID: Final = b"tidegauge-tests"

NO_ERROR: Final = 0
CONCURRENT_TRANSACTIONS: Final = 51
ELECTION_NOT_NEEDED: Final = 84
INVALID_PRODUCER_EPOCH: Final = 47
_PASSING: Final = PASSING - {KafkaError.NOT_COORDINATOR} | {
    KafkaError.UNKNOWN_TOPIC_OR_PART,
    KafkaError.NOT_ENOUGH_REPLICAS,
    KafkaError.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
}
"""Nobody looks for another broker here: who asks the wrong one is told so."""
_WAIT_MS: Final = 60_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Produced:
    """A broker's answer to one batch."""

    error: int
    base_offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ActiveProducer:
    """A producer as a partition's leader describes it; -1 where it has no coordinator epoch or no open transaction."""

    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_timestamp: int
    coordinator_epoch: int
    current_transaction_first_offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionState:
    """A partition as a broker's metadata has it: brokers by id, eligible leader replicas among them (KIP-966)."""

    partition: int
    leader: int
    leader_epoch: int
    replicas: list[int]
    isr: list[int]
    elr: list[int]
    last_known_elr: list[int]
    offline: list[int]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaSize:
    """A replica as its broker describes it."""

    log_dir: str
    topic: str
    partition: int
    size_bytes: int
    offset_lag: int
    is_future: bool


class Connection:
    """One connection to a broker; a context manager."""

    def __init__(self, address: str, *, timeout_s: float = PATIENCE_S) -> None:
        host, port = address.rsplit(":", 1)
        self._socket = socket.create_connection((host, int(port)), timeout=timeout_s)
        self._correlation_ids = itertools.count(1)

    def __enter__(self) -> "Connection":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._socket.close()

    def init_producer_id(self, transactional_id: str | None = None, *, timeout_ms: int = 60_000) -> tuple[int, int]:
        """Producer id and epoch. With a transactional id it fences whoever had it; only its coordinator answers."""
        body = _string(transactional_id) + struct.pack(">i", timeout_ms)
        deadline = time.monotonic() + PATIENCE_S
        while True:
            _, error, producer_id, epoch = struct.unpack(">ihqh", self._call(_INIT_PRODUCER_ID, 0, body))
            if error == NO_ERROR:
                return producer_id, epoch
            if error not in (*_PASSING, CONCURRENT_TRANSACTIONS) or time.monotonic() > deadline:
                break
            time.sleep(0.1)
        raise RuntimeError(f"InitProducerId of {transactional_id}: error {error}")

    def produce(
        self, topic: str, partition: int, batch: bytes, *, transactional_id: str | None = None, timeout_ms: int = 10_000
    ) -> Produced:
        """Sends one batch with acks=all to the partition's leader, again as long as it cannot take it."""
        body = _string(transactional_id) + struct.pack(">hii", -1, timeout_ms, 1) + _string(topic)
        body += struct.pack(">iii", 1, partition, len(batch)) + batch
        at = 4 + 2 + len(topic.encode()) + 4 + 4
        deadline = time.monotonic() + PATIENCE_S
        while True:
            error, base_offset = struct.unpack_from(">hq", self._call(_PRODUCE, 7, body), at)
            if error not in _PASSING or time.monotonic() > deadline:
                break
            time.sleep(0.1)
        return Produced(error=error, base_offset=base_offset)

    def elect(self, topic: str, partition: int, *, unclean: bool = False) -> int:
        """Elects the preferred leader, or, unclean, any live replica. Returns the partition's error code."""
        body = struct.pack(">bi", int(unclean), 1) + _string(topic) + struct.pack(">iii", 1, partition, _WAIT_MS)

        def asked() -> int:
            answer = self._call(_ELECT_LEADERS, 1, body)
            _, error, topics = struct.unpack_from(">ihi", answer)
            if error != NO_ERROR or topics == 0:
                return int(error)
            return int(struct.unpack_from(">h", answer, 10 + 2 + len(topic.encode()) + 4 + 4)[0])

        return _until_taken(asked)

    def reassign(self, topic: str, partition: int, replicas: list[int]) -> int:
        """Asks for other replicas. Returns the partition's error code, or the whole answer's."""
        name = topic.encode()
        of_partition = struct.pack(">i", partition) + write_unsigned(len(replicas) + 1)
        of_partition += struct.pack(f">{len(replicas)}i", *replicas) + b"\0"
        topics = write_unsigned(2) + write_unsigned(len(name) + 1) + name + write_unsigned(2) + of_partition + b"\0"
        body = struct.pack(">i", _WAIT_MS) + topics + b"\0"

        def asked() -> int:
            answer = self._call(_REASSIGN, 0, body, flexible=True)
            error = struct.unpack_from(">h", answer, 4)[0]
            if error != NO_ERROR:
                return int(error)
            at = 6 + 1 + 1 + 1 + len(name) + 1  # error, null message, array, name, array
            return int(struct.unpack_from(">h", answer, at + 4)[0])

        return _until_taken(asked)

    def move_replica(self, topic: str, partition: int, log_dir: str) -> int:
        """Moves this broker's replica to another of its log dirs (AlterReplicaLogDirs). Returns the error code."""
        body = struct.pack(">i", 1) + _string(log_dir) + struct.pack(">i", 1) + _string(topic)
        body += struct.pack(">ii", 1, partition)
        at = 4 + 4 + 2 + len(topic.encode()) + 4 + 4
        return _until_taken(lambda: int(struct.unpack_from(">h", self._call(_MOVE_REPLICA, 1, body), at)[0]))

    def epoch_end(self, topic: str, partition: int, leader_epoch: int) -> tuple[int, int, int]:
        """Where an epoch ends for the partition's leader: error, leader epoch, end offset (OffsetForLeaderEpoch)."""
        body = struct.pack(">ii", -2, 1) + _string(topic) + struct.pack(">iiii", 1, partition, -1, leader_epoch)
        at = 4 + 4 + 2 + len(topic.encode()) + 4
        error, _, epoch, end_offset = struct.unpack_from(">hiiq", self._call(_EPOCH_END, 3, body), at)
        return error, epoch, end_offset

    def partition_states(self, topic: str) -> list[PartitionState]:
        """Every partition of a topic (DescribeTopicPartitions, since Kafka 3.8)."""
        name = topic.encode()
        body = write_unsigned(2) + write_unsigned(len(name) + 1) + name + b"\0" + struct.pack(">ib", 2_000, -1) + b"\0"
        answer = _Answer(self._call(_DESCRIBE, 0, body, flexible=True))
        answer.take("i")
        answer.unsigned()
        if (error := answer.take("h")) != NO_ERROR:
            raise RuntimeError(f"DescribeTopicPartitions of {topic}: error {error}")
        answer.skip(answer.unsigned() - 1 + 16 + 1)  # its name, its id, whether it is internal
        found = []
        for _ in range(answer.unsigned() - 1):
            answer.take("h")
            number, leader, epoch = (answer.take("i") for _ in range(3))
            replicas, isr, elr, last_known_elr, offline = (answer.numbers() for _ in range(5))
            answer.skip(1)
            found.append(
                PartitionState(
                    partition=number,
                    leader=leader,
                    leader_epoch=epoch,
                    replicas=replicas,
                    isr=isr,
                    elr=elr,
                    last_known_elr=last_known_elr,
                    offline=offline,
                )
            )
        return found

    def partition_states_by_zookeeper(self, topic: str) -> list[PartitionState]:
        """The same of a broker that has its metadata from a ZooKeeper: it knows of no eligible leaders (Metadata)."""
        answer = _Answer(self._call(_METADATA, 7, struct.pack(">i", 1) + _string(topic) + b"\0"))
        answer.take("i")
        for _ in range(answer.take("i")):
            answer.take("i")
            answer.text()
            answer.take("i")
            answer.text()
        answer.text()
        answer.skip(4 + 4 + 2)  # the controller, one topic, its error
        answer.text()
        answer.skip(1)
        found = []
        for _ in range(answer.take("i")):
            answer.take("h")
            number, leader, epoch = (answer.take("i") for _ in range(3))
            replicas, isr, offline = ([answer.take("i") for _ in range(answer.take("i"))] for _ in range(3))
            found.append(
                PartitionState(
                    partition=number,
                    leader=leader,
                    leader_epoch=epoch,
                    replicas=replicas,
                    isr=isr,
                    elr=[],
                    last_known_elr=[],
                    offline=offline,
                )
            )
        return sorted(found, key=lambda state: state.partition)

    def replica_sizes(self) -> list[ReplicaSize]:
        """Every replica of this broker (DescribeLogDirs)."""
        answer = _Answer(self._call(_LOG_DIRS, 1, struct.pack(">i", -1)))
        answer.take("i")
        found = []
        for _ in range(answer.take("i")):
            answer.take("h")
            log_dir = answer.text()
            for _ in range(answer.take("i")):
                topic = answer.text()
                for _ in range(answer.take("i")):
                    number, size_bytes, lag, future = (answer.take(kind) for kind in "iqqb")
                    found.append(
                        ReplicaSize(
                            log_dir=log_dir,
                            topic=topic,
                            partition=number,
                            size_bytes=size_bytes,
                            offset_lag=lag,
                            is_future=bool(future),
                        )
                    )
        return found

    def active_producers(self, topic: str, partition: int) -> list[ActiveProducer]:
        """The producers that the partition's leader knows (DescribeProducers)."""
        name = topic.encode()
        body = write_unsigned(2) + write_unsigned(len(name) + 1) + name + write_unsigned(2)
        body += struct.pack(">i", partition) + b"\0\0"
        answer = _Answer(self._call(_PRODUCERS, 0, body, flexible=True))
        answer.take("i")
        answer.take("b")
        answer.skip(1 + len(name) + 1 + 4)  # the topic's name, one partition, its number
        error = answer.take("h")
        answer.skip(1)
        if error != NO_ERROR:
            raise RuntimeError(f"DescribeProducers of {topic}-{partition}: error {error}")
        return [self._active_producer(answer) for _ in range(answer.unsigned() - 1)]

    @staticmethod
    def _active_producer(answer: "_Answer") -> ActiveProducer:
        producer = ActiveProducer(
            producer_id=answer.take("q"),
            producer_epoch=answer.take("i"),
            last_sequence=answer.take("i"),
            last_timestamp=answer.take("q"),
            coordinator_epoch=answer.take("i"),
            current_transaction_first_offset=answer.take("q"),
        )
        answer.skip(1)
        return producer

    def _call(self, api_key: int, version: int, body: bytes, *, flexible: bool = False) -> bytes:
        correlation_id = next(self._correlation_ids)
        header = struct.pack(">hhih", api_key, version, correlation_id, len(_CLIENT_ID)) + _CLIENT_ID
        request = header + (b"\0" if flexible else b"") + body
        self._socket.sendall(struct.pack(">i", len(request)) + request)
        (size,) = struct.unpack(">i", self._receive(4))
        answer = self._receive(size)
        if struct.unpack_from(">i", answer)[0] != correlation_id:
            raise RuntimeError("the broker answered another request")
        return answer[5 if flexible else 4 :]

    def _receive(self, size: int) -> bytes:
        received = bytearray()
        while len(received) < size:
            chunk = self._socket.recv(size - len(received))
            if not chunk:
                raise ConnectionError("the broker closed the connection")
            received += chunk
        return bytes(received)


class _Answer:
    """Reads an answer field by field."""

    def __init__(self, data: bytes) -> None:
        self._data, self._at = data, 0

    def take(self, kind: str) -> int:
        (value,) = struct.unpack_from(">" + kind, self._data, self._at)
        self._at += struct.calcsize(">" + kind)
        return int(value)

    def text(self) -> str:
        size = max(self.take("h"), 0)
        self._at += size
        return self._data[self._at - size : self._at].decode()

    def unsigned(self) -> int:
        value, self._at = read_unsigned(self._data, self._at)
        return value

    def skip(self, size: int) -> None:
        self._at += size

    def numbers(self) -> list[int]:
        """A compact array; one that is null is empty."""
        return [self.take("i") for _ in range(self.unsigned() - 1)]


def batch_of(
    values: list[tuple[bytes | None, bytes]],
    *,
    producer_id: int,
    producer_epoch: int,
    base_sequence: int,
    transactional: bool = False,
) -> bytes:
    """One batch as a producer sends it: keys and values, with its producer's id, epoch and first sequence."""
    now_ms = time.time_ns() // 1_000_000
    records = b"".join(writing.record(delta, key, value) for delta, (key, value) in enumerate(values))
    return writing.batch(
        0,
        records,
        len(values),
        attributes=0x10 if transactional else 0,
        leader_epoch=-1,
        base_timestamp=now_ms,
        max_timestamp=now_ms,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
    )


def _until_taken(ask: Callable[[], int]) -> int:
    """Asks, and again as long as brokers are busy with themselves. What is asked twice must be as if asked once."""
    deadline = time.monotonic() + PATIENCE_S
    while (error := ask()) in _PASSING and time.monotonic() < deadline:
        time.sleep(0.1)
    return error


def _string(text: str | None) -> bytes:
    if text is None:
        return struct.pack(">h", -1)
    data = text.encode()
    return struct.pack(">h", len(data)) + data
