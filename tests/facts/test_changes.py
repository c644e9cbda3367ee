"""Two snapshots of a partition: what became of each replica, what changed, and what is gone for good."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest
from numpy.typing import NDArray

from tests.facts.logs import (
    Disks,
    batch,
    change,
    checkpoint,
    context,
    headers,
    marker,
    replica_input,
    segment,
)
from tidegauge.facts.context import OwnView, PartitionContext
from tidegauge.facts.partitions.partition import Earlier, gone_rows
from tidegauge.facts.replicas.replica_set import ReplicaSet, replica_set
from tidegauge.facts.risk.changes import Pairing, changes_of
from tidegauge.kafka_log.coordinator_records import OffsetCommit
from tidegauge.kafka_log.corruption import Corruption, Damage
from tidegauge.kafka_log.internal_topics import CLUSTER_METADATA
from tidegauge.kafka_log.properties import PartitionMetadata
from tidegauge.relations import ChangeRow, LossRow

Log = Sequence[NDArray[Any]]

PAIRING = Pairing(
    previous_snapshot_id="monday",
    previous_captured=frozenset({1, 2, 3}),
    captured=frozenset({1, 2, 3}),
    metadata_known=True,
    previous_directory_ids={(1, "."): "one", (2, "."): "two", (3, "."): "three"},
    directory_ids={1: frozenset({"one"}), 2: frozenset({"two"}), 3: frozenset({"three"})},
)
UNCLEAN = change(
    metadata_offset=194,
    at_ms=7_000,
    leader_id=2,
    leader_epoch=1,
    previous_leader_epoch=0,
    partition_epoch=1,
    isr=(2,),
    previous_isr=(1,),
    election="unclean",
)
ALONE = {1: OwnView(metadata_offset=150, leader_id=1, leader_epoch=0, isr=(1,))}
"""What broker 1 knew while it led: that it was all of the ISR."""
CLEANLY = {
    "changes": (change(leader_id=2, leader_epoch=1, previous_leader_epoch=0, previous_isr=(1, 2), election="clean"),),
    "epoch_leaders": {0: 1, 1: 2},
    "leader_id": 2,
    "leader_epoch": 1,
}
ELECTED = {
    "changes": (UNCLEAN,),
    "epoch_leaders": {0: 1, 1: 2},
    "leader_id": 2,
    "leader_epoch": 1,
    "partition_epoch": 1,
}


def log(start: int, end: int, *, epoch: int = 0, **more: Any) -> list[NDArray[Any]]:
    """Batches of ten records."""
    return [batch(at, 10, epoch=epoch, **more) for at in range(start, end, 10)]


@dataclass(frozen=True, kw_only=True)
class Moment:
    """A snapshot: each broker's log, what else is said of its replica, and of the partition.

    `active_offset`: where the active segment begins, if there are two.
    """

    logs: Mapping[int, Log]
    replicas: Mapping[int, Mapping[str, Any]] = field(default_factory=dict)
    segments: Mapping[int, Mapping[str, Any]] = field(default_factory=dict)
    context: Mapping[str, Any] = field(default_factory=dict)
    active_offset: int | None = None


def moment(every: Log, *, high_watermark: int | None = None, **more: Any) -> Moment:
    """All three brokers hold the same."""
    given = {"high_watermark": high_watermark} if high_watermark is not None else {}
    return Moment(logs=dict.fromkeys((1, 2, 3), every), replicas=dict.fromkeys((1, 2, 3), given), **more)


def _segments(rows: NDArray[Any], active_offset: int | None) -> list[NDArray[Any]]:
    if active_offset is None:
        return [rows]
    return [rows[rows["base_offset"] < active_offset], rows[rows["base_offset"] >= active_offset]]


def known_replicas(now: Moment) -> tuple[ReplicaSet, Disks]:
    rows = {broker_id: headers(*batches) for broker_id, batches in now.logs.items()}
    disks = Disks(**{f"broker_{b}": r for b, r in rows.items()})
    inputs = [
        replica_input(
            *(
                segment(part, base_offset=int(part[0]["base_offset"]) if len(part) else 0, **now.segments.get(b, {}))
                for part in _segments(r, now.active_offset)
            ),
            broker_id=b,
            **now.replicas.get(b, {}),
        )
        for b, r in rows.items()
    ]
    return replica_set(context(**now.context), inputs, read=disks), disks


def compared(before: Moment, after: Moment, pairing: Pairing = PAIRING) -> tuple[dict[int, ChangeRow], list[LossRow]]:
    """Rows of `changes` by broker, and losses."""
    earlier, earlier_disks = known_replicas(before)
    present, disks = known_replicas(after)
    rows, losses = changes_of(present, earlier, pairing, read=disks, read_earlier=earlier_disks)
    assert [row["broker_id"] for row in rows] == sorted(row["broker_id"] for row in rows)
    for lost in (
        loss for loss in losses if loss["state"] == "lost"
    ):  # No loss without a replica's row that tells of it, from which an invariant is judged.
        telling = [row for row in rows if row["records_lost"] and row["first_lost_offset"] <= lost["start_offset"]]
        assert max(row["lost_end_offset"] for row in telling) >= lost["end_offset"]
    return {row["broker_id"]: row for row in rows}, losses


def told(row: ChangeRow) -> tuple[Any, ...]:
    return row["change_kind"], row["first_changed_offset"], row["first_changed_committed_offset"]


SOUND = (None, None, None)


def ranges(losses: list[LossRow]) -> list[tuple[Any, ...]]:
    return [(x["start_offset"], x["end_offset"], x["records"], x["declared_committed"], x["state"]) for x in losses]


# ------------------------------------------------------------------------------------------------------- sound changes


def test_a_log_that_grew_has_not_changed() -> None:
    rows, losses = compared(moment(log(0, 100), high_watermark=100), moment(log(0, 300), high_watermark=300))
    assert losses == []
    for row in rows.values():
        assert (row["continuity"], row["comparable"], row["records_lost"]) == ("same", True, 0)
        assert (row["compared_from_offset"], row["compared_to_end_offset"]) == (0, 100)
        assert (row["previous_committed_end_offset"], row["committed_proof"]) == (100, "checkpoint")
        assert told(row) == SOUND
        assert row["groups_affected"] == []


def test_what_retention_took_is_no_change() -> None:
    rows, losses = compared(moment(log(0, 100), high_watermark=100), moment(log(50, 120), high_watermark=120))
    assert losses == []
    assert (rows[1]["compared_from_offset"], rows[1]["compared_to_end_offset"]) == (50, 100)
    assert told(rows[1]) == SOUND
    assert (rows[1]["previous_log_start_offset"], rows[1]["log_start_offset"]) == (0, 50)


def test_where_retention_took_everything_there_is_nothing_to_compare() -> None:
    rows, losses = compared(moment(log(0, 100), high_watermark=100), moment(log(200, 250), high_watermark=250))
    assert losses == []
    assert rows[1]["incomparable_reason"] == "no common range"


def test_records_below_a_log_start_that_was_deleted_are_no_loss() -> None:
    deleted = {b: {"high_watermark": 100, "log_start_offset": 40} for b in (1, 2, 3)}
    other = [*log(0, 30, crc=9), *log(30, 100)]
    rows, losses = compared(
        moment(log(0, 100), high_watermark=100), Moment(logs=dict.fromkeys((1, 2, 3), other), replicas=deleted)
    )
    assert losses == []
    assert (rows[2]["compared_from_offset"], *told(rows[2])) == (40, *SOUND)
    assert rows[2]["checkpointed_log_start"] is True


def test_what_a_cleaner_took_is_no_change_and_no_loss() -> None:
    cleaned = [*log(0, 20), batch(50, 3, last_offset=59, attributes=1 << 6), *log(60, 100)]
    known = {"ever_compacted": True, "cleanup_policy": "compact"}
    before = moment(log(0, 100), high_watermark=100, context=known, active_offset=80)
    rows, losses = compared(before, moment(cleaned, high_watermark=100, context=known, active_offset=80))
    assert losses == []
    assert all(told(row) == SOUND and row["ever_compacted"] for row in rows.values())
    # The active segment is never cleaned: what is gone from there is lost.
    _, losses = compared(before, moment(cleaned[:-1], high_watermark=90, context=known, active_offset=80))
    assert ranges(losses) == [(90, 100, 10, 10, "lost")]


def test_an_uncommitted_tail_may_be_replaced() -> None:
    before = moment([*log(0, 100), *log(100, 120)], high_watermark=100)
    after = moment([*log(0, 100), *log(100, 150, epoch=1, crc=5)], high_watermark=150, context=CLEANLY)
    rows, losses = compared(before, after)
    assert losses == []
    assert told(rows[1]) == ("replaced", 100, None)
    assert rows[1]["last_epoch_start_offset"] == 100


def test_an_uncommitted_tail_may_be_cut_off() -> None:
    rows, losses = compared(moment(log(0, 120), high_watermark=100), moment(log(0, 100), high_watermark=100))
    assert losses == []
    assert told(rows[1]) == ("truncated", 100, None)


# -------------------------------------------------------------------------------------------------------- what changed


def test_other_bytes_in_the_same_epoch_are_told_of_the_replica_that_has_them() -> None:
    rewritten = [*log(0, 50), batch(50, 10, crc=77), *log(60, 120)]
    before, after = moment(log(0, 100), high_watermark=100), moment(log(0, 120), high_watermark=120)
    after = Moment(logs={**after.logs, 2: rewritten}, replicas=after.replicas)
    rows, losses = compared(before, after)
    assert losses == []
    assert (told(rows[1]), told(rows[3])) == (SOUND, SOUND)
    assert told(rows[2]) == ("rewritten", 50, 50)
    assert (rows[2]["identity_violation_offset"], rows[2]["records_lost"]) == (50, 0)
    assert '"crc":"0000004d"' in rows[2]["changed_batches"]


def test_bytes_that_all_replicas_exchanged_are_lost() -> None:
    rewritten = [*log(0, 50), batch(50, 10, crc=77), *log(60, 120)]
    rows, losses = compared(moment(log(0, 100), high_watermark=100), moment(rewritten, high_watermark=120))
    assert ranges(losses) == [(50, 60, 10, 10, "lost")]
    assert "its bytes were changed" in losses[0]["cause"]
    assert {(row["records_lost"], row["identity_violation_offset"]) for row in rows.values()} == {(10, 50)}


def test_a_batch_that_is_gone_from_the_middle_is_missing_and_one_that_came_is_inserted() -> None:
    hole = [*log(0, 50), *log(60, 120)]
    rows, losses = compared(moment(log(0, 120), high_watermark=120), moment(hole, high_watermark=120))
    assert told(rows[1]) == ("missing", 50, 50)
    assert ranges(losses) == [(50, 60, 10, 10, "lost")]
    rows, losses = compared(moment(hole, high_watermark=120), moment(log(0, 120), high_watermark=120))
    assert (told(rows[1]), losses) == (("inserted", 50, 50), [])


def test_a_log_that_lost_its_tail_on_one_replica_has_lost_nothing() -> None:
    after = moment(log(0, 100), high_watermark=100)
    after = Moment(logs={**after.logs, 3: log(0, 70)}, replicas={**after.replicas, 3: {"high_watermark": 70}})
    rows, losses = compared(moment(log(0, 100), high_watermark=100), after)
    assert losses == []
    assert told(rows[3]) == ("truncated", 70, None)
    assert (rows[3]["log_end_offset"], rows[3]["previous_committed_end_offset"]) == (70, 100)
    assert rows[3]["records_lost"] == 0


# -------------------------------------------------------------------------------------------------------------- losses


def test_a_tail_that_all_replicas_lost_is_lost_up_to_what_was_committed() -> None:
    groups = (group_at("at_the_cut", 70), group_at("beyond", 85), group_at("of_a_later_epoch", 85, leader_epoch=1))
    before = moment(log(0, 100), high_watermark=90, context={"commits": groups})
    rows, losses = compared(before, moment(log(0, 70), high_watermark=70))
    assert ranges(losses) == [(70, 90, 20, 20, "lost")]
    assert losses[0]["groups_affected"] == ["beyond"]
    assert "no unclean election is on record" in losses[0]["cause"]
    for row in rows.values():
        assert told(row) == ("truncated", 70, None)
        assert (row["records_lost"], row["first_lost_offset"], row["lost_end_offset"]) == (20, 70, 90)
        assert row["groups_affected"] == ["beyond"]
        assert row["unclean_election_offset"] is None


def group_at(group: str, offset: int, *, leader_epoch: int = 0) -> OffsetCommit:
    return OffsetCommit(
        group=group,
        topic="t",
        partition=0,
        offset=offset,
        leader_epoch=leader_epoch,
        commit_timestamp_ms=1,
        topic_id=None,
        version=3,
        tombstone=False,
    )


def test_a_committed_end_marker_that_is_gone_is_a_lost_record() -> None:
    before = moment([*log(0, 100), marker(100, producer_id=7)], high_watermark=101)
    rows, losses = compared(before, moment(log(0, 100), high_watermark=100))
    assert ranges(losses) == [(100, 101, 1, 1, "lost")]
    assert losses[0]["markers"] == 1
    assert told(rows[1]) == ("truncated", 100, None)


def test_what_an_old_leader_alone_had_is_lost_once_it_follows_the_new_one() -> None:
    new = [*log(0, 50), *log(50, 90, epoch=1, crc=5)]
    before = Moment(
        logs={1: log(0, 100), 2: new, 3: new},
        replicas={1: {"high_watermark": 50}, 2: {"high_watermark": 90}, 3: {"high_watermark": 90}},
        context={**ELECTED, "isr": (2, 3), "own_views": ALONE},
    )
    rows, losses = compared(before, moment(new, high_watermark=90, context=ELECTED))
    assert ranges(losses) == [(50, 100, 50, 50, "lost")]
    assert "unclean election: record 194" in losses[0]["cause"]
    assert told(rows[1]) == ("replaced", 50, 50)
    assert (rows[1]["committed_proof"], rows[1]["previous_committed_end_offset"]) == ("sole_isr", 100)
    assert (rows[1]["unclean_election_offset"], rows[1]["isr_before_election"]) == (194, [1])
    assert rows[1]["records_lost"] == 50
    assert [rows[b]["records_lost"] for b in (2, 3)] == [0, 0]
    assert [rows[b]["unclean_election_offset"] for b in (2, 3)] == [None, None]


def test_where_the_election_came_after_the_earlier_snapshot_the_high_watermark_is_the_proof() -> None:
    before = moment(log(0, 100), high_watermark=80)
    new = [*log(0, 50), *log(50, 200, epoch=1, crc=5)]
    others = {**ELECTED, "changes": (change(**{**_fields(UNCLEAN), "previous_isr": (1, 3)}),)}
    rows, losses = compared(before, moment(new, high_watermark=200, context=others))
    assert ranges(losses) == [(50, 80, 30, 30, "lost"), (80, 100, 20, 0, "possible")]
    assert {row["records_lost"] for row in rows.values()} == {30}
    assert told(rows[3]) == ("replaced", 50, 50)
    assert rows[3]["log_end_offset"] > rows[3]["previous_log_end_offset"]


def _fields(row: Any) -> dict[str, Any]:
    return {name: getattr(row, name) for name in row.__slots__}


def test_a_replaced_disk_is_told_and_what_others_hold_is_not_lost() -> None:
    after = moment(log(0, 100), high_watermark=100)
    after = Moment(logs={**after.logs, 1: []}, replicas={**after.replicas, 1: {"high_watermark": 0}})
    other = Pairing(**{**_fields(PAIRING), "directory_ids": {**PAIRING.directory_ids, 1: frozenset({"new"})}})
    rows, losses = compared(moment(log(0, 100), high_watermark=100), after, other)
    assert losses == []
    assert [rows[b]["directory_replaced"] for b in (1, 2, 3)] == [True, False, False]
    assert (rows[1]["log_end_offset"], rows[1]["records_lost"]) == (0, 0)
    nameless = Pairing(**{**_fields(PAIRING), "previous_directory_ids": {}})
    assert compared(moment(log(0, 100), high_watermark=100), after, nameless)[0][1]["directory_replaced"] is None


UNDECIDED = [
    ({"captured": frozenset({1, 2})}, {3: None}, {}, "a broker that may hold them was not captured"),
    ({}, {3: None}, {}, "an assigned replica is not in the copy"),
    ({}, {}, {2: {"unread_bases": (100,)}}, "a segment could not be read"),
]


@pytest.mark.parametrize(("pairing", "logs", "replicas", "reason"), UNDECIDED, ids=[u[-1] for u in UNDECIDED])
def test_a_loss_is_claimed_only_where_every_replica_was_read(
    pairing: dict[str, Any], logs: dict[int, None], replicas: dict[int, Any], reason: str
) -> None:
    after = moment(log(0, 70), high_watermark=70)
    after = Moment(
        logs={b: rows for b, rows in after.logs.items() if b not in logs},
        replicas={b: {**given, **replicas.get(b, {})} for b, given in after.replicas.items()},
    )
    rows, losses = compared(moment(log(0, 100), high_watermark=100), after, Pairing(**{**_fields(PAIRING), **pairing}))
    may_be_elsewhere = [] if "read" in reason else [(70, 100, 30, 30, "possible")]
    assert ranges(losses) == may_be_elsewhere
    assert all(reason in loss["cause"] for loss in losses)
    for row in rows.values():
        assert (row["records_lost"], row["loss_undecided_reason"], row["groups_affected"]) == (None, reason, None)


def test_records_that_may_stand_behind_a_damaged_place_are_not_lost() -> None:
    torn = Corruption(kind=Damage.LENGTH, position=700, end_position=1000, detail="a length that cannot be")
    before, after = moment(log(0, 100), high_watermark=100), moment(log(0, 70), high_watermark=70)
    damaged = Moment(
        logs=after.logs, replicas=after.replicas, segments={2: {"corruptions": (torn,), "size_bytes": 1000}}
    )
    assert ranges(compared(before, after)[1]) == [(70, 100, 30, 30, "lost")]
    rows, losses = compared(before, damaged)
    assert losses == []
    assert [rows[b]["damaged"] for b in (1, 2, 3)] == [False, True, False]


def test_a_checkpoint_that_may_be_younger_than_its_log_proves_nothing_by_itself() -> None:
    running = {"broker_quiet": False, "checkpoint_older_than_log": False}
    before = moment(log(0, 100), high_watermark=100)
    before = Moment(
        logs=before.logs, replicas={b: {**g, **running} for b, g in before.replicas.items()}, context={"isr": ()}
    )
    rows, losses = compared(before, moment(log(0, 70), high_watermark=70))
    assert losses == []
    assert (rows[1]["previous_committed_end_offset"], rows[1]["committed_proof"]) == (None, None)


# ---------------------------------------------------------------------------------------------------------- continuity


def of_topic(topic_id: str) -> PartitionMetadata:
    return PartitionMetadata(version=0, topic_id=topic_id, corruptions=())


def continuity(before: Moment, after: Moment, **pairing: Any) -> dict[int, str]:
    rows, losses = compared(before, after, Pairing(**{**_fields(PAIRING), **pairing}))
    assert losses == []
    assert all(row["comparable"] or row["incomparable_reason"] for row in rows.values())
    return {broker_id: row["continuity"] for broker_id, row in rows.items()}


def without(now: Moment, *brokers: int, **known: Any) -> Moment:
    return Moment(
        logs={b: rows for b, rows in now.logs.items() if b not in brokers},
        replicas=now.replicas,
        context={**now.context, **known},
    )


ALL = moment(log(0, 100), high_watermark=100)


def test_replicas_that_came_and_went() -> None:
    assert continuity(ALL, ALL) == {1: "same", 2: "same", 3: "same"}
    assert continuity(without(ALL, 3, replicas=(1, 2), isr=(1, 2)), ALL)[3] == "created"
    assert continuity(without(ALL, 3, adding_replicas=(3,)), ALL)[3] == "created"
    assert continuity(without(ALL, 3), ALL)[3] == "missing before"
    unnamed = {"known": False, "replicas": (), "isr": ()}
    assert continuity(without(ALL, 3, **unnamed), ALL)[3] == "created"
    assert continuity(without(ALL, 3, **unnamed, captured=False), ALL)[3] == "missing before"
    assert continuity(without(ALL, 3), ALL, previous_captured=frozenset({1, 2}))[3] == "not captured before"
    assert continuity(ALL, without(ALL, 3), captured=frozenset({1, 2}))[3] == "not captured"
    assert continuity(ALL, without(ALL, 3))[3] == "missing"
    assert continuity(ALL, without(ALL, 3, replicas=(1, 2), isr=(1, 2)))[3] == "removed"


def test_a_replica_that_was_moved_away_and_back_has_no_past() -> None:
    moves = (
        change(partition_epoch=1, replicas=(1, 2)),
        change(partition_epoch=2, adding_replicas=(3,)),
        change(partition_epoch=3),
    )
    assert continuity(ALL, moment(log(0, 100), high_watermark=100, context={"changes": moves}))[3] == "reassigned"
    assert continuity(
        moment(log(0, 100), high_watermark=100, context={"partition_epoch": 3}),
        moment(log(0, 100), high_watermark=100, context={"changes": moves, "partition_epoch": 3}),
    ) == {1: "same", 2: "same", 3: "same"}


def test_another_topic_of_the_same_name_is_another_one() -> None:
    new = Moment(
        logs=dict.fromkeys((1, 2, 3), log(0, 20)),
        replicas={b: {"partition_metadata": of_topic("n" * 22)} for b in (1, 2, 3)},
        context={"topic_id": "n" * 22, "topic_ids_deleted": {"t" * 22: True, "n" * 22: False}},
    )
    rows, losses = compared(ALL, new)
    assert losses == []
    assert {row["continuity"] for row in rows.values()} == {"recreated"}
    assert {row["loss_undecided_reason"] for row in rows.values()} == {"the topic was deleted"}
    assert (rows[1]["previous_topic_id"], rows[1]["topic_id"]) == ("t" * 22, "n" * 22)


@pytest.mark.parametrize(
    ("topic", "known", "expected"),
    [("t", {"topic_deleted": True}, "deleted"), ("t", {"known": False, "topic_id": None}, "deleted")],
)
def test_a_topic_that_was_deleted_takes_its_replicas_along(topic: str, known: dict[str, Any], expected: str) -> None:
    earlier, disks = known_replicas(ALL)
    gone: PartitionContext = context(topic=topic, replicas=(), isr=(), **known)
    rows = gone_rows(gone, Earlier(replicas=earlier, pairing=PAIRING, read=disks))
    assert {row["continuity"] for row in rows["changes"]} == {expected}
    assert rows.get("losses", []) == []


def test_of_the_metadata_log_no_loss_is_told() -> None:
    known = {"topic": CLUSTER_METADATA}
    before = Moment(logs=ALL.logs, replicas={b: {"topic": CLUSTER_METADATA} for b in (1, 2, 3)}, context=known)
    rows, losses = compared(before, Moment(logs=dict.fromkeys((1, 2, 3), log(0, 70)), context=known))
    assert losses == []
    assert rows[1]["loss_undecided_reason"] == "the metadata log's high watermark is on no disk"


def test_the_epoch_that_it_knows_is_told_though_it_holds_no_batch_of_it() -> None:
    after = Moment(
        logs=ALL.logs,
        replicas={b: {"high_watermark": 95, "epoch_checkpoint": checkpoint((0, 0), (1, 100))} for b in (1, 2, 3)},
    )
    rows, _ = compared(ALL, after)
    assert (rows[1]["last_epoch_start_offset"], rows[1]["last_leader_epoch"]) == (100, 0)
    assert (rows[1]["previous_high_watermark"], rows[1]["high_watermark"]) == (100, 95)
