"""A metadata log whose beginning is gone: small segments, a snapshot every few kB, and all before it deleted.

Captured on a sound day. Then broker 1 goes alone and dies, and the election is forgotten by every node that lives; then
broker 2 does the same, and that election is still on record when the second copy is made.
"""

from typing import Final

from tests.real_kafka.archives import Archives
from tests.real_kafka.clients import GroupReader
from tests.real_kafka.cluster import KafkaCluster
from tests.real_kafka.lives import everyday, unclean
from tests.real_kafka.lives.life import Life
from tests.real_kafka.patience import wait_until
from tests.real_kafka.topology import brokers, controllers

FIRST_DEAD: Final = 1
SECOND_DEAD: Final = 2
EARLY: Final = {("orders", 0): 70, ("accounts", 0): 30, ("payments", 0): 8}
AFTER_THE_CHECKPOINT: Final = 20
LATE: Final = {("orders", 1): 50}
FORGETTING_S: Final = 600.0
"""Kafka cleans its metadata log once a minute (KafkaRaftClient)."""


def live(archives: Archives) -> None:
    """A sound day, an election that is forgotten, one that is not."""
    cluster, ledger = archives.cluster, archives.ledger
    everyday.create_topics(cluster, [[1, 2, 3], [2, 3, 1]])
    everyday.live_a_day(cluster, ledger, orders=120)
    wait_forgotten(cluster)
    archives.keep(
        "forgotten",
        what="one controller of its own, three brokers; the metadata log begins with a snapshot, its beginning is gone",
        state="alive, no traffic; no node ran on while it was copied",
        stand_still=True,
    )
    unclean.move_coordinators(cluster, FIRST_DEAD)
    reader = GroupReader(cluster.bootstrap, everyday.GROUP, ["orders", "accounts", "payments"])
    lost = unclean.write_alone(cluster, ledger, FIRST_DEAD, EARLY, tag="early", reader=reader)
    reader.close()
    unclean.wait_checkpointed(cluster, lost)
    lost[-1] = unclean.write_last(cluster, ledger, lost[-1], AFTER_THE_CHECKPOINT, tag="last")
    unclean.elect_anyone(cluster, list(EARLY), FIRST_DEAD)
    unclean.go_on(cluster, ledger, list(EARLY), tag="after-early")
    cluster.wait_all_in_sync(but=[FIRST_DEAD])
    wait_forgotten(cluster)

    unclean.move_coordinators(cluster, SECOND_DEAD)
    lost += unclean.write_alone(cluster, ledger, SECOND_DEAD, LATE, tag="late")
    unclean.wait_checkpointed(cluster, lost[len(EARLY) :])
    cluster.kill(SECOND_DEAD)
    unclean.elect_anyone(cluster, list(LATE), SECOND_DEAD)
    unclean.go_on(cluster, ledger, list(LATE), tag="after-late")
    cluster.wait_all_in_sync(but=[FIRST_DEAD, SECOND_DEAD])
    everyday.wait_checkpoints(cluster)
    archives.keep(
        "forgotten-unclean",
        what=f"brokers {FIRST_DEAD} and {SECOND_DEAD}, one after the other, went on alone with acks=all and "
        "min.insync.replicas=1 and died, and a replica that was not in sync was elected. No node that lives remembers "
        f"the election of {', '.join(f'{t}-{p}' for t, p in EARLY)}: its metadata log begins later. The last "
        f"{AFTER_THE_CHECKPOINT} records of payments-0 came after broker {FIRST_DEAD}'s last checkpoint",
        state="broker 3 alive, no traffic, brokers 1 and 2 dead; no node ran on while it was copied",
        lost=lost,
        stand_still=True,
        notes={
            "elections_forgotten": [f"{t}-{p}" for t, p in EARLY],
            "elections_on_record": [f"{t}-{p}" for t, p in LATE],
        },
    )


def wait_forgotten(cluster: KafkaCluster) -> None:
    """Until no node that runs has a record of the metadata log that is there now."""
    running = [i for i in cluster.node_ids if cluster.is_running(i)]
    reached = max(_segments(cluster, i)[-1] for i in running)
    wait_until(
        lambda: all(_segments(cluster, i)[0] > reached for i in running),
        what="the metadata log's beginning to be deleted",
        timeout_s=FORGETTING_S,
    )


def _segments(cluster: KafkaCluster, node_id: int) -> list[int]:
    (log,) = cluster.root(node_id).glob("**/__cluster_metadata-0")
    return sorted(int(path.stem) for path in log.glob("*.log"))


LIFE: Final = Life(
    version="kafka-4.2",
    topology=(*controllers(1), *brokers(3)),
    settings={
        "internal.metadata.log.segment.bytes": "16384",
        "metadata.log.max.record.bytes.between.snapshots": "6000",
        "metadata.max.retention.bytes": "20000",
        "metadata.max.idle.interval.ms": "100",
    },
    live=live,
)
