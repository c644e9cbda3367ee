"""Everything that clients do to a cluster, all at once, until it is stopped: the background of a soak.

In: a cluster and a ledger. Out: records, transactions, commits, topics that come and go. No fault of a broker ends the
traffic (a client that was refused begins anew), and an error of ours does, loudly.
"""

import random
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Final

from confluent_kafka import Consumer, KafkaError, KafkaException
from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource, NewPartitions, ResourceType

from tests.real_kafka.background import Background
from tests.real_kafka.busy import TOPICS
from tests.real_kafka.clients import (
    CODECS,
    ClientError,
    GroupReader,
    JavaTransactionalProducer,
    LedgerProducer,
    commit_offsets,
    delete_group,
)
from tests.real_kafka.cluster import KafkaCluster
from tests.real_kafka.ledger import Ledger, ProducerKind
from tests.real_kafka.patience import wait_until

SHORT_LIVED: Final = "short-lived"
"""How names of topics begin that are deleted and created again all the time."""
PARTS: Final = frozenset({"plain", "hasty", "idempotent", "keyed", "keyed-plain", "v1", "v2", "copier", "short"})
"""How the tags of the producers begin that are at work at once."""
_REFUSED: Final = (ClientError, KafkaException, TimeoutError)
"""What a client meets while brokers are away."""
_BEAT_S: Final = 0.1
_LIFE: Final = 150
"""Beats after which an idempotent producer ends and another one takes its place."""


class Traffic:
    """A context manager: traffic flows inside."""

    def __init__(self, cluster: KafkaCluster, ledger: Ledger, *, seed: int) -> None:
        self._cluster, self._ledger, self._seed = cluster, ledger, seed
        self._stop = threading.Event()
        self._flows: list[Background] = []
        self._readers: list[GroupReader] = []
        self._lock = threading.Lock()
        self._lives = 0

    def __enter__(self) -> "Traffic":
        for name, topic in TOPICS.items():
            self._cluster.create_topic(
                name,
                partitions=topic.partitions,
                replication_factor=topic.replication_factor,
                config=topic.config,
            )
        self._readers = [
            GroupReader(self._cluster.bootstrap, "classic-readers", ["plain", "idempotent", "compacted"]),
            GroupReader(self._cluster.bootstrap, "newer-readers", ["retained", "transactions"], protocol="consumer"),
        ]
        for work in (
            self._plain,
            self._idempotent,
            self._keyed,
            self._transactions_v1,
            self._transactions_v2,
            self._copy,
            self._come_and_go,
            self._rule,
        ):
            self._flows.append(Background(partial(self._flow, work), name=work.__name__))
            self._flows[-1].start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        with ExitStack() as last:
            for reader in self._readers:
                last.callback(reader.close)
            for flow in self._flows:
                last.callback(flow.stop)

    def check(self) -> None:
        """Raises what ended a part of the traffic."""
        for flow in self._flows:
            flow.still_well()

    def wait_until_it_flows(self) -> None:
        """Until a broker has acknowledged a record of every part; raises what ended a part."""

        def flows(part: str) -> bool:
            self.check()
            return part in {tag.rsplit("-", 1)[0] for tag in self._ledger.kinds()}

        for part in sorted(PARTS):
            wait_until(partial(flows, part), what=f"a broker to acknowledge a record of {part!r}")

    def _flow(self, work: Callable[[random.Random], None], _: threading.Event) -> None:
        work(random.Random(f"{self._seed}-{work.__name__}"))

    def _pause(self, seconds: float) -> None:
        self._stop.wait(seconds)

    def _producer(self, name: str, kind: ProducerKind, codec: str, **settings: object) -> LedgerProducer:
        with self._lock:
            self._lives += 1
            tag = f"{name}-{self._lives}"
        own = {key.replace("_", "."): value for key, value in settings.items()}
        return LedgerProducer(self._cluster.bootstrap, self._ledger, tag=tag, kind=kind, codec=codec, settings=own)

    # ------------------------------------------------------------------------------------------------ records

    def _plain(self, dice: random.Random) -> None:
        producer = self._producer("plain", ProducerKind.PLAIN, "lz4")
        hasty = self._producer("hasty", ProducerKind.PLAIN, "none", acks="1")
        while not self._stop.is_set():
            producer.send_many("plain", dice.randrange(3), dice.randint(1, 20))
            producer.send_many("aged", 0, 5, size_bytes=600)
            producer.send_many("appended", 0, dice.randint(0, 4))
            hasty.send_many("hasty", dice.randrange(2), dice.randint(1, 10))
            self._pause(_BEAT_S)
        producer.flush()
        hasty.flush()

    def _idempotent(self, dice: random.Random) -> None:
        beats = 0
        producer: LedgerProducer | None = None
        while not self._stop.is_set():
            producer = producer or self._producer("idempotent", ProducerKind.IDEMPOTENT, dice.choice(CODECS))
            producer.send_many("idempotent", dice.randrange(3), dice.randint(1, 20))
            producer.send_many("retained", dice.randrange(2), 8, size_bytes=400)
            producer.send_many("deleted-records", dice.randrange(2), 4, size_bytes=300)
            producer.send_many("lenient", dice.randrange(2), dice.randint(0, 8))
            producer.send_many("pair", 0, dice.randint(0, 3))
            producer.send_many("alone", dice.randrange(3), dice.randint(0, 3))
            producer.send_many("growing", 0, dice.randint(0, 2))
            if beats < 3:
                producer.send_many("few", beats % 2, 2)
            beats += 1
            if beats % _LIFE == 0:
                producer.flush()
                producer = None
            self._pause(_BEAT_S)
        if producer is not None:
            producer.flush()

    def _keyed(self, dice: random.Random) -> None:
        """Records that replace each other, and tombstones."""
        producer = self._producer("keyed", ProducerKind.IDEMPOTENT, "none")
        one_by_one = self._producer("keyed-plain", ProducerKind.PLAIN, "gzip", linger_ms=0)
        while not self._stop.is_set():
            for _ in range(10):
                key = f"k{dice.randrange(50)}".encode()
                gone = dice.random() < 0.1
                producer.send("compacted", dice.randrange(2), key=key, size_bytes=500, tombstone=gone)
            for topic in ("compacted-aged", "wavering"):
                key = f"w{dice.randrange(20)}".encode()
                one_by_one.send(topic, 0, key=key, size_bytes=800, tombstone=dice.random() < 0.05)
            self._pause(_BEAT_S)
        producer.flush()
        one_by_one.flush()

    # ------------------------------------------------------------------------------------------------ transactions

    def _transactions_v1(self, dice: random.Random) -> None:
        producer: LedgerProducer | None = None
        while not self._stop.is_set():
            with _unless_refused():
                # Another one has another transactional id: the brokers end what its predecessor left open.
                producer = producer or self._producer(
                    "v1", ProducerKind.TRANSACTIONAL_V1, "zstd", transaction_timeout_ms=6_000
                )
                current, producer = producer, None
                if self._transact(current, dice):
                    producer = current
            self._pause(0.2)

    def _transactions_v2(self, dice: random.Random) -> None:
        producer: JavaTransactionalProducer | None = None
        lives = 0
        while not self._stop.is_set():
            lives += 1
            try:
                # The next one has the same transactional id: it fences what its predecessor left open.
                producer = producer or JavaTransactionalProducer(
                    self._cluster.bootstrap,
                    self._ledger,
                    transactional_id="v2",
                    tag=f"v2-{lives}",
                    transaction_timeout_ms=10_000,
                )
                ended = self._transact(producer, dice)
            except ClientError:
                ended = False
            if not ended and producer is not None:
                producer.close()
                producer = None
            self._pause(0.2)
        if producer is not None:
            producer.close()

    def _transact(self, producer: LedgerProducer | JavaTransactionalProducer, dice: random.Random) -> bool:
        """One transaction; False if it was left open."""
        producer.begin()
        for partition in range(2):
            producer.send_many("transactions", partition, dice.randint(1, 8))
        for _ in range(5):
            producer.send("compacted-transactions", 0, key=f"t{dice.randrange(20)}".encode(), size_bytes=400)
        chance = dice.random()
        if chance < 0.04:
            producer.abandon()
            return False
        (producer.abort if chance < 0.25 else producer.commit)()
        return True

    def _copy(self, dice: random.Random) -> None:
        """Reads a topic and writes another one, the group's offsets within the same transactions."""
        while not self._stop.is_set():
            with _unless_refused():
                self._copy_until_refused(dice)
            self._pause(0.5)

    def _copy_until_refused(self, dice: random.Random) -> None:
        consumer = Consumer(
            {
                "bootstrap.servers": self._cluster.bootstrap,
                "group.id": "copiers",
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "isolation.level": "read_committed",
                "log_level": 0,
            }
        )
        try:
            consumer.subscribe(["idempotent"])
            producer = self._producer("copier", ProducerKind.TRANSACTIONAL_V1, "snappy", transaction_timeout_ms=8_000)
            while not self._stop.is_set():
                read = [message for message in consumer.consume(100, timeout=0.5) if message.error() is None]
                if not read:
                    continue
                producer.begin()
                producer.send_many("copied", dice.randrange(2), len(read) // 10 + 1)
                producer.send_offsets(consumer, consumer.position(consumer.assignment()))
                producer.commit()
                self._pause(_BEAT_S)
        finally:
            consumer.close()

    # ------------------------------------------------------------------------------------------------ administration

    def _come_and_go(self, dice: random.Random) -> None:
        """Topics come and go, under a few names."""
        while not self._stop.is_set():
            with _unless_refused():
                self._one_life(f"{SHORT_LIVED}-{dice.randrange(2)}", dice)
            self._pause(dice.uniform(0, 2))

    def _one_life(self, topic: str, dice: random.Random) -> None:
        if topic in self._cluster.admin().list_topics(timeout=10).topics:
            self._end_of(topic)  # It outlived a refused request.
        self._cluster.create_topic(topic, partitions=2)
        producer = self._producer("short", ProducerKind.IDEMPOTENT, "gzip")
        for partition in range(2):
            producer.send_many(topic, partition, dice.randint(0, 40))
        producer.flush()
        self._pause(dice.uniform(0, 5))
        self._end_of(topic)

    def _end_of(self, topic: str) -> None:
        self._ledger.topic_deleted(topic)
        self._cluster.delete_topic(topic)

    def _rule(self, dice: random.Random) -> None:
        """Log starts are moved, partitions added, configurations changed, groups committed for and deleted."""
        acts = (self._delete_some_records, self._add_a_partition, self._change_configs, self._move_a_group)
        while not self._stop.is_set():
            with _unless_refused():
                dice.choice(acts)(dice)
            self._pause(dice.uniform(0, 2))

    def _delete_some_records(self, dice: random.Random) -> None:
        partition = dice.randrange(2)
        held = [record.offset for record in self._ledger.records("deleted-records") if record.partition == partition]
        if held:
            # Up to the high watermark now and then: the log is empty then.
            before = dice.choice((max(held) - 200, max(held) - 20, -1))
            self._cluster.delete_records("deleted-records", partition, before if before >= -1 else 0)

    def _add_a_partition(self, _: random.Random) -> None:
        count = len(self._cluster.admin().list_topics("growing", timeout=10).topics["growing"].partitions)
        if 0 < count < 5:
            asked = self._cluster.admin().create_partitions([NewPartitions("growing", count + 1)])
            asked["growing"].result(timeout=60)

    def _change_configs(self, dice: random.Random) -> None:
        self._set("retained", "retention.bytes", str(dice.choice((30_000, 60_000, 120_000))))
        self._set("wavering", "cleanup.policy", dice.choice(("delete", "compact", "compact,delete")))

    def _set(self, topic: str, name: str, value: str) -> None:
        entry = ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
        resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
        self._cluster.admin().incremental_alter_configs([resource])[resource].result(timeout=60)

    def _move_a_group(self, dice: random.Random) -> None:
        group = f"occasional-{dice.randrange(2)}"
        if dice.random() < 0.3:
            delete_group(self._cluster.bootstrap, group)
            return
        acknowledged = [record.offset for record in self._ledger.records("plain") if record.partition == 0]
        if acknowledged:
            offset = dice.choice(acknowledged)
            commit_offsets(self._cluster.bootstrap, group, {("plain", 0): offset})


@contextmanager
def _unless_refused() -> Iterator[None]:
    """What brokers refuse is passed over. What a client refuses by itself, before it asks any, is a mistake of ours."""
    try:
        yield
    except _REFUSED as error:
        if isinstance(error, KafkaException) and error.args[0].code() == KafkaError._INVALID_ARG:
            raise
