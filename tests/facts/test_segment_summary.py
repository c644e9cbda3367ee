"""The fold and its merge: whatever a log holds and wherever it is cut, the parts' merge is the whole's summary."""

from dataclasses import fields
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from numpy.typing import NDArray

from tests.facts.logs import ABORT, batch, headers, marker, summarise
from tidegauge.facts.bounds import LARGEST, within
from tidegauge.facts.segments.fold import SummaryFold
from tidegauge.facts.segments.summary import (
    BUCKET_OFFSETS,
    FINDING_KINDS,
    FINDINGS_KEPT,
    GAPS_KEPT,
    MARKER,
    RUN,
    SegmentSummary,
    empty_summary,
    merge,
)
from tidegauge.facts.segments.summary_pieces import entries, pieces_of, whole_of

LAST_SEQUENCE = 2_147_483_647


def parts_of(summary: SegmentSummary) -> dict[str, Any]:
    """All of a summary in a form that can be compared; gaps and findings as sets, since order is by kind."""
    values = {f.name: getattr(summary, f.name) for f in fields(summary)}
    for name, value in values.items():
        if isinstance(value, np.ndarray):
            rows = value.tolist()
            values[name] = sorted(rows) if name in ("gaps", "findings") else rows
    return values


@st.composite
def logs(draw: st.DrawFn) -> NDArray[Any]:
    """A log that a broker, a cleaner, a bug or bad luck might leave."""
    rows: list[NDArray[Any]] = []
    offset = draw(st.sampled_from([0, 7, BUCKET_OFFSETS - 3, 5 * BUCKET_OFFSETS]))
    epoch = draw(st.integers(0, 3))
    sequences: dict[int, int] = {}
    for _ in range(draw(st.integers(0, 24))):
        offset += draw(st.sampled_from([0, 0, 0, 0, 1, 30, BUCKET_OFFSETS, -2]))
        offset = max(offset, 0)
        epoch = max(0, epoch + draw(st.sampled_from([0, 0, 0, 1, 3, -1])))
        producer = draw(st.sampled_from([-1, 5, 5, 6, 1_000]))
        timestamp = draw(st.integers(0, 100))
        crc_valid = draw(st.sampled_from([1, 1, 1, 0]))
        if producer >= 0 and draw(st.booleans()) and draw(st.booleans()):
            rows.append(
                marker(
                    offset,
                    producer_id=producer,
                    producer_epoch=draw(st.integers(0, 2)),
                    kind=draw(st.sampled_from([0, 1, -2])),
                    coordinator_epoch=draw(st.integers(0, 2)),
                    epoch=epoch,
                    timestamp=timestamp,
                    control_records_ok=draw(st.sampled_from([1, 1, 0])),
                )
            )
            offset += 1
            continue
        records = draw(st.integers(1, 5))
        expected = sequences.get(producer, draw(st.sampled_from([0, LAST_SEQUENCE - 2])))
        first = draw(st.sampled_from([expected, expected, expected, expected + 3, expected - 2, -1]))
        first = first if first == -1 else first % (LAST_SEQUENCE + 1)
        row = batch(
            offset,
            records,
            epoch=epoch,
            producer_id=producer,
            producer_epoch=draw(st.sampled_from([0, 0, 0, 1])) if producer >= 0 else -1,
            sequence=first if producer >= 0 else -1,
            transactional=producer >= 0 and draw(st.booleans()),
            timestamp=timestamp,
            size_bytes=draw(st.integers(70, 90)),
            crc_valid=crc_valid,
            magic=draw(st.sampled_from([2] * 12 + [1])),
        )
        if draw(st.integers(0, 9)) == 0:
            row["record_count"] += draw(st.sampled_from([-1, 1]))
        rows.append(row)
        sequences[producer] = (first + records) % (LAST_SEQUENCE + 1) if first >= 0 else 0
        offset += records
    return headers(*rows)


@given(log=logs(), at=st.integers(0, 24), ignore=st.booleans())
@example(log=headers(batch(0, epoch=1), batch(1, magic=1), batch(2)), at=1, ignore=False)
def test_the_merge_of_two_parts_is_the_summary_of_the_whole(log: NDArray[Any], at: int, ignore: bool) -> None:
    left, right = (summarise([part], ignore_sequences=ignore) for part in (log[:at], log[at:]))
    whole = summarise([log], ignore_sequences=ignore)
    assert parts_of(merge(left, right, ignore_sequences=ignore)) == parts_of(whole)


@given(log=logs(), cuts=st.tuples(st.integers(0, 24), st.integers(0, 24)))
def test_merging_is_associative_and_the_empty_summary_is_neutral(log: NDArray[Any], cuts: tuple[int, int]) -> None:
    first, second = sorted(cuts)
    a, b, c = (summarise([part]) for part in (log[:first], log[first:second], log[second:]))
    assert parts_of(merge(merge(a, b), c)) == parts_of(merge(a, merge(b, c)))
    assert parts_of(merge(empty_summary(), a)) == parts_of(a) == parts_of(merge(a, empty_summary()))


@given(log=logs(), at=st.integers(0, 24))
def test_blocks_say_nothing_about_the_log(log: NDArray[Any], at: int) -> None:
    fold = SummaryFold()
    for block in (log[:at], log[at:at], log[at:]):
        fold.add(block)
    assert parts_of(fold.summary()) == parts_of(summarise([log]))


@given(log=logs(), room=st.integers(1, 12))
def test_a_summary_in_pieces_is_the_same_summary(log: NDArray[Any], room: int) -> None:
    summary = summarise([log])
    pieces = list(pieces_of(summary, room))
    assert all(entries(piece) <= room for piece in pieces)
    assert len(pieces) == max(1, -(-entries(summary) // room))
    assert parts_of(whole_of(pieces)) == parts_of(summary)


def test_producers_by_the_thousand_are_in_pieces() -> None:
    log = headers(*[batch(i, producer_id=i, sequence=0) for i in range(2_000)])
    pieces = list(pieces_of(summarise([log]), 100))
    assert max(len(piece.events) for piece in pieces) <= 100
    assert whole_of(pieces).events["producer_id"].tolist() == list(range(2_000))


def test_what_a_summary_counts() -> None:
    summary = summarise(
        [
            headers(
                batch(10, 3, epoch=1, timestamp=5),
                batch(13, 2, epoch=1, timestamp=9, crc_valid=0),
                marker(15, producer_id=4, epoch=2, timestamp=7),
            )
        ]
    )
    assert (summary.batch_count, summary.record_count, summary.data_record_count) == (3, 6, 5)
    assert (summary.first_offset, summary.last_offset, summary.max_timestamp_ms) == (10, 15, 9)
    assert (summary.first_leader_epoch, summary.last_leader_epoch, summary.crc_errors) == (1, 2, 1)
    assert (summary.last_good_offset, summary.last_batch_crc_bad, summary.largest_producer_id) == (15, False, 4)
    assert [run[:5] for run in summary.epoch_runs.tolist()] == [(1, 10, 15, 2, 5), (2, 15, 16, 1, 1)]
    assert sum(summary.counts) == 0
    assert len(summary.findings) == 0


@pytest.mark.parametrize(
    ("rows", "kind", "told"),
    [
        ([batch(5, 5), batch(8)], "offset_order", {"start_offset": 8, "end_offset": 9, "before": 9, "found": 8}),
        ([batch(5, 5), batch(12)], "offset_gap", {"start_offset": 10, "end_offset": 12, "before": 9, "found": 12}),
        ([batch(5, 2, record_count=3)], "record_count", {"before": 2, "found": 3}),
        ([batch(5, 3, record_count=2)], "short_batch", {"before": 3, "found": 2}),
        ([marker(5, producer_id=1, control_records_ok=0)], "control_batch", {"start_offset": 5, "before": 1}),
        ([batch(5, producer_id=1, producer_epoch=-1, sequence=0)], "producer_fields", {"before": 1, "found": 0}),
        ([batch(5, transactional=True)], "producer_fields", {"before": -1}),
        ([batch(5, epoch=-1)], "epoch_missing", {"found": -1}),
        ([batch(5, epoch=4), batch(6, epoch=2)], "epoch_order", {"start_offset": 6, "before": 4, "found": 2}),
    ],
)
def test_what_breaks_a_rule_is_found_and_nothing_else(
    rows: list[NDArray[Any]], kind: str, told: dict[str, int]
) -> None:
    summary = summarise([headers(*rows)])
    assert dict(zip(FINDING_KINDS, summary.counts, strict=True)) == {k: int(k == kind) for k in FINDING_KINDS}
    (finding,) = summary.findings
    assert finding["position"] == 100 * (len(rows) - 1)
    assert {name: int(finding[name]) for name in told} == told


def test_a_gap_behind_a_damaged_place_is_the_damages() -> None:
    rows = headers(batch(0), batch(5))
    rows["position"][1] += 1_000
    assert summarise([rows]).count("offset_gap") == 0
    assert merge(summarise([rows[:1]]), summarise([rows[1:]])).count("offset_gap") == 0
    rows["position"][1] = 0  # the first batch of the next segment
    assert merge(summarise([rows[:1]]), summarise([rows[1:]])).missing_offsets == 4


def test_what_lies_behind_a_base_offset_with_its_first_bit_turned_is_more_than_64_bits_count() -> None:
    turned = batch(20 - 2**63, 10)
    log = headers(batch(0, 10), batch(10, 10), turned, batch(30, 10))
    missing = 30 - (30 - 2**63)
    assert missing == 2**63
    whole = summarise([log])
    assert (whole.count("offset_order"), whole.count("offset_gap")) == (1, 1)
    assert whole.missing_offsets == LARGEST
    for at in range(5):
        parts = merge(summarise([log[:at]]), summarise([log[at:]]))
        assert within(parts.missing_offsets) == LARGEST
        assert sorted(parts.findings.tolist()) == sorted(whole.findings.tolist())


def test_findings_are_counted_all_and_kept_to_a_limit() -> None:
    rows = [batch(2 * n, producer_id=3, sequence=5 * n) for n in range(GAPS_KEPT + 50)]
    summary = summarise([headers(*rows)])
    assert summary.count("offset_gap") == GAPS_KEPT + 49
    assert len(summary.findings) == FINDINGS_KEPT
    assert len(summary.gaps) == GAPS_KEPT
    (run,) = summary.events
    assert (run["gaps"], run["missing_sequences"]) == (GAPS_KEPT + 49, 4 * (GAPS_KEPT + 49))


def test_a_producers_batches_are_one_run_over_the_wrap_of_its_sequences() -> None:
    rows = headers(
        batch(0, 3, producer_id=9, sequence=LAST_SEQUENCE - 1), batch(3, 2, producer_id=9, sequence=1, timestamp=77)
    )
    summary = summarise([rows])
    (run,) = summary.events
    assert (run["kind"], run["first_sequence"], run["last_sequence"], run["gaps"]) == (RUN, LAST_SEQUENCE - 1, 2, 0)
    assert (run["first_offset"], run["last_offset"], run["last_offset_delta"], run["last_timestamp"]) == (0, 4, 1, 77)
    assert len(summary.gaps) == 0


def test_what_goes_back_begins_a_new_run_and_a_marker_ends_one() -> None:
    rows = headers(
        batch(0, 2, producer_id=9, sequence=0, transactional=True),
        batch(2, 2, producer_id=9, sequence=0, transactional=True),
        marker(4, producer_id=9, kind=ABORT, coordinator_epoch=3),
        batch(5, 2, producer_id=9, sequence=2, transactional=True),
    )
    events = summarise([rows]).events
    assert events["kind"].tolist() == [RUN, RUN, MARKER, RUN]
    assert events["first_sequence"].tolist() == [0, 0, -1, 2]
    assert (int(events[2]["marker_type"]), int(events[2]["coordinator_epoch"])) == (ABORT, 3)
    assert len(summarise([rows], ignore_sequences=True).events) == 3


def test_digests_see_every_part_of_a_batch_and_not_its_place_in_the_file() -> None:
    def digest(*rows: NDArray[Any], position: int = 0) -> Any:
        return summarise([headers(*rows, position=position)]).buckets["digest"].tolist()

    one = batch(4, 3, epoch=2)
    assert digest(one) == digest(one, position=9_000)
    for name in ("base_offset", "last_offset", "partition_leader_epoch", "crc", "size_bytes"):
        other = one.copy()
        other[name] += 1
        assert digest(other) != digest(one), name


def test_buckets_are_of_offsets_not_of_segments() -> None:
    rows = headers(batch(0), batch(BUCKET_OFFSETS - 1), batch(BUCKET_OFFSETS), batch(3 * BUCKET_OFFSETS))
    summary = summarise([rows])
    assert summary.buckets["bucket"].tolist() == [0, 1, 3]
    assert summary.buckets["batches"].tolist() == [2, 1, 1]
    assert summary.buckets["end_offset"].tolist() == [BUCKET_OFFSETS, BUCKET_OFFSETS + 1, 3 * BUCKET_OFFSETS + 1]


def test_more_producers_than_the_table_begins_with() -> None:
    rows = headers(*(batch(n, producer_id=n * 7_919, sequence=0) for n in range(500)))
    fold = SummaryFold()
    for at in range(0, 500, 37):
        fold.add(rows[at : at + 37])
    again = headers(*(batch(500 + n, producer_id=n * 7_919, sequence=1) for n in range(500)), position=50_000)
    fold.add(again)
    events = fold.summary().events
    assert len(events) == 500
    assert set(events["batches"].tolist()) == {2}
