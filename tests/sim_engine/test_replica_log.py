"""A simulated log against real brokers: fed with the batches of a real one, it leaves the same files, byte for byte."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tidegauge.kafka_log.checkpoints import parse_leader_epoch_checkpoint, parse_offset_checkpoint
from tidegauge.kafka_log.control import EndTxnMarker, decode_control_record
from tidegauge.kafka_log.log_dir import parse_partition_dir
from tidegauge.kafka_log.metadata_records import decode_metadata_record
from tidegauge.kafka_log.producer_snapshot import parse_producer_snapshot
from tidegauge.kafka_log.records import RecordBatch, read_batch, records_in
from tidegauge.kafka_log.scan import scan_buffer
from tidegauge.sim_engine.log.render_log import render_log
from tidegauge.sim_engine.log.replica_log import (
    LogConfig,
    ReplicaLog,
    append,
    delete_segments,
    new_log,
    producers_at,
    truncate,
    with_high_watermark,
)
from tidegauge.sim_engine.log.stored_batch import NewRecord, StoredBatch, data_batch

Golden = Callable[[str], Path]


def stored(data: bytes) -> StoredBatch:
    batch = read_batch(data)
    assert isinstance(batch, RecordBatch)
    committed, coordinator_epoch = None, -1
    if batch.attributes & 0x20:
        marker = decode_control_record(batch.records[0])
        assert isinstance(marker, EndTxnMarker)
        committed, coordinator_epoch = marker.committed, marker.coordinator_epoch
    return StoredBatch(
        base_offset=batch.base_offset,
        last_offset=batch.last_offset,
        leader_epoch=batch.partition_leader_epoch,
        attributes=batch.attributes,
        base_timestamp=batch.base_timestamp,
        max_timestamp=batch.max_timestamp,
        producer_id=batch.producer_id,
        producer_epoch=batch.producer_epoch,
        base_sequence=batch.base_sequence,
        records=batch.records,
        data=data,
        committed=committed,
        coordinator_epoch=coordinator_epoch,
    )


def batches_of(directory: Path) -> Iterator[StoredBatch]:
    for path in sorted(directory.glob("*.log")):
        data = path.read_bytes()
        for row in scan_buffer(data)[0]:
            yield stored(data[row["position"] : row["position"] + row["size_bytes"]])


def segment_sizes(broker: Path) -> dict[str, int]:
    """What the metadata log says of topics' segment sizes."""
    sizes: dict[str, int] = {}
    for path in sorted((broker / "__cluster_metadata-0").glob("*.log")):
        data = path.read_bytes()
        headers, _ = scan_buffer(data)
        for row, records in records_in(data, headers):
            if headers[row]["control_type"] != -1 or not isinstance(records, tuple):
                continue
            for record in records:
                decoded = decode_metadata_record(record.value or b"")
                fields = getattr(decoded, "fields", {})
                if fields.get("name") in ("segment.bytes", "internal.segment.bytes"):
                    sizes[fields["resource_name"]] = int(fields["value"])
    return sizes


def whole_logs(capture: Path) -> Iterator[tuple[Path, LogConfig]]:
    """Replicas whose logs are there from offset 0 on: nothing was cleaned, retained away or deleted."""
    for broker in sorted(capture.glob("broker-*")):
        sizes = segment_sizes(broker)
        started_inside = parse_offset_checkpoint((broker / "log-start-offset-checkpoint").read_bytes()).entries
        for directory in sorted(broker.glob("*-*")):
            named = parse_partition_dir(directory.name)
            if named is None or named.state != "live" or named.topic.startswith("__"):
                continue
            if (named.topic, named.partition) in {(e.topic, e.partition) for e in started_inside}:
                continue
            bases = sorted(int(p.stem) for p in directory.glob("*.log"))
            offsets = [row["base_offset"] for p in directory.glob("*.log") for row in scan_buffer(p.read_bytes())[0]]
            attributes = [row["attributes"] for p in directory.glob("*.log") for row in scan_buffer(p.read_bytes())[0]]
            if not bases or bases[0] != 0 or (offsets and min(offsets) != 0) or any(a & 0x40 for a in attributes):
                continue
            # Topics without a size of their own have the one of the brokers' properties, larger than what is in them.
            yield directory, LogConfig(segment_bytes=sizes.get(named.topic, 1 << 30), index_interval_bytes=1024)


@pytest.mark.parametrize("capture", ["healthy", "pair-clean-b1"])
def test_a_real_brokers_files_are_left_again(golden: Golden, capture: str) -> None:
    root = golden(capture)
    clean = capture != "pair-clean-b1"
    compared = 0
    for directory, config in whole_logs(root):
        log = new_log(config, now_ms=0)
        for batch in batches_of(directory):
            log = append(log, batch, now_ms=0)
        if [s.base_offset for s in log.segments] != sorted(int(p.stem) for p in directory.glob("*.log")):
            # Rolled for another reason than size: a restart, or the clock.
            continue
        made = dict(render_log(log, topic_id=None, clean=clean))
        for path in directory.iterdir():
            if path.suffix not in (".log", ".index", ".timeindex", ".txnindex"):
                continue
            data = path.read_bytes()
            assert made[path.name].data == (data if clean else data[: len(made[path.name].data)]), path
            compared += 1
        for path in directory.glob("*.snapshot"):
            if path.name not in made:
                continue
            theirs = {e.producer_id: e for e in parse_producer_snapshot(path.read_bytes()).entries}
            ours = {e.producer_id: e for e in parse_producer_snapshot(made[path.name].data).entries}
            assert ours == theirs, path
        theirs_epochs = parse_leader_epoch_checkpoint((directory / "leader-epoch-checkpoint").read_bytes()).entries
        ours_epochs = parse_leader_epoch_checkpoint(made["leader-epoch-checkpoint"].data).entries
        # A new leader writes its epoch down before it writes a batch; what the batches tell is there.
        assert set(ours_epochs) <= set(theirs_epochs), directory
    assert compared > 100


def test_a_cut_log_is_the_log_that_was_never_longer(golden: Golden) -> None:
    directory = golden("healthy") / "broker-1" / "txn-0"
    if not directory.is_dir():
        directory = next(d for d, _ in whole_logs(golden("healthy")) if any(b.is_marker for b in batches_of(d)))
    batches = list(batches_of(directory))
    config = LogConfig(segment_bytes=8192)

    def grown(count: int) -> ReplicaLog:
        log = new_log(config, now_ms=0)
        for batch in batches[:count]:
            log = append(log, batch, now_ms=0)
        return log

    whole = grown(len(batches))
    for count in range(1, len(batches), 7):
        short = grown(count)
        cut = truncate(whole, short.log_end_offset, now_ms=0)
        assert cut.log_end_offset == short.log_end_offset
        assert cut.epochs == short.epochs
        assert [list(s.batches) for s in cut.segments][: len(short.segments)] == [
            list(s.batches) for s in short.segments
        ]
        assert cut.producers.open == short.producers.open
        assert {k: v.last_sequence for k, v in cut.producers.states.items()} == {
            k: v.last_sequence for k, v in short.producers.states.items()
        }
    assert whole == grown(len(batches)), "cutting leaves the log that was cut as it was"


def test_producers_rebuilt_anywhere_are_the_ones_that_were_there(golden: Golden) -> None:
    for directory, _ in whole_logs(golden("healthy")):
        log = new_log(LogConfig(segment_bytes=16384), now_ms=0)
        for batch in batches_of(directory):
            log = append(log, batch, now_ms=0)
            log = with_high_watermark(log, log.log_end_offset)
        rebuilt = producers_at(log, log.log_end_offset)
        assert rebuilt.open == log.producers.open
        for producer_id, state in log.producers.states.items():
            assert rebuilt.states[producer_id].last_sequence == state.last_sequence
            assert rebuilt.states[producer_id].producer_epoch == state.producer_epoch


def test_retention_of_everything_leaves_an_empty_segment_at_the_end() -> None:
    record = NewRecord(timestamp=1_000, key=None, value=b"v")
    log = new_log(LogConfig(retention_ms=500), now_ms=1_000)
    for offset in range(4):
        log = append(log, data_batch([record], base_offset=offset, leader_epoch=0), now_ms=1_000)
    assert delete_segments(log, now_ms=10_000) == log, "nothing above the high watermark goes"
    log = with_high_watermark(log, 4)
    assert delete_segments(log, now_ms=1_500) == log
    log = delete_segments(log, now_ms=1_501)
    assert [(s.base_offset, s.size_bytes) for s in log.segments] == [(4, 0)]
    assert (log.log_start_offset, log.log_end_offset, log.high_watermark) == (4, 4, 4)
    assert delete_segments(log, now_ms=10_000) == log
