"""Producers and consumers of the tests; what a broker acknowledges goes into the ledger.

In: a cluster's address and a ledger. Out: records in the cluster. Each record's value begins with `<tag>:<n>:`, unique
in a test run, so that whoever finds it on a disk can tell which one it is.
"""

import base64
import itertools
import logging
import queue
import subprocess
import threading
from pathlib import Path
from types import TracebackType
from typing import IO, Final

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition
from kafka import KafkaAdminClient
from kafka.errors import KafkaError as KafkaPythonError

from tests.java.libraries import classpath, program
from tests.real_kafka import processes
from tests.real_kafka.background import Background
from tests.real_kafka.class_archive import shared
from tests.real_kafka.ledger import Ledger, Outcome, ProducerKind
from tests.real_kafka.patience import PATIENCE_S, until_taken, wait_until

CODECS: Final = ("none", "gzip", "snappy", "lz4", "zstd")
_SOURCE: Final = Path(__file__).parent / "TransactionalProducer.java"
_DELIVERY_MS: Final = 90_000
_OFFSETS_S: Final = 60.0
_TRANSACTION_MS: Final = 300_000
"""A transaction that no test wants to see time out; brokers allow 15 minutes."""
_QUIET: Final = {"log_level": 0, "error_cb": lambda error: None}
"""librdkafka writes about each broken connection to standard error; here connections are broken on purpose."""


class ClientError(Exception):
    """A client was refused: the name of Kafka's error, and what it said."""

    def __init__(self, name: str, text: str) -> None:
        super().__init__(f"{name}: {text}")
        self.name = name


def value_of(tag: str, n: int, size_bytes: int) -> bytes:
    """A record's value; what follows the name compresses well and differs from record to record."""
    name = f"{tag}:{n}:".encode()
    return (name + name * (size_bytes // len(name) + 1))[:size_bytes] if size_bytes > len(name) else name


class LedgerProducer:
    """A producer of librdkafka: plain, idempotent, or transactional (its transactions are version 1)."""

    def __init__(
        self,
        bootstrap: str,
        ledger: Ledger,
        *,
        tag: str,
        kind: ProducerKind,
        codec: str = "none",
        settings: dict[str, object] | None = None,
    ) -> None:
        self.tag, self.kind = tag, kind
        self.transaction: str | None = None
        self._ledger = ledger
        self._numbers = itertools.count()
        self._transactions = itertools.count()
        own: dict[str, object] = {
            "bootstrap.servers": bootstrap,
            "acks": "all",
            "compression.type": codec,
            "linger.ms": 5,
            "delivery.timeout.ms": _DELIVERY_MS,
            **_QUIET,
        }
        if kind == ProducerKind.IDEMPOTENT:
            own["enable.idempotence"] = True
        if kind == ProducerKind.TRANSACTIONAL_V1:
            own |= {"transactional.id": tag, "transaction.timeout.ms": _TRANSACTION_MS}
        own |= settings or {}
        if kind == ProducerKind.TRANSACTIONAL_V1:
            # Else librdkafka refuses the settings: a record must not be sent after its transaction was given up.
            own["delivery.timeout.ms"] = min(_DELIVERY_MS, int(str(own["transaction.timeout.ms"])))
        self._producer = Producer(own)
        if kind == ProducerKind.TRANSACTIONAL_V1:
            self._producer.init_transactions(PATIENCE_S)

    def send(
        self, topic: str, partition: int, *, key: bytes | None = None, size_bytes: int = 100, tombstone: bool = False
    ) -> int:
        """Queues a record and returns its number; the ledger hears of it when a broker has answered.

        A tombstone has no value, and so no name that could be found on a disk.
        """
        n = next(self._numbers)
        key = f"{self.tag}:{n}".encode() if key is None else key
        value, transaction = None if tombstone else value_of(self.tag, n, size_bytes), self.transaction

        def answered(error: KafkaError | None, message: Message) -> None:
            if error is not None:
                self._ledger.failed(error.name())
                return
            if message.offset() is None:
                # A retry of a batch that the leader has had for long: it no longer knows where.
                self._ledger.failed("acknowledged without an offset")
                return
            self._ledger.acknowledged(
                tag=self.tag,
                n=n,
                topic=topic,
                partition=partition,
                offset=message.offset(),
                key=key,
                value=value,
                kind=self.kind,
                transaction=transaction,
            )

        self._ledger.sent(self.tag, n)
        while True:
            try:
                self._producer.produce(topic, partition=partition, key=key, value=value, on_delivery=answered)
            except BufferError:
                self._producer.poll(0.1)
                continue
            self._producer.poll(0)
            return n

    def send_many(self, topic: str, partition: int, count: int, *, size_bytes: int = 100) -> None:
        """Queues records with keys of their own."""
        for _ in range(count):
            self.send(topic, partition, size_bytes=size_bytes)

    def flush(self, timeout_s: float = PATIENCE_S) -> None:
        """Waits for every answer: for longer than a producer tries to deliver, after which a failure is the answer."""
        left = self._producer.flush(timeout_s)
        if left:
            raise TimeoutError(f"{left} records of {self.tag} have no answer after {timeout_s:g} s")

    def begin(self) -> str:
        """Begins a transaction and returns its name in the ledger."""
        self._producer.begin_transaction()
        self.transaction = f"{self.tag}/{next(self._transactions)}"
        self._ledger.transaction(self.transaction, Outcome.OPEN)
        return self.transaction

    def send_offsets(self, consumer: Consumer, offsets: list[TopicPartition]) -> None:
        """Commits a group's offsets with the transaction; `TimeoutError` if librdkafka does not come back.

        It does not keep to the timeout that it is given: where coordinators go away meanwhile, its version 2.16.1 has
        waited for ever. A client that hangs is to its cluster one that died: its transaction times out.
        """
        group = consumer.consumer_group_metadata()
        sending = Background(
            lambda _: self._producer.send_offsets_to_transaction(offsets, group, _OFFSETS_S),
            name=f"sends-offsets-of-{self.tag}",
        )
        sending.start()
        sending.stop(timeout_s=2 * _OFFSETS_S)

    def commit(self) -> None:
        """Commits; what is not known to be committed is unknown."""
        self._end(self._producer.commit_transaction, Outcome.COMMITTED)

    def abort(self) -> None:
        """Aborts once every record has an answer: a client drops what it has not sent yet."""
        self.flush()
        self._end(self._producer.abort_transaction, Outcome.ABORTED)

    def abandon(self) -> None:
        """Forgets the transaction without ending it; call `flush` before."""
        self.transaction = None

    def _end(self, end: object, outcome: Outcome) -> None:
        assert self.transaction is not None
        name, self.transaction = self.transaction, None
        try:
            end(PATIENCE_S)  # type: ignore[operator]
        except KafkaException as error:
            self._ledger.transaction(name, Outcome.UNKNOWN)
            raise ClientError(error.args[0].name(), error.args[0].str()) from error
        self._ledger.transaction(name, outcome)


class JavaTransactionalProducer:
    """Kafka's own client in a process of its own; its transactions are of the newest version the brokers have."""

    def __init__(
        self,
        bootstrap: str,
        ledger: Ledger,
        *,
        transactional_id: str,
        tag: str | None = None,
        codec: str = "none",
        transaction_timeout_ms: int = _TRANSACTION_MS,
        errors: IO[bytes] | None = None,
        libraries: str = "kafka-4.4",
    ) -> None:
        self.tag = tag or transactional_id
        self.transaction: str | None = None
        self._ledger = ledger
        self._numbers = itertools.count()
        self._transactions = itertools.count()
        self._unanswered: dict[int, tuple[str, int, bytes | None, bytes, str | None]] = {}
        classes = program(_SOURCE.stem, [_SOURCE], classpath(libraries))
        command = ["java", "-Xmx96m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", *shared(libraries), "-cp", classes]
        command += [_SOURCE.stem, bootstrap, transactional_id, str(transaction_timeout_ms), codec]
        self._process = processes.start(
            command, output=subprocess.PIPE, stdin=subprocess.PIPE, stderr=errors or subprocess.DEVNULL
        )
        self._lines: queue.Queue[str | None] = queue.Queue()
        threading.Thread(target=self._listen, name=f"listens-to-{self.tag}", daemon=True).start()
        self._answers("ready")

    def __enter__(self) -> "JavaTransactionalProducer":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def begin(self) -> str:
        """Begins a transaction and returns its name in the ledger."""
        self._ask("begin")
        self.transaction = f"{self.tag}/{next(self._transactions)}"
        self._ledger.transaction(self.transaction, Outcome.OPEN)
        return self.transaction

    def send(self, topic: str, partition: int, *, key: bytes | None = None, size_bytes: int = 100) -> int:
        """Queues a record and returns its number; the ledger hears of it with the next flush, commit or abort."""
        n = next(self._numbers)
        key = f"{self.tag}:{n}".encode() if key is None else key
        value = value_of(self.tag, n, size_bytes)
        self._ledger.sent(self.tag, n)
        self._unanswered[n] = (topic, partition, key, value, self.transaction)
        encoded = (base64.b64encode(key).decode(), base64.b64encode(value).decode())
        self._write("\t".join(("send", str(n), topic, str(partition), *encoded)))
        return n

    def send_many(self, topic: str, partition: int, count: int, *, size_bytes: int = 100) -> None:
        """Queues records with keys of their own."""
        for _ in range(count):
            self.send(topic, partition, size_bytes=size_bytes)

    def flush(self) -> None:
        """Waits for every answer."""
        self._ask("flush")

    def commit(self) -> None:
        """Commits."""
        self._end("commit", Outcome.COMMITTED)

    def abort(self) -> None:
        """Aborts once every record has an answer: a client drops what it has not sent yet."""
        self.flush()
        self._end("abort", Outcome.ABORTED)

    def abandon(self) -> None:
        """Flushes and dies, the transaction left open."""
        self.flush()
        self._write("abandon")
        self._process.wait(timeout=PATIENCE_S)

    def close(self) -> None:
        """Ends the process; an open transaction is left to its timeout."""
        processes.kill(self._process)

    def _end(self, command: str, outcome: Outcome) -> None:
        assert self.transaction is not None
        name, self.transaction = self.transaction, None
        try:
            self._ask(command)
        except ClientError:
            self._ledger.transaction(name, Outcome.UNKNOWN)
            raise
        self._ledger.transaction(name, outcome)

    def _ask(self, command: str) -> None:
        self._write(command)
        self._answers("ok")

    def _write(self, line: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(line.encode() + b"\n")
        self._process.stdin.flush()

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._lines.put(line.decode().rstrip("\n"))
        self._lines.put(None)

    def _answers(self, wanted: str) -> None:
        """Reads up to the answer; acknowledgements before it go into the ledger."""
        while True:
            line = self._lines.get(timeout=PATIENCE_S)
            if line is None:
                raise RuntimeError(f"the Java producer {self.tag} died")
            word, *rest = line.split("\t")
            match word:
                case "ack":
                    self._acknowledged(int(rest[0]), int(rest[1]))
                case "nack":
                    del self._unanswered[int(rest[0])]
                    self._ledger.failed(rest[1])
                case "error":
                    raise ClientError(*rest)
                case _ if word == wanted:
                    return

    def _acknowledged(self, n: int, offset: int) -> None:
        topic, partition, key, value, transaction = self._unanswered.pop(n)
        self._ledger.acknowledged(
            tag=self.tag,
            n=n,
            topic=topic,
            partition=partition,
            offset=offset,
            key=key,
            value=value,
            kind=ProducerKind.TRANSACTIONAL_V2,
            transaction=transaction,
        )


class GroupReader:
    """A consumer of a group in a thread of its own, which commits what it has read until it is closed."""

    def __init__(self, bootstrap: str, group: str, topics: list[str], *, protocol: str = "classic") -> None:
        settings: dict[str, object] = {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "group.protocol": protocol,
            **_QUIET,
        }
        self.group = group
        self._consumer = Consumer(settings)
        self._consumer.subscribe(topics)
        self.read_count = 0
        self.committed: dict[tuple[str, int], int] = {}
        self._reading = Background(self._read, name=f"reads-{group}")
        self._reading.start()

    def wait_read(self, count: int) -> None:
        """Waits until so many records were read (and committed)."""

        def was_read() -> bool:
            self._reading.still_well()
            return self.read_count >= count

        wait_until(was_read, what=f"{count} records to be read by {self.group}")

    def close(self) -> None:
        """Leaves the group; says what went wrong."""
        self._reading.stop()

    def _read(self, ended: threading.Event) -> None:
        while not ended.is_set():
            messages = [m for m in self._consumer.consume(200, timeout=0.3) if m.error() is None]
            if not messages:
                continue
            try:
                committed = self._consumer.commit(asynchronous=False)
            except KafkaException:
                continue  # A rebalance or a coordinator that moved: the next commit covers these, too.
            # Of a partition that it has read no further the client says -1001.
            self.committed |= {(at.topic, at.partition): at.offset for at in committed if at.offset >= 0}
            self.read_count += len(messages)
        self._consumer.close()


def commit_offsets(bootstrap: str, group: str, offsets: dict[tuple[str, int], int]) -> None:
    """Commits offsets for a group without members."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group, "enable.auto.commit": False, **_QUIET})
    try:
        wanted = [TopicPartition(topic, partition, offset) for (topic, partition), offset in offsets.items()]
        until_taken(lambda: consumer.commit(offsets=wanted, asynchronous=False))
    finally:
        consumer.close()


def delete_group(bootstrap: str, group: str) -> None:
    """Deletes a group without members, if it is there.

    By kafka-python: where a coordinator goes away meanwhile, librdkafka has ended the process (its version 2.16.1:
    `rd_kafka_enq_once_del_source_return: Assertion `eonce->refcnt > 0' failed`).
    """
    logging.getLogger("kafka").setLevel(logging.CRITICAL + 1)
    try:
        admin = KafkaAdminClient(bootstrap_servers=bootstrap, request_timeout_ms=60_000, bootstrap_timeout_ms=60_000)
        try:
            admin.delete_groups([group])
        finally:
            admin.close()
    except KafkaPythonError as error:
        raise ClientError(type(error).__name__, str(error)) from error
