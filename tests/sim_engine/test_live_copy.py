"""A copy of a simulated cluster that went on meanwhile: read in the order of a capture, and judged as one."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from tests.derivation.judging import Judge
from tests.derivation.pipeline import derived
from tests.sim_engine.clusters import cluster, leader, said
from tests.sim_engine.moving import PARTITIONS, moments
from tidegauge.kafka_log.log_dir import CLEAN_SHUTDOWN, parse_segment_file
from tidegauge.kafka_log.types import TopicPartition
from tidegauge.sim_engine import actions
from tidegauge.sim_engine.engine import run_for, step
from tidegauge.sim_engine.files.render import Beside, RenamedReplica, Replica, render_broker
from tidegauge.sim_engine.log.replica_log import LogConfig, new_log, truncate
from tidegauge.sim_engine.rendering.live_copy import LiveCopy, Moment, TakenFile, live_copy
from tidegauge.sim_engine.rendering.snapshot import snapshot_of
from tidegauge.sim_engine.rendering.write_snapshot import TRUTH, write_live_copy, write_snapshot
from tidegauge.snapshots.adopt import open_snapshot
from tidegauge.snapshots.manifest import Consistency, Source
from tidegauge.snapshots.verification import verify

FAMILIES = "ABDEFJK"
"""All that can be said of one snapshot alone."""
COUNT = 60


@pytest.fixture(scope="module")
def moved() -> list[Moment]:
    return moments(COUNT)


@pytest.fixture(scope="module")
def copy(moved: list[Moment]) -> LiveCopy:
    return live_copy(moved)


def at(copy: LiveCopy, broker_id: int, name: str) -> TakenFile:
    (found,) = (f for f in copy.files if f.broker_id == broker_id and f.name == name)
    return found


def test_every_file_is_what_it_was_when_it_was_read(copy: LiveCopy, moved: list[Moment]) -> None:
    rendered: dict[tuple[int, int], dict[str, Any]] = {}
    by_instant = {moment.at_ms: moment for moment in moved}
    for taken in copy.files:
        key = taken.read_at_ms, taken.broker_id
        if key not in rendered:
            disk = by_instant[taken.read_at_ms].disk((taken.broker_id, taken.log_dir))
            rendered[key] = dict(render_broker(disk))
        assert rendered[key][taken.name.removesuffix(".after")] == taken.file, taken.name
    assert len({instant for instant, _ in rendered}) > 10


def test_it_is_told_when_checkpoints_and_logs_were_made(tmp_path: Path) -> None:
    world = run_for(step(cluster(), actions.StartProducer(client="p")), 8_000)
    began = world.now_ms
    moments_of_world = []
    for number in range(20):
        world = run_for(said(world, "p", f"{number}"), 700)
        moments_of_world.append(Moment(at_ms=world.now_ms, disks=tuple(snapshot_of(world))))
    copied = live_copy(moments_of_world)
    manifest = write_live_copy(tmp_path / "s", copied, cluster="c", snapshot_id="1", truth={}).manifest
    times = {f.path: (f.modified_at_ns, f.read_at_ms) for f in manifest.files()}
    for broker_id in (1, 2, 3):
        modified, read = times[f"broker-{broker_id}/replication-offset-checkpoint"]
        assert modified is not None
        assert read is not None
        assert 0 <= read - modified // 1_000_000 <= 5_000
        made, _ = times[f"broker-{broker_id}/orders-0/partition.metadata"]
        assert made is not None
        assert made // 1_000_000 < began


def test_checkpoints_are_read_before_logs_and_followers_before_leaders(copy: LiveCopy, moved: list[Moment]) -> None:
    for broker in (1, 2, 3):
        checkpoints = at(copy, broker, "replication-offset-checkpoint").read_at_ms
        for taken in copy.files:
            segment = parse_segment_file(taken.name.rpartition("/")[2])
            if taken.broker_id == broker and segment is not None and "__cluster" not in taken.name:
                assert taken.read_at_ms >= checkpoints
    leaders = {0: 1, 1: 2, 2: 3}
    for partition in PARTITIONS:
        read = {
            broker: max(
                f.read_at_ms
                for f in copy.files
                if f.broker_id == broker and f.name.startswith(f"{partition}/") and f.name.endswith(".log")
            )
            for broker in (1, 2, 3)
        }
        assert read[leaders[partition.partition]] == max(read.values())
    for broker in (1, 2, 3):
        metadata = at(copy, broker, f"__cluster_metadata-0/{0:020d}.log")
        assert metadata.read_at_ms == moved[-1].at_ms
        epochs = at(copy, broker, "__cluster_metadata-0/leader-epoch-checkpoint")
        assert (epochs.read_at_ms, epochs.read_again_at_ms) == (moved[0].at_ms, moved[-1].at_ms)


def test_epochs_that_changed_meanwhile_are_kept_beside_the_first_ones(copy: LiveCopy) -> None:
    later = [f for f in copy.files if f.name.endswith("leader-epoch-checkpoint.after")]
    assert later
    for taken in later:
        assert taken.file != at(copy, taken.broker_id, taken.name.removesuffix(".after")).file


def test_what_vanishes_or_is_made_anew_is_named(moved: list[Moment]) -> None:
    gone, anew = TopicPartition("many", 1), TopicPartition("many", 2)

    def without(moment: Moment) -> Moment:
        disks = []
        for disk in moment.disks:
            left = {p: r for p, r in disk.replicas.items() if p != gone}
            left[anew] = Replica(log=new_log(LogConfig(), now_ms=0), topic_id="000009DDDDDDDDDDDDDDDA")
            renamed = RenamedReplica(
                partition=gone, beside=Beside.DELETED, unique="0" * 32, replica=disk.replicas[gone]
            )
            disks.append(replace(disk, replicas=left, renamed=(renamed,)))
        return replace(moment, disks=tuple(disks))

    found = live_copy([*moved[:30], *map(without, moved[30:])])
    reasons = dict(found.left_out)
    assert {f"broker-{b}/many-1" for b in (1, 2, 3)} & reasons.keys()
    assert reasons["broker-3/many-2"] == "deleted and made anew while the broker was read"
    assert not [f for f in found.files if f.broker_id == 3 and f.name.startswith("many-2/")]
    assert [f for f in found.files if f.name.startswith(f"many-1.{'0' * 32}-delete/")]


def test_a_log_that_was_cut_while_it_was_read_is_read_again(moved: list[Moment]) -> None:
    cut = []
    for number, moment in enumerate(moved):
        disks = list(moment.disks)
        if number % 2:
            for i, disk in enumerate(disks):
                replicas = {
                    p: replace(r, log=truncate(r.log, r.log.high_watermark, now_ms=0)) for p, r in disk.replicas.items()
                }
                disks[i] = replace(disk, replicas=replicas)
        cut.append(replace(moment, disks=tuple(disks)))
    found = live_copy(cut)
    by_instant = {moment.at_ms: moment for moment in cut}
    for taken in found.files:
        if taken.name.endswith(".timeindex") and "many" in taken.name:
            log = at(found, taken.broker_id, taken.name.replace(".timeindex", ".log"))
            first, second = (by_instant[t.read_at_ms].disk((taken.broker_id, ".")) for t in (log, taken))
            partition = next(p for p in PARTITIONS if taken.name.startswith(f"{p}/"))
            assert first.replicas[partition].log.log_end_offset <= second.replicas[partition].log.log_end_offset


def test_a_marker_of_a_clean_stop_that_was_not_there_all_the_time_is_not_kept(moved: list[Moment]) -> None:
    def stopped(moment: Moment) -> Moment:
        disks = (replace(moment.disks[0], clean_broker_epoch=5), *moment.disks[1:])
        return replace(moment, disks=disks)

    started = live_copy([*map(stopped, moved[:40]), *moved[40:]])
    assert not [f for f in started.files if f.name == CLEAN_SHUTDOWN]
    assert "broker-1/.kafka_cleanshutdown" in dict(started.left_out)
    whole = live_copy([stopped(moment) for moment in moved])
    assert [f.broker_id for f in whole.files if f.name == CLEAN_SHUTDOWN] == [1]


def test_it_is_written_as_a_fuzzy_snapshot_of_a_simulated_cluster(copy: LiveCopy, tmp_path: Path) -> None:
    written = write_live_copy(tmp_path / "s", copy, cluster="c", snapshot_id="1", truth={"schema_version": 1})
    opened = open_snapshot(tmp_path / "s")
    assert opened.manifest == written.manifest
    assert opened.manifest.source is Source.SIMULATED
    assert opened.manifest.consistency is Consistency.FUZZY
    assert all(f.read_at_ms is not None and f.sha256 is not None for f in opened.manifest.files())
    for broker in opened.manifest.brokers:
        assert (broker.read_started_at_ms or 0) < (broker.read_finished_at_ms or 0)
    assert verify(opened) == ()
    assert (tmp_path / "s" / TRUTH).exists()


@pytest.mark.parametrize("shape", ["live", "atomic"])
def test_nothing_is_wrong_with_a_sound_cluster(
    shape: str, copy: LiveCopy, moved: list[Moment], tmp_path: Path, store_url: str
) -> None:
    target = tmp_path / "s"
    if shape == "live":
        write_live_copy(target, copy, cluster="c", snapshot_id="1", truth={})
    else:
        write_snapshot(target, moved[-1].disks, cluster="c", snapshot_id="1", consistency=Consistency.ATOMIC, truth={})
    assert breaches(target, store_url) == set()


def test_nothing_is_wrong_with_a_copy_of_a_world_that_went_on(tmp_path: Path, store_url: str) -> None:
    """A world whose leader stopped in good order and came back while it was copied."""
    world = cluster(seed=7, config={"internal.segment.bytes": "2048", "min.insync.replicas": "2"})
    world = run_for(step(world, actions.StartProducer(client="p", idempotent=True)), 1_000)
    found = []
    for number in range(60):
        if number == 20:
            world = step(world, actions.Stop(leader(world)))
        if number == 40:
            world = step(world, actions.Start(next(b for b, each in world.brokers.items() if each.running is None)))
        world = run_for(said(world, "p", f"{number} " * 40), 500)
        found.append(Moment(at_ms=world.now_ms, disks=tuple(snapshot_of(world))))
    copied = live_copy(found)
    assert len({taken.read_at_ms for taken in copied.files}) > 5
    write_live_copy(tmp_path / "s", copied, cluster="c", snapshot_id="1", truth=world.truth.to_json())
    assert breaches(tmp_path / "s", store_url) == set()


def test_files_of_two_moments_that_are_called_one_moments_look_broken(
    moved: list[Moment], tmp_path: Path, store_url: str
) -> None:
    """So the judge would have seen it: what a copy says of its files' moments is what clears it."""
    disks = [
        replace(early, high_watermarks=late.high_watermarks)
        for early, late in zip(moved[5].disks, moved[-1].disks, strict=True)
    ]
    write_snapshot(tmp_path / "s", disks, cluster="c", snapshot_id="1", consistency=Consistency.ATOMIC, truth={})
    assert any(found.startswith("B16 ") for found in breaches(tmp_path / "s", store_url))


def breaches(directory: Path, store_url: str) -> set[str]:
    engine = sa.create_engine(store_url)
    with engine.begin() as connection:
        _, found = Judge(connection).verdicts(derived(directory), FAMILIES)
    engine.dispose()
    return {f"{breach.code} {breach.explanation}" for breach in found}
