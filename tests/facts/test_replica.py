"""One replica: where its log begins and ends, what its segments' seams show, and what damage hides."""

from typing import Any

import pytest

from tests.facts.logs import EXPIRATION, batch, checkpoint, headers, replica, replica_input, segment, summarise
from tidegauge.facts.replicas.replica import ReplicaFacts, replica_facts
from tidegauge.facts.replicas.replica_input import IndexedSegment
from tidegauge.kafka_log.corruption import Corruption, Damage


def facts(*segments: IndexedSegment, tiered: bool = False, **fields: Any) -> ReplicaFacts:
    return replica_facts(
        replica_input(*segments, **fields), topic_compacted=False, tiered=tiered, expiration=EXPIRATION
    )


def damage(kind: Damage, position: int, end_position: int) -> Corruption:
    return Corruption(kind=kind, position=position, end_position=end_position, detail="")


def first() -> IndexedSegment:
    """Made in a test: compiled kernels are loaded by tests, and not while they are collected."""
    return segment(headers(batch(0, 5), batch(5, 5)))


def test_a_sound_log_ends_after_its_last_batch() -> None:
    found = facts(first(), segment(headers(batch(10, 5)), base_offset=10))
    assert (found.log_start_offset, found.log_end_offset, found.readable_end_offset) == (0, 15, 15)
    assert [sum(row.counts.values()) for row in found.segments] == [0, 0]
    assert found.segments[1].previous_last_offset == 9
    assert found.segments[0].next_base_offset == 10


def test_a_log_without_a_segment_or_without_a_batch() -> None:
    assert facts().log_end_offset == 0
    found = facts(segment(headers(), base_offset=70))
    assert (found.log_start_offset, found.log_end_offset) == (70, 70)


def test_a_torn_tail_is_cut_and_what_lies_behind_a_break_is_only_read() -> None:
    torn = segment(headers(batch(0, 5)), corruptions=[damage(Damage.TORN_TAIL, 100, 140)], size_bytes=140)
    assert (facts(torn).log_end_offset, facts(torn).readable_end_offset) == (5, 5)
    broken = segment(
        headers(batch(0, 5), batch(20, 5)),
        corruptions=[damage(Damage.LENGTH, 100, 300)],
        valid_bytes=100,
        valid_end_offset=5,
    )
    assert (facts(broken).log_end_offset, facts(broken).readable_end_offset) == (5, 25)
    hopeless = segment(headers(), base_offset=10, corruptions=[damage(Damage.TORN_TAIL, 0, 9)], valid_end_offset=None)
    assert facts(first(), hopeless).log_end_offset == 10


@pytest.mark.parametrize(("clean_shutdown", "end"), [(False, 5), (True, 10)])
def test_a_last_batch_with_a_bad_checksum_is_cut_by_a_recovery_only(clean_shutdown: bool, end: int) -> None:
    rows = headers(batch(0, 5), batch(5, 5, crc_valid=0))
    found = facts(segment(rows), clean_shutdown=clean_shutdown)
    assert (found.log_end_offset, found.readable_end_offset) == (end, 10)
    assert replica(batch(0, 5, crc_valid=0), batch(5, 5)).log_end_offset == 10


@pytest.mark.parametrize(
    ("listed", "tiered", "start"),
    [(None, False, 10), (12, False, 12), (4, False, 10), (4, True, 4), (12, True, 12)],
)
def test_the_log_start(listed: int | None, tiered: bool, start: int) -> None:
    rows = segment(headers(batch(10, 5)), base_offset=10)
    found = facts(rows, tiered=tiered, log_start_offset=listed)
    assert (found.log_start_offset, found.local_log_start_offset) == (start, 10)


def test_the_seam_between_segments_shows_gaps_disorder_and_epochs_that_fall() -> None:
    gap = facts(first(), segment(headers(batch(12, 3)), base_offset=12)).segments[1]
    assert (gap.counts["offset_gap"], gap.boundary_missing) == (1, 2)
    (told,) = gap.boundary_damages
    assert (told["kind"], told["start_offset"], told["end_offset"], told["records"]) == ("offset_gap", 10, 12, 2)
    overlap = facts(first(), segment(headers(batch(8, 3)), base_offset=8)).segments[1]
    assert (overlap.counts["offset_order"], overlap.boundary_missing) == (1, 0)
    newer = segment(headers(batch(0, 5, epoch=4)))
    fallen = facts(newer, segment(headers(batch(5, epoch=2)), base_offset=5)).segments[1]
    assert (fallen.counts["epoch_order"], fallen.boundary_damages[0]["kind"]) == (1, "epoch_order")


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ([damage(Damage.TORN_TAIL, 200, 240)], []),
        ([], [damage(Damage.LENGTH, 0, 90)]),
    ],
)
def test_a_gap_at_a_damaged_seam_is_the_damages(left: list[Corruption], right: list[Corruption]) -> None:
    rows = headers(batch(12, 3), position=90 if right else 0)
    found = facts(
        segment(headers(batch(0, 5), batch(5, 5)), corruptions=left),
        segment(rows, base_offset=10, corruptions=right),
    ).segments[1]
    assert (found.counts["offset_gap"], found.boundary_missing, found.boundary_damages) == (0, 0, [])


def test_a_gap_at_a_producer_snapshots_offset_keeps_its_place_in_the_file() -> None:
    rows = headers(batch(0, 5), batch(5, 5), batch(12, 3))
    cut = segment(rows, ranges=((0, summarise([rows[:2]])), (10, summarise([rows[2:]]))))
    (row,) = facts(cut).segments
    assert row.counts["offset_gap"] == 1
    (finding,) = row.summary.findings
    assert (finding["position"], finding["end_position"], finding["before"]) == (200, 300, 9)


def test_the_epoch_checkpoint_and_its_disorder() -> None:
    rows = headers(batch(0, 5, epoch=1), batch(5, 5, epoch=4))
    assert facts(segment(rows), epoch_checkpoint=checkpoint((1, 0), (4, 5))).epoch_checkpoint_disorder == 0
    found = facts(segment(rows), epoch_checkpoint=checkpoint((4, 5), (1, 0), (4, 5), (-1, 9)))
    assert found.epoch_checkpoint_disorder == 3
    behind = facts(segment(rows), epoch_checkpoint=checkpoint((1, 0)))
    assert [(e.leader_epoch, e.start_offset) for e in behind.vector.entries] == [(1, 0), (4, 5)]


def test_traces_of_cleaning() -> None:
    assert not replica(batch(0, 5)).ever_compacted
    assert replica(batch(0, 5), cleaner_offset=0).ever_compacted
    assert replica(batch(0, 5, record_count=0)).ever_compacted
