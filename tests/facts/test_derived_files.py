"""Derived files against their log: each kind of wrong entry, and what a live broker soundly leaves behind."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tests.facts.logs import batch, headers
from tidegauge.facts.metadata.expiration import SOONEST_EXPIRATION_MS
from tidegauge.facts.producers.snapshot_content import check_producer_snapshot
from tidegauge.facts.producers.state import Transaction
from tidegauge.facts.replicas.derived_files import LaterAppends, SegmentIndexCheck, check_transaction_index
from tidegauge.facts.segments.index_file_facts import IndexFileFacts
from tidegauge.kafka_log.indexes import OffsetIndex, TimeIndex
from tidegauge.kafka_log.producer_snapshot import ProducerSnapshot, ProducerSnapshotEntry
from tidegauge.kafka_log.transaction_index import AbortedTransaction, TransactionIndex

LOG = headers(*(batch(10 * n, 10, timestamp=1_000 + 5 * n) for n in range(10)))
"""Ten batches of 100 bytes and ten records; timestamps rise by 5 from 1000."""


def offset_index(*entries: tuple[int, int]) -> OffsetIndex:
    return OffsetIndex(
        offsets=np.array([e[0] for e in entries], dtype=np.int64),
        positions=np.array([e[1] for e in entries], dtype=np.int64),
        stale_entries=0,
        padding_bytes=0,
        corruptions=(),
    )


def time_index(*entries: tuple[int, int]) -> TimeIndex:
    return TimeIndex(
        timestamps=np.array([e[0] for e in entries], dtype=np.int64),
        offsets=np.array([e[1] for e in entries], dtype=np.int64),
        stale_entries=0,
        padding_bytes=0,
        corruptions=(),
    )


def checked(
    offsets: OffsetIndex | None = None,
    times: TimeIndex | None = None,
    *,
    stale: bool = False,
    sealed: bool = True,
    block: int = 3,
) -> tuple[IndexFileFacts | None, IndexFileFacts | None]:
    check = SegmentIndexCheck(offsets, times, tail_may_be_stale=stale)
    for at in range(0, len(LOG), block):
        check.add(LOG[at : at + block])
    return check.finish(sealed=sealed)


@pytest.mark.parametrize("block", [1, 3, 10])
@pytest.mark.parametrize(
    ("entries", "errors"),
    [
        ([(39, 300), (99, 900)], 0),
        ([(59, 300), (99, 900)], 0),  # before 4.1: the last offset of an append, the position of its first batch
        ([(38, 300), (99, 900)], 1),
        ([(39, 310), (99, 900)], 1),
        ([(39, 400), (99, 900)], 1),
        ([(39, 300), (109, 900)], 1),
        ([(39, 300), (99, 5_000)], 1),
    ],
)
def test_an_offset_index_leads_to_batches(entries: list[tuple[int, int]], errors: int, block: int) -> None:
    index, _ = checked(offset_index(*entries), block=block)
    assert index is not None
    assert index.pointer_errors == errors == len(index.damages)


@pytest.mark.parametrize("block", [1, 3, 10])
@pytest.mark.parametrize(
    ("entries", "errors"),
    [
        ([(1_015, 39), (1_045, 99)], 0),
        ([(1_016, 39), (1_045, 99)], 1),
        ([(1_015, 39), (1_045, 89)], 1),
        ([(1_015, 39)], 1),  # a sealed segment's last entry holds its largest timestamp
        ([], 0),
    ],
)
def test_a_time_index_holds_the_largest_timestamps(entries: list[tuple[int, int]], errors: int, block: int) -> None:
    _, times = checked(times=time_index(*entries), block=block)
    assert times is not None
    assert times.pointer_errors == errors


def test_an_active_time_index_need_not_reach_the_end() -> None:
    _, times = checked(times=time_index((1_015, 39)), sealed=False)
    assert times is not None
    assert times.pointer_errors == 0


def test_entries_left_over_from_before_a_truncation_are_stale_not_wrong() -> None:
    index, _ = checked(offset_index((39, 300), (77, 650), (111, 990)), stale=True)
    assert index is not None
    assert (index.pointer_errors, index.stale_tail) == (0, True)
    middle, _ = checked(offset_index((39, 300), (66, 650), (99, 900)), stale=True)
    assert middle is not None
    assert (middle.pointer_errors, middle.stale_tail) == (1, False)
    assert checked() == (None, None)


def test_of_a_sealed_index_full_of_zeros_every_entry_is_counted_and_the_first_are_told() -> None:
    zeros = [(0, 0)] * 1_000
    index, times = checked(offset_index(*zeros), time_index(*zeros))
    assert index is not None
    assert times is not None
    assert (index.pointer_errors, [place["position"] for place in index.damages]) == (1_000, [*range(0, 400, 8)])
    assert (times.pointer_errors, [place["position"] for place in times.damages]) == (1_000, [*range(0, 600, 12)])


def aborted(producer_id: int, first: int, marker: int, stable: int) -> Transaction:
    return Transaction(
        producer_id=producer_id,
        producer_epoch=0,
        first_offset=first,
        last_offset=marker - 1,
        records=1,
        first_timestamp=0,
        last_timestamp=0,
        outcome="aborted",
        marker_offset=marker,
        last_stable_offset=stable,
    )


def entry(producer_id: int, first: int, last: int, stable: int) -> AbortedTransaction:
    return AbortedTransaction(producer_id=producer_id, first_offset=first, last_offset=last, last_stable_offset=stable)


ABORTED = [aborted(1, 10, 20, 15), aborted(2, 15, 30, 31)]
ENTRIES = [entry(1, 10, 20, 15), entry(2, 15, 30, 31)]


LATER = LaterAppends(begun=[(10, 1), (15, 2), (33, 2), (36, 1), (40, 3)], epoch_starts=[0, 50], log_end_offset=90)
"""Behind the marker at 30, the producer itself begins a transaction at 33, another one at 36."""


def transactions(*entries: AbortedTransaction, **more: Any) -> dict[str, int]:
    fields: dict[str, Any] = {
        "aborted": ABORTED,
        "later": LATER,
        "base_offset": 0,
        "next_base_offset": 100,
        "head_gone": False,
        "log_first_offset": 0,
        "log_start_offset": 0,
        **more,
    }
    found = check_transaction_index(TransactionIndex(entries=entries, corruptions=()), **fields)
    assert found is not None
    names = ("form_errors", "missing_entries", "extra_entries", "last_stable_offset_errors")
    return {name: getattr(found, name) for name in names if getattr(found, name)}


@pytest.mark.parametrize(
    ("entries", "errors"),
    [
        (ENTRIES, {}),
        (ENTRIES[:1], {"missing_entries": 1}),
        ([], {"missing_entries": 2}),
        ([*ENTRIES, entry(9, 40, 50, 51)], {"extra_entries": 1}),
        ([replace(ENTRIES[0], first_offset=11), ENTRIES[1]], {"extra_entries": 1, "missing_entries": 1}),
        ([replace(ENTRIES[0], last_stable_offset=14), ENTRIES[1]], {"last_stable_offset_errors": 1}),
        (ENTRIES[::-1], {"form_errors": 1}),
        ([*ENTRIES, entry(9, 60, 50, 40)], {"form_errors": 1, "extra_entries": 1}),
        ([*ENTRIES, entry(9, 60, 70, 72)], {"form_errors": 1, "extra_entries": 1}),
        ([*ENTRIES, entry(9, 90, 100, 101)], {"form_errors": 1, "extra_entries": 1}),
    ],
)
def test_a_transaction_index_holds_what_was_aborted(entries: list[AbortedTransaction], errors: dict[str, int]) -> None:
    assert transactions(*entries) == errors


@pytest.mark.parametrize(
    ("stable", "errors"),
    [
        (36, {}),
        (33, {"form_errors": 1}),
        (40, {"form_errors": 1}),
        (49, {"form_errors": 1}),
        (50, {}),
        (90, {}),
        (30, {"last_stable_offset_errors": 1}),
    ],
)
def test_a_follower_knows_of_what_begins_behind_a_marker_when_it_writes_the_entry(
    stable: int, errors: dict[str, int]
) -> None:
    """Of the next transaction of another producer; from 50 on the log was written again, from 90 on it is not there."""
    assert transactions(ENTRIES[0], replace(ENTRIES[1], last_stable_offset=stable)) == errors
    assert transactions(ENTRIES[0], replace(ENTRIES[1], last_stable_offset=49), later=None) == {}


def test_what_a_follower_wrote_in_one_go_is_in_one_segment() -> None:
    later = replace(ENTRIES[1], last_stable_offset=36)
    assert transactions(ENTRIES[0], later, next_base_offset=37) == {}
    assert transactions(ENTRIES[0], later, next_base_offset=36) == {"form_errors": 1}


def test_where_an_other_transaction_was_open_at_the_marker_nothing_else_will_do() -> None:
    above = replace(ENTRIES[0], last_stable_offset=33)
    assert transactions(above, ENTRIES[1]) == {"last_stable_offset_errors": 1}


def test_where_the_head_is_gone_the_log_only_confirms_the_marker() -> None:
    cut = {"head_gone": True, "log_first_offset": 12}
    assert transactions(entry(1, 5, 20, 15), ENTRIES[1], **cut) == {}
    assert transactions(entry(3, 5, 8, 9), *ENTRIES, **cut) == {}
    assert transactions(*ENTRIES, entry(9, 40, 50, 51), **cut) == {"extra_entries": 1}


def test_a_transaction_from_below_the_log_start_need_not_be_named_in_full() -> None:
    started = {"log_start_offset": 14, "head_gone": True}
    assert transactions(replace(ENTRIES[0], first_offset=12), ENTRIES[1], **started) == {}
    assert transactions(ENTRIES[1], **started) == {}
    assert transactions(ENTRIES[0], **started) == {"missing_entries": 1}
    assert transactions(ENTRIES[0], replace(ENTRIES[1], first_offset=16), **started) == {
        "extra_entries": 1,
        "missing_entries": 1,
    }


def test_only_the_aborts_whose_marker_lies_in_the_segment_count() -> None:
    assert transactions(ENTRIES[0], next_base_offset=25) == {}
    assert transactions(ENTRIES[1], base_offset=25) == {}
    none = check_transaction_index(
        None,
        aborted=[],
        later=None,
        base_offset=0,
        next_base_offset=None,
        head_gone=False,
        log_first_offset=0,
        log_start_offset=0,
    )
    assert none is None


STATE = ProducerSnapshotEntry(
    producer_id=7,
    producer_epoch=1,
    last_sequence=9,
    last_offset=40,
    offset_delta=2,
    timestamp=5_000,
    coordinator_epoch=3,
    current_transaction_first_offset=None,
)


def snapshot(*states: ProducerSnapshotEntry, **more: Any) -> dict[str, int]:
    entries = tuple(states)
    fields: dict[str, Any] = {
        "offset": 50,
        "states": {7: STATE},
        "head_gone": False,
        "log_first_offset": 0,
        "compacted": False,
        "log_start_offset": 0,
        "taken_before_ms": 5_100,
        **more,
    }
    found = check_producer_snapshot(ProducerSnapshot(version=1, entries=entries, corruptions=()), **fields)
    names = ("range_errors", "missing_entries", "extra_entries", "wrong_entries")
    return {name: getattr(found, name) for name in names if getattr(found, name)}


@pytest.mark.parametrize("field", ["producer_epoch", "last_sequence", "offset_delta", "timestamp", "coordinator_epoch"])
def test_a_producer_snapshot_holds_the_replayed_state(field: str) -> None:
    assert snapshot(STATE) == {}
    assert snapshot(replace(STATE, **{field: getattr(STATE, field) - 1})) == {"wrong_entries": 1}


def test_a_snapshots_transaction_and_its_ranges() -> None:
    opened = replace(STATE, current_transaction_first_offset=38)
    assert snapshot(opened) == {"wrong_entries": 1}
    assert snapshot(opened, states={7: opened}) == {}
    beyond = replace(STATE, last_offset=50)
    assert snapshot(beyond, states={7: beyond}) == {"range_errors": 1}
    early = replace(STATE, last_offset=1)
    assert snapshot(early, states={7: early}) == {"range_errors": 1}


def test_who_may_be_missing_and_who_may_be_more() -> None:
    assert snapshot() == {"missing_entries": 1}
    assert snapshot(taken_before_ms=STATE.timestamp + SOONEST_EXPIRATION_MS) == {}
    assert snapshot(taken_before_ms=None) == {}
    assert snapshot(compacted=True) == {}
    assert snapshot(log_start_offset=41) == {}
    opened = replace(STATE, current_transaction_first_offset=38)
    assert snapshot(states={7: opened}, taken_before_ms=None) == {"missing_entries": 1}
    stranger = replace(STATE, producer_id=8)
    assert snapshot(STATE, stranger) == {"extra_entries": 1}
    assert snapshot(STATE, stranger, head_gone=True) == {}
    assert snapshot(STATE, stranger, compacted=True) == {}


def test_of_a_producer_whose_data_went_with_the_logs_head_only_its_marker_is_compared() -> None:
    marked = replace(STATE, last_sequence=-1, last_offset=-1, offset_delta=0)
    gone: dict[str, Any] = {"states": {7: marked}, "head_gone": True, "log_first_offset": STATE.last_offset + 1}
    assert snapshot(STATE, **gone) == {}
    assert snapshot(replace(STATE, coordinator_epoch=2), **gone) == {"wrong_entries": 1}
    assert snapshot(STATE, **gone | {"log_first_offset": STATE.last_offset}) == {"wrong_entries": 1}
    assert snapshot(STATE, **gone | {"head_gone": False}) == {"wrong_entries": 1}


def test_without_a_replay_nothing_is_compared() -> None:
    found = check_producer_snapshot(
        ProducerSnapshot(version=1, entries=(), corruptions=()),
        offset=50,
        states=None,
        head_gone=False,
        log_first_offset=0,
        compacted=False,
        log_start_offset=0,
        taken_before_ms=None,
    )
    assert (found.content_checkable, found.missing_entries) == (False, 0)


def test_a_state_that_was_rebuilt_knows_nothing_below_the_log_start() -> None:
    """After DeleteRecords the segments below lie there for a while; a broker that starts then does not read them."""
    marked = replace(STATE, last_sequence=-1, last_offset=-1, offset_delta=0)
    begun = replace(STATE, current_transaction_first_offset=STATE.last_offset - 1)
    deleted: dict[str, Any] = {"log_start_offset": STATE.last_offset + 1}
    assert snapshot(marked, **deleted) == {}
    assert snapshot(marked, log_start_offset=STATE.last_offset) == {"wrong_entries": 1}
    assert snapshot(replace(STATE, coordinator_epoch=-1), **deleted) == {}
    assert snapshot(replace(STATE, coordinator_epoch=-1)) == {"wrong_entries": 1}
    assert snapshot(replace(STATE, coordinator_epoch=STATE.coordinator_epoch + 1), **deleted) == {"wrong_entries": 1}
    assert snapshot(replace(STATE, last_sequence=STATE.last_sequence - 1), **deleted) == {"wrong_entries": 1}
    assert snapshot(STATE, states={7: begun}, **deleted) == {}
    assert snapshot(begun, **deleted) == {"wrong_entries": 1}
