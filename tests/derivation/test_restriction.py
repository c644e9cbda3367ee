"""A restricted audit: what it reads, what it keeps, what it judges, and what it says of names that mean nothing."""

import re
from dataclasses import replace

import pytest

from tests.derivation.pipeline import derived
from tidegauge.derivation.derive import restricted
from tidegauge.derivation.plan import segment_tasks
from tidegauge.expectations.registry import CATALOGUE
from tidegauge.kafka_log.types import TopicPartition
from tidegauge.relations import RELATIONS
from tidegauge.runs.restriction import EVERYTHING, Restriction, check_there, restriction
from tidegauge.runs.run import AuditedSnapshot, Run, load, new_run
from tidegauge.snapshots.adopt import open_snapshot
from tidegauge.snapshots.errors import SnapshotError


def test_nothing_asked_for_is_everything():
    assert restriction((), ()) == EVERYTHING
    assert not EVERYTHING.is_restricted
    assert {i.code for i in EVERYTHING.judged()} == set(CATALOGUE)
    assert EVERYTHING.relations() == set(RELATIONS)


def test_a_partition_s_name_may_end_in_a_number_itself():
    assert restriction(["a-1-2", "orders-0"], ()).partitions == {("a-1", 2), ("orders", 0)}


def test_an_invariant_is_named_by_code_or_name():
    assert restriction((), ["d06", "HighWatermarkWithinLog", "D06"]).invariants == ("B16", "D06")


@pytest.mark.parametrize(
    ("partitions", "invariants", "told"),
    [
        (["orders"], [], "--partition orders is not a partition. Give a topic and a number"),
        (["orders-01"], [], "a topic and a number"),
        ([f"orders-{2**31}"], [], "a topic and a number"),
        ([], ["Z99"], "--invariant Z99: no invariant has this code"),
        ([], ["HighWatermarkWithinLogs"], "Is HighWatermarkWithinLog meant?"),
    ],
)
def test_what_names_nothing_is_said(partitions, invariants, told):
    with pytest.raises(SnapshotError, match=re.escape(told)):
        restriction(partitions, invariants)


def test_of_some_partitions_nothing_is_judged_that_many_are_needed_for():
    judged = restriction(["orders-0"], ()).judged()
    assert {i.relation for i in judged} <= {n for n, r in RELATIONS.items() if "partition" in r.column_names}
    whole = next(i for i in CATALOGUE.values() if i.relation in ("brokers", "transaction_outcomes"))
    with pytest.raises(SnapshotError, match="the whole cluster has to be audited"):
        restriction(["orders-0"], [whole.code])


def test_a_partition_that_is_not_there_is_said_with_those_that_are():
    with pytest.raises(SnapshotError, match=r"no replica of orders-7\. Of orders it holds 0, 1\."):
        check_there(restriction(["orders-7"], ()), {TopicPartition("orders", 0), TopicPartition("orders", 1)})
    with pytest.raises(SnapshotError, match="no partition of 'order'"):
        check_there(restriction(["order-0"], ()), {TopicPartition("orders", 0)})


def test_only_its_segments_and_kafka_s_own_are_read_and_only_its_facts_are_kept(golden):
    directory = golden("unclean-before")
    opened = open_snapshot(directory)
    asked = restriction(["orders-0"], ())
    snapshot = AuditedSnapshot(root=opened.root, target=directory, manifest=opened.manifest)
    run = Run(directory=directory, snapshots=(snapshot,), store_url="none", fail_on="never", started_at_ms=0)
    everything = {(t.topic, t.partition) for t in segment_tasks(run)}
    read = {(t.topic, t.partition) for t in segment_tasks(replace(run, restriction=asked))}
    assert ("payments", 1) in everything
    assert {topic for topic, _ in read} == {"orders", *(t for t, _ in everything if t.startswith("__"))}
    assert {(t, p) for t, p in read if t == "orders"} == {("orders", 0)}
    kept = restricted(derived(directory).context, asked)
    assert set(kept.partitions) == set(kept.replicas) == {("orders", 0)}
    places = {
        (r["topic"], r["partition"]) for rows in kept.rows.values() for r in rows if r.get("partition") is not None
    }
    assert places == {("orders", 0)}


def test_it_is_kept_with_the_run(golden, tmp_path):
    asked = Restriction(partitions=frozenset({TopicPartition("orders", 0)}), invariants=("D06",))
    given = {"store_url": None, "fail_on": "never", "started_at_ms": 0, "restriction": asked}
    new_run(tmp_path / "run", (str(golden("unclean-before")),), **given)
    assert load(tmp_path / "run").restriction == asked
    given["restriction"] = Restriction(partitions=frozenset({TopicPartition("orders", 9)}))
    with pytest.raises(SnapshotError, match="no replica of orders-9"):
        new_run(tmp_path / "other", (str(golden("unclean-before")),), **given)
