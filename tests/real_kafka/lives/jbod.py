"""Three combined nodes with three log dirs each, of which two fail.

First a disk of broker 2, when everything on it is elsewhere, too: nothing is lost. Then one of broker 1, which went on
alone: what it acknowledged is on that disk and nowhere else, another replica is elected, and broker 1 lives on.
"""

import time
from pathlib import Path
from typing import Final

from tests.real_kafka.archives import Archives
from tests.real_kafka.clients import GroupReader
from tests.real_kafka.cluster import KafkaCluster
from tests.real_kafka.lives import everyday, unclean
from tests.real_kafka.lives.life import Life
from tests.real_kafka.lives.unclean import Place
from tests.real_kafka.patience import wait_until
from tests.real_kafka.topology import combined

DISKS: Final = ("data-1", "data-2", "data-3")
PLACED: Final = ((1, 2, 3), (2, 3, 1), (1, 3, 2), (2, 1, 3), (1, 2, 3), (3, 1, 2))
SOUND: Final = 2
ALONE: Final = 1
LONG_AGO_S: Final = 75.0
"""After so long nobody takes what a broker lacks for something that is under way."""


def live(archives: Archives) -> None:
    """A sound day, a disk that nobody misses, a disk that held the only copies."""
    cluster, ledger = archives.cluster, archives.ledger
    everyday.create_topics(cluster, PLACED)
    everyday.live_a_day(cluster, ledger, orders=60)
    fail(cluster, SOUND, cluster.log_dirs(SOUND)[1])
    everyday.live_on(cluster, ledger, tag="without-a-disk", orders=10)
    time.sleep(LONG_AGO_S)
    everyday.wait_checkpoints(cluster)
    archives.keep(
        "failed-disk",
        what=f"three log dirs a node; {DISKS[1]} of broker {SOUND} failed; others lead what it led",
        state="alive, no traffic; the failed disk could not be copied",
    )
    disks = {place: log_dir for log_dir in cluster.log_dirs(ALONE)[1:] for place in led_from(cluster, ALONE, log_dir)}
    failing = next(iter(disks.values()))
    gone = [place for place, log_dir in disks.items() if log_dir == failing]
    unclean.move_coordinators(cluster, ALONE)
    reader = GroupReader(cluster.bootstrap, everyday.GROUP, ["orders"])
    lost = unclean.write_alone(cluster, ledger, ALONE, dict.fromkeys(disks, 40), tag="alone", reader=reader)
    reader.close()
    lost = [loss for loss in lost if (loss.topic, loss.partition) in gone]
    unclean.wait_checkpointed(cluster, lost)
    elsewhere = fail(cluster, ALONE, failing)
    unclean.elect_anyone(cluster, gone, ALONE)
    cluster.follow(ALONE)
    unclean.go_on(cluster, ledger, gone, tag="after")
    wait_in_sync(cluster)
    everyday.wait_checkpoints(cluster)
    archives.keep(
        "failed-disk-unclean",
        what=f"nobody followed broker {ALONE}, which went on alone with acks=all and min.insync.replicas=1 until its "
        f"{failing.name} failed; replicas that were not in sync were elected for what that disk held, and wrote",
        state=f"alive, no traffic; the failed disks could not be copied. What broker {ALONE}'s held is in elsewhere/",
        lost=lost,
        let_go=[ALONE],
        beside=[elsewhere],
        notes={"elsewhere": {failing.name: f"broker-{ALONE}/{failing.name}"}},
    )


def fail(cluster: KafkaCluster, broker_id: int, log_dir: Path) -> Path:
    """A disk fails, and everybody has heard of it; what it held is where this says."""
    held = [path.name.rsplit("-", 1) for path in log_dir.iterdir() if path.is_dir()]
    elsewhere = cluster.fail_disk(broker_id, log_dir)
    wait_until(
        lambda: all(broker_id in unclean.state_of(cluster, topic, int(number)).offline for topic, number in held),
        what=f"broker {broker_id} to give up {log_dir.name}",
    )
    return elsewhere


def led_from(cluster: KafkaCluster, broker_id: int, log_dir: Path) -> list[Place]:
    """The partitions of `orders` that a broker leads from one of its disks."""
    held = sorted(path.name for path in log_dir.glob("orders-*"))
    places = [(name.rsplit("-", 1)[0], int(name.rsplit("-", 1)[1])) for name in held]
    return [place for place in places if unclean.state_of(cluster, *place).leader == broker_id]


def wait_in_sync(cluster: KafkaCluster) -> None:
    """Until every replica whose disk is well is in sync."""

    def in_sync() -> bool:
        return all(
            set(state.isr) == set(state.replicas) - set(state.offline)
            for topic in cluster.admin().list_topics(timeout=30).topics
            for state in unclean.states_of(cluster, topic)
        )

    wait_until(in_sync, what="every replica to be in sync whose disk is well")


LIFE: Final = Life(version="kafka-4.3", topology=combined(3, log_dirs=DISKS), live=live)
