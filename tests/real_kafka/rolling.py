"""Faults that a cluster must outlive, one after the other: each is begun, lasts while captures are taken, and ends.

In: a cluster and dice. Out: context managers. No election is unclean and the quorum keeps its majority, so that nothing
acknowledged with acks=all can be lost, whatever happens and in whatever order.
"""

import random
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from typing import Final

from tests.real_kafka.busy import TOPICS
from tests.real_kafka.cluster import KafkaCluster
from tests.real_kafka.wire import Connection

Fault = Callable[[KafkaCluster, random.Random], AbstractContextManager[None]]
_SESSION_S: Final = 6.0
"""broker.session.timeout.ms of the test clusters: who is silent for longer is fenced."""


@contextmanager
def quiet(cluster: KafkaCluster, dice: random.Random) -> Iterator[None]:
    """No fault at all."""
    yield


@contextmanager
def paused(cluster: KafkaCluster, dice: random.Random) -> Iterator[None]:
    """A broker stands still (SIGSTOP) and goes on."""
    broker_id = dice.choice(cluster.broker_ids)
    cluster.pause(broker_id)
    yield
    cluster.resume(broker_id)


@contextmanager
def fenced(cluster: KafkaCluster, dice: random.Random) -> Iterator[None]:
    """A broker stands still until others lead in its place, goes on, and believes for a moment that it leads."""
    broker_id = dice.choice(cluster.broker_ids)
    cluster.pause(broker_id)
    time.sleep(_SESSION_S + 2)
    cluster.resume(broker_id)
    yield


@contextmanager
def killed(cluster: KafkaCluster, dice: random.Random) -> Iterator[None]:
    """A broker is dead (SIGKILL) for a while."""
    broker_id = dice.choice(cluster.broker_ids)
    cluster.kill(broker_id)
    yield
    cluster.start(broker_id)


@contextmanager
def stopped(cluster: KafkaCluster, dice: random.Random) -> Iterator[None]:
    """A broker is down after a clean stop (SIGTERM)."""
    broker_id = dice.choice(cluster.broker_ids)
    cluster.stop(broker_id)
    yield
    cluster.start(broker_id)


@contextmanager
def stopping(cluster: KafkaCluster, dice: random.Random) -> Iterator[None]:
    """A broker is about to stop, hands its leaderships over, and writes its last files."""
    broker_id = dice.choice(cluster.broker_ids)
    with _meanwhile(lambda: cluster.stop(broker_id)):
        yield
    cluster.start(broker_id)


@contextmanager
def recovering(cluster: KafkaCluster, dice: random.Random) -> Iterator[None]:
    """A broker that was killed is about to start: it repairs its logs, cuts them back, fetches what it lacks."""
    broker_id = dice.choice(cluster.broker_ids)
    cluster.kill(broker_id)
    time.sleep(dice.uniform(0, 2))
    with _meanwhile(lambda: cluster.start(broker_id)):
        yield


@contextmanager
def cut(cluster: KafkaCluster, dice: random.Random) -> Iterator[None]:
    """Nobody can follow a broker, which goes on leading until the controller hears of nothing else."""
    broker_id = dice.choice(cluster.broker_ids)
    cluster.cut(broker_id)
    yield
    cluster.heal(broker_id)


@contextmanager
def isolated(cluster: KafkaCluster, dice: random.Random) -> Iterator[None]:
    """A broker follows nobody, and nobody follows it."""
    broker_id = dice.choice(cluster.broker_ids)
    cluster.isolate(broker_id)
    yield
    cluster.heal(broker_id)


@contextmanager
def crossed(cluster: KafkaCluster, dice: random.Random) -> Iterator[None]:
    """One broker is cut off and another one dies: partitions wait for who has everything, and none loses anything."""
    first, second = dice.sample(cluster.broker_ids, 2)
    cluster.isolate(first)
    time.sleep(dice.uniform(0, _SESSION_S))
    cluster.kill(second)
    yield
    cluster.heal(first)
    cluster.start(second)


@contextmanager
def elected(cluster: KafkaCluster, dice: random.Random) -> Iterator[None]:
    """Every preferred leader is elected."""
    with Connection(cluster.address(dice.choice(cluster.broker_ids))) as connection:
        for name, topic in TOPICS.items():
            for partition in range(topic.partitions):
                connection.elect(name, partition)
    yield


@contextmanager
def reassigned(cluster: KafkaCluster, dice: random.Random) -> Iterator[None]:
    """A partition loses a replica and gets it back, some have their replicas in another order, one is moved away."""
    replicas = dice.sample(cluster.broker_ids, len(cluster.broker_ids))
    moved = dice.choice(("idempotent", "compacted", "transactions", "deleted-records"))
    with Connection(cluster.address(replicas[0])) as connection:
        connection.reassign(moved, 0, replicas[:2])
        connection.reassign("retained", 1, replicas)
        for topic, count in zip(MOVING, (2, 1), strict=True):
            connection.reassign(topic, 0, replicas[-count:])
    yield
    with Connection(cluster.address(replicas[0])) as connection:
        connection.reassign(moved, 0, replicas)


FAULTS: Final[tuple[Fault, ...]] = (
    quiet,
    paused,
    fenced,
    killed,
    stopped,
    stopping,
    recovering,
    cut,
    isolated,
    crossed,
    elected,
    reassigned,
)
IN_SHORT: Final[tuple[Fault, ...]] = (fenced, recovering, crossed, reassigned)
"""Those of a short soak: in each a broker believes what is not so any more, or two things go wrong at once, and in no
other test is a capture taken in the middle of it.
"""
MOVING: Final = ("pair", "alone")
"""Topics of which `reassigned` moves a replica from one broker to another."""
ANSWERING: Final = frozenset({"quiet", "elected", "reassigned", "fenced", "cut", "isolated"})
"""Faults under which every broker answers at once: a request to one that is paused takes its whole timeout."""


@contextmanager
def _meanwhile(work: Callable[[], None]) -> Iterator[None]:
    """Work goes on in a thread of its own until the end of the block, which waits for it and raises what it raised."""
    raised: list[BaseException] = []

    def watched() -> None:
        try:
            work()
        except BaseException as error:
            raised.append(error)

    thread = threading.Thread(target=watched, name="meanwhile")
    thread.start()
    with suppress(GeneratorExit):
        yield
    thread.join()
    if raised:
        raise raised[0]
