"""Faults of a disk: the bytes that are hurt are the ones that are named, the rest is as it was, and it is rendered."""

from dataclasses import replace

import pytest

from tests.sim_engine.disks import KEPT, ORDERS, disk_of, hurt_disk
from tests.sim_engine.random_logs import START_MS
from tidegauge.kafka_log.batch import BATCH_LENGTH_AT, RECORDS_AT, CompressionType
from tidegauge.kafka_log.corruption import Damage
from tidegauge.kafka_log.records import RecordBatch, read_batch
from tidegauge.kafka_log.scan import scan_buffer
from tidegauge.sim_engine.brokers.recovery import loaded_replica
from tidegauge.sim_engine.disks.disk_faults import (
    CheckpointFile,
    FaultKind,
    bit_flip,
    damaged_index,
    full_disk,
    lost_flush,
    lost_segment,
    same_epoch_rewrite,
    stale_checkpoint,
    stale_disk,
    torn_write,
)
from tidegauge.sim_engine.files.render import BrokerDisk, render_broker
from tidegauge.sim_engine.log.replica_log import append, new_log, roll, with_high_watermark
from tidegauge.sim_engine.log.stored_batch import NewRecord, data_batch

SEEDS = range(60)


def disk(batches: int = 10, *, clean: bool = False) -> BrokerDisk:
    """Two segments of as many batches of three records."""
    log = new_log(KEPT, now_ms=START_MS)
    for at in range(2 * batches):
        records = [NewRecord(timestamp=START_MS + at, key=b"k%d" % i, value=b"value %d" % at) for i in range(3)]
        if at == batches:
            log = roll(log, now_ms=START_MS)
        log = append(log, data_batch(records, base_offset=3 * at, leader_epoch=0), now_ms=START_MS)
    return disk_of(with_high_watermark(log, log.log_end_offset), clean=clean)


def files(of: BrokerDisk) -> dict[str, bytes]:
    return {name: file.data for name, file in render_broker(of)}


def changed(before: BrokerDisk, after: BrokerDisk) -> set[str]:
    ours, theirs = files(before), files(after)
    return {n.removeprefix(f"{ORDERS}/") for n in ours.keys() | theirs.keys() if ours.get(n) != theirs.get(n)}


@pytest.mark.parametrize("seed", SEEDS)
def test_a_fault_changes_the_disk_and_a_broker_starts_on_it(seed: int) -> None:
    before, after, fault = hurt_disk(seed)
    nothing_was_written = fault.kind == FaultKind.FULL_DISK and not fault.on_disk
    assert (files(before) != files(after)) != nothing_was_written
    assert fault.broker_id == 1
    assert fault.partition == ORDERS
    assert fault.detail
    if fault.start_offset is not None:
        assert fault.end_offset is not None
        assert fault.start_offset < fault.end_offset
    again = loaded_replica(after, ORDERS, now_ms=START_MS)
    whole = before.replicas[ORDERS].log
    assert again.log_end_offset <= whole.log_end_offset
    kept = {b.base_offset: b for s in whole.segments for b in s.batches}
    assert all(kept[b.base_offset].records == b.records for s in again.segments for b in s.batches)


def test_a_torn_write_leaves_the_first_bytes_of_the_last_batch() -> None:
    before = disk()
    made = torn_write(before, ORDERS, kept_bytes=80)
    assert made is not None
    after, fault = made
    assert (fault.kind, fault.start_offset, fault.end_offset, fault.on_disk) == (FaultKind.TORN_WRITE, 57, 60, True)
    name = f"{ORDERS}/{30:020d}.log"
    last = before.replicas[ORDERS].log.active.batches[-1]
    assert files(after)[name] == files(before)[name][: 80 - last.size_bytes]
    assert [c.kind for c in scan_buffer(files(after)[name])[1]] == [Damage.TORN_TAIL]
    assert loaded_replica(after, ORDERS, now_ms=START_MS).log_end_offset == 57
    assert torn_write(disk_of(new_log(KEPT, now_ms=START_MS)), ORDERS, kept_bytes=1) is None


def test_a_stop_in_good_order_ends_with_a_fault_of_power() -> None:
    made = torn_write(disk(clean=True), ORDERS, kept_bytes=80)
    assert made is not None
    assert made[0].clean_broker_epoch is None
    assert ".kafka_cleanshutdown" not in files(made[0])


def test_a_lost_flush_at_the_end_leaves_a_shorter_file_and_never_what_was_flushed() -> None:
    made = lost_flush(disk(), ORDERS, start_offset=0, end_offset=60)
    assert made is not None
    after, fault = made
    assert (fault.start_offset, fault.end_offset, fault.on_disk) == (30, 60, False)
    assert loaded_replica(after, ORDERS, now_ms=START_MS).log_end_offset == 30
    assert changed(disk(), after) >= {f"{30:020d}.log"}
    assert lost_flush(disk(), ORDERS, start_offset=0, end_offset=30) is None


def test_a_lost_flush_in_the_middle_leaves_zeros() -> None:
    before = disk()
    made = lost_flush(before, ORDERS, start_offset=33, end_offset=39)
    assert made is not None
    after, fault = made
    assert (fault.start_offset, fault.end_offset, fault.on_disk) == (33, 39, True)
    name = f"{ORDERS}/{30:020d}.log"
    first, second = files(before)[name], files(after)[name]
    size = before.replicas[ORDERS].log.active.batches[0].size_bytes
    assert second == first[:size] + bytes(2 * size) + first[3 * size :]
    assert loaded_replica(after, ORDERS, now_ms=START_MS).log_end_offset == 33


@pytest.mark.parametrize(
    ("byte", "place", "kind"),
    [
        (8, "length", Damage.LENGTH),
        (25, "header", Damage.CRC),
        (18, "checksum", Damage.CRC),
        (70, "records", Damage.CRC),
    ],
)
def test_a_flipped_bit_is_found_where_it_is(byte: int, place: str, kind: Damage) -> None:
    before = disk()
    made = bit_flip(before, ORDERS, offset=34, byte=byte, bit=3)
    assert made is not None
    after, fault = made
    assert (fault.start_offset, fault.end_offset, fault.on_disk) == (33, 36, True)
    assert place in fault.detail
    assert changed(before, after) == {f"{30:020d}.log"}
    name = f"{ORDERS}/{30:020d}.log"
    different = [a ^ b for a, b in zip(files(before)[name], files(after)[name], strict=True)]
    assert [d for d in different if d] == [8]
    assert kind in {c.kind for c in scan_buffer(files(after)[name])[1]}
    assert loaded_replica(after, ORDERS, now_ms=START_MS).log_end_offset == 33
    # Who runs goes on with what it has in memory.
    assert after.replicas[ORDERS].log.log_end_offset == 60
    assert after.replicas[ORDERS].log.batches_from(33)[0].damaged
    assert byte in range(BATCH_LENGTH_AT, RECORDS_AT + 60)
    assert bit_flip(before, ORDERS, offset=60, byte=0, bit=0) is None


def test_a_rewritten_batch_is_sound_in_itself() -> None:
    before = disk(clean=True)
    made = same_epoch_rewrite(before, ORDERS, offset=34)
    assert made is not None
    after, fault = made
    assert (fault.start_offset, fault.end_offset, fault.on_disk) == (33, 36, False)
    assert changed(before, after) == {f"{30:020d}.log"}
    rows, corruptions = scan_buffer(files(after)[f"{ORDERS}/{30:020d}.log"])
    assert corruptions == ()
    assert rows["crc_valid"].all()
    was, is_now = (each.replicas[ORDERS].log.batches_from(33)[0] for each in (before, after))
    assert replace(is_now, data=b"", records=()) == replace(was, data=b"", records=())
    read = read_batch(is_now.data)
    assert isinstance(read, RecordBatch)
    assert [r.key for r in read.records] == [r.key for r in was.records]
    assert [r.value for r in read.records] != [r.value for r in was.records]
    assert loaded_replica(after, ORDERS, now_ms=START_MS).log_end_offset == 60


def test_what_cannot_be_rewritten_in_place_is_left() -> None:
    log = new_log(KEPT, now_ms=START_MS)
    packed = data_batch(
        [NewRecord(timestamp=1, key=None, value=b"v")], base_offset=0, leader_epoch=0, codec=CompressionType.GZIP
    )
    assert same_epoch_rewrite(disk_of(append(log, packed, now_ms=0)), ORDERS, offset=0) is None
    empty = data_batch([NewRecord(timestamp=1, key=b"k", value=None)], base_offset=0, leader_epoch=0)
    assert same_epoch_rewrite(disk_of(append(log, empty, now_ms=0)), ORDERS, offset=0) is None


def test_a_full_disk_takes_a_part_of_the_next_batch() -> None:
    batch = data_batch([NewRecord(timestamp=1, key=b"k", value=bytes(50))], base_offset=60, leader_epoch=0)
    made = full_disk(disk(), ORDERS, batch, room_bytes=30)
    assert made is not None
    after, fault = made
    assert (fault.start_offset, fault.end_offset, fault.on_disk) == (60, 61, True)
    assert files(after)[f"{ORDERS}/{30:020d}.log"].endswith(batch.data[:30])
    assert loaded_replica(after, ORDERS, now_ms=START_MS).log_end_offset == 60
    none = full_disk(disk(), ORDERS, batch, room_bytes=0)
    assert none is not None
    assert not none[1].on_disk


def test_a_lost_segment_is_a_gap_only_between_others() -> None:
    for base, on_disk in ((0, False), (30, False)):
        made = lost_segment(disk(), ORDERS, base_offset=base)
        assert made is not None
        assert made[1].on_disk == on_disk
        assert f"{ORDERS}/{base:020d}.log" not in files(made[0])
    log = roll(disk().replicas[ORDERS].log, now_ms=START_MS)
    made = lost_segment(disk_of(log), ORDERS, base_offset=30)
    assert made is not None
    assert made[1].on_disk
    assert lost_segment(disk(), ORDERS, base_offset=7) is None


def test_a_damaged_index_is_what_is_on_the_disk() -> None:
    for suffix, data in ((".index", b"\1" * 16), (".timeindex", None)):
        made = damaged_index(disk(), ORDERS, base_offset=0, suffix=suffix, data=data)
        assert made is not None
        assert files(made[0]).get(f"{ORDERS}/{0:020d}{suffix}") == data
        assert changed(disk(), made[0]) == {f"{0:020d}{suffix}"}
    assert damaged_index(disk(), ORDERS, base_offset=7, suffix=".index", data=None) is None


def test_stale_checkpoints() -> None:
    before = disk()
    older = replace(before, high_watermarks={ORDERS: 5}, recovery_points={})
    for file in (CheckpointFile.HIGH_WATERMARKS, CheckpointFile.RECOVERY_POINTS):
        made = stale_checkpoint(before, older, file)
        assert made is not None
        assert getattr(made[0], file) == getattr(older, file)
        assert not made[1].on_disk
    assert stale_checkpoint(before, older, CheckpointFile.LOG_STARTS) is None


def test_a_stale_disk_says_what_it_lacks() -> None:
    after, faults = stale_disk(disk(), disk(batches=5))
    assert [(f.partition, f.start_offset, f.end_offset) for f in faults] == [(ORDERS, 30, 60)]
    assert after == disk(batches=5)
