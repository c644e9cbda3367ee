"""Markers that bear their data's own epoch, and are sound: an operator's, and those of a cluster that went back.

One producer of transaction version 2 leaves a transaction hanging, and `kafka-transactions.sh abort` ends it. Another
one lives through `transaction.version` 2, 1 and 2 again. Nobody comes late.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import pytest

from tests.real_kafka.clients import JavaTransactionalProducer, value_of
from tests.real_kafka.cluster import KafkaCluster
from tests.real_kafka.conftest import StartCluster
from tests.real_kafka.judging import Audited, Row, audit, take
from tests.real_kafka.ledger import Ledger
from tests.real_kafka.patience import wait_until
from tests.real_kafka.settings import ONE_OF_EACH
from tests.real_kafka.topology import combined
from tests.real_kafka.wire import Connection, batch_of

pytestmark = [pytest.mark.slow, pytest.mark.postgres]

# Kafka forbids what makes a transaction hang that no coordinator knows of; older brokers did not.
MAY_HANG = {"transaction.partition.verification.enable": "false"}


@dataclass(frozen=True, slots=True)
class Life:
    """Where the transaction hung, and what the audit says of both captures."""

    hung_at: int
    audited: Mapping[str, Audited]

    def transactions(self, name: str, partition: int) -> list[Row]:
        rows = [
            r for r in self.audited[name].relation("transactions") if (r["topic"], r["partition"]) == ("pay", partition)
        ]
        return sorted(rows, key=lambda row: row["first_offset"])


@pytest.fixture(scope="module")
def life(start_cluster: StartCluster, ledger: Ledger, tmp_path_factory: pytest.TempPathFactory) -> Life:
    root = tmp_path_factory.mktemp("captures")
    cluster = start_cluster(topology=combined(1), settings=ONE_OF_EACH | MAY_HANG)
    cluster.create_topic("pay", partitions=2, replication_factor=1)
    with JavaTransactionalProducer(cluster.bootstrap, ledger, transactional_id="hangs") as producer:
        for end in (producer.commit, producer.abort):
            producer.begin()
            producer.send_many("pay", 0, 5)
            end()
        hung_at = _hang(cluster)
        abort = ("abort", "--topic", "pay", "--partition", "0", "--start-offset", str(hung_at))
        cluster.tool("org.apache.kafka.tools.TransactionsCommand", "--bootstrap-server", cluster.bootstrap, *abort)
    taken = [take(cluster, ledger, root, "aborted", ask=False)]
    _pay(cluster, ledger)
    for step, level in (("downgrade", 1), ("upgrade", 2)):
        feature = (step, "--feature", f"transaction.version={level}")
        cluster.tool("org.apache.kafka.tools.FeatureCommand", "--bootstrap-server", cluster.bootstrap, *feature)
        _pay(cluster, ledger)
    cluster.stop_all()
    taken.append(take(cluster, ledger, root, "stopped", ask=False))
    return Life(hung_at, audit([t.directory for t in taken], tmp_path_factory.mktemp("audited")))


def _pay(cluster: KafkaCluster, ledger: Ledger) -> None:
    """One transaction of a client that is started for it: one that runs hears of a level when it connects again."""
    with JavaTransactionalProducer(cluster.bootstrap, ledger, transactional_id="goes-back") as producer:
        producer.begin()
        producer.send_many("pay", 1, 3)
        producer.commit()


def _hang(cluster: KafkaCluster) -> int:
    """What the producer of pay-0 might have sent before its last marker comes after it, in that marker's epoch."""
    with Connection(cluster.address(1)) as connection:

        def marked() -> bool:
            return [p.producer_epoch for p in connection.active_producers("pay", 0)] == [2]

        wait_until(marked, what="the marker of the second transaction to be written")
        (state,) = connection.active_producers("pay", 0)
        batch = batch_of(
            [(None, value_of("late", n, 60)) for n in range(4)],
            producer_id=state.producer_id,
            producer_epoch=state.producer_epoch,
            base_sequence=0,
            transactional=True,
        )
        answer = connection.produce("pay", 0, batch, transactional_id="hangs")
        assert answer.error == 0, answer
    return int(answer.base_offset)


@pytest.mark.parametrize("name", ["aborted", "stopped"])
def test_nothing_is_cried(life: Life, name: str) -> None:
    audited = life.audited[name]
    assert audited.breaches("critical", "warning") == set(), audited.explained("critical", "warning")


@pytest.mark.parametrize("name", ["aborted", "stopped"])
def test_what_the_operator_aborted_is_told_by_its_marker(life: Life, name: str) -> None:
    told = {r["first_offset"]: r for r in life.transactions(name, 0)}
    by_hand = told.pop(life.hung_at)
    assert by_hand["marker_producer_epoch"] == by_hand["producer_epoch"]
    assert (by_hand["outcome"], by_hand["aborted_by_hand"]) == ("aborted", True)
    assert [(r["client_transaction_version"], r["aborted_by_hand"]) for r in told.values()] == [(2, False), (2, False)]


def test_a_producer_is_of_the_version_that_its_cluster_had(life: Life) -> None:
    rows = life.transactions("stopped", 1)
    assert [r["marker_producer_epoch"] - r["producer_epoch"] for r in rows] == [1, 0, 1]
    assert [r["client_transaction_version"] for r in rows] == [2, 1, 2]
