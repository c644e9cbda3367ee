"""Share groups' state beside real logs, and by example."""

from collections.abc import Callable
from pathlib import Path

from tests.sim_engine.coordinator_logs import logs_of
from tidegauge.kafka_log.coordinator_records import OtherCoordinatorRecord, decode_coordinator_record
from tidegauge.sim_engine.coordinators.coordinator_effects import Answer, Write
from tidegauge.sim_engine.coordinators.share_coordinator import (
    ShareCoordinator,
    SharePartition,
    ShareSettings,
    ShareState,
    StateBatch,
    elected,
    initialize,
    replayed,
    snapshot_record,
    update_record,
    write_state,
)

Golden = Callable[[str], Path]

AVAILABLE, ACKNOWLEDGED, ARCHIVED = 0, 2, 4
"""Delivery states (Kafka: RecordState)."""
KEY = SharePartition("g", "AAAAAAAAAAAAAAAAAAAAAQ", 0)


def batch(first: int, last: int, state: int = ACKNOWLEDGED, count: int = 1) -> StateBatch:
    return StateBatch(first_offset=first, last_offset=last, delivery_state=state, delivery_count=count)


def test_real_logs_are_read_and_written_again(golden: Golden) -> None:
    read = 0
    for directory, records in logs_of(golden("healthy"), "__share_group_state"):
        for sequence, record in records:
            decoded = decode_coordinator_record("__share_group_state", record.key, record.value)
            assert isinstance(decoded, OtherCoordinatorRecord)
            assert sequence == 0
            before = [(r.key, r.value) for _, r in records if r.offset < record.offset]
            if decoded.key_type == 0:
                ((key, state),) = replayed([(record.key, record.value)]).items()
                assert snapshot_record(key, state) == (record.key, record.value)
                where = ShareCoordinator(settings=ShareSettings(partition_count=3)).partition_of(key)
                assert str(where) == directory.name
            else:
                (key,) = replayed(before)
                alone = replayed([before[0], (record.key, record.value)])[key]
                whole = replayed([*before, (record.key, record.value)])[key]
                assert update_record(key, alone) == (record.key, record.value)
                assert whole.start_offset == alone.start_offset
                assert all(b.first_offset >= whole.start_offset for b in whole.batches)
            read += 1
    assert read > 5


def coordinator(updates_per_snapshot: int = 500) -> ShareCoordinator:
    settings = ShareSettings(partition_count=1, updates_per_snapshot=updates_per_snapshot)
    begun, _ = initialize(elected(ShareCoordinator(settings=settings), 0, ()), "i", key=KEY, state_epoch=1, now_ms=1)
    return begun


def updated(
    now: ShareCoordinator, start: int, *batches: StateBatch, leader_epoch: int = 0
) -> tuple[ShareCoordinator, list[object]]:
    after, effects = write_state(
        now, "w", key=KEY, state_epoch=1, leader_epoch=leader_epoch, start_offset=start, complete_count=0,
        batches=batches, now_ms=2,
    )  # fmt: skip
    return after, list(effects)


def state_of(now: ShareCoordinator) -> ShareState:
    return now.partitions[now.partition_of(KEY).partition][KEY]


def test_updates_are_laid_over_one_another() -> None:
    now, _ = updated(coordinator(), 0, batch(0, 9, AVAILABLE), batch(10, 19))
    now, _ = updated(now, 2, batch(4, 12, ARCHIVED, 2))
    assert state_of(now).batches == (batch(2, 3, AVAILABLE), batch(4, 12, ARCHIVED, 2), batch(13, 19))
    now, _ = updated(now, 2, batch(2, 3, ARCHIVED, 2))
    assert state_of(now).batches == (batch(2, 12, ARCHIVED, 2), batch(13, 19)), "alike ones become one"


def test_a_log_of_updates_and_snapshots_says_the_state() -> None:
    now = coordinator(updates_per_snapshot=3)
    log = [snapshot_record(KEY, state_of(now))]
    for step in range(8):
        now, effects = updated(now, step, batch(step, step + 3, step % 3, step))
        (write,) = effects
        assert isinstance(write, Write)
        log += [(key, value) for key, value in write.records if value is not None]
        assert replayed(log)[KEY].batches == state_of(now).batches
        assert replayed(log)[KEY].start_offset == step
    assert state_of(now).snapshot_epoch == 2


def test_an_older_leader_is_refused() -> None:
    now, _ = updated(coordinator(), 0, batch(0, 1), leader_epoch=3)
    same, effects = updated(now, 5, batch(0, 1), leader_epoch=2)
    assert (same, effects) == (now, [Answer(to="w", error="FENCED_LEADER_EPOCH")])
