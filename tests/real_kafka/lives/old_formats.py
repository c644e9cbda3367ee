"""A cluster with a ZooKeeper whose logs began under message formats 0 and 1, and were upgraded.

Kafka 3.9 with the protocol of 2.8 (`inter.broker.protocol.version`) still writes what `message.format.version` asks
for. Captured on a sound day of format 1; then broker 1 goes alone and dies, and what only it had is of format 1; then
it comes back, every broker is upgraded, and new batches are of format 2.
"""

import time
from collections.abc import Sequence
from typing import Final

from tests.real_kafka.archives import Archives, Lost
from tests.real_kafka.clients import GroupReader, LedgerProducer, commit_offsets
from tests.real_kafka.cluster import KafkaCluster
from tests.real_kafka.ledger import Ledger, ProducerKind
from tests.real_kafka.lives import everyday, unclean
from tests.real_kafka.lives.life import Life
from tests.real_kafka.probe import ground_truth
from tests.real_kafka.topology import brokers

DEAD: Final = 1
CODECS: Final = ("none", "gzip", "snappy", "lz4")
"""Those that the old formats know."""
PLACES: Final = {("orders", 0): 60, ("ancient", 0): 20}
OLD: Final = {"inter.broker.protocol.version": "2.8", "log.message.format.version": "0.10.2"}


def create_topics(cluster: KafkaCluster) -> None:
    """`ancient` is of format 0; all that others write is of format 1, `__consumer_offsets` too."""
    small = {"segment.bytes": "16384", "segment.index.bytes": "4096"}
    hasty = {**small, "min.insync.replicas": "1"}
    compact = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01"}
    cluster.create_topic("orders", assignment=[[1, 2, 3], [2, 3, 1]], config=hasty)
    cluster.create_topic("ancient", assignment=[[1, 2, 3]], config={**hasty, "message.format.version": "0.9.0"})
    cluster.create_topic("accounts", assignment=[[2, 3, 1]], config={**small, **compact})
    cluster.create_topic("safe", assignment=[[3, 1, 2]], config={"message.timestamp.type": "LogAppendTime"})


def live_a_day(cluster: KafkaCluster, ledger: Ledger, *, tag: str, codecs: Sequence[str] = CODECS) -> None:
    """Records of each codec in every topic, keys that are written again and again, and a group that reads."""
    for codec in codecs:
        producer = LedgerProducer(cluster.bootstrap, ledger, tag=f"{tag}-{codec}", kind=ProducerKind.PLAIN, codec=codec)
        for topic, partition in (("orders", 0), ("orders", 1), ("ancient", 0), ("safe", 0)):
            for size_bytes in (100, 300):
                producer.send_many(topic, partition, 20, size_bytes=size_bytes)
                producer.flush()
        for n in range(100):
            producer.send("accounts", 0, key=f"k{n % 37}".encode(), size_bytes=300, tombstone=n % 25 == 24)
            if n % 10 == 9:
                producer.flush()
    cluster.delete_records("safe", 0, 33)
    commit_offsets(cluster.bootstrap, "behind", {("orders", 0): 17, ("ancient", 0): 3})
    reader = GroupReader(cluster.bootstrap, everyday.GROUP, ["orders"])
    reader.wait_read(1)
    unclean.wait_read(cluster, reader, [("orders", 0), ("orders", 1)])
    reader.close()


def live(archives: Archives) -> None:
    """A sound day, an unclean election, an upgrade."""
    cluster, ledger = archives.cluster, archives.ledger
    create_topics(cluster)
    live_a_day(cluster, ledger, tag="day")
    everyday.wait_cleaned(cluster)
    cluster.wait_all_in_sync()
    truth = ground_truth(cluster)
    cluster.stop_all()
    archives.keep(
        "format-1",
        what="three brokers with a ZooKeeper, all records of message formats 0 (`ancient`) and 1 (the others); nothing "
        "went wrong",
        state="all brokers cleanly stopped; asked just before, when no client wrote",
        truth=truth,
    )
    cluster.start()
    cluster.wait_all_in_sync()
    lost = _go_alone(cluster, ledger)
    archives.keep(
        "format-1-unclean",
        what=f"nobody followed broker {DEAD}, which went on alone with acks=all and min.insync.replicas=1, and died; "
        "a replica that was not in sync was elected, and wrote, all of it in message formats 0 and 1",
        state=f"brokers 2 and 3 alive, no traffic, broker {DEAD} dead; copied one broker after the other",
        lost=lost,
    )
    cluster.follow(DEAD)
    cluster.start(DEAD)
    cluster.wait_all_in_sync()
    cluster.configure({**dict.fromkeys(OLD)})
    for broker_id in cluster.broker_ids:
        cluster.restart(broker_id)
        cluster.wait_all_in_sync()
    live_a_day(cluster, ledger, tag="newer", codecs=("none", "lz4", "zstd"))
    producer = LedgerProducer(cluster.bootstrap, ledger, tag="newest", kind=ProducerKind.TRANSACTIONAL_V1)
    for end in (producer.commit, producer.abort):
        producer.begin()
        producer.send_many("orders", 0, 8)
        end()
    time.sleep(3)
    everyday.wait_cleaned(cluster)
    cluster.wait_all_in_sync()
    truth = ground_truth(cluster)
    cluster.stop_all()
    archives.keep(
        "format-upgraded",
        what=f"broker {DEAD} has come back and truncated; then every broker was upgraded to the protocol of 3.9, and "
        "writes message format 2 behind the older ones, a transaction among it",
        state="all brokers cleanly stopped; asked just before, when no client wrote",
        truth=truth,
        lost=lost,
        let_go=[DEAD],
    )


def _go_alone(cluster: KafkaCluster, ledger: Ledger) -> list[Lost]:
    unclean.lead(cluster, DEAD, list(PLACES))
    unclean.move_coordinators(cluster, DEAD)
    reader = GroupReader(cluster.bootstrap, everyday.GROUP, ["orders"])
    lost = unclean.write_alone(cluster, ledger, DEAD, PLACES, tag="alone", kind=ProducerKind.PLAIN)
    unclean.wait_read(cluster, reader, [("orders", 0)])
    reader.close()
    lost = unclean.read_by(everyday.GROUP, lost, ["orders"])
    unclean.wait_checkpointed(cluster, lost)
    cluster.kill(DEAD)
    unclean.elect_anyone(cluster, list(PLACES), DEAD)
    unclean.go_on(cluster, ledger, list(PLACES), tag="after", kind=ProducerKind.PLAIN)
    cluster.wait_all_in_sync(but=[DEAD])
    return lost


LIFE: Final = Life(version="kafka-3.9", topology=brokers(3), settings=OLD, live=live)
