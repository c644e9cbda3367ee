"""Every scenario: it is the same each time, its truth is what its story says, and an audit finds what is expected.

Facts are derived in this process, and judged by the catalogue's own queries on a Postgres.
"""

import hashlib
import os
import subprocess
import sys
from collections import Counter
from functools import cache
from pathlib import Path

import pytest

from tests.derivation.judging import Judge
from tests.derivation.pipeline import Derived, derived
from tests.sampling import one_in
from tidegauge.expectations.registry import CATALOGUE
from tidegauge.expectations.verdicts import Breach
from tidegauge.kafka_log.coordinator_records import OffsetCommit, decode_offsets_record
from tidegauge.kafka_log.types import TopicPartition
from tidegauge.sim_engine.files.render import render_broker
from tidegauge.sim_engine.log.stored_batch import StoredBatch
from tidegauge.sim_engine.log.tiering import gaps
from tidegauge.sim_engine.rendering import truth_schema
from tidegauge.sim_engine.scenarios.compaction import DELETED, value_of
from tidegauge.sim_engine.scenarios.reelection import PRODUCER_ID
from tidegauge.sim_engine.scenarios.registry import SCENARIOS
from tidegauge.sim_engine.scenarios.remote_tier import view_of
from tidegauge.sim_engine.scenarios.scenario import Finding, Moment, Played
from tidegauge.sim_engine.scenarios.stage import ORDERS, A, B, C
from tidegauge.sim_engine.scenarios.write_moment import write_moment
from tidegauge.sim_engine.transaction_notes import Decided, TransactionTold
from tidegauge.sim_engine.world import World

STORIES = {
    "leader-epoch-truncation",
    "unclean-election",
    "reelection-idempotence",
    "kip-101-loss",
    "kip-101-divergence",
    "kip-279-fast-failover",
    "hanging-transaction",
    "zombie-producer",
    "lost-marker",
    "compaction-race",
    "lossy-power-cut",
    "same-epoch-rewrite",
    "stale-disk-returns",
    "remote-tier-gap",
    "remote-tier-deletion",
    "remote-object-lost",
    "remote-tier-unclean-election",
    "torn-tail",
    "full-disk",
    "bit-rot",
}
FAMILIES = {code[0] for code in CATALOGUE}


@cache
def played(name: str, seed: int = 1) -> Played:
    return SCENARIOS[name].play(seed)


def at(name: str, moment: str) -> World:
    return played(name).moment(moment).world


def batches(world: World, broker_id: int, partition: TopicPartition = ORDERS) -> list[StoredBatch]:
    return world.brokers[broker_id].disk.replicas[partition].log.batches_from(0)


def texts(world: World, broker_id: int, partition: TopicPartition = ORDERS) -> list[str]:
    return [
        (r.value or b"").decode() for b in batches(world, broker_id, partition) if not b.is_marker for r in b.records
    ]


def epochs(world: World, broker_id: int) -> list[tuple[int, int]]:
    log = world.brokers[broker_id].disk.replicas[ORDERS].log
    return [(e.leader_epoch, e.start_offset) for e in log.epochs]


def ends(world: World) -> dict[int, int]:
    found = {b: broker.disk.replicas.get(ORDERS) for b, broker in sorted(world.brokers.items())}
    return {b: replica.log.log_end_offset for b, replica in found.items() if replica is not None}


def elections(world: World) -> list[tuple[str, int]]:
    return [(e.kind, e.leader) for e in world.truth.elections if e.partition == ORDERS]


def cuts(world: World) -> list[tuple[int, int, int]]:
    return [(t.broker_id, t.start_offset, t.end_offset) for t in world.truth.truncations if t.partition == ORDERS]


def groups_offset(world: World) -> int:
    """What the group committed last, as the coordinator's broker stores it."""
    held = (r for b in batches(world, C, TopicPartition("__consumer_offsets", 0)) for r in b.records)
    commits = [decode_offsets_record(record.key, record.value) for record in held]
    return [commit.offset for commit in commits if isinstance(commit, OffsetCommit)][-1]


def told(world: World, client: str) -> set[str]:
    return {note.what for note in world.truth.told if note.client == client}


# ------------------------------------------------------------------------------------------------- each of them


def test_every_story_is_told() -> None:
    assert set(SCENARIOS) >= STORIES
    assert [scenario.name for scenario in SCENARIOS.values()] == list(SCENARIOS)


@pytest.mark.parametrize("name", SCENARIOS)
def test_a_scenario_tells_its_story_its_truth_and_what_an_audit_finds(name: str) -> None:
    scenario = SCENARIOS[name]
    story, truth, finds = scenario.text.split("\n\n")
    assert story
    assert truth.startswith("Truth")
    assert finds.startswith("An audit finds")
    found = {finding.code for moment in played(name).moments for finding in moment.findings}
    assert found <= set(CATALOGUE)
    assert {code for code in CATALOGUE if code in finds} == found
    names = [moment.name for moment in played(name).moments]
    assert len(set(names)) == len(names)
    assert all(moment.previous is None or moment.previous in names for moment in played(name).moments)


@pytest.mark.parametrize("seed", one_in(3, [1, 2, 3]))
@pytest.mark.parametrize("name", SCENARIOS)
def test_the_ledger_has_the_losses_of_the_story_and_no_other_whatever_the_seed(name: str, seed: int) -> None:
    for moment in played(name, seed).moments:
        lost = Counter(
            (loss.partition, loss.start_offset, loss.end_offset, loss.committed) for loss in moment.truth.losses
        )
        said = Counter((loss.partition, loss.start_offset, loss.end_offset, loss.committed) for loss in moment.losses)
        assert lost == said, moment.name
        assert truth_schema.problems(moment.truth.to_json()) == []


@pytest.mark.parametrize("name", one_in(4, SCENARIOS))
def test_the_same_seed_gives_the_same_bytes(name: str) -> None:
    again = SCENARIOS[name].play(1)
    for moment, other in zip(played(name).moments, again.moments, strict=True):
        assert moment.truth.to_json() == other.truth.to_json()
        assert digest(moment) == digest(other)


@pytest.mark.slow
def test_and_so_it_does_in_another_process() -> None:
    name = "unclean-election"
    code = (
        "from tests.sim_engine.test_scenarios import digest, played\n"
        f"print(*(digest(moment) for moment in played({name!r}).moments))"
    )
    environment = {**os.environ, "PYTHONHASHSEED": "77", "PYTHONPATH": str(Path(__file__).parents[2])}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.split() == [digest(moment) for moment in played(name).moments]


def digest(moment: Moment) -> str:
    found = hashlib.sha256()
    for disk in moment.disks:
        for name, file in render_broker(disk):
            found.update(f"{disk.broker_id}/{name} {file.size_bytes}".encode() + file.data)
    return found.hexdigest()


# ------------------------------------------------------------------------------------------------- the audit


def written(moment: Moment, directory: Path) -> Path:
    return write_moment(moment, directory / moment.name, cluster="simulated", seed=1)


def as_found(breach: Breach) -> tuple[object, ...]:
    subject = breach.subject
    partition = f"{subject['topic']}-{subject['partition']}" if "partition" in subject else None
    broker_id = subject.get("broker_id", subject.get("follower_id"))
    return breach.code, partition, broker_id, breach.start_offset, breach.end_offset


def as_expected(finding: Finding) -> tuple[object, ...]:
    partition = str(finding.partition) if finding.partition is not None else None
    return finding.code, partition, finding.broker_id, finding.start_offset, finding.end_offset


@pytest.mark.parametrize("name", one_in(3, SCENARIOS))
def test_an_audit_finds_what_is_expected_and_nothing_else(name: str, judge: Judge, tmp_path: Path) -> None:
    for moment in played(name).moments:
        previous = tmp_path / moment.previous if moment.previous is not None else None
        facts = derived(written(moment, tmp_path), previous=previous)
        assert facts.unread() == {}
        facts_agree(facts, moment)
        _, breaches = judge.verdicts(facts, FAMILIES)
        reported = Counter(as_found(breach) for breach in breaches)
        alarms = Counter(as_found(breach) for breach in breaches if breach.severity != "info")
        expected = Counter(as_expected(finding) for finding in moment.findings)
        assert expected - reported == Counter(), f"{moment.name}: not reported"
        assert alarms - expected == Counter(), f"{moment.name}: not expected"


def facts_agree(facts: Derived, moment: Moment) -> None:
    """Log ends, epochs and offsets, as derived from files alone, are those of the world."""
    for disk in moment.disks:
        for partition, replica in disk.replicas.items():
            where = {"topic": partition.topic, "partition": partition.partition, "broker_id": disk.broker_id}
            row = facts.one("replicas", **where)
            assert row["log_end_offset"] == replica.log.log_end_offset
            assert row["log_start_offset"] == replica.log.log_start_offset
            spans = {(s["leader_epoch"], s["checkpoint_start_offset"]) for s in facts.all("epoch_spans", **where)}
            assert {(e.leader_epoch, e.start_offset) for e in replica.log.epochs} <= spans
    changes = facts.all("partition_changes")
    of_leaders = {(row["topic"], row["partition"], row["metadata_offset"]): row["election"] for row in changes}
    for chosen in moment.truth.elections:
        # An auditor calls a preferred election clean, and a first leader or a raised epoch no election.
        kind = {"preferred": "clean", "first": "none", "same": "none"}.get(chosen.kind, chosen.kind)
        at = (chosen.partition.topic, chosen.partition.partition, chosen.metadata_offset)
        assert of_leaders.get(at, kind) == kind
    for partition, lineage in moment.truth.lineages.items():
        row = facts.one("partitions", topic=partition.topic, partition=partition.partition)
        if any(broker.running is None for broker in moment.world.brokers.values()):
            continue
        assert row["leader_id"] == lineage.leader
        assert row["high_watermark_lower"] <= lineage.high_watermark <= row["high_watermark_upper"]
        assert row["last_stable_offset"] <= lineage.last_stable_offset


# ------------------------------------------------------------------------------------------------- their truths


def test_leader_epoch_truncation() -> None:
    away, back = at("leader-epoch-truncation", "a-is-away"), at("leader-epoch-truncation", "a-is-back")
    assert [texts(away, b) for b in (A, B, C)] == [["M1", "M2", "M3"], ["M1", "M2", "M4"], ["M1", "M2", "M4"]]
    assert elections(away) == [("first", A), ("clean", B)]
    assert [texts(back, b) for b in (A, B, C)] == [["M1", "M2", "M4"]] * 3
    assert [epochs(back, b) for b in (A, B, C)] == [[(0, 0), (1, 2)]] * 3
    assert cuts(back) == [(A, 2, 3)]


def test_unclean_election() -> None:
    alone, elected, back = (m.world for m in played("unclean-election").moments)
    assert ends(alone) == {A: 201, B: 100}
    assert alone.truth.high_watermark(ORDERS) == 201
    assert elections(elected)[-1] == ("unclean", B)
    assert max(note.last_offset for note in alone.truth.consumed) == 200
    assert told(alone, "reader") == set()
    assert all(groups_offset(world) == 201 for world in (alone, elected, back))
    assert [(n.what, n.offset) for n in elected.truth.told if n.client == "reader"] == [("OFFSET_OUT_OF_RANGE", 201)]
    assert texts(elected, B)[99:102] == ["order 99", "order 300", "order 301"]
    assert cuts(back) == [(A, 100, 201)]
    assert texts(back, A) == texts(back, B) == texts(elected, B)


def test_without_unclean_elections_nobody_leads_until_the_leader_is_back() -> None:
    away, back = (m.world for m in played("unclean-election-off").moments)
    assert away.truth.lineage(ORDERS).high_watermark == 201
    assert away.controller.image.topics["orders"].partitions[0].leader == -1
    assert away.brokers[B].running is not None
    assert told(away, "app-2") == {"TimeoutException"}
    assert back.controller.image.topics["orders"].partitions[0].leader == A
    assert texts(back, B) == [f"order {n}" for n in (*range(201), *range(400, 420))]


@pytest.mark.parametrize(("name", "kind"), [("unclean-election-min-isr", "unclean"), ("unclean-election-elr", "elr")])
def test_a_minimum_of_replicas_costs_writes_and_loses_nothing(name: str, kind: str) -> None:
    elected, back = (m.world for m in played(name).moments)
    assert ends(elected) == {A: 100, B: 100}
    assert elections(elected)[-1] == (kind, B)
    assert told(elected, "app") == {"TimeoutException"}
    assert texts(back, A) == texts(back, B) == [f"order {n}" for n in (*range(100), *range(400, 420))]


def test_reelection_idempotence() -> None:
    away, back = (m.world for m in played("reelection-idempotence").moments)
    assert ends(away) == {A: 110, B: 120, C: 120}
    assert epochs(away, B) == [(0, 0), (1, 105)]
    assert texts(away, B) == [f"order {n}" for n in range(120)]
    written_by = [b for b in batches(back, B) if b.producer_id == PRODUCER_ID]
    sequences = [(b.producer_epoch, b.base_sequence + n) for b in written_by for n in range(len(b.records))]
    assert sequences == [(0, n) for n in range(120)] + [(1, n) for n in range(10)]
    assert batches(back, A) == batches(back, B) == batches(back, C)
    acknowledged = {n.base_sequence: n.base_offset for n in away.truth.acknowledged if n.producer_id == PRODUCER_ID}
    assert acknowledged == {n: n for n in (*range(0, 100, 10), 100, 105, 110)}
    assert told(back, "late") == {"INVALID_PRODUCER_EPOCH"}
    assert cuts(back) == [(A, 105, 110)]


def test_kip_101_loss() -> None:
    lost, kept = at("kip-101-loss", "truncate-to-high-watermark"), at("kip-101-loss", "kip-101")
    assert [texts(lost, b) for b in (A, B, C)] == [["M1", "M2"], ["M1", "M3"], ["M1", "M2"]]
    assert cuts(lost) == [(B, 1, 2)]
    assert [texts(kept, b) for b in (A, B, C)] == [["M1", "M2"], ["M1", "M2", "M3"], ["M1", "M2"]]
    for world in (lost, kept):
        assert [kind for kind, _ in elections(world)] == ["first", "clean", "clean"]
        assert {n.base_offset for n in world.truth.acknowledged} >= {0, 1}


def test_kip_101_divergence() -> None:
    before = at("kip-101-divergence", "truncate-to-high-watermark")
    after = at("kip-101-divergence", "kip-101")
    assert (texts(before, A), texts(before, B)) == (["M1", "M2", "M4"], ["M1", "M3", "M4"])
    assert texts(after, A) == texts(after, B) == ["M1", "M3", "M4"]
    assert cuts(before) == []
    assert cuts(after) == [(A, 1, 2)]


def test_kip_279_fast_failover() -> None:
    before, after = at("kip-279-fast-failover", "kip-101"), at("kip-279-fast-failover", "kip-279")
    assert (texts(before, A), texts(before, B)) == (["M1", "M2", "M4"], ["M1", "M3", "M4"])
    assert texts(after, A) == texts(after, B) == ["M1", "M2", "M4"]
    assert elections(after) == [("first", A), ("clean", B), ("unclean", A)]
    assert cuts(before) == []
    assert cuts(after) == [(B, 1, 2)]


def test_hanging_transaction() -> None:
    world = at("hanging-transaction", "hanging")
    assert world.truth.last_stable_offset(ORDERS) == 3
    assert world.truth.high_watermark(ORDERS) == 7


def test_zombie_producer() -> None:
    world = at("zombie-producer", "fenced")
    assert [n.committed for n in world.truth.transactions if isinstance(n, Decided)] == [False, True]
    outcomes = {(n.client, n.outcome) for n in world.truth.transactions if isinstance(n, TransactionTold)}
    assert outcomes == {("app", "INVALID_PRODUCER_EPOCH"), ("app-again", "committed")}
    assert texts(world, A) == ["first life", "second life"]


def test_lost_marker() -> None:
    world = at("lost-marker", "half-committed")
    other = TopicPartition("orders", 1)
    assert [n.outcome for n in world.truth.transactions if isinstance(n, TransactionTold)] == ["committed"]
    assert [sum(b.is_marker for b in batches(world, A, p)) for p in (ORDERS, other)] == [1, 0]
    assert world.truth.last_stable_offset(ORDERS) == 3
    assert world.truth.last_stable_offset(other) == 0 < world.truth.high_watermark(other)


def test_compaction_race() -> None:
    world = at("compaction-race", "c-is-back")
    assert [value_of(world, b, DELETED) is not None for b in (A, B, C)] == [False, False, True]
    assert C in world.controller.image.topics["orders"].partitions[0].isr


def test_lossy_power_cut() -> None:
    before, dark, back = (m.world for m in played("lossy-power-cut").moments)
    assert before.truth.high_watermark(ORDERS) == 100
    assert ends(dark) == {A: 60, B: 60, C: 60}
    assert texts(back, A) == texts(back, B) == texts(back, C)
    assert texts(back, A)[59:61] == ["order 59", "order 300"]
    assert elections(back)[-1][0] == "last_known"


def test_same_epoch_rewrite() -> None:
    world = at("same-epoch-rewrite", "rewritten")
    different = [x.base_offset for x, y in zip(batches(world, A), batches(world, B), strict=True) if x != y]
    assert different == [50]
    assert batches(world, A) == batches(world, C)


def test_stale_disk_returns() -> None:
    world = at("stale-disk-returns", "elected")
    assert ends(world) == {A: 100, B: 60}
    assert texts(world, A)[:40] == texts(world, B)[:40]
    assert world.controller.image.topics["orders"].partitions[0].leader == B


def test_torn_tail() -> None:
    down, back = (m.world for m in played("torn-tail").moments)
    assert ends(down) == {A: 100, B: 90, C: 100}
    assert len(down.brokers[B].disk.replicas[ORDERS].log.active.tail) == 70
    assert batches(back, A) == batches(back, B) == batches(back, C)


def test_full_disk() -> None:
    halted, back = (m.world for m in played("full-disk").moments)
    assert halted.brokers[B].running is None
    assert ends(halted) == {A: 100, B: 60, C: 100}
    torn = halted.brokers[B].disk.replicas[ORDERS].log.active.tail
    assert 0 < len(torn) < batches(halted, A)[6].size_bytes
    assert [f.kind for f in back.truth.faults] == ["full-disk"] * 2
    assert batches(back, A) == batches(back, B) == batches(back, C)


def test_bit_rot() -> None:
    world = at("bit-rot", "rotten")
    assert [b.base_offset for b in batches(world, C) if b.damaged] == [30]
    assert not any(b.damaged for broker in (A, B) for b in batches(world, broker))


def missing_in_both(world: World, broker_id: int) -> list[tuple[int, int]]:
    """What neither a broker nor the tier holds, from the log start on, as the metadata tell."""
    return gaps(world.brokers[broker_id].disk.replicas[ORDERS].log, view_of(world), ORDERS)


def test_remote_tier_gap() -> None:
    world = at("remote-tier-gap", "gap")
    assert [missing_in_both(world, b) for b in (A, B, C)] == [[(80, 120)]] * 3
    logs = [world.brokers[b].disk.replicas[ORDERS].log for b in (A, B, C)]
    assert [(log.log_start_offset, log.segments[0].base_offset) for log in logs] == [(0, 120)] * 3


def test_remote_tier_deletion() -> None:
    world = at("remote-tier-deletion", "deleted")
    assert [missing_in_both(world, b) for b in (A, B, C)] == [[(40, 80)]] * 3
    assert sorted(o.about.start_offset for o in world.remote.objects.values()) == [0, 80, 120]


def test_remote_object_lost() -> None:
    world = at("remote-object-lost", "lost")
    assert missing_in_both(world, A) == [], "the metadata say that all is there"
    assert sorted(o.about.start_offset for o in world.remote.objects.values()) == [40, 80, 120]
    log = world.brokers[B].disk.replicas[ORDERS].log
    assert (log.log_start_offset, log.segments[0].base_offset, log.epochs[0].start_offset) == (0, 120, 0)
    assert B in world.controller.image.topics["orders"].partitions[0].isr


def test_remote_tier_unclean_election() -> None:
    world = at("remote-tier-unclean-election", "elected")
    copies = sorted((o.about.start_offset, o.about.epochs[-1].leader_epoch) for o in world.remote.objects.values())
    assert copies == [(0, 0), (40, 0), (80, 0), (80, 2), (120, 0), (120, 2)]
    assert missing_in_both(world, B) == []
