"""A start after a fault: what Kafka loads from a rendered directory is what the simulated broker loads."""

import random
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pytest

from tests.oracle.kafka import Answer, Oracle
from tests.oracle.test_cleaning import written
from tests.sim_engine.disks import KEPT, ORDERS, hurt_disk
from tests.sim_engine.random_logs import START_MS, random_log
from tests.sim_engine.test_tiering import NOW_MS, tiered
from tidegauge.sim_engine.brokers.recovery import Checkpoints, loaded
from tidegauge.sim_engine.disks.disk_faults import FaultKind
from tidegauge.sim_engine.log.cleaner import clean, cleanable
from tidegauge.sim_engine.log.producers import snapshot_entries
from tidegauge.sim_engine.log.render_log import render_log
from tidegauge.sim_engine.log.replica_log import ReplicaLog, stopped_cleanly, with_high_watermark
from tidegauge.sim_engine.log.tiering import delete_local

pytestmark = pytest.mark.slow

HURT: Final = 250
SOUND: Final = 40


def by_kafka(oracle: Oracle, directory: Path, checkpoints: Checkpoints, *, clean: bool, remote: bool = False) -> Answer:
    return oracle.ask(
        {
            "job": "load", "directory": str(directory), "name": directory.name, "clean": clean,
            "log_start": checkpoints.log_start_offset, "recovery_point": checkpoints.recovery_point,
            "high_watermarks": [], "now_ms": START_MS, "remote": remote, "keep_snapshots": True, "with_batches": False,
        }
    )  # fmt: skip


def unlike(log: ReplicaLog, kafka: Answer) -> dict[str, tuple[Any, Any]]:
    """What Kafka says otherwise."""
    at_end = with_high_watermark(log, log.log_end_offset)
    producers = {
        e.producer_id: [
            e.producer_id, e.producer_epoch, e.last_sequence, e.last_offset, e.offset_delta, e.timestamp,
            e.coordinator_epoch,
            -1 if e.current_transaction_first_offset is None else e.current_transaction_first_offset,
        ]
        for e in snapshot_entries(log.producers)
    }  # fmt: skip
    pairs = {
        "log start": (log.log_start_offset, kafka["log_start"]),
        "log end": (log.log_end_offset, kafka["log_end"]),
        "epochs": ([[e.leader_epoch, e.start_offset] for e in log.epochs], kafka["epochs"]),
        "segments": ([[s.base_offset, s.size_bytes] for s in log.segments], kafka["segments"]),
        "producers": (producers, {fields[0]: fields for fields in kafka["producers"]}),
        "aborted": (
            [
                [s.base_offset, t.producer_id, t.first_offset, t.last_offset, t.last_stable_offset]
                for s in log.segments
                for t in s.transaction_index
            ],
            kafka["aborted"],
        ),
        # Where a transaction begins in the batch that holds the log start, Kafka names that batch's first offset.
        "last stable offset": (at_end.last_stable_offset, max(kafka["last_stable"], kafka["log_start"])),
    }
    return {name: (ours, theirs) for name, (ours, theirs) in pairs.items() if ours != theirs}


def test_what_kafka_loads_after_a_fault_is_what_the_simulated_broker_loads(oracle: Oracle, tmp_path: Path) -> None:
    met = dict.fromkeys(FaultKind, 0)
    shorter = 0
    for seed in range(HURT):
        before, disk, fault = hurt_disk(seed)
        draw = random.Random(f"recovery {seed}")
        log, whole = disk.replicas[ORDERS].log, before.replicas[ORDERS].log
        # A recovery point may be older than what is flushed, and never newer.
        point = draw.choice((0, whole.flushed_end_offset, draw.randrange(whole.flushed_end_offset + 1)))
        start = draw.choice((0, 0, draw.randrange(log.log_end_offset + 1)))
        checkpoints = Checkpoints(log_start_offset=start, recovery_point=point, high_watermark=whole.high_watermark)
        directory = tmp_path / str(seed) / str(ORDERS)
        directory.mkdir(parents=True)
        for name, file in render_log(log, topic_id=None, clean=False):
            (directory / name).write_bytes(file.data)
        kafka = by_kafka(oracle, directory, checkpoints, clean=False)
        where = f"seed {seed}: {fault}, {checkpoints}"
        assert "error" not in kafka, f"{where}: {kafka}"
        ours = loaded(log, checkpoints, clean=False, now_ms=START_MS)
        assert unlike(ours, kafka) == {}, where
        met[fault.kind] += 1
        shorter += ours.log_end_offset < whole.log_end_offset
    drawn = {FaultKind.TORN_WRITE, FaultKind.FULL_DISK, FaultKind.LOST_FLUSH, FaultKind.BIT_FLIP}
    drawn |= {FaultKind.LOST_SEGMENT, FaultKind.DAMAGED_INDEX}
    assert min(met[kind] for kind in drawn) > 5, met
    assert shorter > HURT // 3


@pytest.mark.parametrize("clean", [True, False])
def test_a_sound_log_is_loaded_as_it_was(oracle: Oracle, tmp_path: Path, clean: bool) -> None:
    for seed in range(SOUND):
        log = random_log(seed, KEPT)
        log = stopped_cleanly(log) if clean else log
        written(log, tmp_path / str(seed) / str(ORDERS))
        checkpoints = Checkpoints(recovery_point=log.flushed_end_offset, high_watermark=log.high_watermark)
        kafka = by_kafka(oracle, tmp_path / str(seed) / str(ORDERS), checkpoints, clean=clean)
        ours = loaded(log, checkpoints, clean=clean, now_ms=START_MS)
        assert unlike(ours, kafka) == {}, f"seed {seed}"
        assert ours.high_watermark == log.high_watermark
        assert ours.log_end_offset == log.log_end_offset


def test_a_cleaned_log_without_snapshots_is_read_as_kafka_reads_it(oracle: Oracle, tmp_path: Path) -> None:
    """Emptied batches, markers without data and gaps: what they still tell of producers and transactions."""
    emptied = [0, 0]
    for seed in range(SOUND):
        log, now = random_log(seed, replace(KEPT, compact=True), keys=2, quiet=30), START_MS
        for _ in range(3):
            now += 2 * log.config.delete_retention_ms
            log = clean(log, cleanable(log, None, now_ms=now), now_ms=now)
        log = replace(log, snapshots={})
        for batch in (b for s in log.segments for b in s.batches if not b.records):
            emptied[batch.is_control] += 1
        written(log, tmp_path / str(seed) / str(ORDERS))
        for path in (tmp_path / str(seed) / str(ORDERS)).glob("*.snapshot"):
            path.unlink()
        checkpoints = Checkpoints(high_watermark=log.high_watermark)
        kafka = by_kafka(oracle, tmp_path / str(seed) / str(ORDERS), checkpoints, clean=False)
        assert unlike(loaded(log, checkpoints, clean=False, now_ms=START_MS), kafka) == {}, f"seed {seed}"
    assert min(emptied) > 3, emptied


@pytest.mark.parametrize("clean", [True, False])
def test_a_tiered_log_keeps_its_start_below_its_first_segment(oracle: Oracle, tmp_path: Path, clean: bool) -> None:
    log = tiered()
    log = delete_local(log, 50, now_ms=NOW_MS + 10**9)
    log = stopped_cleanly(log) if clean else log
    written(log, tmp_path / str(ORDERS))
    for start in (0, 15, 50):
        checkpoints = Checkpoints(log_start_offset=start, recovery_point=50, high_watermark=51)
        kafka = by_kafka(oracle, tmp_path / str(ORDERS), checkpoints, clean=clean, remote=True)
        ours = loaded(log, checkpoints, clean=clean, now_ms=START_MS)
        assert unlike(ours, kafka) == {}
        assert ours.log_start_offset == start
