"""Five brokers over three racks, of which three are the controllers.

Captured on a sound day. Then two unclean elections of one partition in a row: broker 1 goes alone and dies, broker 2 is
elected, writes, goes alone and dies, and the third replica is elected.
"""

from dataclasses import replace
from typing import Final

from tests.real_kafka.archives import Archives, Lost
from tests.real_kafka.clients import GroupReader
from tests.real_kafka.lives import everyday, unclean
from tests.real_kafka.lives.life import Life
from tests.real_kafka.topology import brokers, over_racks

CONTROLLERS: Final = (3, 4, 5)
FIRST: Final = {("orders", 0): 60, ("payments", 0): 25}
SECOND: Final = {("orders", 0): 40}


def live(archives: Archives) -> None:
    """A sound day, then one loss after the other."""
    cluster, ledger = archives.cluster, archives.ledger
    everyday.create_topics(cluster, [[1, 2, 4], [2, 3, 5], [4, 5, 1]])
    everyday.live_a_day(cluster, ledger, orders=120)
    everyday.wait_checkpoints(cluster)
    archives.keep(
        "racks",
        what="five brokers over three racks, three of them the controllers; nothing went wrong",
        state="alive, no traffic; copied one node after the other",
    )
    lost: list[Lost] = []
    for dead, places in ((1, FIRST), (2, SECOND)):
        unclean.move_coordinators(cluster, dead)
        reader = GroupReader(cluster.bootstrap, everyday.GROUP, ["orders", "payments"])
        lost_now = unclean.write_alone(cluster, ledger, dead, places, tag=f"alone-{dead}", reader=reader)
        reader.close()
        unclean.wait_checkpointed(cluster, lost_now)
        lost += lost_now
        cluster.kill(dead)
        unclean.elect_anyone(cluster, list(places), dead)
        unclean.go_on(cluster, ledger, list(places), tag=f"after-{dead}")
        cluster.wait_all_in_sync(but=[d for d in (1, 2) if d <= dead])
    everyday.wait_checkpoints(cluster)
    archives.keep(
        "racks-unclean",
        what="broker 1 went on alone with acks=all and min.insync.replicas=1 and died; broker 2 was elected out of "
        "sync, wrote, went on alone and died, too; the third replica of orders-0 was elected out of sync",
        state="brokers 3 to 5 alive, no traffic, brokers 1 and 2 dead; copied one node after the other",
        lost=lost,
    )


LIFE: Final = Life(
    version="kafka-4.1",
    topology=over_racks(
        [replace(node, is_controller=node.id in CONTROLLERS) for node in brokers(5)], ("east", "north", "west")
    ),
    live=live,
)
