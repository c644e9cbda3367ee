"""A true unclean election: what only the old leader had is at risk while it is away, and lost once it is back.

One broker is cut off, goes on alone with acks=all (its ISR is itself), dies, and a replica that lacks those records is
elected. Before it rejoins, its disk holds the only copy; after, no disk does, and only the earlier snapshot tells.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import pytest

from tests.real_kafka.clients import GroupReader, LedgerProducer
from tests.real_kafka.cluster import KafkaCluster
from tests.real_kafka.judging import Audited, Taken, audit, judge_records, take
from tests.real_kafka.ledger import Acknowledged, Ledger, ProducerKind
from tests.real_kafka.lives import unclean

pytestmark = [pytest.mark.slow, pytest.mark.postgres]

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
    unclean.move_coordinators(cluster, 1)
    gone = unclean.write_alone(cluster, ledger, 1, {(TOPIC, 0): ALONE}, tag="alone", reader=reader)
    reader.close()
    unclean.wait_checkpointed(cluster, gone)
    lost = [record for record in ledger.by_partition()[TOPIC, 0] if record.offset in gone[0].offsets]
    cluster.kill(1)
    unclean.elect_anyone(cluster, [(TOPIC, 0)], 1)
    cluster.wait_other_leader("safe", 0, 1)
    cluster.follow(1)
    unclean.go_on(cluster, ledger, [(TOPIC, 0)], tag="second", count=AFTER)
    unclean.go_on(cluster, ledger, [("safe", 0)], tag="safe-on", count=20)
    cluster.wait_isr(TOPIC, 0, {2, 3})
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
