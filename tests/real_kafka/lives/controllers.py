"""Three controllers of their own, three brokers, each with a metadata log dir that is none of its log dirs.

Captured on a sound day; then one controller is added and one removed (KIP-853), which loses nothing; then broker 1 goes
alone and dies. The controller that was removed keeps its directory, as operators do.
"""

from typing import Final

from tests.real_kafka.archives import Archives, directory_id
from tests.real_kafka.clients import GroupReader
from tests.real_kafka.cluster import KafkaCluster
from tests.real_kafka.lives import everyday, unclean
from tests.real_kafka.lives.life import Life
from tests.real_kafka.patience import wait_until
from tests.real_kafka.probe import QUORUM_TOOL, ask_quorum
from tests.real_kafka.topology import brokers, controllers

ADDED: Final = 104
REMOVED: Final = 101
DEAD: Final = 1
PLACES: Final = {("orders", 0): 90, ("accounts", 0): 60}


def live(archives: Archives) -> None:
    """A sound day, another quorum, an unclean election."""
    cluster, ledger = archives.cluster, archives.ledger
    everyday.create_topics(cluster, [[1, 2, 3], [2, 3, 1]])
    everyday.live_a_day(cluster, ledger, orders=120)
    everyday.wait_checkpoints(cluster)
    archives.keep(
        "controllers",
        what="three controllers of their own, a fourth that only listens; brokers with a metadata log dir apart",
        state="alive, no traffic; copied one node after the other",
    )
    change_quorum(cluster)
    everyday.wait_checkpoints(cluster)
    archives.keep(
        "quorum-changed",
        what=f"the same cluster after controller {ADDED} was added to the quorum, and {REMOVED} removed and stopped",
        state="alive, no traffic; copied one node after the other",
    )
    unclean.move_coordinators(cluster, DEAD)
    reader = GroupReader(cluster.bootstrap, everyday.GROUP, ["orders", "accounts"])
    lost = unclean.write_alone(cluster, ledger, DEAD, PLACES, tag="alone", reader=reader)
    reader.close()
    unclean.wait_checkpointed(cluster, lost)
    cluster.kill(DEAD)
    unclean.elect_anyone(cluster, list(PLACES), DEAD)
    unclean.go_on(cluster, ledger, list(PLACES), tag="after")
    cluster.wait_all_in_sync(but=[DEAD])
    everyday.wait_checkpoints(cluster)
    archives.keep(
        "quorum-changed-unclean",
        what=f"nobody followed broker {DEAD}, which went on alone with acks=all and min.insync.replicas=1 and died; a "
        "replica that was not in sync was elected, and wrote",
        state=f"brokers 2 and 3 alive, no traffic, broker {DEAD} dead; copied one node after the other",
        lost=lost,
    )


def change_quorum(cluster: KafkaCluster) -> None:
    """Adds one controller and removes another, which is stopped then, as Kafka's documentation tells."""
    known = ",".join(map(cluster.controller_address, cluster.controller_ids))
    added = ["--command-config", str(cluster.config(ADDED)), "add-controller"]
    cluster.tool(QUORUM_TOOL, "--bootstrap-controller", known, *added)
    wait_until(lambda: ADDED in ask_quorum(cluster)["voters"], what=f"controller {ADDED} to be a voter")
    (directory,) = cluster.log_dirs(REMOVED)
    removed = ["--controller-id", str(REMOVED), "--controller-directory-id", directory_id(directory)]
    cluster.tool(QUORUM_TOOL, "--bootstrap-controller", known, "remove-controller", *removed)
    wait_until(lambda: REMOVED not in ask_quorum(cluster)["voters"], what=f"controller {REMOVED} to be removed")
    cluster.stop(REMOVED)


LIFE: Final = Life(
    version="kafka-4.4",
    topology=(*controllers(4, late=1), *brokers(3, log_dirs=("data",), metadata_log_dir="metadata")),
    live=live,
)
