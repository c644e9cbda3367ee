"""A cluster with a ZooKeeper that is migrated to a quorum of its own (KIP-866), on the last release that can.

Three brokers of Kafka 3.9 that write today's message format. Captured after a clean stop in ZooKeeper's time; while a
controller writes what changes to both; when ZooKeeper is gone; and after broker 1 went alone and died. In another life
it does so in ZooKeeper's time.
"""

from typing import Final

from tests.real_kafka.archives import Archives
from tests.real_kafka.clients import GroupReader
from tests.real_kafka.cluster import KafkaCluster
from tests.real_kafka.ledger import Ledger
from tests.real_kafka.lives import everyday, unclean
from tests.real_kafka.lives.life import Life
from tests.real_kafka.nodes import Keeper
from tests.real_kafka.probe import ground_truth
from tests.real_kafka.topology import brokers, controllers

DEAD: Final = 1
PLACES: Final = {("orders", 0): 80, ("payments", 0): 20}
(CONTROLLER,) = controllers(1)
MIGRATED: Final = "Completed migration of metadata from ZooKeeper to KRaft"


def live(archives: Archives) -> None:
    """A sound day, a migration in three steps, an unclean election."""
    cluster, ledger = archives.cluster, archives.ledger
    everyday.create_topics(cluster, [[1, 2, 3], [2, 3, 1]])
    everyday.live_a_day(cluster, ledger, orders=120)
    truth = ground_truth(cluster)
    cluster.stop_all()
    archives.keep(
        "zookeeper",
        what="three brokers with a ZooKeeper, of which nothing is copied; nothing went wrong",
        state="all brokers cleanly stopped; asked just before, when no client wrote",
        truth=truth,
    )
    cluster.start()
    cluster.wait_all_in_sync()
    cluster.add(CONTROLLER, Keeper.BOTH)
    cluster.start(CONTROLLER.id)
    _restart_brokers(cluster, ledger, Keeper.BOTH)
    cluster.wait_said(CONTROLLER.id, MIGRATED)
    everyday.live_on(cluster, ledger, tag="both", orders=20)
    everyday.wait_checkpoints(cluster)
    archives.keep(
        "migrating",
        what="a controller has brought over what ZooKeeper held, and writes what changes to both; the brokers copy its "
        "log, and are of ZooKeeper's time still; nothing went wrong",
        state="alive, no traffic; copied one node after the other",
    )
    _restart_brokers(cluster, ledger, Keeper.QUORUM)
    cluster.keep_metadata(Keeper.QUORUM, CONTROLLER.id)
    cluster.restart(CONTROLLER.id)
    cluster.close_zookeeper()
    unclean.lead(cluster, 2, list(PLACES))
    everyday.live_on(cluster, ledger, tag="quorum", orders=20)
    everyday.wait_checkpoints(cluster)
    archives.keep(
        "migrated",
        what="every broker has its metadata from the controller's log, and ZooKeeper is gone; nothing went wrong",
        state="alive, no traffic; copied one node after the other",
    )
    _go_alone(archives, "migrated-unclean")


def live_unclean(archives: Archives) -> None:
    """A sound day and an unclean election in ZooKeeper's time."""
    everyday.create_topics(archives.cluster, [[1, 2, 3], [2, 3, 1]])
    everyday.live_a_day(archives.cluster, archives.ledger, orders=120)
    _go_alone(archives, "zookeeper-unclean")


def _restart_brokers(cluster: KafkaCluster, ledger: Ledger, keeper: Keeper) -> None:
    """One after the other, with records in between."""
    for broker_id in cluster.broker_ids:
        cluster.keep_metadata(keeper, broker_id)
        cluster.restart(broker_id)
        cluster.wait_all_in_sync()
        everyday.live_on(cluster, ledger, tag=f"{keeper.value}-{broker_id}", orders=4)


def _go_alone(archives: Archives, name: str) -> None:
    cluster, ledger = archives.cluster, archives.ledger
    unclean.lead(cluster, DEAD, list(PLACES))
    unclean.move_coordinators(cluster, DEAD)
    reader = GroupReader(cluster.bootstrap, everyday.GROUP, ["orders"])
    lost = unclean.write_alone(cluster, ledger, DEAD, PLACES, tag="alone")
    unclean.wait_read(cluster, reader, [("orders", 0)])
    reader.close()
    lost = unclean.read_by(everyday.GROUP, lost, ["orders"])
    unclean.wait_checkpointed(cluster, lost)
    cluster.kill(DEAD)
    unclean.elect_anyone(cluster, list(PLACES), DEAD)
    unclean.go_on(cluster, ledger, list(PLACES), tag="after")
    cluster.wait_all_in_sync(but=[DEAD])
    everyday.wait_checkpoints(cluster)
    archives.keep(
        name,
        what=f"nobody followed broker {DEAD}, which went on alone with acks=all and min.insync.replicas=1, and died; "
        "a replica that was not in sync was elected, and wrote",
        state=f"brokers 2 and 3 alive, no traffic, broker {DEAD} dead; copied one node after the other",
        lost=lost,
        # A ZooKeeper keeps no history, and nothing of it is copied.
        notes={} if cluster.has_quorum else {"elections_forgotten": [loss.place for loss in lost]},
    )


LIFE: Final = Life(version="kafka-3.9", topology=brokers(3), live=live)
UNCLEAN: Final = Life(version="kafka-3.9", topology=brokers(3), live=live_unclean)
