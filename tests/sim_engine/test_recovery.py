"""Starting on a disk: the longest valid prefix is what is left, and what is derived from batches belongs to it."""

import random
from dataclasses import replace

import pytest

from tests.sim_engine.disks import KEPT, ORDERS, disk_of, hurt_disk
from tests.sim_engine.random_logs import START_MS, random_log
from tidegauge.kafka_log.types import TopicPartition
from tidegauge.sim_engine.brokers.recovery import Checkpoints, first_valid_batches, loaded, loaded_replica
from tidegauge.sim_engine.disks.disk_faults import bit_flip, damaged_index, lost_segment, torn_write
from tidegauge.sim_engine.log.render_log import render_log
from tidegauge.sim_engine.log.replica_log import EpochStart, ReplicaLog, append, stopped_cleanly
from tidegauge.sim_engine.log.segment import Segment
from tidegauge.sim_engine.log.stored_batch import NewRecord, StoredBatch, data_batch

SEEDS = range(40)
FROM_START = Checkpoints(high_watermark=2**62)


def batches(log: ReplicaLog) -> list[StoredBatch]:
    return [b for s in log.segments for b in s.batches]


def data_of(segment: Segment) -> bytes:
    return b"".join(b.data for b in segment.batches) + segment.tail


def grown(log: ReplicaLog, count: int) -> ReplicaLog:
    """The log as it was after so many of its batches."""
    made = replace(random_log(0, log.config, batches=0))
    for batch in batches(log)[:count]:
        made = append(made, batch, now_ms=START_MS)
    return made


@pytest.mark.parametrize("seed", SEEDS)
def test_after_any_cut_the_longest_valid_prefix_is_left(seed: int) -> None:
    draw = random.Random(seed)
    log = random_log(seed, KEPT)
    at = draw.randrange(len(log.segments))
    whole = log.segments[at]
    count = draw.randrange(len(whole.batches))
    torn = whole.batches[count]
    tail = torn.data[: draw.randrange(1, torn.size_bytes)]
    cut = replace(whole, batches=whole.batches.cut(count), size_bytes=whole.positions[count], tail=tail)
    hurt = replace(log, segments=(*log.segments[:at], cut, *log.segments[at + 1 :]))
    found = loaded(hurt, FROM_START, clean=False, now_ms=START_MS)
    expected = [b for b in batches(log) if b.base_offset < torn.base_offset]
    short = grown(log, len(expected))
    assert batches(found) == expected
    assert found.log_end_offset == found.high_watermark == short.log_end_offset
    assert found.epochs == short.epochs
    assert found.producers.open == short.producers.open
    assert {k: (v.producer_epoch, v.last_sequence) for k, v in found.producers.states.items()} == {
        k: (v.producer_epoch, v.last_sequence) for k, v in short.producers.states.items()
    }
    aborted = [t for s in short.segments for t in s.transaction_index]
    assert [t for s in found.segments for t in s.transaction_index] == aborted


@pytest.mark.parametrize("seed", SEEDS)
def test_what_is_loaded_is_readable_and_loads_again_as_it_is(seed: int) -> None:
    _, disk, _ = hurt_disk(seed)
    once = loaded(disk.replicas[ORDERS].log, FROM_START, clean=False, now_ms=START_MS)
    for segment in once.segments:
        assert list(first_valid_batches(data_of(segment))) == list(segment.batches)
        assert not segment.tail
    assert once.log_start_offset <= once.high_watermark <= once.log_end_offset
    again = loaded(once, replace(FROM_START, recovery_point=once.log_end_offset), clean=False, now_ms=START_MS)
    assert again == once


@pytest.mark.parametrize("seed", SEEDS)
def test_a_stop_in_good_order_loses_nothing(seed: int) -> None:
    log = stopped_cleanly(random_log(seed, KEPT))
    found = loaded_replica(disk_of(log, clean=True), ORDERS, now_ms=START_MS)
    assert batches(found) == batches(log)
    assert (found.log_end_offset, found.high_watermark, found.epochs) == (
        log.log_end_offset, log.high_watermark, log.epochs,
    )  # fmt: skip
    assert found.producers.open == log.producers.open
    assert found.producers.states.keys() == log.producers.states.keys()
    assert (
        dict(render_log(found, topic_id=None, clean=True)).keys()
        == dict(render_log(log, topic_id=None, clean=True)).keys()
    )


@pytest.mark.parametrize("seed", SEEDS)
def test_a_kill_loses_nothing_either(seed: int) -> None:
    log = random_log(seed, KEPT)
    found = loaded_replica(disk_of(log), ORDERS, now_ms=START_MS)
    assert batches(found) == batches(log)
    assert found.epochs == log.epochs
    files, before = (dict(render_log(each, topic_id=None, clean=True)) for each in (found, log))
    for name in before:
        if not name.endswith(".snapshot"):
            assert files[name] == before[name], name


def test_damage_below_the_recovery_point_is_not_seen() -> None:
    log = random_log(3, KEPT)
    hurt = bit_flip(disk_of(log), ORDERS, offset=0, byte=70, bit=1)
    assert hurt is not None
    assert loaded_replica(hurt[0], ORDERS, now_ms=START_MS).log_end_offset == log.log_end_offset
    seen = loaded(hurt[0].replicas[ORDERS].log, Checkpoints(), clean=False, now_ms=START_MS)
    assert seen.log_end_offset == 0
    assert batches(seen) == []


def test_a_segment_without_its_index_is_read_wherever_it_lies() -> None:
    log = stopped_cleanly(random_log(3, KEPT))
    hurt = damaged_index(disk_of(log, clean=True), ORDERS, base_offset=0, suffix=".index", data=None)
    assert hurt is not None
    found = loaded_replica(hurt[0], ORDERS, now_ms=START_MS)
    assert found.segments[0] == log.segments[0]


def test_the_high_watermark_is_the_checkpoints_within_the_log() -> None:
    log = random_log(3, KEPT)
    for said, expected in ((0, 5), (7, 7), (10**6, log.log_end_offset)):
        checkpoints = Checkpoints(log_start_offset=5, recovery_point=log.log_end_offset, high_watermark=said)
        found = loaded(log, checkpoints, clean=False, now_ms=START_MS)
        assert (found.log_start_offset, found.high_watermark) == (5, expected)
        assert found.epochs[0].start_offset == 5


def test_epochs_that_the_cut_log_does_not_reach_are_forgotten() -> None:
    log = random_log(3, KEPT)
    ahead = replace(log, epochs=(*log.epochs, EpochStart(99, log.log_end_offset)))
    assert loaded(ahead, FROM_START, clean=False, now_ms=START_MS).epochs == log.epochs


def test_a_log_that_ends_below_its_start_begins_anew_there() -> None:
    log = random_log(3, KEPT)
    found = loaded(log, Checkpoints(log_start_offset=10**6), clean=False, now_ms=START_MS)
    assert (found.log_start_offset, found.log_end_offset, found.high_watermark) == (10**6, 10**6, 10**6)
    assert found.epochs == ()
    assert found.producers.states == {}
    record = NewRecord(timestamp=START_MS, key=b"k", value=b"v")
    assert (
        append(found, data_batch([record], base_offset=10**6, leader_epoch=4), now_ms=START_MS).log_end_offset > 10**6
    )


def test_a_lost_first_segment_moves_the_start_and_a_lost_last_one_the_end() -> None:
    log = random_log(3, KEPT)
    for at, expected in ((0, (log.segments[1].base_offset, log.log_end_offset)), (-1, (0, log.active.base_offset))):
        hurt = lost_segment(disk_of(log), ORDERS, base_offset=log.segments[at].base_offset)
        assert hurt is not None
        found = loaded_replica(hurt[0], ORDERS, now_ms=START_MS)
        assert (found.log_start_offset, found.log_end_offset) == expected


def test_a_broker_does_not_append_behind_a_torn_tail() -> None:
    log = random_log(3, KEPT)
    hurt = torn_write(disk_of(log), ORDERS, kept_bytes=20)
    assert hurt is not None
    torn = hurt[0].replicas[ORDERS].log
    record = NewRecord(timestamp=START_MS, key=b"k", value=b"v")
    batch = data_batch([record], base_offset=torn.log_end_offset, leader_epoch=log.latest_epoch)
    with pytest.raises(AssertionError):
        append(torn, batch, now_ms=START_MS)
    again = append(loaded_replica(hurt[0], ORDERS, now_ms=START_MS), batch, now_ms=START_MS)
    assert again.log_end_offset == torn.log_end_offset + 1


def test_the_metadata_log_is_always_read_through() -> None:
    log = stopped_cleanly(random_log(3, KEPT))
    disk = replace(disk_of(log, clean=True), metadata=log)
    hurt = bit_flip(disk, TopicPartition("__cluster_metadata", 0), offset=9, byte=70, bit=1)
    assert hurt is not None
    found = loaded(hurt[0].metadata, Checkpoints(), clean=False, now_ms=START_MS)
    first = next(b for b in batches(log) if b.last_offset >= 9)
    assert found.log_end_offset == first.base_offset
    assert found.high_watermark == 0
