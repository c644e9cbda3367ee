"""What clients do to a cluster on a day without trouble: a little of everything, so that copies stay small.

In: a cluster and a ledger. Out: records of every codec and producer, transactions that end both ways, compaction,
DeleteRecords, groups of both protocols. Who leads a topic's first partition is said by who calls, and
`min.insync.replicas` is 1 where records may be lost later (`orders`, `payments`, `accounts`).
"""

import time
from collections.abc import Sequence
from typing import Final

from tests.real_kafka.clients import CODECS, GroupReader, JavaTransactionalProducer, LedgerProducer, commit_offsets
from tests.real_kafka.cluster import KafkaCluster
from tests.real_kafka.ledger import Ledger, ProducerKind
from tests.real_kafka.patience import wait_until
from tests.real_kafka.settings import small_segments

GROUP: Final = "billing"
SETTINGS: Final = {"log.flush.start.offset.checkpoint.interval.ms": "5000"}
"""Where logs begin is written down as often as how far they are committed, so that copies need not wait a minute."""


def create_topics(cluster: KafkaCluster, placed: Sequence[Sequence[int]]) -> None:
    """`placed`: the replicas of `orders`' partitions; the other topics are placed like its first, or its last."""
    assignment = [list(replicas) for replicas in placed]
    small = {"segment.index.bytes": "4096", **small_segments(cluster.version)}
    hasty = {**small, "min.insync.replicas": "1"}
    compact = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01"}
    cluster.create_topic("orders", assignment=assignment, config=hasty)
    cluster.create_topic("payments", assignment=assignment[:1], config=hasty)
    cluster.create_topic("accounts", assignment=assignment[:1], config={**hasty, **compact})
    cluster.create_topic("safe", assignment=assignment[-1:])
    cluster.create_topic("codecs", assignment=assignment[-1:], config=small)


def live_a_day(cluster: KafkaCluster, ledger: Ledger, *, orders: int) -> None:
    """`orders` records in each partition of that topic, all of them read by `GROUP`, and the rest beside them."""
    bootstrap, partitions = cluster.bootstrap, len(cluster.admin().list_topics(timeout=30).topics["orders"].partitions)
    idempotent = LedgerProducer(bootstrap, ledger, tag="day", kind=ProducerKind.IDEMPOTENT, codec="gzip")
    for partition in range(partitions):
        for _ in range(4):
            idempotent.send_many("orders", partition, orders // 4)
            idempotent.flush()
    keyed = LedgerProducer(bootstrap, ledger, tag="keyed", kind=ProducerKind.IDEMPOTENT)
    for n in range(200):
        keyed.send("accounts", 0, key=f"k{n % 40}".encode(), size_bytes=300)
        if n % 20 == 19:
            keyed.flush()
            time.sleep(0.1)  # Segments may be rolled by their age.
    for codec in CODECS:
        plain = LedgerProducer(bootstrap, ledger, tag=f"plain-{codec}", kind=ProducerKind.PLAIN, codec=codec)
        plain.send_many("codecs", 0, 20, size_bytes=300)
        plain.flush()
        plain.send_many("safe", 0, 10)
        plain.flush()
    first = LedgerProducer(bootstrap, ledger, tag="rdk", kind=ProducerKind.TRANSACTIONAL_V1, codec="zstd")
    with JavaTransactionalProducer(
        bootstrap, ledger, transactional_id="java", codec="snappy", libraries=cluster.version
    ) as second:
        for producer in (first, second):
            for end in (producer.commit, producer.abort, producer.commit):
                producer.begin()
                producer.send_many("payments", 0, 8)
                producer.send_many("codecs", 0, 3)
                end()
    cluster.delete_records("codecs", 0, 33)
    # The newer group protocol is of Kafka 4.0.
    protocol = "classic" if cluster.version == "kafka-3.9" else "consumer"
    newer = GroupReader(bootstrap, "newer", ["safe"], protocol=protocol)
    newer.wait_read(50)
    newer.close()
    commit_offsets(bootstrap, "behind", {("orders", 0): 17, ("payments", 0): 3})
    reader = GroupReader(bootstrap, GROUP, ["orders"])
    reader.wait_read(partitions * 4 * (orders // 4))
    reader.close()
    wait_cleaned(cluster)
    cluster.wait_all_in_sync()


def live_on(cluster: KafkaCluster, ledger: Ledger, *, tag: str, orders: int) -> None:
    """So many records more in each partition of `orders`, and in `safe`."""
    producer = LedgerProducer(cluster.bootstrap, ledger, tag=tag, kind=ProducerKind.IDEMPOTENT)
    for partition in cluster.admin().list_topics(timeout=30).topics["orders"].partitions:
        producer.send_many("orders", partition, orders)
    producer.send_many("safe", 0, orders)
    producer.flush()


def wait_cleaned(cluster: KafkaCluster) -> None:
    """Until compaction has been at work on every broker that has something to compact."""

    def cleaned() -> bool:
        return all(
            "accounts" in (log_dir / "cleaner-offset-checkpoint").read_text()
            for broker_id in cluster.broker_ids
            for log_dir in cluster.log_dirs(broker_id)
            if (log_dir / "accounts-0").is_dir()
        )

    wait_until(cleaned, what="compaction")


def wait_checkpoints(cluster: KafkaCluster) -> None:
    """Until every broker that runs has written down how far its logs are committed, after everything before this."""

    def files() -> dict[str, int]:
        return {
            str(log_dir): (log_dir / "replication-offset-checkpoint").stat().st_mtime_ns
            for broker_id in cluster.broker_ids
            if cluster.is_running(broker_id)
            for log_dir in cluster.log_dirs(broker_id)
            if log_dir.is_dir()
        }

    for _ in range(2):  # One that was being written may lack the last record.
        before = files()
        wait_until(lambda: all(files()[name] > at for name, at in before.items()), what="checkpoints")  # noqa: B023
