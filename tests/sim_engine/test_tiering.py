"""A remote tier: records and objects as real brokers made them, and what may go on either side."""

import base64
import random
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.sim_engine.disks import ORDERS, disk_of
from tidegauge.kafka_log.checkpoints import parse_leader_epoch_checkpoint
from tidegauge.kafka_log.producer_snapshot import parse_producer_snapshot
from tidegauge.kafka_log.records import records_in
from tidegauge.kafka_log.scan import scan_buffer
from tidegauge.kafka_log.types import TopicPartition
from tidegauge.sim_engine.brokers.recovery import Checkpoints, loaded
from tidegauge.sim_engine.disks.disk_faults import FaultKind, early_local_deletion
from tidegauge.sim_engine.log.remote_metadata import (
    RemoteState,
    RemoteView,
    metadata_partition,
    moved,
    segment_record,
    update_record,
)
from tidegauge.sim_engine.log.remote_retention import log_start_after, to_delete
from tidegauge.sim_engine.log.replica_log import (
    DAY_MS,
    EpochStart,
    LogConfig,
    ReplicaLog,
    append,
    new_log,
    roll,
    with_high_watermark,
)
from tidegauge.sim_engine.log.stored_batch import NewRecord, Producer, StoredBatch, data_batch, read_stored
from tidegauge.sim_engine.log.tiering import (
    RemoteObject,
    RemoteStore,
    copied,
    delete_local,
    gaps,
    render_object,
    to_copy,
    wrong_remote_deletion,
)

Golden = Callable[[str], Path]

TOPIC_ID = "aaaaaaaaaaaaaaaaaaaaAQ"
NOW_MS = 1_790_000_000_000
STORE = "remote-storage/kafka-tiered-storage"


def remote_values(capture: Path) -> Iterator[tuple[int, bytes]]:
    """The records of the metadata topic, each with its partition."""
    for path in sorted(capture.glob("broker-1/__remote_log_metadata-*/*.log")):
        data = path.read_bytes()
        for _, records in records_in(data, scan_buffer(data)[0]):
            assert isinstance(records, tuple)
            for record in records:
                assert record.key is None
                assert record.value is not None
                yield int(path.parent.name.rsplit("-", 1)[1]), record.value


def test_real_records_are_written_again_and_lie_in_the_right_partition(golden: Golden) -> None:
    view = RemoteView()
    written = 0
    for partition, value in remote_values(golden("tiered")):
        before, view = view, view.read(value)
        new = [s for k, s in view.segments.items() if before.segments.get(k) != s]
        for segment in new:
            is_first = segment.segment_id not in before.segments
            assert (segment_record(segment) if is_first else update_record(segment)).value == value
            assert metadata_partition(segment.topic_id, segment.partition.partition, 3) == partition
            written += 1
        if not new:
            gone = next(s for k, s in before.segments.items() if k not in view.segments)
            last = moved(gone, RemoteState.DELETE_SEGMENT_FINISHED, broker_id=gone.broker_id, now_ms=0)
            assert len(update_record(last).value or b"") == len(value)
    assert written > 40


def whole(capture: Path, partition: str) -> tuple[Path, ReplicaLog]:
    """A real tiered log, put together again from its objects and its local segments, cut where the real one was."""
    (store,) = (capture / STORE).glob(f"{partition}-*")
    logs = {int(p.name[:20]): p for p in (*store.glob("*.log"), *(capture / "broker-1" / partition).glob("*.log"))}
    log = new_log(LogConfig(index_interval_bytes=1024, remote_storage=True), now_ms=0, start_offset=min(logs))
    for base, path in sorted(logs.items()):
        if base > log.active.base_offset:
            log = roll(log, now_ms=0)
        data = path.read_bytes()
        for row in scan_buffer(data)[0]:
            batch = read_stored(data[row["position"] : row["position"] + row["size_bytes"]])
            assert isinstance(batch, StoredBatch)
            log = append(log, batch, now_ms=0)
    return store, with_high_watermark(log, log.log_end_offset)


@pytest.mark.parametrize("partition", ["tier-0", "tier-1", "tierrec-0", "tierall-0", "tiertx-0"])
def test_what_a_leader_copies_is_what_real_brokers_copied(golden: Golden, partition: str) -> None:
    store, log = whole(golden("tiered"), partition)
    view = RemoteView()
    for _, value in remote_values(golden("tiered")):
        view = view.read(value)
    topic, number = partition.rsplit("-", 1)
    theirs = list(view.of(TopicPartition(topic, int(number)), RemoteState.COPY_SEGMENT_FINISHED))
    segments = to_copy(log, RemoteView(), ORDERS)
    assert len(segments) == len(theirs) > 1
    for segment, real in zip(segments, theirs, strict=True):
        made = copied(
            log, segment, partition=real.partition, topic_id=real.topic_id, segment_id=real.segment_id,
            broker_id=real.broker_id, now_ms=real.event_timestamp_ms,
        )  # fmt: skip
        assert moved(made.about, real.state, broker_id=real.broker_id, now_ms=real.event_timestamp_ms) == real
        files = {name.split("/")[1]: file.data for name, file in render_object(made)}
        for path in store.glob(f"*-{real.segment_id}.*"):
            data = path.read_bytes()
            if path.suffix == ".leader_epoch_checkpoint":
                ours = parse_leader_epoch_checkpoint(files[path.name]).entries
                read = parse_leader_epoch_checkpoint(data).entries
                # Somebody deleted tierrec's first records: its first epoch begins later there.
                assert ours[0].leader_epoch == read[0].leader_epoch
                assert ours[1:] == read[1:]
                assert ours == read or topic == "tierrec"
            elif path.suffix == ".snapshot":
                known = {e.producer_id: e for e in parse_producer_snapshot(data).entries}
                assert {e.producer_id: e for e in parse_producer_snapshot(files[path.name]).entries} == known
            elif len(real.epochs) == 1 or not path.suffix.endswith("index"):
                # A broker that restarts inside a segment counts the bytes since the last index entry from 0 again.
                assert files[path.name] == data, path
            assert path.name in files
    assert view.end_offset(theirs[0].partition, log.epochs) == theirs[-1].end_offset
    assert to_copy(log, view, theirs[0].partition) == ()


def record(offset: int) -> NewRecord:
    return NewRecord(timestamp=NOW_MS + offset, key=b"k", value=bytes(100))


def tiered(segments: int = 5, *, retention_ms: int | None = 7 * DAY_MS) -> ReplicaLog:
    """Segments of ten records each, and an active one with one."""
    settings = LogConfig(remote_storage=True, local_retention_ms=0, retention_ms=retention_ms)
    log = new_log(settings, now_ms=NOW_MS)
    for at in range(segments * 10 + 1):
        if at and at % 10 == 0:
            log = roll(log, now_ms=NOW_MS)
        log = append(log, data_batch([record(at)], base_offset=at, leader_epoch=at // 20), now_ms=NOW_MS)
    return with_high_watermark(log, log.log_end_offset)


def copied_all(
    log: ReplicaLog, *, last: RemoteState = RemoteState.COPY_SEGMENT_FINISHED
) -> tuple[RemoteView, RemoteStore]:
    view, store = RemoteView(), RemoteStore()
    for at, segment in enumerate(to_copy(log, view, ORDERS)):
        made = object_of(log, at, segment.base_offset)
        view = view.read(segment_record(made.about).value or b"")
        store = store.with_object(made)
        if last != RemoteState.COPY_SEGMENT_STARTED:
            view = view.read(update_record(moved(made.about, last, broker_id=1, now_ms=NOW_MS)).value or b"")
    return view, store


def object_of(log: ReplicaLog, number: int, base_offset: int) -> RemoteObject:
    segment = next(s for s in log.segments if s.base_offset == base_offset)
    segment_id = base64.urlsafe_b64encode(number.to_bytes(16, "big")).decode().rstrip("=")
    return copied(log, segment, partition=ORDERS, topic_id=TOPIC_ID, segment_id=segment_id, broker_id=1, now_ms=NOW_MS)


def test_local_segments_go_when_the_tier_holds_them_and_the_log_start_stays() -> None:
    log = tiered()
    view, _ = copied_all(log)
    end = view.end_offset(ORDERS, log.epochs)
    assert end == 50
    assert delete_local(log, 0, now_ms=NOW_MS + 10**9) == log
    left = delete_local(log, end, now_ms=NOW_MS + 10**9)
    assert [s.base_offset for s in left.segments] == [50, 51], "the active one is closed, to be copied too"
    assert [s.base_offset for s in to_copy(left, view, ORDERS)] == [50]
    assert (left.log_start_offset, left.epochs) == (0, log.epochs)
    assert gaps(left, view, ORDERS) == []
    half = delete_local(log, 25, now_ms=NOW_MS + 10**9)
    assert half.segments[0].base_offset == 20, "a segment of which the tier holds a part stays"
    # A broker that starts on it finds the log start in its checkpoint only, which lists every tiered partition.
    again = loaded(left, Checkpoints(high_watermark=51), clean=True, now_ms=NOW_MS)
    assert (again.log_start_offset, again.segments[0].base_offset, again.epochs) == (0, 50, log.epochs)


def test_everything_may_lie_in_the_tier() -> None:
    log = roll(tiered(), now_ms=NOW_MS)
    view, _ = copied_all(log)
    left = delete_local(log, view.end_offset(ORDERS, log.epochs), now_ms=NOW_MS + 10**9)
    assert [(s.base_offset, s.size_bytes) for s in left.segments] == [(51, 0)]
    assert (left.log_start_offset, left.log_end_offset) == (0, 51)
    assert delete_local(left, 51, now_ms=NOW_MS + 10**9) == left


def test_a_copy_that_did_not_finish_counts_for_nothing() -> None:
    log = tiered()
    view, _ = copied_all(log, last=RemoteState.COPY_SEGMENT_STARTED)
    assert view.end_offset(ORDERS, log.epochs) == 0
    assert len(to_copy(log, view, ORDERS)) == 5
    assert to_delete(log, view, ORDERS, now_ms=NOW_MS) == (), "somebody may be at it"
    assert len(to_delete(log, view, ORDERS, now_ms=NOW_MS + 10**12)) == 5, "but not for ever"


def test_nothing_above_the_last_stable_offset_is_copied() -> None:
    log = with_high_watermark(tiered(), 51)
    producer = Producer(producer_id=7, producer_epoch=0, base_sequence=0, transactional=True)
    log = append(log, data_batch([record(51)], base_offset=51, leader_epoch=2, producer=producer), now_ms=NOW_MS)
    log = roll(log, now_ms=NOW_MS)
    log = with_high_watermark(append(log, data_batch([record(52)], base_offset=52, leader_epoch=2), now_ms=NOW_MS), 53)
    assert [s.base_offset for s in to_copy(log, RemoteView(), ORDERS)] == [0, 10, 20, 30, 40]


def test_the_tier_ends_where_the_logs_own_epochs_say() -> None:
    log = tiered()
    view, _ = copied_all(log)
    # A new leader whose epoch 1 ended at 33: what another copied of it above that is of no use.
    assert view.end_offset(ORDERS, (EpochStart(0, 0), EpochStart(1, 20), EpochStart(5, 33))) == 33
    assert view.end_offset(ORDERS, (EpochStart(0, 0), EpochStart(7, 12))) == 12
    assert view.end_offset(ORDERS, (EpochStart(9, 0),)) == 0


def test_remote_retention_takes_the_oldest_and_moves_the_log_start() -> None:
    log = tiered(retention_ms=1000)
    view, store = copied_all(log)
    log = delete_local(log, 50, now_ms=NOW_MS + 10**9)
    assert to_delete(log, view, ORDERS, now_ms=NOW_MS) == ()
    doomed = to_delete(log, view, ORDERS, now_ms=NOW_MS + 1000 + 25)
    assert [s.start_offset for s in doomed] == [0, 10]
    for segment in doomed:
        log = log_start_after(log, segment)
        started = moved(segment, RemoteState.DELETE_SEGMENT_STARTED, broker_id=1, now_ms=NOW_MS)
        view = view.read(update_record(started).value or b"")
        store = store.without(segment.segment_id)
        finished = moved(started, RemoteState.DELETE_SEGMENT_FINISHED, broker_id=1, now_ms=NOW_MS)
        view = view.read(update_record(finished).value or b"")
    assert (log.log_start_offset, log.epochs[0]) == (20, EpochStart(1, 20))
    assert gaps(log, view, ORDERS) == []
    assert sorted(store.objects) == sorted(view.segments)


def test_remote_retention_by_size_counts_what_is_local_only() -> None:
    log = tiered()
    size = log.segments[0].size_bytes
    limited = replace(
        log, config=replace(log.config, retention_ms=None, retention_bytes=3 * size + log.active.size_bytes)
    )
    view, _ = copied_all(log)
    assert [s.start_offset for s in to_delete(limited, view, ORDERS, now_ms=NOW_MS)] == [0, 10]


def test_segments_below_the_log_start_are_deleted_whatever_retention_says() -> None:
    log = replace(tiered(), log_start_offset=25)
    view, _ = copied_all(tiered())
    assert [s.start_offset for s in to_delete(log, view, ORDERS, now_ms=NOW_MS)] == [0, 10]


def test_a_wrong_deletion_leaves_a_gap_that_the_metadata_tell() -> None:
    log = tiered()
    view, _ = copied_all(log)
    assert wrong_remote_deletion(log, view, ORDERS, broker_id=2, now_ms=NOW_MS) is None, "the log holds it as well"
    log = delete_local(log, 50, now_ms=NOW_MS + 10**9)
    made = wrong_remote_deletion(log, view, ORDERS, broker_id=2, now_ms=NOW_MS)
    assert made is not None
    for state in made:
        view = view.read(update_record(state).value or b"")
    assert gaps(log, view, ORDERS) == [(made[0].start_offset, made[0].end_offset)] == [(20, 30)]


def test_a_local_deletion_before_the_copy_leaves_a_gap() -> None:
    disk = disk_of(tiered())
    made = early_local_deletion(disk, ORDERS, count=2)
    assert made is not None
    after, fault = made
    assert (fault.kind, fault.start_offset, fault.end_offset) == (FaultKind.REMOTE_TIER_GAP, 0, 20)
    assert gaps(after.replicas[ORDERS].log, RemoteView(), ORDERS) == [(0, 20)]
    assert early_local_deletion(disk_of(tiered(segments=0)), ORDERS) is None


def test_a_topic_without_a_tier_copies_nothing() -> None:
    log = tiered()
    assert to_copy(replace(log, config=LogConfig()), RemoteView(), ORDERS) == ()


@pytest.mark.parametrize("seed", range(30))
def test_whatever_happens_in_whatever_order_nothing_is_nowhere(seed: int) -> None:
    draw = random.Random(seed)
    log, view, store = tiered(retention_ms=40), RemoteView(), RemoteStore()
    log = replace(log, config=replace(log.config, retention_bytes=draw.choice((None, 4000))))
    now, number = NOW_MS, 0
    for _ in range(120):
        now += draw.randrange(5)
        match draw.randrange(6):
            case 0 | 1:
                at = log.log_end_offset
                log = append(log, data_batch([record(now - NOW_MS)], base_offset=at, leader_epoch=at // 20), now_ms=now)
                log = with_high_watermark(log, draw.randint(log.high_watermark, log.log_end_offset))
            case 2:
                log = roll(log, now_ms=now) if log.active.batches else log
            case 3:
                for segment in to_copy(log, view, ORDERS)[:1]:
                    number += 1
                    made = object_of(log, number, segment.base_offset)
                    view = view.read(segment_record(made.about).value or b"")
                    if draw.random() < 0.7:
                        # The others' leader dies in the middle; the next one copies the segment again.
                        store = store.with_object(made)
                        done = moved(made.about, RemoteState.COPY_SEGMENT_FINISHED, broker_id=1, now_ms=now)
                        view = view.read(update_record(done).value or b"")
            case 4:
                log = delete_local(log, view.end_offset(ORDERS, log.epochs), now_ms=now)
            case _:
                for doomed in to_delete(log, view, ORDERS, now_ms=now)[:1]:
                    log = log_start_after(log, doomed)
                    started = moved(doomed, RemoteState.DELETE_SEGMENT_STARTED, broker_id=2, now_ms=now)
                    finished = moved(started, RemoteState.DELETE_SEGMENT_FINISHED, broker_id=2, now_ms=now)
                    for state in (started, finished):
                        view = view.read(update_record(state).value or b"")
                    store = store.without(doomed.segment_id)
        assert gaps(log, view, ORDERS) == []
        assert log.log_start_offset <= log.high_watermark <= log.log_end_offset
        assert {s.segment_id for s in view.of(ORDERS, RemoteState.COPY_SEGMENT_FINISHED)} == store.objects.keys()
    assert number > 1
