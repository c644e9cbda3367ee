"""Two applications of Kafka Streams with exactly-once v2, one in a group of the old protocol, one in a streams group.

Captured on a sound day; then broker 1 goes alone and dies. It led what one application reads and writes, its
repartition topic and its changelog among them: what the application wrote there is lost with its transactions' ends.
"""

from contextlib import ExitStack
from typing import Final

from tests.real_kafka.applications import CLIENTS, Application
from tests.real_kafka.archives import Archives
from tests.real_kafka.clients import GroupReader, LedgerProducer
from tests.real_kafka.cluster import KafkaCluster
from tests.real_kafka.ledger import ProducerKind
from tests.real_kafka.lives import everyday, unclean
from tests.real_kafka.lives.life import Life
from tests.real_kafka.settings import small_segments
from tests.real_kafka.topology import combined

DEAD: Final = 1
PROTOCOLS: Final = ("classic", "streams")
LETTERS: Final = "abcd"


def live(archives: Archives) -> None:
    """A sound day, then the loss."""
    cluster, ledger = archives.cluster, archives.ledger
    hasty = {**small_segments(cluster.version), "segment.index.bytes": "4096", "min.insync.replicas": "1"}
    for topic in ("clicks", *(f"counted-{protocol}" for protocol in PROTOCOLS)):
        cluster.create_topic(topic, assignment=[[1, 2, 3], [2, 3, 1]], config=hasty)
    producer = LedgerProducer(cluster.bootstrap, ledger, tag="clicks", kind=ProducerKind.IDEMPOTENT)

    def click(count: int) -> None:
        for n in range(count):
            producer.send("clicks", n % 2, key=f"{LETTERS[n % 4]}-{n}".encode())
            if n % 10 == 9:
                producer.flush()
        producer.flush()

    with ExitStack() as stack:
        applications = {protocol: stack.enter_context(_counting(cluster, protocol)) for protocol in PROTOCOLS}
        for application in applications.values():
            application.wait_said("running")
        readers = {p: GroupReader(cluster.bootstrap, f"reads-{p}", [f"counted-{p}"]) for p in PROTOCOLS}
        for _ in range(4):
            click(60)
        for reader in readers.values():
            reader.wait_read(240)
        cluster.wait_all_in_sync()
        everyday.wait_checkpoints(cluster)
        archives.keep(
            "streams",
            what="two applications of Kafka Streams with exactly-once v2, whose groups are alive",
            state="alive; the applications run, and nobody writes for them to read; copied one node after the other",
        )
        topics = [t for t in cluster.admin().list_topics(timeout=30).topics if not t.startswith("__")]
        unclean.lead(cluster, DEAD, [(topic, 0) for topic in topics])
        unclean.lead(cluster, 2, [(topic, 1) for topic in topics])
        unclean.move_coordinators(cluster, DEAD)
        alone = unclean.Alone(cluster, DEAD, [(topic, 0) for topic in topics])
        click(40)
        for reader in readers.values():
            reader.wait_read(280)
            reader.close()
        for application in applications.values():
            application.close()
        lost = alone.lost(
            {**{f"reads-{p}": [f"counted-{p}"] for p in PROTOCOLS}, **{_name(p): _read_by(p) for p in PROTOCOLS}}
        )
    unclean.wait_checkpointed(cluster, lost)
    cluster.kill(DEAD)
    unclean.elect_anyone(cluster, [(loss.topic, loss.partition) for loss in lost], DEAD)
    unclean.go_on(cluster, ledger, [("clicks", 0)], tag="after")
    cluster.wait_all_in_sync(but=[DEAD])
    everyday.wait_checkpoints(cluster)
    archives.keep(
        "streams-unclean",
        what=f"nobody followed broker {DEAD}, through which both applications went on alone with min.insync.replicas=1 "
        "until they were closed and it died; replicas that were not in sync were elected",
        state=f"brokers 2 and 3 alive, no traffic, broker {DEAD} dead; copied one node after the other",
        lost=lost,
    )


def _counting(cluster: KafkaCluster, protocol: str) -> Application:
    directory = cluster.directory / "applications" / protocol
    arguments = [
        cluster.bootstrap,
        _name(protocol),
        str(directory / "state"),
        "clicks",
        f"counted-{protocol}",
        protocol,
    ]
    return Application("StreamsApp.java", *arguments, libraries=CLIENTS, directory=directory)


def _name(protocol: str) -> str:
    return f"counting-{protocol}"


def _read_by(protocol: str) -> list[str]:
    """What an application commits that it has read; its changelog it reads by itself."""
    return ["clicks", f"{_name(protocol)}-counts-repartition"]


LIFE: Final = Life(version="kafka-4.4", topology=combined(3), live=live)
