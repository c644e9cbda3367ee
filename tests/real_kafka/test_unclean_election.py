"""A true unclean election: what only the old leader had is at risk while it is away, and lost once it is back.

One broker is cut off, goes on alone with acks=all (its ISR is itself), dies, and a replica that lacks those records is
elected. Before it rejoins, its disk holds the only copy; after, no disk does, and only the earlier snapshot tells.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import pytest

from kafka_log.internal_topics import CONSUMER_OFFSETS
from kafka_log.java_hash import coordinator_partition
from tests.real_kafka.clients import GroupReader, LedgerProducer
from tests.real_kafka.cluster import KafkaCluster
from tests.real_kafka.judging import Audited, Taken, audit, judge_records, take
from tests.real_kafka.ledger import Acknowledged, Ledger, ProducerKind
from tests.real_kafka.patience import wait_until
from tests.real_kafka.wire import ELECTION_NOT_NEEDED, NO_ERROR, Connection

pytestmark = pytest.mark.slow

TOPIC = "orders"
GROUP = "billing"
COMMON, ALONE, AFTER = 300, 180, 70
"""Records that all replicas had, that only the old leader had, and that the new leader wrote."""


@dataclass(frozen=True, slots=True)
class Election:
    """Captures before and after the old leader came back, and the records that only it had."""

    ledger: Ledger
    before: Taken
    after: Taken
    lost: list[Acknowledged]
    audited: Mapping[str, Audited]


def _coordinate_at(cluster: KafkaCluster, broker_id: int) -> None:
    """Makes a broker the coordinator of the group."""
    count = len(cluster.admin().list_topics(CONSUMER_OFFSETS, timeout=60).topics[CONSUMER_OFFSETS].partitions)
    keeper = coordinator_partition(GROUP, count)
    replicas = [broker_id, *(b for b in cluster.broker_ids if b != broker_id)]
    with Connection(cluster.address(broker_id)) as connection:
        assert connection.reassign(CONSUMER_OFFSETS, keeper, replicas) == 0
        cluster.wait_isr(CONSUMER_OFFSETS, keeper, replicas)  # Only who is in sync can be elected.
        connection.elect(CONSUMER_OFFSETS, keeper)
    cluster.wait_leader(CONSUMER_OFFSETS, keeper, broker_id)


def _wait_checkpointed(cluster: KafkaCluster, broker_id: int, high_watermark: int) -> None:
    """Waits until a broker has written down how far the partition is committed; it does so every five seconds."""
    (log_dir,) = cluster.log_dirs(broker_id)

    def written() -> bool:
        lines = (log_dir / "replication-offset-checkpoint").read_text().splitlines()
        return f"{TOPIC} 0 {high_watermark}" in lines

    wait_until(written, what=f"a checkpoint of {TOPIC}-0 at {high_watermark} on broker {broker_id}")


@pytest.fixture(scope="module")
def election(cluster: KafkaCluster, ledger: Ledger, tmp_path_factory: pytest.TempPathFactory) -> Election:
    root = tmp_path_factory.mktemp("captures")
    cluster.create_topic(TOPIC, assignment=[[1, 2, 3], [2, 3, 1]], config={"min.insync.replicas": "1"})
    cluster.create_topic("safe", assignment=[[1, 2, 3]])
    first = LedgerProducer(cluster.bootstrap, ledger, tag="first", kind=ProducerKind.IDEMPOTENT, codec="gzip")
    for partition in range(2):
        first.send_many(TOPIC, partition, COMMON)
    first.send_many("safe", 0, 100)
    first.flush()
    reader = GroupReader(cluster.bootstrap, GROUP, [TOPIC])
    reader.wait_read(2 * COMMON)
    _coordinate_at(cluster, 2)  # What broker 1 coordinated could commit nothing more once it is cut off.

    cluster.cut(1)
    # It is answered when broker 1 is the whole ISR.
    first.send(TOPIC, 0)
    first.flush()
    cluster.wait_isr(TOPIC, 0, {1})
    first.send_many(TOPIC, 0, ALONE - 1)
    first.flush()
    lost = [record for record in ledger.records(TOPIC) if record.partition == 0 and record.offset >= COMMON]
    reader.wait_read(2 * COMMON + ALONE)
    reader.close()
    _wait_checkpointed(cluster, 1, COMMON + ALONE)
    cluster.kill(1)
    wait_until(lambda: cluster.partition(TOPIC, 0) is None, what=f"{TOPIC}-0 to have no leader")
    with Connection(cluster.address(2)) as connection:
        # Not needed: it was done, and the answer to the first request got lost.
        assert connection.elect(TOPIC, 0, unclean=True) in (NO_ERROR, ELECTION_NOT_NEEDED)
    new_leader = cluster.wait_other_leader(TOPIC, 0, 1)
    cluster.wait_other_leader("safe", 0, 1)
    cluster.heal(1)
    second = LedgerProducer(cluster.bootstrap, ledger, tag="second", kind=ProducerKind.IDEMPOTENT)
    second.send_many(TOPIC, 0, AFTER)
    second.send_many("safe", 0, 20)
    second.flush()
    cluster.wait_isr(TOPIC, 0, {2, 3})
    assert new_leader in (2, 3)
    before = take(cluster, ledger, root, "before", ask=False)
    cluster.start(1)
    cluster.wait_all_in_sync()
    after = take(cluster, ledger, root, "after")
    out = tmp_path_factory.mktemp("audited")
    audited = {
        **audit([before.directory], out / "before"),
        **audit([after.directory], out / "after", "--previous", str(before.directory)),
    }
    return Election(ledger, before, after, lost, audited)


def test_the_scenario_is_what_it_says(election: Election) -> None:
    assert [record.offset for record in election.lost] == list(range(COMMON, COMMON + ALONE))


def test_before_the_old_leader_rejoins_the_records_are_at_risk_and_exactly_these(election: Election) -> None:
    audited = election.audited["before"]
    judge_records(election.before, audited, election.ledger, at_rest=True, lost=election.lost)
    (loss,) = audited.losses()[TOPIC, 0]
    assert (loss["start_offset"], loss["end_offset"], loss["records"]) == (COMMON, COMMON + ALONE, ALONE)
    assert (loss["state"], loss["held_by"], loss["declared_committed"]) == ("at_risk", [1], ALONE)
    assert loss["groups_affected"] == [GROUP]
    breaches = audited.breaches("critical", "warning")
    assert {place[1:] for place in breaches} == {(TOPIC, 0)}, audited.explained("critical", "warning")
    assert {"D06", "K07"} <= {code for code, _, _ in breaches}


def test_after_it_has_rejoined_the_records_are_lost_and_exactly_these(election: Election) -> None:
    audited = election.audited["after"]
    judge_records(election.after, audited, election.ledger, at_rest=True, lost=election.lost)
    (loss,) = audited.losses()[TOPIC, 0]
    assert (loss["start_offset"], loss["end_offset"], loss["records"]) == (COMMON, COMMON + ALONE, ALONE)
    assert (loss["state"], loss["held_by"]) == ("lost", [])
    breaches = audited.breaches("critical", "warning")
    assert {place[1:] for place in breaches} == {(TOPIC, 0)}, audited.explained("critical", "warning")
    assert {"C08", "C10", "K07"} <= {code for code, _, _ in breaches}
    assert loss["groups_affected"] == [GROUP]
    told = next(b for b in audited.report["breaches"] if b["code"] == "C10" and b["implied_by"] is None)
    assert (told["start_offset"], told["end_offset"], told["records"]) == (COMMON, COMMON + ALONE, ALONE)
    assert f"Consumer groups [{GROUP}] had read past the first of them." in told["explanation"]
