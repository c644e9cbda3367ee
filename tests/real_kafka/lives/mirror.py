"""MirrorMaker 2 with exactly-once source support, from a cluster of one node into the one that is captured.

Captured on a sound day; then broker 1 goes alone and dies. It led the first partition of every mirrored topic.
"""

from typing import Final

from tests.real_kafka.applications import CLIENTS, Application
from tests.real_kafka.archives import Archives
from tests.real_kafka.clients import GroupReader, LedgerProducer
from tests.real_kafka.cluster import KafkaCluster
from tests.real_kafka.ledger import Ledger, ProducerKind
from tests.real_kafka.lives import everyday, unclean
from tests.real_kafka.lives.life import Life
from tests.real_kafka.patience import wait_until
from tests.real_kafka.settings import small_segments
from tests.real_kafka.topology import combined

VERSION: Final = "kafka-4.3"
DEAD: Final = 1
TOPIC: Final = "orders"
MIRRORED: Final = f"A.{TOPIC}"
READERS: Final = "reads-the-mirror"
_ONE: Final = dict.fromkeys(
    (
        "min.insync.replicas",
        "default.replication.factor",
        "offsets.topic.replication.factor",
        "transaction.state.log.replication.factor",
        "transaction.state.log.min.isr",
        "share.coordinator.state.topic.replication.factor",
        "share.coordinator.state.topic.min.isr",
    ),
    "1",
)


def live(archives: Archives) -> None:
    """A sound day, then the loss."""
    cluster = archives.cluster
    with KafkaCluster(cluster.directory / "source", version=VERSION, topology=combined(1), settings=_ONE) as source:
        _live(archives, source)


def _live(archives: Archives, source: KafkaCluster) -> None:
    cluster = archives.cluster
    elsewhere = Ledger()  # What the source acknowledged was not acknowledged by the cluster that is captured.
    source.create_topic(TOPIC, partitions=2, replication_factor=1)
    producer = LedgerProducer(source.bootstrap, elsewhere, tag="source", kind=ProducerKind.IDEMPOTENT, codec="zstd")

    def write(count: int) -> None:
        for _ in range(count // 10):
            for partition in range(2):
                producer.send_many(TOPIC, partition, 10)
            producer.flush()

    write(120)
    read_there = GroupReader(source.bootstrap, everyday.GROUP, [TOPIC])
    read_there.wait_read(240)
    read_there.close()
    hasty = {**small_segments(cluster.version), "segment.index.bytes": "4096", "min.insync.replicas": "1"}
    cluster.create_topic(MIRRORED, assignment=[[1, 2, 3], [2, 3, 1]], config=hasty)
    directory = cluster.directory / "applications" / "mirror"
    directory.mkdir(parents=True)
    properties = directory / "mirror.properties"
    properties.write_text(_properties(source.bootstrap, cluster.bootstrap))
    with Application(
        "org.apache.kafka.connect.mirror.MirrorMaker",
        str(properties),
        libraries=CLIENTS,
        directory=directory,
        on_end="terminate",
    ) as mirror:
        reader = GroupReader(cluster.bootstrap, READERS, [MIRRORED])
        reader.wait_read(240)
        _wait_groups_mirrored(cluster)
        cluster.wait_all_in_sync()
        everyday.wait_checkpoints(cluster)
        archives.keep(
            "mirror",
            what="MirrorMaker 2 with exactly-once source support wrote what another cluster holds, and goes on",
            state="alive; MirrorMaker runs, and nobody writes at its source; copied one node after the other",
        )
        unclean.lead(cluster, DEAD, [(MIRRORED, 0)])
        own = [t for t in cluster.admin().list_topics(timeout=30).topics if not t.startswith("__") and t != MIRRORED]
        for topic in own:
            unclean.move_leaders(cluster, topic, DEAD)
        unclean.move_coordinators(cluster, DEAD)
        alone = unclean.Alone(cluster, DEAD, [(MIRRORED, 0)])
        write(40)
        reader.wait_read(320)
        reader.close()
        mirror.close()
        lost = alone.lost({READERS: [MIRRORED]})
    unclean.wait_checkpointed(cluster, lost)
    cluster.kill(DEAD)
    unclean.elect_anyone(cluster, [(loss.topic, loss.partition) for loss in lost], DEAD)
    cluster.wait_all_in_sync(but=[DEAD])
    everyday.wait_checkpoints(cluster)
    archives.keep(
        "mirror-unclean",
        what=f"nobody followed broker {DEAD}, through which MirrorMaker went on alone with min.insync.replicas=1 until "
        "it was closed and the broker died; a replica that was not in sync was elected",
        state=f"brokers 2 and 3 alive, no traffic, broker {DEAD} dead; copied one node after the other",
        lost=lost,
    )


def _wait_groups_mirrored(cluster: KafkaCluster) -> None:
    """Until the offsets of the source's group have arrived, too."""
    wait_until(
        lambda: everyday.GROUP in {g.group_id for g in cluster.admin().list_consumer_groups().result(timeout=30).valid},
        what="the source's group to be mirrored",
    )


def _properties(source: str, target: str) -> str:
    settings = {
        "clusters": "A,B",
        "A.bootstrap.servers": source,
        "B.bootstrap.servers": target,
        "A->B.enabled": "true",
        "A->B.topics": TOPIC,
        "B->A.enabled": "false",
        "B->A.emit.heartbeats.enabled": "false",
        "replication.factor": "3",
        "offset-syncs.topic.replication.factor": "1",
        "checkpoints.topic.replication.factor": "3",
        "heartbeats.topic.replication.factor": "3",
        "B.offset.storage.replication.factor": "3",
        "B.status.storage.replication.factor": "3",
        "B.config.storage.replication.factor": "3",
        "B.offset.storage.partitions": "1",
        "B.status.storage.partitions": "1",
        "B.exactly.once.source.support": "enabled",
        "dedicated.mode.enable.internal.rest": "true",
        "listeners": "http://127.0.0.1:0",
        "tasks.max": "1",
        "refresh.topics.interval.seconds": "5",
        "emit.checkpoints.interval.seconds": "2",
        "sync.group.offsets.enabled": "true",
        "sync.group.offsets.interval.seconds": "2",
    }
    return "".join(f"{name}={value}\n" for name, value in settings.items())


LIFE: Final = Life(version=VERSION, topology=combined(3), live=live)
