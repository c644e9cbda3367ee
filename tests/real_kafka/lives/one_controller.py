"""One controller of its own and three brokers, a static quorum, high watermarks that are checkpointed at a stop only.

Captured after a clean stop; then broker 1 goes alone and dies, one of its last acts a transaction; then it comes back,
and truncates.
"""

from typing import Final

from tests.real_kafka.archives import Archives
from tests.real_kafka.clients import GroupReader, JavaTransactionalProducer
from tests.real_kafka.lives import everyday, unclean
from tests.real_kafka.lives.life import Life
from tests.real_kafka.probe import ground_truth
from tests.real_kafka.topology import brokers, controllers

DEAD: Final = 1
PLACES: Final = {("orders", 0): 80, ("payments", 0): 20}
IN_TRANSACTIONS: Final = 12


def live(archives: Archives) -> None:
    """A sound day, an unclean election, the return of the old leader."""
    cluster, ledger = archives.cluster, archives.ledger
    everyday.create_topics(cluster, [[1, 2, 3], [2, 3, 1]])
    everyday.live_a_day(cluster, ledger, orders=120)
    truth = ground_truth(cluster)
    cluster.stop_all()
    archives.keep(
        "one-controller",
        what="one controller of its own, three brokers, a static quorum; nothing went wrong",
        state="all nodes cleanly stopped; asked just before, when no client wrote",
        truth=truth,
    )
    cluster.start()
    cluster.wait_all_in_sync()
    unclean.lead(cluster, DEAD, list(PLACES))
    unclean.move_coordinators(cluster, DEAD)

    def transact() -> None:
        with JavaTransactionalProducer(
            cluster.bootstrap, ledger, transactional_id="alone-java", libraries=cluster.version
        ) as producer:
            for end in (producer.commit, producer.abort):
                producer.begin()
                producer.send_many("payments", 0, IN_TRANSACTIONS)
                end()

    reader = GroupReader(cluster.bootstrap, everyday.GROUP, ["orders"])
    lost = unclean.write_alone(cluster, ledger, DEAD, PLACES, tag="alone", transaction=transact)
    unclean.wait_read(cluster, reader, [("orders", 0)])
    reader.close()
    lost = unclean.read_by(everyday.GROUP, lost, ["orders"])
    cluster.kill(DEAD)
    unclean.elect_anyone(cluster, list(PLACES), DEAD)
    unclean.go_on(cluster, ledger, list(PLACES), tag="after")
    cluster.wait_all_in_sync(but=[DEAD])
    archives.keep(
        "one-controller-unclean",
        what=f"nobody followed broker {DEAD}, which went on alone with acks=all and min.insync.replicas=1, its high "
        "watermark nowhere written down, and died; a replica that was not in sync was elected, and wrote. One "
        "transaction of its last ones was committed, one aborted",
        state=f"brokers 2 and 3 alive, no traffic, broker {DEAD} dead; copied one node after the other",
        lost=lost,
    )
    cluster.follow(DEAD)
    cluster.start(DEAD)
    cluster.wait_all_in_sync()
    archives.keep(
        "one-controller-rejoined",
        what=f"the same cluster after broker {DEAD} came back and truncated to what the new leader has",
        state="alive, no traffic; copied one node after the other",
        lost=lost,
        let_go=[DEAD],
    )


LIFE: Final = Life(
    version="kafka-4.0",
    topology=(*controllers(1), *brokers(3)),
    settings={"replica.high.watermark.checkpoint.interval.ms": "3600000"},
    static_quorum=True,
    live=live,
)
