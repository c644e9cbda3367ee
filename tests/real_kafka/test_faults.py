"""One cluster through restarts, partitions, deaths and transactions that end badly: nothing is lost, nothing is cried.

The whole history is lived once; every test judges a capture that was taken on the way. All captures are audited
together.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

import pytest

from tests.real_kafka.clients import ClientError, GroupReader, JavaTransactionalProducer, LedgerProducer, value_of
from tests.real_kafka.cluster import KafkaCluster
from tests.real_kafka.conftest import StartCluster
from tests.real_kafka.judging import Audited, Taken, audit, judge, take
from tests.real_kafka.ledger import Ledger, Outcome, ProducerKind
from tests.real_kafka.wire import Connection, batch_of

pytestmark = [pytest.mark.slow, pytest.mark.postgres]

RETRIED, NEW = (100, 110), (110, 120)
"""Sequences: those that were sent again to the next leader, and those that followed."""


@dataclass(slots=True)
class History:
    """What was captured on the way, by name, and what the audit said of each."""

    cluster: KafkaCluster
    ledger: Ledger
    taken: dict[str, Taken] = field(default_factory=dict)
    audited: Mapping[str, Audited] = field(default_factory=dict)
    notes: dict[str, object] = field(default_factory=dict)

    def judge(self, name: str, **options: object) -> None:
        judge(self.taken[name], self.audited[name], self.ledger, **options)  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def history(start_cluster: StartCluster, ledger: Ledger, tmp_path_factory: pytest.TempPathFactory) -> History:
    """The cluster's life, and the audit of all that was captured of it."""
    # Kafka forbids what makes a transaction hang that no coordinator knows of; older brokers did not.
    cluster = start_cluster(settings={"transaction.partition.verification.enable": "false"})
    root = tmp_path_factory.mktemp("captures")
    lived = History(cluster=cluster, ledger=ledger)

    def capture(name: str, *, ask: bool = True) -> None:
        lived.taken[name] = take(cluster, ledger, root, name, ask=ask)

    for topic in ("steady", "isolated", "retried", "fenced", "pay"):
        cluster.create_topic(topic, assignment=[[1, 2, 3], [2, 3, 1]])
    cluster.create_topic("raw", assignment=[[3, 1, 2]])
    steady = LedgerProducer(cluster.bootstrap, ledger, tag="steady", kind=ProducerKind.IDEMPOTENT, codec="lz4")
    plain = LedgerProducer(cluster.bootstrap, ledger, tag="plain", kind=ProducerKind.PLAIN, codec="zstd")
    reader = GroupReader(cluster.bootstrap, "readers", ["steady"])
    with JavaTransactionalProducer(cluster.bootstrap, ledger, transactional_id="payments") as payments:
        _roll(cluster, steady, plain, payments)
        capture("rolled")
        _isolate_follower(cluster, steady, capture)
        _fence(cluster, ledger, payments)
    lived.notes["retries"] = _retry_through_a_leaders_death(cluster, ledger)
    capture("retried")
    lived.notes["hanging"] = _hang(cluster, ledger)
    capture("hanging")
    reader.close()
    steady.send_many("steady", 0, 50)
    steady.flush()
    cluster.kill(*cluster.broker_ids)
    capture("killed", ask=False)
    cluster.start()
    cluster.wait_all_in_sync()
    steady.send_many("steady", 1, 20)
    steady.flush()
    capture("recovered")
    cluster.stop_all()
    capture("stopped", ask=False)
    lived.audited = audit([t.directory for t in lived.taken.values()], tmp_path_factory.mktemp("audited"))
    return lived


def _roll(
    cluster: KafkaCluster, steady: LedgerProducer, plain: LedgerProducer, payments: JavaTransactionalProducer
) -> None:
    """Rolling restarts, with producers that go on meanwhile."""
    for broker_id in cluster.broker_ids:
        for partition in range(2):
            steady.send_many("steady", partition, 60)
            plain.send_many("steady", partition, 40)
        steady.flush()
        payments.begin()
        payments.send_many("pay", broker_id % 2, 10)
        cluster.stop(broker_id)
        steady.send_many("steady", 0, 30)
        (payments.abort if broker_id == 2 else payments.commit)()
        cluster.start(broker_id)
        cluster.wait_all_in_sync()
    steady.flush()
    plain.flush()


def _isolate_follower(cluster: KafkaCluster, steady: LedgerProducer, capture: object) -> None:
    """Broker 3 follows nobody for a while: it is captured behind the others, and again when it has caught up."""
    cluster.wait_isr("isolated", 0, {1, 2, 3})  # Only who is in sync can be elected.
    with Connection(cluster.address(1)) as connection:
        connection.elect("isolated", 0)
    cluster.wait_leader("isolated", 0, 1)
    steady.send_many("isolated", 0, 50)
    steady.flush()
    cluster.isolate(3)
    steady.send_many("isolated", 0, 100)  # They need an answer of broker 3, or its leave from the ISR.
    steady.flush()
    cluster.wait_isr("isolated", 0, {1, 2})
    steady.send_many("isolated", 0, 100)
    steady.flush()
    capture("isolated")  # type: ignore[operator]
    cluster.heal(3)
    cluster.wait_all_in_sync()
    capture("healed")  # type: ignore[operator]


def _fence(cluster: KafkaCluster, ledger: Ledger, old: JavaTransactionalProducer) -> None:
    """A second producer takes the transactional id over while the first has a transaction open."""
    name = old.begin()
    old.send_many("fenced", 0, 10)
    old.flush()
    with JavaTransactionalProducer(
        cluster.bootstrap, ledger, transactional_id="payments", tag="payments-next"
    ) as successor:
        old.send_many("fenced", 0, 5)
        with pytest.raises(ClientError, match=r"ProducerFenced|InvalidProducerEpoch"):
            old.commit()
        ledger.transaction(name, Outcome.ABORTED)  # The coordinator did, when the successor began.
        successor.begin()
        successor.send_many("fenced", 0, 10)
        successor.commit()


def _retry_through_a_leaders_death(cluster: KafkaCluster, ledger: Ledger) -> list[int]:
    """Sequences 100-109 reach the leader, which dies; they are sent again to the next one, then 110-119."""
    topic, tag = "retried", "retries"
    old_leader = cluster.leader(topic, 0)
    with Connection(cluster.address(old_leader)) as connection:
        producer_id, producer_epoch = connection.init_producer_id()

        def send(through: Connection, begin: int, end: int) -> int:
            values = [(f"{n}".encode(), value_of(tag, n, 100)) for n in range(begin, end)]
            for n in range(begin, end):
                ledger.sent(tag, n)
            batch = batch_of(values, producer_id=producer_id, producer_epoch=producer_epoch, base_sequence=begin)
            answer = through.produce(topic, 0, batch)
            assert answer.error == 0
            return answer.base_offset

        bases = [send(connection, begin, begin + 10) for begin in range(0, 110, 10)]
    cluster.kill(old_leader)
    new_leader = cluster.wait_other_leader(topic, 0, old_leader)
    with Connection(cluster.address(new_leader)) as connection:
        again = send(connection, *RETRIED)
        assert again == bases[-1], "the new leader must know that it has these"
        bases.append(send(connection, *NEW))
    cluster.start(old_leader)
    cluster.wait_all_in_sync()
    offsets = [base + n for base in bases for n in range(10)]
    for n, offset in enumerate(offsets):
        ledger.acknowledged(
            tag=tag,
            n=n,
            topic=topic,
            partition=0,
            offset=offset,
            key=f"{n}".encode(),
            value=value_of(tag, n, 100),
            kind=ProducerKind.IDEMPOTENT,
        )
    return offsets


def _hang(cluster: KafkaCluster, ledger: Ledger) -> tuple[int, int]:
    """One transaction that its coordinator knows is left open, and one that no coordinator knows of."""
    abandoned = JavaTransactionalProducer(
        cluster.bootstrap, ledger, transactional_id="abandoned", transaction_timeout_ms=900_000
    )
    abandoned.begin()
    abandoned.send_many("pay", 0, 7)
    abandoned.abandon()
    tag, count = "ghost", 9
    with Connection(cluster.address(cluster.leader("raw", 0))) as connection:
        # An id and epoch that the cluster gave out, for no transactional id: nobody will ever end this.
        producer_id, producer_epoch = connection.init_producer_id()
        values = [(None, value_of(tag, n, 60)) for n in range(count)]
        for n in range(count):
            ledger.sent(tag, n)
        batch = batch_of(
            values, producer_id=producer_id, producer_epoch=producer_epoch, base_sequence=0, transactional=True
        )
        answer = connection.produce("raw", 0, batch, transactional_id="ghost")
        assert answer.error == 0, answer
    for n, (key, value) in enumerate(values):
        ledger.acknowledged(
            tag=tag,
            n=n,
            topic="raw",
            partition=0,
            offset=answer.base_offset + n,
            key=key,
            value=value,
            kind=ProducerKind.TRANSACTIONAL_V1,
            transaction=None,
        )
    return producer_id, answer.base_offset


@pytest.mark.parametrize("name", ["rolled", "healed", "retried", "killed", "recovered"])
def test_every_acknowledged_record_is_on_every_replica_and_nothing_is_reported(history: History, name: str) -> None:
    history.judge(name, at_rest=True)


def test_a_follower_that_was_cut_off_is_behind_and_that_is_no_alarm(history: History) -> None:
    history.judge("isolated", at_rest=True)
    by_broker = {
        r["broker_id"]: r["log_end_offset"]
        for r in history.audited["isolated"].relation("replicas")
        if r["topic"] == "isolated" and r["partition"] == 0
    }
    assert by_broker[3] < by_broker[1] == by_broker[2] == 250
    (row,) = [
        r for r in history.audited["isolated"].relation("partitions") if (r["topic"], r["partition"]) == ("isolated", 0)
    ]
    assert sorted(row["isr"]) == [1, 2]


def test_retried_sequences_are_there_once_and_the_new_ones_follow(history: History) -> None:
    offsets = history.notes["retries"]
    assert isinstance(offsets, list)
    assert offsets == list(range(offsets[0], offsets[0] + 120)), "none twice, none missing"
    for name in ("retried", "stopped"):
        for row in history.audited[name].relation("producers"):
            if row["topic"] == "retried":
                assert (row["duplicate_batches"], row["lost_gaps"], row["overlapping_batches"]) == (0, 0, 0)


def test_a_fenced_producers_transaction_is_aborted_and_its_successors_is_committed(history: History) -> None:
    spans = [r for r in history.audited["retried"].relation("transactions") if r["topic"] == "fenced"]
    assert [(s["outcome"], s["record_count"]) for s in sorted(spans, key=lambda s: s["first_offset"])] == [
        ("aborted", 10),
        ("committed", 10),
    ]


def test_open_transactions_are_found_and_only_the_one_that_nobody_knows_hangs(history: History) -> None:
    producer_id, first_offset = history.notes["hanging"]  # type: ignore[misc]
    for name in ("hanging", "stopped"):
        found = {
            (r["topic"], r["partition"], r["hanging"]): r
            for r in history.audited[name].relation("transactions")
            if r["outcome"] == "open"
        }
        assert set(found) == {("pay", 0, False), ("raw", 0, True)}
        ghost, known = found["raw", 0, True], found["pay", 0, False]
        assert (ghost["producer_id"], ghost["first_offset"], ghost["record_count"]) == (producer_id, first_offset, 9)
        assert (known["transactional_id"], known["coordinator_state"]) == ("abandoned", "Ongoing")


def test_a_hanging_transaction_in_a_live_copy_is_no_breach_yet(history: History) -> None:
    # Its coordinator's log was copied at another moment.
    history.judge("hanging", at_rest=True)


def test_a_hanging_transaction_of_a_stopped_cluster_is_a_breach_and_the_only_one(history: History) -> None:
    history.judge("stopped", at_rest=True, expected={("F09", "raw", 0)})
