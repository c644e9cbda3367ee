"""How records get lost that were acknowledged: a leader goes on alone and dies, and a replica without them is elected.

In: a cluster, a ledger, partitions that one broker leads and of which `min.insync.replicas` is 1. Out: exactly what was
lost. What is told as lost was acknowledged with acks=all after the leader had become its partition's whole ISR; nothing
else of the cluster is lost.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from confluent_kafka import Consumer, KafkaError, TopicPartition

from tests.real_kafka.archives import Lost
from tests.real_kafka.clients import GroupReader, LedgerProducer
from tests.real_kafka.cluster import KafkaCluster
from tests.real_kafka.ledger import Ledger, ProducerKind
from tests.real_kafka.patience import wait_until
from tests.real_kafka.probe import partition_states
from tests.real_kafka.wire import ELECTION_NOT_NEEDED, NO_ERROR, Connection, PartitionState

Place = tuple[str, int]
INTERNAL: Final = ("__consumer_offsets", "__transaction_state", "__share_group_state")


def states_of(cluster: KafkaCluster, topic: str) -> list[PartitionState]:
    """What a broker that runs says of a topic's partitions."""
    with Connection(cluster.address(next(filter(cluster.is_running, cluster.broker_ids)))) as connection:
        return partition_states(cluster, connection, topic)


def state_of(cluster: KafkaCluster, topic: str, partition: int) -> PartitionState:
    """What it says of one of them."""
    return next(state for state in states_of(cluster, topic) if state.partition == partition)


def move_coordinators(cluster: KafkaCluster, *away_from: int) -> None:
    """Others lead each internal partition: what one that is alone coordinates can commit nothing more."""
    there = cluster.admin().list_topics(timeout=30).topics
    for topic in filter(there.__contains__, INTERNAL):
        move_leaders(cluster, topic, *away_from)


def move_leaders(cluster: KafkaCluster, topic: str, *away_from: int) -> None:
    """Others lead the partitions of a topic that these brokers lead."""
    for state in states_of(cluster, topic):
        if state.leader in away_from:
            first = next(i for i in state.replicas if i not in away_from and cluster.is_running(i))
            lead(cluster, first, [(topic, state.partition)])


def lead(cluster: KafkaCluster, broker_id: int, places: Sequence[Place]) -> None:
    """The broker leads these from now on: it becomes their preferred leader and is elected."""
    for topic, partition in places:
        state = state_of(cluster, topic, partition)
        if state.leader == broker_id:
            continue
        with Connection(cluster.address(_who_takes_it(cluster, state.leader))) as connection:
            rest = [i for i in state.replicas if i != broker_id]
            assert connection.reassign(topic, partition, [broker_id, *rest]) == NO_ERROR
            wait_until(
                lambda: broker_id in state_of(cluster, topic, partition).isr,  # noqa: B023
                what=f"{broker_id} to be in sync",  # Only who is in sync can be elected.
            )
            connection.elect(topic, partition)
        cluster.wait_leader(topic, partition, broker_id)


def _who_takes_it(cluster: KafkaCluster, broker_id: int) -> int:
    """Whom to ask to reassign or elect: with a quorum any broker passes it on, with a ZooKeeper none does."""
    return broker_id if cluster.has_quorum else int(cluster.admin().list_topics(timeout=30).controller_id)


class Alone:
    """From here on nobody follows the broker, which leads these partitions; clients write to them as they like."""

    def __init__(self, cluster: KafkaCluster, broker_id: int, places: Sequence[Place]) -> None:
        self._cluster, self._broker_id = cluster, broker_id
        self._before = {place: state_of(cluster, *place) for place in places}
        assert {state.leader for state in self._before.values()} == {broker_id}
        self._starts = {place: cluster.end_offset(*place) for place in places}
        cluster.unfollow(broker_id)

    def lost(self, groups: Mapping[str, Sequence[str]] | None = None) -> list[Lost]:
        """What was written since, now that nobody writes any more. `groups`: the topics that each has read to the end.

        A partition without a new record has kept its in-sync replicas, and loses nothing.
        """
        found = []
        for place, start in self._starts.items():
            end = self._cluster.end_offset(*place)
            if end == start:
                continue
            self._cluster.wait_isr(*place, {self._broker_id})
            found.append(
                Lost(
                    topic=place[0],
                    partition=place[1],
                    written_by=self._broker_id,
                    leader_epoch=self._before[place].leader_epoch,
                    offsets=offsets_in(self._cluster, place, start, end),
                    log_end_offset=end,
                    groups=tuple(sorted(group for group, topics in (groups or {}).items() if place[0] in topics)),
                )
            )
        return found


def offsets_in(cluster: KafkaCluster, place: Place, start: int, end: int) -> tuple[int, ...]:
    """Where the leader serves a record to whoever reads uncommitted ones, too: ends of transactions are none."""
    settings = {
        "bootstrap.servers": cluster.bootstrap,
        "group.id": "counts-offsets",
        "isolation.level": "read_uncommitted",
        "auto.offset.reset": "earliest",  # Streams deletes what it has read from a topic of its own.
    }
    consumer = Consumer({**settings, "enable.auto.commit": False, "enable.partition.eof": True, "log_level": 0})
    found: list[int] = []
    consumer.assign([TopicPartition(*place, start)])

    def to_the_end() -> bool:
        for message in consumer.consume(500, timeout=1.0):
            if message.error() is None:
                found.append(message.offset())
            elif message.error().code() == KafkaError._PARTITION_EOF:
                return True
        return False

    wait_until(to_the_end, what=f"{place} to be read to its end")
    consumer.close()
    return tuple(offset for offset in found if start <= offset < end)


def write_alone(
    cluster: KafkaCluster,
    ledger: Ledger,
    broker_id: int,
    counts: Mapping[Place, int],
    *,
    tag: str,
    transaction: Callable[[], None] | None = None,
    reader: GroupReader | None = None,
    kind: ProducerKind = ProducerKind.IDEMPOTENT,
) -> list[Lost]:
    """Nobody follows the broker any more; it acknowledges so many records of each partition as its whole ISR.

    `transaction` is done in between, and `reader` reads all of it.
    """
    alone = Alone(cluster, broker_id, list(counts))
    producer = LedgerProducer(cluster.bootstrap, ledger, tag=tag, kind=kind, codec="lz4")
    for place in counts:
        producer.send(*place)  # It is answered when the broker is the whole ISR.
    producer.flush()
    for place in counts:
        cluster.wait_isr(*place, {broker_id})
    for (topic, partition), count in counts.items():
        producer.send_many(topic, partition, count // 2)
        producer.flush()
        producer.send_many(topic, partition, count - 1 - count // 2)
    producer.flush()
    if transaction is not None:
        transaction()
    if reader is not None:
        wait_read(cluster, reader, list(counts))
    lost = alone.lost({} if reader is None else {reader.group: [topic for topic, _ in counts]})
    acknowledged = ledger.by_partition()
    for loss in lost:
        written = {record.offset for record in acknowledged[loss.topic, loss.partition]}
        assert set(loss.offsets) <= written, f"{loss.place}: not all that the leader serves was acknowledged"
        assert max(written) <= loss.offsets[-1], f"{loss.place}: not all that was acknowledged is served"
    return lost


def wait_isr_told_by(cluster: KafkaCluster, broker_id: int, place: Place, isr: set[int]) -> None:
    """Waits until this broker has heard that exactly these are in sync: who does not hear goes on telling the old."""

    def heard() -> bool:
        with Connection(cluster.address(broker_id)) as connection:
            states = partition_states(cluster, connection, place[0])
        return any(state.partition == place[1] and set(state.isr) == isr for state in states)

    wait_until(heard, what=f"broker {broker_id} to hear that the ISR of {place} is {sorted(isr)}")


def write_last(cluster: KafkaCluster, ledger: Ledger, loss: Lost, count: int, *, tag: str) -> Lost:
    """So many records more of the same, and the broker dies before it writes down that they are committed."""
    place = (loss.topic, loss.partition)
    producer = LedgerProducer(cluster.bootstrap, ledger, tag=tag, kind=ProducerKind.IDEMPOTENT)
    wait_checkpointed(cluster, [loss])
    producer.send_many(*place, count)
    producer.flush()
    cluster.kill(loss.written_by)
    offsets = tuple(r.offset for r in ledger.by_partition()[place] if r.offset >= loss.offsets[0])
    longer = replace(loss, offsets=offsets, log_end_offset=offsets[-1] + 1)
    if is_checkpointed(cluster, longer):
        raise RuntimeError(
            f"broker {loss.written_by} was quick enough to write down {longer.log_end_offset}: do it again"
        )
    return longer


def wait_read(cluster: KafkaCluster, reader: GroupReader, places: Sequence[Place]) -> None:
    """Waits until a group has committed that it read everything of these partitions."""
    wanted = {place: cluster.end_offset(*place) for place in places}
    wait_until(lambda: wanted.items() <= reader.committed.items(), what=f"{reader.group} to have read {places}")


def read_by(group: str, lost: Sequence[Lost], topics: Sequence[str]) -> list[Lost]:
    """The same losses; those of these topics had been read by a group."""
    return [replace(loss, groups=(group,)) if loss.topic in topics else loss for loss in lost]


def wait_checkpointed(cluster: KafkaCluster, lost: Sequence[Lost]) -> None:
    """Waits until the broker has written down that all of it is committed; it does so every five seconds."""
    for loss in lost:
        wait_until(lambda: is_checkpointed(cluster, loss), what=f"a checkpoint of {loss.place}")  # noqa: B023


def is_checkpointed(cluster: KafkaCluster, loss: Lost) -> bool:
    """Whether the broker has written down that all of it is committed."""
    files = (path / "replication-offset-checkpoint" for path in cluster.log_dirs(loss.written_by))
    line = f"{loss.topic} {loss.partition} {loss.log_end_offset}"
    return any(line in file.read_text().splitlines() for file in files)


def elect_anyone(cluster: KafkaCluster, places: Sequence[Place], instead_of: int) -> None:
    """Elects a replica that is not in sync, by an operator's request, once there is no leader."""
    for topic, partition in places:
        wait_until(
            lambda: cluster.partition(topic, partition) is None,  # noqa: B023
            what=f"{topic}-{partition} to have no leader",
        )
        other = next(i for i in cluster.broker_ids if i != instead_of and cluster.is_running(i))
        with Connection(cluster.address(_who_takes_it(cluster, other))) as connection:
            # Not needed: it was done, and the answer to the first request got lost.
            assert connection.elect(topic, partition, unclean=True) in (NO_ERROR, ELECTION_NOT_NEEDED)
        cluster.wait_other_leader(topic, partition, instead_of)


def go_on(
    cluster: KafkaCluster,
    ledger: Ledger,
    places: Sequence[Place],
    *,
    tag: str,
    count: int = 30,
    kind: ProducerKind = ProducerKind.IDEMPOTENT,
) -> None:
    """The new leaders write: offsets that were acknowledged once are given to other records."""
    producer = LedgerProducer(cluster.bootstrap, ledger, tag=tag, kind=kind)
    for topic, partition in places:
        producer.send_many(topic, partition, count)
    producer.flush()
