"""Three combined nodes of one version, stopped cleanly: everything that a sound cluster does."""

import random
import time
from typing import Final

from tests.real_kafka.archives import Archives
from tests.real_kafka.clients import CODECS, GroupReader, JavaTransactionalProducer, LedgerProducer, commit_offsets
from tests.real_kafka.cluster import KafkaCluster
from tests.real_kafka.ledger import Ledger, ProducerKind
from tests.real_kafka.lives.life import Life
from tests.real_kafka.patience import wait_until
from tests.real_kafka.probe import ground_truth
from tests.real_kafka.settings import small_segments
from tests.real_kafka.topology import combined
from tests.real_kafka.wire import Connection

SEED: Final = 20
SETTINGS: Final = {"metadata.log.max.record.bytes.between.snapshots": "8000"}
"""So that a metadata snapshot is written, too."""


def life(version: str) -> Life:
    """The life of a version."""
    return Life(version=version, topology=combined(3), settings=SETTINGS, live=live)


def live(archives: Archives) -> None:
    """One capture, called like the version."""
    live_in(archives.cluster, archives.ledger)
    truth = ground_truth(archives.cluster)
    archives.cluster.stop_all()
    archives.keep(
        archives.cluster.version,
        what="a cluster in which nothing went wrong: " + (live_in.__doc__ or "").strip(),
        state="all brokers cleanly stopped; asked just before, when no client wrote",
        truth=truth,
    )


def live_in(cluster: KafkaCluster, ledger: Ledger) -> None:
    """Everything that a sound cluster does: all producers and codecs, transactions, cleaning, groups, new leaders."""
    small = {"segment.index.bytes": "8192", **small_segments(cluster.version)}
    cluster.create_topic("codecs", partitions=len(CODECS), config=small)
    cluster.create_topic("idempotent", partitions=2)
    cluster.create_topic("transactions", partitions=2, config=small)
    cluster.create_topic(
        "compacted",
        config={
            **small,
            "cleanup.policy": "compact",
            "min.cleanable.dirty.ratio": "0.01",
            "max.compaction.lag.ms": "2000",
        },
    )
    cluster.create_topic("retained", config={**small, "retention.bytes": "40000", "file.delete.delay.ms": "500"})
    cluster.create_topic("deleted-records", config=small)
    cluster.create_topic("empty")
    cluster.create_topic("alone", replication_factor=1)
    bootstrap = cluster.bootstrap

    for partition, codec in enumerate(CODECS):
        plain = LedgerProducer(bootstrap, ledger, tag=f"plain-{codec}", kind=ProducerKind.PLAIN, codec=codec)
        for _ in range(6):
            plain.send_many("codecs", partition, 40, size_bytes=300)
            plain.flush()
        plain.send_many("alone", 0, 5)
        plain.flush()
    for codec in CODECS[1:3]:
        idempotent = LedgerProducer(bootstrap, ledger, tag=f"idem-{codec}", kind=ProducerKind.IDEMPOTENT, codec=codec)
        for _ in range(5):
            for partition in range(2):
                idempotent.send_many("idempotent", partition, 20)
            idempotent.send_many("deleted-records", 0, 30)
            idempotent.flush()
    dice = random.Random(SEED)
    keyed = LedgerProducer(bootstrap, ledger, tag="keyed", kind=ProducerKind.IDEMPOTENT)
    for _ in range(12):
        for _ in range(25):
            keyed.send("compacted", 0, key=f"k{dice.randrange(30)}".encode(), size_bytes=200)
        keyed.send_many("retained", 0, 25, size_bytes=400)
        keyed.flush()
    _transact(cluster, ledger)

    cluster.delete_records("deleted-records", 0, 133)
    # The newer group protocol is of Kafka 4.0.
    for protocol in ("classic",) if cluster.version == "kafka-3.9" else ("classic", "consumer"):
        reader = GroupReader(bootstrap, f"readers-{protocol}", ["codecs", "idempotent"], protocol=protocol)
        reader.wait_read(len(CODECS) * 240 + 200)
        reader.close()
    cluster.create_topic("gone", partitions=2)
    commit_offsets(bootstrap, "of-gone", {("gone", 1): 0})
    cluster.delete_topic("gone")
    commit_offsets(bootstrap, "behind", {("codecs", 0): 17, ("transactions", 0): 3})

    _move_leaders(cluster)
    after = LedgerProducer(bootstrap, ledger, tag="after", kind=ProducerKind.IDEMPOTENT, codec="lz4")
    for topic, partitions in (("codecs", len(CODECS)), ("idempotent", 2), ("retained", 1), ("deleted-records", 1)):
        for partition in range(partitions):
            after.send_many(topic, partition, 15)
    after.flush()
    _transact(cluster, ledger, again="-again")
    _wait_cleaned(cluster)
    cluster.wait_all_in_sync()
    time.sleep(6)  # One checkpoint of the high watermarks.


def _transact(cluster: KafkaCluster, ledger: Ledger, again: str = "") -> None:
    """Transactions that end both ways, by librdkafka and by Kafka's own client, with a group's offsets in one."""
    first = LedgerProducer(
        cluster.bootstrap, ledger, tag=f"rdk{again}", kind=ProducerKind.TRANSACTIONAL_V1, codec="zstd"
    )
    with JavaTransactionalProducer(
        cluster.bootstrap, ledger, transactional_id=f"java{again}", codec="snappy", libraries=cluster.version
    ) as second:
        for producer in (first, second):
            for end in (producer.commit, producer.abort, producer.commit):
                producer.begin()
                producer.send_many("transactions", 0, 12)
                producer.send_many("transactions", 1, 7)
                end()


def _move_leaders(cluster: KafkaCluster) -> None:
    """A rolling restart and preferred elections."""
    for broker_id in cluster.broker_ids:
        cluster.restart(broker_id)
        cluster.wait_all_in_sync()
    with Connection(cluster.address(1)) as connection:
        for topic, partitions in (("codecs", len(CODECS)), ("idempotent", 2), ("transactions", 2), ("empty", 1)):
            for partition in range(partitions):
                connection.elect(topic, partition)
    cluster.wait_all_in_sync()


def _wait_cleaned(cluster: KafkaCluster) -> None:
    """Until compaction and retention have been at work on every broker."""

    def cleaned() -> bool:
        return all(
            "compacted" in (log_dir / "cleaner-offset-checkpoint").read_text()
            and not (log_dir / "retained-0" / f"{0:020}.log").exists()
            for broker_id in cluster.broker_ids
            for log_dir in cluster.log_dirs(broker_id)
            if (log_dir / "cleaner-offset-checkpoint").exists()
        )

    wait_until(cleaned, what="compaction and retention")
