"""A leader that never hears that it is the whole ISR: its high watermark stays, and what it takes is not committed.

Broker 3 follows no more and is out of the ISR; broker 1 hears no news of the metadata, though its heartbeats pass;
broker 2 dies, and the controller makes broker 1 the whole ISR. A producer that asks for one acknowledgement goes on.
Then broker 1 dies, and broker 3 is elected.
"""

from typing import Final

from tests.real_kafka.archives import Archives, Lost
from tests.real_kafka.clients import LedgerProducer
from tests.real_kafka.ledger import ProducerKind
from tests.real_kafka.lives import everyday, unclean
from tests.real_kafka.lives.life import Life
from tests.real_kafka.topology import brokers, controllers

DEAF: Final = 1
FOLLOWER: Final = 2
ELECTED: Final = 3
PLACE: Final = ("orders", 0)
BY_TWO: Final = 20
BY_ONE: Final = 200


def live(archives: Archives) -> None:
    """One capture: what two held is lost, and what one took alone never counted."""
    cluster, ledger = archives.cluster, archives.ledger
    everyday.create_topics(cluster, [[1, 2, 3], [2, 3, 1]])
    everyday.live_a_day(cluster, ledger, orders=120)
    unclean.move_coordinators(cluster, DEAF, FOLLOWER)
    before = unclean.state_of(cluster, *PLACE)
    start = cluster.end_offset(*PLACE)
    cluster.unfollow(DEAF, by=[ELECTED])
    by_two = LedgerProducer(cluster.bootstrap, ledger, tag="by-two", kind=ProducerKind.IDEMPOTENT)
    by_two.send(*PLACE)
    by_two.flush()
    cluster.wait_isr(*PLACE, {DEAF, FOLLOWER})
    by_two.send_many(*PLACE, BY_TWO - 1)
    by_two.flush()
    committed = Lost(
        topic=PLACE[0],
        partition=PLACE[1],
        written_by=DEAF,
        held_by=(DEAF, FOLLOWER),
        leader_epoch=before.leader_epoch,
        offsets=tuple(range(start, start + BY_TWO)),
        log_end_offset=start + BY_TWO,
    )
    assert cluster.end_offset(*PLACE) == committed.log_end_offset
    unclean.wait_checkpointed(cluster, [committed])
    cluster.deafen(DEAF)
    cluster.kill(FOLLOWER)
    unclean.wait_isr_told_by(cluster, ELECTED, PLACE, {DEAF})
    by_one = LedgerProducer(
        cluster.address(DEAF), ledger, tag="by-one", kind=ProducerKind.PLAIN, codec="gzip", settings={"acks": "1"}
    )
    for _ in range(4):
        by_one.send_many(*PLACE, BY_ONE // 4)
        by_one.flush()
    assert len([r for r in ledger.records("orders") if r.tag == "by-one"]) == BY_ONE, ledger.failures()
    cluster.kill(DEAF)
    unclean.elect_anyone(cluster, [PLACE], DEAF)
    unclean.go_on(cluster, ledger, [PLACE], tag="after")
    cluster.wait_all_in_sync(but=[DEAF, FOLLOWER])
    everyday.wait_checkpoints(cluster)
    archives.keep(
        "deaf-unclean",
        what=f"broker {ELECTED} did not follow; broker {DEAF} never heard that broker {FOLLOWER} had died and it was "
        f"the whole ISR, and took {BY_ONE} records with acks=1 that were never committed; it died, and broker "
        f"{ELECTED} was elected, which lacks {BY_TWO} that two had",
        state=f"broker {ELECTED} alive, no traffic, the other two dead; copied one node after the other",
        lost=[committed],
        notes={
            "acked_never_committed": {
                f"{PLACE[0]}-{PLACE[1]}": {
                    "start_offset": start + BY_TWO,
                    "end_offset": start + BY_TWO + BY_ONE,
                    "count": BY_ONE,
                    "acks": 1,
                    "held_by": [DEAF],
                }
            }
        },
    )


LIFE: Final = Life(version="kafka-4.0", topology=(*controllers(1), *brokers(3)), live=live)
