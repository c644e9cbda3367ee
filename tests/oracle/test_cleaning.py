"""Compaction: what Kafka's own cleaner makes of a rendered log is what the simulated one makes of it, byte for byte."""

from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pytest

from tests.oracle.kafka import Answer, Oracle
from tests.sim_engine.random_logs import SMALL, START_MS, random_log
from tidegauge.kafka_log.batch import CompressionType
from tidegauge.kafka_log.corruption import Corruption
from tidegauge.kafka_log.scan import scan_buffer
from tidegauge.sim_engine.log.cleaner import clean, cleanable
from tidegauge.sim_engine.log.render_log import render_log
from tidegauge.sim_engine.log.replica_log import LogConfig, ReplicaLog, append
from tidegauge.sim_engine.log.stored_batch import NewRecord, StoredBatch, data_batch, read_stored

pytestmark = pytest.mark.slow

LOGS: Final = 25
PASSES: Final = 4
COMPARED: Final = (".log", ".index", ".timeindex", ".txnindex")
HOUR_MS: Final = 3_600_000


def reloaded(log: ReplicaLog) -> ReplicaLog:
    """As a broker knows it that has just started: which transactions ended above the high watermark, it forgot."""
    return replace(log, producers=replace(log.producers, unreplicated=()))


def written(log: ReplicaLog, directory: Path) -> None:
    """The partition's directory after a stop in good order."""
    directory.mkdir(parents=True)
    for name, file in render_log(log, topic_id=None, clean=True):
        (directory / name).write_bytes(file.data)


def cleaned_by_kafka(oracle: Oracle, directory: Path, log: ReplicaLog, checkpoint: int | None, now_ms: int) -> Answer:
    config: dict[str, Any] = {
        "cleanup.policy": "compact",
        "internal.segment.bytes": log.config.segment_bytes,
        "index.interval.bytes": log.config.index_interval_bytes,
        "segment.index.bytes": log.config.segment_index_bytes,
        "delete.retention.ms": log.config.delete_retention_ms,
        "min.compaction.lag.ms": log.config.min_compaction_lag_ms,
        "file.delete.delay.ms": 0,
    }
    return oracle.ask(
        {
            "job": "clean",
            "directory": str(directory),
            "config": {k: str(v) for k, v in config.items()},
            "log_start": log.log_start_offset,
            "high_watermark": log.high_watermark,
            "checkpoint": checkpoint,
            "now_ms": now_ms,
        }
    )


def grown(log: ReplicaLog, now_ms: int, seed: int) -> ReplicaLog:
    """More records, by somebody without a producer id, so that there is dirt again."""
    for i in range(20):
        record = NewRecord(timestamp=now_ms + i, key=f"key-{(seed * 7 + i * 5) % 12}".encode(), value=b"again")
        batch = data_batch([record], base_offset=log.log_end_offset, leader_epoch=max(log.latest_epoch, 0))
        log = append(log, batch, now_ms=now_ms)
    return replace(log, high_watermark=log.log_end_offset)


@pytest.mark.parametrize(
    "config",
    [
        SMALL,
        replace(SMALL, segment_bytes=3000, delete_retention_ms=HOUR_MS),
        replace(SMALL, min_compaction_lag_ms=4000),
    ],
    ids=["small", "merging", "lagging"],
)
def test_the_cleaner_leaves_what_kafkas_cleaner_leaves(oracle: Oracle, tmp_path: Path, config: LogConfig) -> None:
    changed = merged = 0
    for seed in range(LOGS):
        log, checkpoint = reloaded(random_log(seed, config, codecs=False)), None
        now = START_MS + 60 * 500
        for round_ in range(PASSES):
            where = f"seed {seed}, pass {round_}"
            directory = tmp_path / f"{seed}-{round_}" / "random-0"
            written(log, directory)
            answer = cleaned_by_kafka(oracle, directory, log, checkpoint, now)
            found = cleanable(log, checkpoint, now_ms=now)
            assert answer["first_dirty"] == found.first_dirty_offset, where
            assert answer["first_uncleanable"] == found.first_uncleanable_offset, where
            assert answer["clean_bytes"] == found.clean_bytes, where
            assert answer["dirty_bytes"] == found.dirty_bytes, where
            if found.dirty_bytes:
                segments = len(log.segments)
                before = sum(s.size_bytes for s in log.segments)
                log, checkpoint = clean(log, found, now_ms=now), found.first_uncleanable_offset
                assert answer["end"] == checkpoint, where
                changed += sum(s.size_bytes for s in log.segments) != before
                snapshots = {int(p.name[:20]) for p in directory.glob("*.snapshot")}
                assert snapshots - {log.log_end_offset} == log.snapshots.keys() - {log.log_end_offset}, where
                made = {n: f.data for n, f in render_log(log, topic_id=None, clean=True) if n.endswith(COMPARED)}
                theirs = {p.name: p.read_bytes() for p in directory.iterdir() if p.name.endswith(COMPARED)}
                # Kafka makes the file of a transaction index with the first entry that is ever looked for.
                theirs = {n: d for n, d in theirs.items() if d or not n.endswith(".txnindex")}
                assert sorted(made) == sorted(theirs), where
                for name, data in theirs.items():
                    # The active segment's indexes are as long as they may become.
                    assert data.startswith(made[name]), f"{where}: {name}"
                    assert not any(data[len(made[name]) :]), f"{where}: {name}"
                merged += len(log.segments) < segments
            now += config.delete_retention_ms + 1
            log = grown(log, now, seed)
    assert changed > LOGS
    assert merged


def test_packed_batches_are_cleaned_to_the_same_records(oracle: Oracle, tmp_path: Path) -> None:
    """Kafka packs what is left with its own libraries: the bytes differ, the batches and their records do not."""
    codecs = set[CompressionType]()
    for seed in range(LOGS):
        log, now = reloaded(random_log(seed)), START_MS + 60 * 500
        directory = tmp_path / str(seed) / "random-0"
        written(log, directory)
        cleaned_by_kafka(oracle, directory, log, None, now)
        log = clean(log, cleanable(log, None, now_ms=now), now_ms=now)
        for segment in log.segments:
            data = (directory / f"{segment.base_offset:020d}.log").read_bytes()
            rows = scan_buffer(data)[0]
            theirs = [read_stored(data[r["position"] : r["position"] + r["size_bytes"]]) for r in rows]
            assert rows["crc_valid"].all()
            assert [_content(b) for b in theirs] == [_content(b) for b in segment.batches], f"seed {seed}"
            codecs.update(b.codec for b in segment.batches)
    assert codecs == set(CompressionType)


def _content(batch: StoredBatch | Corruption) -> StoredBatch:
    assert isinstance(batch, StoredBatch)
    return replace(batch, data=b"")
