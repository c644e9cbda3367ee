"""Compaction: what readers must still see, what goes and when, and how a cleaned log is used on."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.sim_engine.random_logs import SMALL, START_MS, random_log
from tidegauge.kafka_log.batch import DELETE_HORIZON_BIT
from tidegauge.kafka_log.checkpoints import parse_offset_checkpoint
from tidegauge.kafka_log.scan import scan_buffer
from tidegauge.sim_engine.log.cleaner import Cleanable, clean, cleanable, cleaned_if_due
from tidegauge.sim_engine.log.render_log import render_segment
from tidegauge.sim_engine.log.replica_log import (
    LogConfig,
    ReplicaLog,
    append,
    new_log,
    producers_at,
    roll,
    truncate,
    with_high_watermark,
    with_log_start,
)
from tidegauge.sim_engine.log.segment import Segment
from tidegauge.sim_engine.log.stored_batch import (
    NewRecord,
    Producer,
    StoredBatch,
    data_batch,
    marker_batch,
    read_stored,
)

Golden = Callable[[str], Path]

DAY_MS = 86_400_000
COMPACTED = LogConfig(compact=True, delete=False)
SEEDS = range(40)


def aborted_offsets(log: ReplicaLog) -> set[int]:
    """Offsets of records that a reader of committed data never sees, by the transaction indexes."""
    return {
        b.base_offset
        for t in (t for s in log.segments for t in s.transaction_index)
        for s in log.segments
        for b in s.batches
        if b.is_transactional and b.producer_id == t.producer_id and t.first_offset <= b.base_offset < t.last_offset
    }


def table(log: ReplicaLog, *, up_to: int) -> dict[bytes, tuple[int, bytes]]:
    """What a reader of committed data ends with: the last offset and value of each key that is not deleted."""
    found: dict[bytes, tuple[int, bytes]] = {}
    aborted = aborted_offsets(log)
    for segment in log.segments:
        for batch in segment.batches:
            if batch.is_control or batch.base_offset in aborted or batch.last_offset >= up_to:
                continue
            for record in batch.records:
                assert record.key is not None
                if record.value is None:
                    found.pop(record.key, None)
                else:
                    found[record.key] = (record.offset, record.value)
    return found


@pytest.mark.parametrize("seed", SEEDS)
def test_a_reader_ends_with_the_same_table(seed: int) -> None:
    log = random_log(seed)
    before, stable = table(log, up_to=log.last_stable_offset), log.last_stable_offset
    checkpoint, now = None, START_MS + DAY_MS
    for _ in range(4):
        found = cleanable(log, checkpoint, now_ms=now)
        cleaned = clean(log, found, now_ms=now)
        assert table(cleaned, up_to=stable) == before
        dirty = [b for s in log.segments for b in s.batches if b.base_offset >= found.first_uncleanable_offset]
        assert [
            b for s in cleaned.segments for b in s.batches if b.base_offset >= found.first_uncleanable_offset
        ] == dirty
        assert {b.base_offset for s in cleaned.segments for b in s.batches} <= {
            b.base_offset for s in log.segments for b in s.batches
        }
        offsets = [b.base_offset for s in cleaned.segments for b in s.batches]
        assert offsets == sorted(offsets)
        log, checkpoint, now = cleaned, found.first_uncleanable_offset, now + DAY_MS + 1


@pytest.mark.parametrize("seed", SEEDS)
def test_a_cleaned_segment_has_one_record_of_each_key_and_a_second_pass_at_once_finds_nothing(seed: int) -> None:
    log, now = random_log(seed), START_MS + DAY_MS
    found = cleanable(log, None, now_ms=now)
    once = clean(log, found, now_ms=now)
    keys = [
        r.key
        for s in once.segments
        for b in s.batches
        if b.last_offset < found.first_uncleanable_offset and not b.is_control
        for r in b.records
    ]
    assert len(keys) == len(set(keys))
    checkpoint = found.first_uncleanable_offset
    assert cleaned_if_due(once, checkpoint, now_ms=now) is None
    # A pass over what is clean changes nothing but that segments that shrank are joined.
    again = clean(once, cleanable(once, None, now_ms=now), now_ms=now)
    assert [[r for b in s.batches for r in b.records] for s in again.segments if s.batches] or not keys
    assert {r for s in again.segments for b in s.batches for r in b.records} <= {
        r for s in once.segments for b in s.batches for r in b.records
    }


@pytest.mark.parametrize("seed", SEEDS)
def test_a_restarted_broker_knows_every_producer_after_cleaning(seed: int) -> None:
    log, now = random_log(seed), START_MS + DAY_MS
    log = clean(log, cleanable(log, None, now_ms=now), now_ms=now)
    # Without a snapshot, from the batches alone: the last sequence and the epoch of each are still there.
    rebuilt = producers_at(replace(log, snapshots={}), log.log_end_offset)
    for producer_id, state in log.producers.states.items():
        found = rebuilt.states[producer_id]
        assert (found.producer_epoch, found.last_sequence) == (state.producer_epoch, state.last_sequence), producer_id
    assert rebuilt.open == log.producers.open


def one(offset: int, key: str, value: bytes | None, at: int = START_MS) -> StoredBatch:
    return data_batch([NewRecord(timestamp=at, key=key.encode(), value=value)], base_offset=offset, leader_epoch=0)


def closed(*batches: StoredBatch, config: LogConfig = COMPACTED) -> ReplicaLog:
    log = new_log(config, now_ms=START_MS)
    for batch in batches:
        log = append(log, batch, now_ms=START_MS)
    log = roll(log, now_ms=START_MS)
    log = append(log, one(log.log_end_offset, "other", b"x"), now_ms=START_MS)
    return with_high_watermark(log, log.log_end_offset)


def cleaned(log: ReplicaLog, now_ms: int) -> list[StoredBatch]:
    return list(clean(log, cleanable(log, None, now_ms=now_ms), now_ms=now_ms).segments[0].batches)


def test_a_tombstone_stays_for_a_day_after_the_pass_that_met_it() -> None:
    log = closed(one(0, "a", b"1"), one(1, "a", None), one(2, "b", b"2"))
    now = START_MS + 10 * DAY_MS
    first = clean(log, cleanable(log, None, now_ms=now), now_ms=now)
    tombstone = first.segments[0].batches[0]
    assert [b.base_offset for b in first.segments[0].batches] == [1, 2]
    assert tombstone.attributes & DELETE_HORIZON_BIT
    assert tombstone.base_timestamp == now + DAY_MS
    assert tombstone.records[0].timestamp == tombstone.max_timestamp == START_MS
    assert [b.base_offset for b in cleaned(first, now + DAY_MS - 1)] == [1, 2]
    assert cleaned(first, now + DAY_MS - 1)[0] == tombstone, "its horizon is not moved"
    assert [b.base_offset for b in cleaned(first, now + DAY_MS)] == [2]


def transaction(log: ReplicaLog, *, committed: bool) -> ReplicaLog:
    offset = log.log_end_offset
    producer = Producer(producer_id=7, producer_epoch=offset, base_sequence=0, transactional=True)
    record = NewRecord(timestamp=START_MS, key=b"a", value=b"in a transaction")
    log = append(log, data_batch([record], base_offset=offset, leader_epoch=0, producer=producer), now_ms=START_MS)
    marker = marker_batch(
        base_offset=offset + 1, leader_epoch=0, timestamp=START_MS, producer_id=7, producer_epoch=offset + 1,
        committed=committed, coordinator_epoch=0,
    )  # fmt: skip
    return append(log, marker, now_ms=START_MS)


@pytest.mark.parametrize("committed", [True, False])
def test_a_marker_goes_when_its_data_are_gone_and_its_horizon_has_passed(committed: bool) -> None:
    log = transaction(new_log(COMPACTED, now_ms=START_MS), committed=committed)
    # The producer's last marker would stay; this one is another's last.
    log = transaction(log, committed=True)
    log = roll(log, now_ms=START_MS)
    log = append(log, one(log.log_end_offset, "a", b"later"), now_ms=START_MS)
    log = roll(log, now_ms=START_MS)
    log = with_high_watermark(append(log, one(log.log_end_offset, "b", b"x"), now_ms=START_MS), 6)
    now, kept, entries = START_MS + DAY_MS, [], []
    for _ in range(4):
        log = clean(log, cleanable(log, None, now_ms=now), now_ms=now)
        kept.append([(b.base_offset, bool(b.attributes & DELETE_HORIZON_BIT)) for b in log.segments[0].batches][:2])
        entries.append(len(log.segments[0].transaction_index))
        now += DAY_MS
    # Its data went in the first pass; the second found none and gave it a day; the third dropped it.
    assert kept[0][0] == (1, False)
    assert kept[1][0] == (1, True)
    assert all((1, True) not in batches for batches in kept[2:])
    assert kept[2][0][0] == 3, "the marker that tells the producer's epoch stays"
    assert entries == ([0, 0, 0, 0] if committed else [1, 0, 0, 0])


def test_an_open_transaction_keeps_its_segment_and_all_behind_it() -> None:
    log = closed(one(0, "a", b"1"), one(1, "a", b"2"))
    producer = Producer(producer_id=7, producer_epoch=0, base_sequence=0, transactional=True)
    record = NewRecord(timestamp=START_MS, key=b"a", value=b"open")
    log = append(log, data_batch([record], base_offset=3, leader_epoch=0, producer=producer), now_ms=START_MS)
    log = append(roll(log, now_ms=START_MS), one(4, "a", b"behind"), now_ms=START_MS)
    log = with_high_watermark(roll(log, now_ms=START_MS), 5)
    found = cleanable(log, None, now_ms=START_MS)
    assert (found.first_dirty_offset, found.first_uncleanable_offset) == (0, 2)


def test_young_segments_wait() -> None:
    config = replace(COMPACTED, min_compaction_lag_ms=1000)
    log = closed(one(0, "a", b"1"), one(1, "a", b"2"), config=config)
    assert cleanable(log, None, now_ms=START_MS + 999).dirty_bytes == 0
    assert cleanable(log, None, now_ms=START_MS + 1000).first_uncleanable_offset == 2


def test_little_dirt_waits_unless_it_is_old() -> None:
    log = closed(*(one(i, f"key {i}", bytes(100)) for i in range(10)))
    made = cleaned_if_due(log, None, now_ms=START_MS)
    assert made is not None
    log, checkpoint = made
    assert checkpoint == 10
    log = with_high_watermark(roll(log, now_ms=START_MS), 11)
    assert cleaned_if_due(log, checkpoint, now_ms=START_MS + DAY_MS) is None, "a tenth of it is dirty"
    hurried = replace(log, config=replace(COMPACTED, max_compaction_lag_ms=1000))
    assert cleaned_if_due(hurried, checkpoint, now_ms=START_MS + 1000) is None
    assert cleaned_if_due(hurried, checkpoint, now_ms=START_MS + 1001) is not None


def test_a_checkpoint_outside_the_log_is_set_to_its_start() -> None:
    log = with_log_start(closed(one(0, "a", b"1"), one(1, "b", b"2")), 1)
    assert cleanable(log, 0, now_ms=START_MS).first_dirty_offset == 1
    assert cleanable(log, 99, now_ms=START_MS).first_dirty_offset == 1
    assert cleanable(log, 2, now_ms=START_MS) == Cleanable(
        first_dirty_offset=2, first_uncleanable_offset=2, clean_bytes=log.segments[0].size_bytes, dirty_bytes=0
    )


def test_a_segment_that_cannot_be_read_is_not_cleaned() -> None:
    log = closed(one(0, "a", b"1"), one(1, "a", b"2"))
    first = log.segments[0]
    damaged = replace(first, batches=type(first.batches)([replace(first.batches[0], damaged=True), first.batches[1]]))
    assert cleaned_if_due(replace(log, segments=(damaged, *log.segments[1:])), None, now_ms=START_MS) is None


def test_a_log_that_is_not_compacted_is_left_alone() -> None:
    assert cleaned_if_due(random_log(1, replace(SMALL, compact=False)), None, now_ms=START_MS) is None


def test_a_cleaned_log_can_be_cut_inside_a_gap_and_written_on() -> None:
    log = closed(one(0, "a", b"1"), one(1, "a", b"2"), one(2, "b", b"3"), one(3, "b", b"4"))
    log = clean(log, cleanable(log, None, now_ms=START_MS), now_ms=START_MS)
    assert [b.base_offset for s in log.segments for b in s.batches] == [1, 3, 4]
    cut = truncate(log, 2, now_ms=START_MS)
    assert [b.base_offset for s in cut.segments for b in s.batches] == [1]
    assert append(cut, one(2, "c", b"5"), now_ms=START_MS).log_end_offset == 3


def cleaned_for_real(broker: Path) -> Iterator[tuple[Path, ReplicaLog, int]]:
    """Logs that real brokers cleaned, cut into segments as they are, with their entry in the cleaner's checkpoint."""
    for entry in parse_offset_checkpoint((broker / "cleaner-offset-checkpoint").read_bytes()).entries:
        directory = broker / f"{entry.topic}-{entry.partition}"
        paths = sorted(directory.glob("*.log"))
        log = new_log(replace(COMPACTED, segment_bytes=1, index_interval_bytes=1024), now_ms=0)
        log = replace(log, segments=())
        for path in paths:
            data, segment = path.read_bytes(), Segment(base_offset=int(path.stem), created_at_ms=0)
            log = replace(log, segments=(*log.segments, segment), log_end_offset=segment.base_offset)
            unrolled = replace(log, config=COMPACTED)
            for row in scan_buffer(data)[0]:
                batch = read_stored(data[row["position"] : row["position"] + row["size_bytes"]])
                assert isinstance(batch, StoredBatch)
                unrolled = append(unrolled, batch, now_ms=0)
            log = replace(unrolled, config=log.config)
        yield directory, with_high_watermark(log, log.log_end_offset), entry.offset


@pytest.mark.parametrize("capture", ["healthy", "pair-clean-b1", "pair-clean-b2"])
def test_what_a_real_broker_cleaned_is_left_as_it_is_by_another_pass(golden: Golden, capture: str) -> None:
    same = begun = 0
    for broker in sorted(golden(capture).glob("broker-*")):
        for directory, log, checkpoint in cleaned_for_real(broker):
            before = {b.base_offset: b for s in log.segments for b in s.batches if b.base_offset < checkpoint}
            everything = Cleanable(
                first_dirty_offset=0, first_uncleanable_offset=checkpoint, clean_bytes=0, dirty_bytes=1
            )
            now = max((b.max_timestamp for b in before.values()), default=0)
            segments = [s for s in clean(log, everything, now_ms=now).segments if s.base_offset < checkpoint]
            after = {b.base_offset: b for s in segments for b in s.batches}
            assert before.keys() == after.keys(), directory
            for offset, batch in before.items():
                if batch != after[offset]:
                    # The first pass took a transaction's data, the next begins the day that its marker has left.
                    assert batch.is_marker, directory
                    assert after[offset].attributes == batch.attributes | DELETE_HORIZON_BIT
                    begun += 1
            for segment in segments:
                if all(b == before[b.base_offset] for b in segment.batches):
                    for name, file in render_segment(segment, 0):
                        assert (directory / name).read_bytes() == file.data, directory / name
                        same += 1
    assert same > 9
    assert begun or capture == "healthy"
