"""Share groups under load: records are accepted, released and rejected while others are written.

One group reads everything, one committed records only, of a topic of transactions. Captured in the middle of it; then
broker 1 goes alone, is read to its end, and dies.
"""

import threading
import time
from contextlib import ExitStack
from typing import Final

from tests.real_kafka.applications import Application
from tests.real_kafka.archives import Archives
from tests.real_kafka.background import Background
from tests.real_kafka.clients import LedgerProducer
from tests.real_kafka.cluster import KafkaCluster
from tests.real_kafka.ledger import Ledger, ProducerKind
from tests.real_kafka.lives import everyday, unclean
from tests.real_kafka.lives.life import Life
from tests.real_kafka.settings import small_segments
from tests.real_kafka.topology import combined

DEAD: Final = 1
GROUPS: Final = {"shares": ("shared", "read_uncommitted"), "shares-committed": ("transactions", "read_committed")}
MEMBERS: Final = 2


def live(archives: Archives) -> None:
    """Under load, then the loss."""
    cluster, ledger = archives.cluster, archives.ledger
    hasty = {**small_segments(cluster.version), "segment.index.bytes": "4096", "min.insync.replicas": "1"}
    for topic in ("shared", "transactions"):
        cluster.create_topic(topic, assignment=[[1, 2, 3], [2, 3, 1]], config=hasty)
    with ExitStack() as stack:
        members = {group: stack.enter_context(_members(cluster, group)) for group in GROUPS}
        load = Load(cluster, ledger)
        load.start()
        for of_group in members.values():
            of_group.wait_count("done", 300)
        archives.keep(
            "shares",
            what="share groups under load: one that reads everything, one that reads committed records only",
            state="alive under load; copied one node after the other, while records were written and acknowledged",
        )
        load.stop()
        unclean.move_coordinators(cluster, DEAD)
        alone = unclean.Alone(cluster, DEAD, [("shared", 0)])
        producer = LedgerProducer(cluster.bootstrap, ledger, tag="alone", kind=ProducerKind.IDEMPOTENT)
        producer.send_many("shared", 0, 1)
        producer.flush()
        producer.send_many("shared", 0, 59)
        producer.flush()
        time.sleep(5)  # The members read on.
        for of_group in members.values():
            of_group.close()
        lost = alone.lost({"shares": ["shared"]})
    unclean.wait_checkpointed(cluster, lost)
    cluster.kill(DEAD)
    unclean.elect_anyone(cluster, [(loss.topic, loss.partition) for loss in lost], DEAD)
    unclean.go_on(cluster, ledger, [("shared", 0)], tag="after", count=20)
    cluster.wait_all_in_sync(but=[DEAD])
    everyday.wait_checkpoints(cluster)
    archives.keep(
        "shares-unclean",
        what=f"nobody followed broker {DEAD}, which went on alone with acks=all and min.insync.replicas=1, was read by "
        "a share group, and died; a replica that was not in sync was elected, and wrote",
        state=f"brokers 2 and 3 alive, no traffic, broker {DEAD} dead; copied one node after the other",
        lost=lost,
    )


class Load(Background):
    """Records and transactions of both ends, until it is stopped."""

    def __init__(self, cluster: KafkaCluster, ledger: Ledger) -> None:
        super().__init__(self._write, name="load")
        self._plain = LedgerProducer(cluster.bootstrap, ledger, tag="load", kind=ProducerKind.IDEMPOTENT, codec="lz4")
        self._transactional = LedgerProducer(
            cluster.bootstrap, ledger, tag="load-transactions", kind=ProducerKind.TRANSACTIONAL_V1
        )

    def _write(self, ended: threading.Event) -> None:
        rounds = 0
        while not ended.is_set():
            for partition in range(2):
                self._plain.send_many("shared", partition, 8)
            self._plain.flush()
            self._transactional.begin()
            for partition in range(2):
                self._transactional.send_many("transactions", partition, 5)
            (self._transactional.abort if rounds % 3 == 2 else self._transactional.commit)()
            rounds += 1
            time.sleep(0.05)


def _members(cluster: KafkaCluster, group: str) -> Application:
    topic, isolation = GROUPS[group]
    return Application(
        "ShareReaders.java",
        cluster.bootstrap,
        group,
        topic,
        str(MEMBERS),
        isolation,
        libraries=cluster.version,
        directory=cluster.directory / "applications" / group,
    )


LIFE: Final = Life(version="kafka-4.4", topology=combined(3), live=live)
