"""The incidents of real clusters: one for each thing that went wrong, none where nothing did.

What happened to each cluster, and which records only one broker had acknowledged, is in its GROUND_TRUTH.json.
"""

import pytest

from tests.conftest import Golden
from tests.derivation.judging import Judge
from tests.derivation.pipeline import derived_once
from tests.kafka_log.captures import CAPTURES, LIVES, OLD_FORMATS, ZOOKEEPER
from tests.sampling import chosen
from tidegauge.expectations.diagnosis import Copies, diagnose
from tidegauge.expectations.incidents.elections import elections_on_record
from tidegauge.expectations.incidents.grouping import incidents_of
from tidegauge.expectations.incidents.model import Found, Incident
from tidegauge.expectations.registry import CATALOGUE
from tidegauge.expectations.verdicts import fold

FAILED_DISK = "A disk that failed, broker 2: no loss known"
HEADLINES = {
    "unclean-before": [
        "Unclean election 2026-11-21 02:12:01 UTC, broker 1 -> 2, 3: 3 partitions, 1,200 records at risk; "
        "believe broker 1"
    ],
    "quorum-changed-unclean": [
        "Unclean election 2026-11-22 13:54:13 UTC, broker 1 -> 2: accounts-0, orders-0, 150 records at risk; "
        "believe broker 1; group billing had read up to 150 of them"
    ],
    "one-controller-unclean": [
        "Unclean election 2026-11-22 13:55:59 UTC, broker 1 -> 2: orders-0, payments-0, 124 records at risk; "
        "believe broker 1; group billing had read up to 80 of them"
    ],
    "one-controller-rejoined": [
        "Unclean election 2026-11-22 13:55:59 UTC, broker 1 -> 2: orders-0, payments-0, 80 records lost; "
        "group billing had read up to 80 of them"
    ],
    "forgotten-unclean": [
        "An unclean election, a lost flush or a stale disk, broker 1: 3 partitions, 128 records at risk; "
        "believe broker 1; group billing had read up to 108 of them",
        "Unclean election 2026-11-22 13:58:43 UTC, broker 2 -> 3: orders-1, 50 records at risk; believe broker 2",
        "Brokers that are away, brokers 1, 2: 8 partitions, no loss known",
    ],
    "racks-unclean": [
        "Unclean election 2026-11-22 13:59:52 UTC, broker 1 -> 2: orders-0, payments-0, 85 records at risk; "
        "believe broker 1; group billing had read up to 60 of them",
        "Unclean election 2026-11-22 14:00:07 UTC, broker 2 -> 4: orders-0, 40 records at risk; believe broker 2; "
        "group billing had read up to 30 of them",
        "Brokers that are away, brokers 1, 2: __transaction_state-1, no loss known",
    ],
    "failed-disk": [FAILED_DISK],
    "failed-disk-unclean": [
        "Unclean election 2026-11-22 14:02:45 UTC, broker 1 -> 3: orders-2, 40 records possibly lost; "
        "group billing had read past the first of them",
        "A disk that failed, broker 1: no loss known",
        FAILED_DISK,
    ],
    "deaf-unclean": [
        "Unclean election 2026-11-22 14:14:06 UTC, broker 1 -> 3: orders-0, 20 records at risk; believe brokers 1, 2",
        "Brokers that are away, brokers 1, 2: 3 partitions, no loss known",
    ],
    "streams-unclean": [
        "Unclean election 2026-11-22 14:05:16 UTC, broker 1 -> 2: 7 partitions, 194 records at risk; believe broker 1; "
        "groups counting-classic, counting-streams and 2 more had read up to 134 of them"
    ],
    "mirror-unclean": [
        "Unclean election 2026-11-22 14:06:23 UTC, broker 1 -> 2: A.orders-0, 40 records at risk; believe broker 1; "
        "group reads-the-mirror had read up to 40 of them"
    ],
    "shares-unclean": [
        "Unclean election 2026-11-22 14:07:17 UTC, broker 1 -> 2: shared-0, 60 records at risk; believe broker 1; "
        "group shares had read past the first of them"
    ],
    "migrated-unclean": [
        "Unclean election 2026-11-22 18:15:53 UTC, broker 1 -> 2: orders-0, payments-0, 100 records at risk; "
        "believe broker 1; group billing had read up to 80 of them"
    ],
    "zookeeper-unclean": [
        "An unclean election, a lost flush or a stale disk, broker 1: orders-0, payments-0, 100 records at risk; "
        "believe broker 1; group billing had read up to 80 of them"
    ],
    "format-1-unclean": [
        "A tail that may have been committed, brokers 1, 2, 3: orders-0, 60 records at risk and 30 records possibly "
        "lost; group billing had read up to 60 of them",
        "Other bytes under the same epochs, brokers 1, 2, 3: ancient-0, 20 records at risk and 30 records possibly "
        "lost; believe brokers 2, 3",
    ],
    "format-upgraded": [
        "Other bytes under the same epochs, brokers 1, 2, 3: ancient-0, orders-0, 42 records at risk; "
        "believe brokers 2, 3; group billing had read up to 1 of them"
    ],
}
"""Of each cluster that something happened to, what its incidents say. Of the others there is none."""


FEW = ("unclean-before", "racks-unclean", "kafka-4.1")


@pytest.mark.parametrize("name", chosen(FEW, sorted({*CAPTURES, *OLD_FORMATS, *ZOOKEEPER, *LIVES})))
def test_one_incident_for_each_thing_that_went_wrong(golden: Golden, judge: Judge, name: str) -> None:
    found, rows = _found(golden, judge, name)
    assert [i.headline for i in found] == HEADLINES.get(name, [])
    for state, records in (
        ("lost", sum(i.records_lost for i in found)),
        ("at_risk", sum(i.records_at_risk for i in found)),
        ("possible", sum(i.records_possible for i in found)),
    ):
        assert records == sum(row["records"] for row in rows.losses if row["state"] == state)
    members = [m.breach_id for i in found for m in i.members if m.breach_id is not None]
    assert sorted(members) == sorted(b.breach_id for b in rows.breaches)


@pytest.mark.slow
def test_a_later_snapshot_of_a_cluster_tells_of_the_same_incident(golden: Golden, judge: Judge) -> None:
    (before,), _ = _found(golden, judge, "one-controller-unclean")
    (after,), _ = _found(golden, judge, "one-controller-rejoined")
    assert before.incident_id == after.incident_id
    assert (before.records_at_risk, after.records_lost) == (124, 80)


def _found(golden: Golden, judge: Judge, name: str) -> tuple[tuple[Incident, ...], Found]:
    facts = derived_once(golden(name))
    _, breaches = judge.verdicts(facts, {code[0] for code in CATALOGUE})
    copies = {
        (row["topic"], row["partition"]): Copies(captured=frozenset(row["captured_replicas"] or ()))
        for row in facts.rows["partitions"]
    }
    found = Found(
        cluster=facts.manifest.cluster,
        breaches=diagnose(fold(breaches, CATALOGUE), copies),
        losses=facts.rows["losses"],
        risks=facts.rows["risks"],
        elections=elections_on_record(facts.rows["partition_changes"]),
        committed_offsets=[r for r in facts.rows["committed_offsets"] if r["lost_from_offset"] is not None],
    )
    return incidents_of(found), found
