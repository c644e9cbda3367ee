"""One partition's rows: the columns that the relations name, which replica is the reference, bounds by ISR and ELR."""

from typing import Any

import pytest

from tests.conftest import Golden
from tests.derivation.pipeline import derived_once
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
from tidegauge.facts.partitions.partition import partition_rows
from tidegauge.kafka_log.coordinator_records import OffsetCommit
from tidegauge.kafka_log.properties import PartitionMetadata
from tidegauge.relations import COMMON, LOSSES, RELATIONS, Rows

OLD = headers(
    *(batch(at, 10, producer_id=7, sequence=at) for at in range(0, 90, 10)),
    batch(90, 10, producer_id=7, sequence=95, transactional=True),
)
NEW = headers(
    *(OLD[n : n + 1] for n in range(5)),
    batch(50, 10, epoch=2, producer_id=8, sequence=0, transactional=True),
    marker(60, producer_id=8, epoch=2),
)


def rows_of(**fields: Any) -> Rows:
    unclean = change(
        metadata_offset=77, leader_epoch=2, previous_leader_epoch=1, election="unclean", previous_isr=(2,), isr=(1,)
    )
    known = context(
        **{
            "leader_epoch": 2,
            "isr": (1,),
            "changes": (unclean,),
            "epoch_leaders": {0: 2, 2: 1},
            "commits": (commit(40), commit(80)),
            **fields,
        }
    )
    one = replica_input(segment(NEW), broker_id=1, high_watermark=61, epoch_checkpoint=checkpoint((0, 0), (2, 50)))
    two = replica_input(segment(OLD), broker_id=2, high_watermark=90)
    return partition_rows(known, [one, two], read=Disks(broker_1=NEW, broker_2=OLD))


def commit(offset: int) -> OffsetCommit:
    return OffsetCommit(
        group=f"g{offset}",
        topic="t",
        partition=0,
        offset=offset,
        leader_epoch=0,
        commit_timestamp_ms=1,
        topic_id=None,
        version=3,
        tombstone=False,
    )


ACKNOWLEDGED = {
    "acknowledged_records",
    "acknowledged_missing",
    "first_acknowledged_missing_offset",
    "acknowledged_missing_end_offset",
    "acknowledged_missing_on",
}


def test_every_relation_has_the_columns_that_it_names_and_no_other() -> None:
    known = {**RELATIONS, LOSSES.name: LOSSES}
    common = {c.name for c in COMMON}
    produced = rows_of()
    assert {name for name, rows in produced.items() if not rows} == {
        "index_files",
        "key_comparisons",
        "remote_segments",
    }
    for name, rows in produced.items():
        named = {c.name for c in known[name].columns}
        for row in rows:
            assert row.keys() - named == set(), name
            # What a later step knows may be left for it; of the loss, whether it is new.
            assert named - row.keys() - common <= (
                {"first_seen_at_ms", *ACKNOWLEDGED} if name != "losses" else named
            ), name


CAPTURES = (
    "healthy",
    "tiered",
    "unclean-before",
    "hanging-txn",
    "epochs",
    "racks-unclean",
    "forgotten-unclean",
    "shares-unclean",
    "format-upgraded",
)


# These need an earlier snapshot, and a cluster that was asked: both have tests of their own.
@pytest.mark.parametrize("relation", sorted(RELATIONS.keys() - {"changes", "upkeep_changes", "cluster_answers"}))
def test_no_column_of_a_real_capture_is_never_filled(golden: Golden, relation: str) -> None:
    facts = [derived_once(golden(name)) for name in CAPTURES]
    rows = [row for of_capture in facts for row in of_capture.rows.get(relation, [])]
    if relation == "sequence_gaps":
        assert rows == []
        return
    empty = {c.name for c in RELATIONS[relation].columns if all(row[c.name] is None for row in rows)}
    assert empty <= NEEDS_MORE_THAN_A_PLAIN_COPY, relation


NEEDS_MORE_THAN_A_PLAIN_COPY = {
    "commitment_lacks",
    "read_started_at_ms",
    "read_finished_at_ms",
    "checkpoint_older_than_log",
    "follower_copied_after_leader",
    "identity_violation_offset",
    "first_differing_undiverged_offset",
    "later_checkpoint_start_offset",
    "later_checkpoint_last_leader_epoch",
    "error",
    "cut_tail",
    "torn_tail_position",
    "format_fall_offset",
    # Of partition directories, whose files' ages only a capture brings along.
    "oldest_deleted_age_ms",
    "oldest_half_done_age_ms",
    # What is only there where something is wrong, or overdue.
    "below_log_start_since_ms",
    "overdue_end_offset",
    "overdue_since_at_ms",
    "overdue_by",
    "first_duplicate_offset",
    "first_unkeyed_offset",
    "first_unkeyed_at_ms",
    "first_missing_producer_id",
    "first_missing_offset",
    "remote_gap_start_offset",
    "remote_gap_end_offset",
    "lineage_reason",
    "first_unstable_offset",
    "only_on",
    "first_differing_offset",
    "differing_snapshot_offset",
    "differing_producer_id",
    "leader_producer_state",
    "follower_producer_state",
    "orphaned_producer_id",
    "orphaned_first_offset",
    "nontransactional_offset",
    "repeated_offset",
    "repeats_offset",
    "open_first_offset",
    "committed_on",
    "aborted_on",
    # No producer of these captures has used up its epochs, and no member had stayed.
    "next_producer_id",
    "largest_member_epoch",
    # The truth of a simulated snapshot tells them.
    *ACKNOWLEDGED,
    # Metadata logs of these captures are in order, and nobody moves.
    "stale_record_offset",
    "epoch_before",
    "epoch_after",
    "first_offset",
    "epoch_order_offset",
    "open_transaction_offset",
    "unannounced_offset",
    "transaction_error_offset",
    "transaction_error",
    "out_of_place_offset",
    "out_of_place_ms",
    "reassigning_since_ms",
    "reassigning_ms",
    # An earlier snapshot tells them.
    "previous_committed_offset",
    "previous_committed_at_ms",
    "previous_topic_id",
}


def test_the_loss_and_who_is_hit_by_it() -> None:
    rows = rows_of()
    (loss,) = rows["losses"]
    assert (loss["start_offset"], loss["end_offset"], loss["records"], loss["held_by"]) == (50, 100, 50, [2])
    assert loss["groups_affected"] == ["g80"]
    by_group = {row["group"]: row for row in rows["committed_offsets"]}
    assert (by_group["g40"]["in_range"], by_group["g40"]["lost_from_offset"]) == (True, None)
    assert (by_group["g80"]["above_log_end"], by_group["g80"]["lost_from_offset"]) == (True, 50)
    (election,) = rows["partition_changes"]
    assert (election["records_at_stake"], election["old_lineage_holders"]) == (50, [2])


def test_breaks_in_sequences_are_told_of_the_replica_that_has_them() -> None:
    (gap,) = rows_of()["sequence_gaps"]
    assert (gap["broker_id"], gap["cause"], gap["expected_sequence"], gap["found_sequence"]) == (2, "lost", 90, 95)


@pytest.mark.parametrize(
    ("fields", "reference"),
    [
        ({}, 1),
        ({"leader_id": 2}, 2),
        ({"leader_id": None, "last_leader_id": 2}, 2),
        ({"leader_id": 3}, 1),  # not captured: the newest epoch
        ({"leader_id": None}, 1),
    ],
)
def test_the_reference_is_the_leader_or_the_nearest_to_one(fields: dict[str, Any], reference: int) -> None:
    rows = rows_of(**fields)
    assert [r["broker_id"] for r in rows["replicas"] if r["is_reference"]] == [reference]


@pytest.mark.parametrize(
    ("fields", "bounds"),
    [
        ({"isr": (1,)}, (61, 61)),
        ({"isr": (1, 2)}, (61, 61)),
        ({"isr": (), "elr": (1,)}, (61, 61)),
        ({"isr": (), "elr": (), "last_known_elr": (1,)}, (61, 61)),
        ({"isr": (1, 3)}, (61, 61)),
        ({"isr": (3,)}, (61, None)),
    ],
)
def test_the_high_watermark_is_bounded_by_isr_and_elr(
    fields: dict[str, Any], bounds: tuple[int | None, int | None]
) -> None:
    (row,) = rows_of(**fields)["partitions"]
    assert (row["high_watermark_lower"], row["high_watermark_upper"]) == bounds


def test_without_a_metadata_log_nobody_is_said_to_be_out_of_sync() -> None:
    rows = rows_of(known=False, leader_id=None, isr=(), replicas=())["replicas"]
    assert rows
    assert {(row["in_isr"], row["in_elr"], row["assigned"]) for row in rows} == {(None, None, None)}
    known = rows_of(isr=(2,), elr=(1,), replicas=(1, 2))["replicas"]
    assert {(row["broker_id"], row["in_isr"], row["in_elr"], row["assigned"]) for row in known} >= {
        (1, False, True, True)
    }


def test_what_is_left_of_a_deleted_topic_of_the_same_name_is_compared_with_nothing() -> None:
    known = context(topic_id="n" * 22, topic_ids_deleted={"o" * 22: True, "n" * 22: False}, leader_id=1, isr=(1, 2))
    one = replica_input(segment(NEW), broker_id=1, high_watermark=61, partition_metadata=of_topic("n" * 22))
    two = replica_input(segment(OLD), broker_id=2, high_watermark=90, partition_metadata=of_topic("o" * 22))
    rows = partition_rows(known, [one, two], read=Disks(broker_1=NEW, broker_2=OLD))
    assert (rows["divergences"], rows["losses"]) == ([], [])
    assert {r["broker_id"] for r in rows["epoch_spans"]} == {1}
    assert rows["partitions"][0]["captured_replicas"] == [1]
    left = next(r for r in rows["replicas"] if r["broker_id"] == 2)
    assert (left["topic_id_deleted"], left["in_isr"], left["metadata_known"]) == (True, False, False)
    # An id that nobody knows is another matter: that log may be served.
    two = replica_input(segment(OLD), broker_id=2, high_watermark=90, partition_metadata=of_topic("x" * 22))
    rows = partition_rows(known, [one, two], read=Disks(broker_1=NEW, broker_2=OLD))
    assert [d["follower_id"] for d in rows["divergences"]] == [2]


def of_topic(topic_id: str) -> PartitionMetadata:
    return PartitionMetadata(version=0, topic_id=topic_id, corruptions=())


def test_an_epoch_ends_where_the_next_begins_and_its_batches_may_end_earlier() -> None:
    cleaned = headers(batch(0, 10), batch(10, 5), batch(40, 10, epoch=2))
    known = context(leader_epoch=2, leader_id=1, isr=(1, 2), epoch_leaders={0: 2, 2: 1})
    one = replica_input(segment(cleaned), broker_id=1, high_watermark=50)
    two = replica_input(segment(headers(batch(0, 10), batch(10, 20), batch(40, 10, epoch=2))), broker_id=2)
    rows = partition_rows(known, [one, two], read=Disks(broker_1=cleaned, broker_2=cleaned))["epoch_spans"]
    first = next(r for r in rows if (r["broker_id"], r["leader_epoch"]) == (1, 0))
    assert (first["last_batch_end_offset"], first["end_offset"]) == (15, 40)
    assert (first["writer_start_offset"], first["writer_end_offset"]) == (0, 40)


def test_what_the_metadata_log_does_not_know_has_no_partition_row() -> None:
    assert "partitions" not in rows_of(known=False, leader_id=None)
    assert "partitions" not in rows_of(topic_deleted=True)
