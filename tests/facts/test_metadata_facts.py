"""Facts about the metadata log that no capture shows by itself: releases, standing in the ISR, placement, snapshots."""

from collections.abc import Iterable
from typing import Any

import pytest

from tests.facts.metadata_logs import TOPIC_ID, a_log, change, orders, record
from tidegauge.facts.metadata.history import DamagedRecord, LoggedRecord, MetadataHistory, PartitionState
from tidegauge.facts.metadata.in_sync_index import LOST_DIRECTORY, RESERVED_DIRECTORIES
from tidegauge.facts.metadata.placement import HeldReplicas, Placement, placement
from tidegauge.facts.metadata.releases import release_of_level
from tidegauge.facts.metadata.replay import replay
from tidegauge.facts.metadata.snapshot_check import (
    BEGINS_WITH_IT,
    BEYOND,
    HEAD_GONE,
    SnapshotCheck,
    SnapshotContents,
    SnapshotFile,
    nodes_otherwise,
)
from tidegauge.facts.metadata.transactions import TransactionMarks

MINUTE_MS = 60_000
DIRECTORY = "d" * 22


def registered(broker_id: int, epoch: int, level: int = 33, **fields: Any) -> Any:
    features = ({"name": "metadata.version", "min_supported_version": 7, "max_supported_version": level},)
    given = {"broker_id": broker_id, "broker_epoch": epoch, "fenced": False, "features": features}
    return record("RegisterBrokerRecord", **{**given, **fields})


def three_brokers(**fields: Any) -> list[Any]:
    return [registered(broker, broker - 1, **fields) for broker in (1, 2, 3)]


def only(history: MetadataHistory) -> PartitionState:
    return history.topics[TOPIC_ID].partitions[0]


@pytest.mark.parametrize(
    ("level", "release"),
    [(0, None), (1, (3, 0)), (7, (3, 3)), (21, (3, 9)), (25, (4, 0)), (27, (4, 1)), (33, (4, 4)), (99, (4, 5))],
)
def test_a_level_is_of_one_release(level: int, release: tuple[int, int] | None) -> None:
    assert release_of_level(level) == release


def at_end(offset: int, records: Iterable[Any]) -> list[LoggedRecord]:
    return [LoggedRecord(offset=offset, timestamp_ms=None, record=each) for each in records]


def test_a_name_has_all_its_lives() -> None:
    again = record("TopicRecord", name="orders", topic_id="u" * 22)
    history = replay(a_log([*orders(), record("RemoveTopicRecord", topic_id=TOPIC_ID), again]))
    assert [t.topic_id for t in history.lives("orders")] == [TOPIC_ID, "u" * 22]
    assert (history.topics[TOPIC_ID].deleted_at_ms, history.lives("payments")) == (2000, ())


def test_who_is_fenced_and_stays_in_the_isr_is_told_with_how_long() -> None:
    fence = record("BrokerRegistrationChangeRecord", broker_id=2, broker_epoch=1, fenced=1)
    log = a_log([*three_brokers(), *orders(), fence, record("NoOpRecord"), change(isr=(1, 3))])
    (first, last) = only(replay(log)).changes
    assert (first.isr_inactive, first.out_of_place_offset, first.out_of_place_ms) == ((2,), 5, 2000)
    assert last.isr_inactive == ()


def test_records_of_one_batch_come_into_force_together() -> None:
    fence = record("BrokerRegistrationChangeRecord", broker_id=2, broker_epoch=1, fenced=1)
    log = [*a_log([*three_brokers(), *orders()])]
    log += [
        LoggedRecord(offset=at, timestamp_ms=9000, record=each, batch_offset=5)
        for at, each in ((5, fence), (6, change(isr=(1, 3))))
    ]
    assert [c.isr_inactive for c in only(replay(log)).changes] == [(), ()]


def fencing(broker_id: int, fenced: int) -> Any:
    return record("BrokerRegistrationChangeRecord", broker_id=broker_id, broker_epoch=broker_id - 1, fenced=fenced)


def joined(*behind: Any, **fields: Any) -> list[tuple[int, ...]]:
    """Of each change of orders-0, who came in with it and had gone before; each record is a batch."""
    history = replay(a_log([*three_brokers(), *orders(**fields), *behind]))
    return [c.isr_joined_inactive for c in only(history).changes]


def test_who_had_gone_in_an_earlier_batch_is_not_taken_into_an_isr_nor_elected() -> None:
    without = {"isr": (1, 3)}
    assert joined(fencing(2, 1), change(isr=(1, 2, 3)), change(isr=(1, 3)), **without) == [(), (2,), ()]
    assert joined(fencing(2, 1), change(leader=2), change(isr=(1, 3), leader=1)) == [(), (2,), ()]
    assert joined(fencing(2, 1), fencing(2, -1), change(isr=(1, 2, 3)), **without) == [(), ()]
    shutdown = record("BrokerRegistrationChangeRecord", broker_id=2, broker_epoch=1, in_controlled_shutdown=1)
    assert joined(shutdown, change(isr=(1, 2, 3)), **without) == [(), (2,)]


def test_the_last_member_that_stayed_is_not_elected_before_it_is_back() -> None:
    gone = [change(isr=(2,)), change(leader=-1), fencing(2, 1)]
    assert joined(*gone, change(leader=2)) == [(), (), (), (2,)]
    assert joined(*gone, fencing(2, -1), change(leader=2)) == [(), (), (), ()]


def test_who_is_taken_in_by_the_batch_that_brings_it_back_had_not_gone() -> None:
    log = a_log([*three_brokers(), *orders(isr=(1, 3)), fencing(2, 1)])
    log += [
        LoggedRecord(offset=at, timestamp_ms=9000, record=each, batch_offset=6)
        for at, each in ((6, change(isr=(1, 2, 3))), (7, fencing(2, -1)))
    ]
    assert [c.isr_joined_inactive for c in only(replay(log)).changes] == [(), ()]


def test_a_migration_brings_isrs_of_brokers_that_the_quorum_has_not_heard_of_yet() -> None:
    begun = record("ZkMigrationStateRecord", zk_migration_state=1)
    fenced = [registered(broker, broker - 1, fenced=True) for broker in (1, 2, 3)]
    (first,) = only(replay(a_log([begun, *fenced, *orders()]))).changes
    assert (first.isr_inactive, first.isr_joined_inactive) == ((1, 2, 3), ())


def test_the_last_member_may_stay_when_it_goes() -> None:
    fence = record("BrokerRegistrationChangeRecord", broker_id=1, broker_epoch=0, fenced=1)
    log = a_log([*three_brokers(), *orders(), change(isr=(1,)), change(leader=-1), fence, record("NoOpRecord")])
    assert [c.isr_inactive for c in only(replay(log)).changes] == [(), (), ()]


def test_a_replica_on_a_disk_that_is_gone_is_told() -> None:
    brokers = three_brokers(log_dirs=(DIRECTORY,))
    some = {"directories": (DIRECTORY, *sorted(RESERVED_DIRECTORIES)[:2])}
    lost = record("BrokerRegistrationChangeRecord", broker_id=1, broker_epoch=0, log_dirs=("e" * 22,))
    (state,) = only(replay(a_log([*brokers, *orders(**some), lost, record("NoOpRecord")]))).changes
    assert (state.isr_without_directory, state.out_of_place_ms) == ((1,), 1000)


def test_a_registration_counts_the_records_that_are_not_about_it() -> None:
    stale = record("BrokerRegistrationChangeRecord", broker_id=1, broker_epoch=77, fenced=-1)
    history = replay(a_log([*three_brokers(), stale, stale, registered(1, 5)]))
    first, second = history.registrations[1]
    assert (first.stale_records, first.first_stale_offset, second.stale_records) == (2, 3, 0)
    assert (second.previous_broker_epoch, second.batch_offset) == (0, 5)


def test_what_comes_after_damage_says_so() -> None:
    log: list[LoggedRecord | DamagedRecord] = list(a_log([*three_brokers(), *orders()]))
    log += [DamagedRecord(offset=5), *a_log([change(isr=(1, 2))], start=6)]
    assert [c.after_damage for c in only(replay(log)).changes] == [False, True]


BEGIN, END, ABORT = (record(f"{name}TransactionRecord") for name in ("Begin", "End", "Abort"))
CREATED, IDLE = record("TopicRecord", name="orders", topic_id=TOPIC_ID), record("NoOpRecord")
PRE_MIGRATION, MIGRATED = (record("ZkMigrationStateRecord", zk_migration_state=state) for state in (1, 2))


def marks(*records: Any, snapshot_ends: tuple[int, ...] = ()) -> TransactionMarks:
    """The fold over a log in which None is a new leader."""
    found = TransactionMarks(snapshot_ends=snapshot_ends)
    for offset, each in enumerate(records):
        if each is None:
            found.leader_changed()
        else:
            found.record(offset, each)
    return found


@pytest.mark.parametrize(
    ("records", "errors", "open_offset"),
    [
        ([BEGIN, CREATED, END, BEGIN, ABORT], 0, None),
        ([BEGIN, CREATED], 0, 0),
        ([BEGIN, BEGIN, END], 1, None),
        ([CREATED, END], 1, None),
        ([BEGIN, None, ABORT], 0, None),
        ([BEGIN, None, END], 1, None),
        ([BEGIN, None, CREATED, ABORT], 1, None),
        ([BEGIN, None, CREATED], 2, 0),
        ([BEGIN, CREATED, IDLE, IDLE], 1, 0),
        ([BEGIN, CREATED, None], 0, 0),
        ([PRE_MIGRATION, BEGIN, CREATED, IDLE], 0, 1),
        ([PRE_MIGRATION, BEGIN, CREATED, IDLE, MIGRATED, END], 0, None),
        ([PRE_MIGRATION, BEGIN, CREATED, MIGRATED, IDLE], 1, 1),
    ],
)
def test_transactions_end_before_anything_else(records: list[Any], errors: int, open_offset: int | None) -> None:
    found = marks(*records)
    assert (found.errors, found.open_offset) == (errors, open_offset)


@pytest.mark.parametrize(
    ("ends", "error"),
    [((2,), None), ((3,), 2), ((5,), 2), ((6,), None)],
)
def test_no_snapshot_is_taken_while_a_transaction_is_open(ends: tuple[int, ...], error: int | None) -> None:
    """One that ends behind the copy of the log was taken when the transaction had ended, for all that is known."""
    found = marks(IDLE, IDLE, BEGIN, CREATED, CREATED, snapshot_ends=ends)
    assert found.first_error == (
        (
            error,
            f"a transaction begins that never ends: a metadata snapshot was taken behind it, up to offset {ends[0]}",
        )
        if error is not None
        else None
    )


@pytest.mark.parametrize(
    ("behind", "ends", "known"),
    [
        ([], (), False),
        ([], (3,), True),
        ([IDLE], (), True),
        ([END], (), True),
        ([ABORT, IDLE], (), False),
    ],
)
def test_what_a_transaction_said_counts_where_nothing_else_can_be_meant(
    behind: list[Any], ends: tuple[int, ...], known: bool
) -> None:
    history = replay(a_log([BEGIN, *orders(), *behind]), snapshot_ends=ends)
    assert (TOPIC_ID in history.topics) == known


def held(**fields: Any) -> HeldReplicas:
    given: dict[str, Any] = {
        "served": {("orders", 0): DIRECTORY},
        "future": (),
        "listed": {("orders", 0)},
        "whole": True,
        "quiet": True,
        "seen_until_ms": 10 * MINUTE_MS,
    }
    return HeldReplicas(**{**given, **fields})


def placed(broker_id: int = 1, records: Iterable[Any] = (), **fields: Any) -> Placement:
    return placement(replay(a_log([*three_brokers(), *orders(), *records])), broker_id, held(**fields))


ELSEWHERE = {("payments", 0): DIRECTORY, ("orders", 0): DIRECTORY}


@pytest.mark.parametrize(
    ("found", "stray", "missing", "unsettled"),
    [
        (placed(), (), (), 0),
        (placed(broker_id=4), (("orders", 0),), (), 0),
        (placed(broker_id=4, seen_until_ms=MINUTE_MS), (), (), 1),
        (placed(broker_id=4, seen_until_ms=None), (), (), 1),
        (placed(served=ELSEWHERE), (("payments", 0),), (), 0),
        (placed(served=ELSEWHERE, quiet=False), (), (), 1),
        (placed(served={}, listed={("payments", 0)}), (), (("orders", 0),), 0),
        (placed(served={}), (), (), 1),
        (placed(served={}, listed=()), (), (), 1),
        (placed(served={}, listed={("payments", 0)}, whole=False), (), (), 1),
        (placed(served={}, future={("orders", 0)}), (), (), 0),
        (placed(broker_id=3, records=[change(isr=(1, 2))], served={}, listed={("a", 0)}), (), (("orders", 0),), 0),
    ],
)
def test_a_replica_is_wrong_only_where_nothing_can_put_it_right(
    found: Placement, stray: Any, missing: Any, unsettled: int
) -> None:
    assert (found.stray, found.missing, found.unsettled) == (stray, missing, unsettled)


def test_a_replica_in_another_log_dir_is_misplaced() -> None:
    directories = {"directories": (DIRECTORY,) * 3}
    history = replay(a_log([*three_brokers(), *orders(**directories)]))
    assert placement(history, 1, held(served={("orders", 0): "e" * 22})).misplaced == (("orders", 0),)
    assert placement(history, 1, held()).misplaced == ()


def test_a_replica_went_with_a_directory_that_its_broker_has_no_longer() -> None:
    brokers = three_brokers(log_dirs=(DIRECTORY,))
    out = change(isr=(1, 2), directories=(DIRECTORY, DIRECTORY, "e" * 22))
    lost = change(isr=(1, 2), directories=(DIRECTORY, DIRECTORY, LOST_DIRECTORY))
    still_in_sync = change(directories=(DIRECTORY, DIRECTORY, "e" * 22))
    elsewhere = {"served": {}, "listed": {("a", 0)}}
    for record_, expected in ((out, ((("orders", 0),), ())), (lost, ((("orders", 0),), ()))):
        found = placement(replay(a_log([*brokers, *orders(), record_])), 3, held(**elsewhere))
        assert (found.offline, found.missing) == expected
    for settled_elsewhere in ({**elsewhere, "whole": False}, {**elsewhere, "listed": ()}):
        found = placement(replay(a_log([*brokers, *orders(), out])), 3, held(**settled_elsewhere))
        assert (found.offline, found.unsettled) == ((("orders", 0),), 0), "its directory is not one of those captured"
    found = placement(replay(a_log([*brokers, *orders(), still_in_sync])), 3, held(**elsewhere))
    assert (found.offline, found.missing) == ((), (("orders", 0),)), "somebody counts on it"
    found = placement(replay(a_log([*three_brokers(), *orders(), out])), 3, held(**elsewhere))
    assert (found.offline, found.missing) == ((), (("orders", 0),)), "brokers registered no directories then"


def test_a_snapshot_is_compared_at_its_end_and_only_where_the_replay_passes_it() -> None:
    quota = {"key": "producer_byte_rate", "entity": ({"entity_type": "user", "entity_name": "alice"},)}
    log = a_log([record("ClientQuotaRecord", **quota, value=float(n)) for n in range(6)], start=10)
    contents = {
        5: [],
        10: [record("NoOpRecord")],
        12: [record("ClientQuotaRecord", **quota, value=1.0)],
        13: [record("ClientQuotaRecord", **quota, value=9.0)],
        16: [record("ClientQuotaRecord", **quota, value=7.0)],
        20: [],
    }
    files = [
        SnapshotFile(node_id=2, path=f"{end}", end_offset=end, leader_epoch=1, newest=end == 16) for end in contents
    ]

    def read(file: SnapshotFile) -> SnapshotContents:
        records = tuple(at_end(file.end_offset, contents[file.end_offset]))
        return SnapshotContents(records=records, whole=True, digest=file.path.encode())

    check = SnapshotCheck(files, read, begins_with="10")
    replay(log, snapshot=at_end(10, contents[10]), observer=check)
    check.finish()
    told = {v.file.end_offset: (v.reason, [d.kind for d in v.found]) for v in check.verdicts}
    assert told == {
        5: (HEAD_GONE, []),
        10: (BEGINS_WITH_IT, []),
        12: (None, []),
        13: (None, ["quota"]),
        16: (None, ["quota"]),
        20: (BEYOND, []),
    }
    assert nodes_otherwise(check.verdicts, check.image) == {("quota", "user=alice/producer_byte_rate"): {2}}


def test_what_the_log_has_written_since_is_the_same_on_every_node() -> None:
    quota = {"key": "producer_byte_rate", "entity": ()}
    log = a_log([record("ClientQuotaRecord", **quota, value=1.0), record("ClientQuotaRecord", **quota, value=2.0)])
    files = [SnapshotFile(node_id=2, path="1", end_offset=1, leader_epoch=1, newest=True)]
    other = tuple(at_end(1, [record("ClientQuotaRecord", **quota, value=9.0)]))
    check = SnapshotCheck(files, lambda _: SnapshotContents(records=other, whole=True, digest=b""), begins_with=None)
    replay(log, observer=check)
    assert [len(v.found) for v in check.verdicts] == [1]
    assert nodes_otherwise(check.verdicts, check.image) == {}
