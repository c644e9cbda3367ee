"""Files and directories that wait to be removed: there when a real broker has them, and gone when it removes them."""

import re
from pathlib import Path

import pytest

from tests.derivation.judging import Judge
from tests.derivation.pipeline import derived
from tests.sim_engine.clusters import ORDERS, cluster, leader, said
from tidegauge.sim_engine import actions
from tidegauge.sim_engine.engine import run_for, step
from tidegauge.sim_engine.files.render import render_broker
from tidegauge.sim_engine.log.stored_batch import NewRecord
from tidegauge.sim_engine.rendering.snapshot import disk_of, snapshot_of
from tidegauge.sim_engine.rendering.write_snapshot import write_snapshot
from tidegauge.sim_engine.settings import Settings
from tidegauge.sim_engine.world import World
from tidegauge.snapshots.manifest import Consistency

SHORT = {"segment.bytes": "500", "retention.bytes": "1000"}
QUICK = Settings(retention_check_interval_ms=20_000)
DIRECTORY = re.compile(r"orders-0\.[0-9a-f]{32}-(delete|stray)")


def names(world: World, broker_id: int) -> set[str]:
    return {name for name, _ in render_broker(disk_of(world, broker_id))}


def waiting(world: World, broker_id: int, suffix: str = "deleted") -> set[str]:
    return {name.rpartition("/")[2] for name in names(world, broker_id) if name.endswith(f".{suffix}")}


def aside(world: World, broker_id: int) -> list[str]:
    return sorted({m[1] for name in names(world, broker_id) if (m := DIRECTORY.fullmatch(name.partition("/")[0]))})


def alarms(world: World, judge: Judge, directory: Path) -> list[str]:
    truth = world.truth.to_json()
    write_snapshot(
        directory, snapshot_of(world), cluster="c", snapshot_id="1", consistency=Consistency.ATOMIC, truth=truth
    )
    facts = derived(directory)
    assert facts.unread() == {}
    return [str(b) for b in judge.verdicts(facts, "ABCDEFGHJKL")[1] if b.severity != "info"]


def filled(world: World) -> World:
    world = step(world, actions.StartProducer(client="p", idempotent=True))
    for number in range(60):
        world = run_for(said(world, "p", f"order number {number}"), 50)
    return world


def test_segments_that_retention_took_wait_for_a_minute(judge: Judge, tmp_path: Path) -> None:
    world = filled(cluster(config=SHORT, settings=QUICK))
    while not waiting(world, 1):
        world = run_for(world, 1_000)
    first = f"{0:020d}"
    assert {f"{first}.log.deleted", f"{first}.index.deleted", f"{first}.timeindex.deleted"} <= waiting(world, 1)
    bases = {name[:20] for name in waiting(world, 1)}
    assert {f"{base}.snapshot.deleted" for base in bases - {first}} < waiting(world, 1)
    assert alarms(world, judge, tmp_path / "waiting") == []
    stopped = run_for(step(world, actions.Stop(1)), 300_000)
    assert waiting(stopped, 1) == waiting(world, 1), "a broker that is down removes nothing"
    assert waiting(run_for(step(stopped, actions.Start(1)), 5_000), 1) == set(), "one that starts removes them at once"
    assert waiting(run_for(world, 61_000), 1) == set()


def test_a_deleted_topics_directory_waits_for_a_minute_and_is_listed_until_the_next_checkpoint(
    judge: Judge, tmp_path: Path
) -> None:
    world = run_for(step(run_for(filled(cluster()), 6_000), actions.DeleteTopic("orders")), 200)
    assert all(aside(world, b) == ["delete"] for b in (1, 2, 3))
    uniques = {r.unique for b in (1, 2, 3) for r in world.brokers[b].disk.renamed}
    assert len(uniques) == 3
    assert ORDERS in world.brokers[1].disk.high_watermarks
    assert ORDERS not in world.brokers[1].disk.recovery_points
    assert alarms(world, judge, tmp_path / "listed") == []
    later = run_for(world, 6_000)
    assert ORDERS not in later.brokers[1].disk.high_watermarks
    assert alarms(later, judge, tmp_path / "deleted") == []
    stopped = run_for(step(later, actions.Stop(1)), 100_000)
    again = run_for(step(stopped, actions.Start(1)), 5_000)
    assert aside(stopped, 1) == aside(again, 1) == ["delete"], "a start begins the minute anew"
    assert aside(run_for(again, 60_000), 1) == []
    assert aside(run_for(later, 60_000), 2) == []


def test_what_was_deleted_while_its_broker_was_down_is_a_stray(judge: Judge, tmp_path: Path) -> None:
    world = run_for(step(filled(cluster()), actions.Stop(1)), 10_000)
    world = run_for(step(world, actions.DeleteTopic("orders")), 1_000)
    world = run_for(step(world, actions.Start(1)), 200_000)
    assert aside(world, 1) == ["stray"]
    assert f"{ORDERS}/partition.metadata" not in names(world, 1)
    assert alarms(world, judge, tmp_path / "stray") == []


def compacted(seed: int) -> World:
    config = {"cleanup.policy": "compact", "segment.bytes": "500", "min.cleanable.dirty.ratio": "0.01"}
    world = cluster(config=config, seed=seed)
    world = step(world, actions.StartProducer(client="p", idempotent=True))
    for number in range(60):
        record = NewRecord(timestamp=-1, key=b"key %d" % (number % 3), value=b"value %d" % number)
        world = run_for(step(world, actions.ProduceCall(client="p", partition=ORDERS, records=(record,))), 50)
    return world


@pytest.mark.slow
def test_a_death_in_the_middle_of_a_cleaning_leaves_its_files_and_harms_nothing(judge: Judge, tmp_path: Path) -> None:
    left: set[str] = set()
    for seed in range(8):
        world = step(compacted(seed), actions.Kill(1))
        found = {suffix for suffix in ("cleaned", "swap") if waiting(world, 1, suffix)}
        assert len(found) <= 1
        if found and not found <= left:
            left |= found
            world = run_for(world, 12_000)
            assert alarms(world, judge, tmp_path / f"{seed}-dead") == []
            world = run_for(step(world, actions.Start(1)), 60_000)
            assert not waiting(world, 1, "cleaned") | waiting(world, 1, "swap")
            newest = [latest(world, b) for b in (1, 2, 3)]
            assert newest == [{b"key %d" % n: b"value %d" % (57 + n) for n in range(3)}] * 3
            assert alarms(world, judge, tmp_path / f"{seed}-back") == []
    assert left == {"cleaned", "swap"}


def latest(world: World, broker_id: int) -> dict[bytes | None, bytes | None]:
    log = world.brokers[broker_id].disk.replicas[ORDERS].log
    assert leader(world) in (2, 3)
    return {r.key: r.value for b in log.batches_from(0) for r in b.records}
