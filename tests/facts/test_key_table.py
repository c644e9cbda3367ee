"""Keys of compacted logs: the last record of each, what two logs disagree about, and memory that stays bounded."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from tidegauge.facts.cleanup.key_table import (
    EVERY_KEY,
    KeyDifference,
    KeyTable,
    KeyTableBuilder,
    change,
    difference,
    duplicates_between,
    key_count,
)
from tidegauge.facts.producers.state import Transaction
from tidegauge.kafka_log.record_kernel import RECORD_DIGEST

Log = list[tuple[int, int | None, int | None]]
"""Records of a log: offset, key, value (None: a tombstone)."""
SPREAD = 0x9E3779B97F4A7C15


def digests(log: Log) -> NDArray[np.void]:
    rows = np.zeros(len(log), dtype=RECORD_DIGEST)
    for row, (offset, key, value) in zip(rows, log, strict=True):
        row["offset"], row["has_key"], row["has_value"] = offset, key is not None, value is not None
        row["key_digest"] = 0 if key is None else key * SPREAD % EVERY_KEY
        row["value_digest"] = 0 if value is None else value
    return rows


def table(log: Log, *, most: int = 1000, horizon: int = -1, aborted: tuple[Transaction, ...] = ()) -> KeyTable:
    builder = KeyTableBuilder(most_records=most)
    for start in range(0, len(log), 7):
        rows = digests(log[start : start + 7])
        n = len(rows)
        builder.add(
            rows,
            delete_horizon_ms=np.full(n, horizon),
            producer_id=np.full(n, 9 if aborted else -1),
            timestamp_ms=np.full(n, 5),
        )
    return builder.table(aborted)


LOG = st.lists(st.tuples(st.integers(0, 6), st.none() | st.integers(0, 3)), max_size=40).map(
    lambda pairs: [(at, key, value) for at, (key, value) in enumerate(pairs)]
)


def cleaned(log: Log, end: int) -> Log:
    """As a cleaner leaves it that came to an offset: the last record of each key, and all behind."""
    last = {key: offset for offset, key, _ in log if offset < end}
    return [r for r in log if r[0] >= end or last[r[1]] == r[0]]


@given(LOG, st.integers(0, 40), st.integers(0, 40))
def test_logs_cleaned_at_different_times_mean_the_same(log: Log, one: int, other: int) -> None:
    found = difference(table(cleaned(log, one)), table(cleaned(log, other)), start_offset=0, end_offset=len(log))
    assert (found.differing, found.missing, found.revived, found.first_offset) == (0, 0, 0, None)
    assert found.compared == len({key for _, key, _ in log})


@given(LOG, st.integers(0, 40), st.integers(1, 40))
def test_what_lies_beyond_the_common_end_may_have_replaced_a_record(log: Log, cleaned_to: int, end: int) -> None:
    found = difference(table(log), table(cleaned(log, cleaned_to)), start_offset=0, end_offset=end)
    assert (found.differing, found.missing, found.revived) == (0, 0, 0)


@given(LOG, st.integers(0, 40), st.integers(1, 40))
def test_a_log_that_ends_early_lacks_tombstones_that_came_and_went_behind_its_end(log: Log, end: int, to: int) -> None:
    """Its reader gets what the other's got then; the other's cleaner has let tombstones go, and what they deleted."""
    short = [r for r in log if r[0] < end]
    long = [r for r in cleaned(log, len(log)) if r[2] is not None or r[0] >= max(end, to)]
    outrun = (len(log) > end, False)
    found = difference(table(short), table(long), start_offset=0, end_offset=end, outrun=outrun)
    assert (found.differing, found.missing) == (0, 0)


def test_a_log_that_ends_early_is_not_excused_of_what_the_other_never_had() -> None:
    short: Log = [(0, 1, 10), (1, 2, 20), (2, 1, 11)]
    older: Log = [(0, 1, 10), (1, 2, 20), (5, 3, 30)]
    found = difference(table(short), table(older), start_offset=0, end_offset=3, outrun=(True, False))
    assert (found.missing, found.first_offset, found.only_on) == (1, 2, 0)


@given(LOG, st.integers(0, 40))
def test_a_cleaner_loses_and_changes_nothing(log: Log, end: int) -> None:
    then, now = table(log), table(cleaned(log, end))
    found = change(then, now, start_offset=0, end_offset=len(log), now_ms=0, without_horizon_due_ms=10)
    assert (found.lost, found.changed, found.early_tombstones) == (0, 0, 0)
    assert duplicates_between(now, 0, end) == (0, None)


def test_two_logs_are_told_apart_by_what_their_readers_get() -> None:
    log: Log = [(0, 1, 10), (1, 2, 20), (2, 3, None), (3, 4, 40)]
    other_value: Log = [(0, 1, 11), *log[1:]]
    assert difference(table(log), table(other_value), start_offset=0, end_offset=4) == KeyDifference(
        compared=4, differing=1, first_offset=0
    )
    lacking = difference(table(log), table(log[1:]), start_offset=0, end_offset=4)
    assert (lacking.missing, lacking.first_offset, lacking.only_on) == (1, 0, 0)
    alone = difference(table(log[1:]), table(log), start_offset=0, end_offset=4)
    assert (alone.compared, alone.missing, alone.only_on) == (4, 1, 1)
    forgotten = [r for r in log if r[1] != 3]
    assert difference(table(log), table(forgotten), start_offset=0, end_offset=4).first_offset is None, (
        "its time is over"
    )
    undead: Log = [(0, 1, 10), (1, 2, 20), (3, 4, 40)]
    deleted: Log = [*undead, (4, 2, None)]
    back = difference(table(deleted), table(undead), start_offset=0, end_offset=5)
    assert (back.revived, back.first_offset, back.only_on) == (1, 4, 0)
    assert difference(table(log), table(log[1:]), start_offset=1, end_offset=4).missing == 0, "below the log start"


def test_what_is_gone_is_told_by_why_it_may_be() -> None:
    then: Log = [(0, 1, 10), (1, 2, 20), (2, 3, None)]
    now: Log = [(1, 2, 21), (9, 1, 11)]
    found = change(
        table(then, horizon=100), table(now), start_offset=0, end_offset=3, now_ms=50, without_horizon_due_ms=None
    )
    assert (found.compared, found.lost, found.changed, found.first_changed_offset) == (3, 0, 1, 1)
    assert (found.early_tombstones, found.first_early_offset, found.due_at_ms) == (1, 2, 100)
    late = change(
        table(then, horizon=100), table(now), start_offset=0, end_offset=3, now_ms=100, without_horizon_due_ms=None
    )
    assert late.early_tombstones == 0
    unmarked = change(table(then), table([]), start_offset=0, end_offset=3, now_ms=50, without_horizon_due_ms=60)
    assert (unmarked.lost, unmarked.early_tombstones, unmarked.due_at_ms) == (2, 1, 60)


def test_what_was_aborted_and_what_has_no_key_is_no_ones_last_record() -> None:
    transaction = Transaction(
        producer_id=9, producer_epoch=0, first_offset=1, last_offset=2, records=2, first_timestamp=0, last_timestamp=0,
        outcome="aborted", marker_offset=3,
    )  # fmt: skip
    found = table([(0, 1, 10), (1, 1, 11), (2, None, 5), (4, None, 6)], aborted=(transaction,))
    assert found.records["offset"].tolist() == [0]
    assert (found.unkeyed_records, found.first_unkeyed_offset) == (1, 4)


@given(st.integers(1, 60), st.integers(0, 2**32))
def test_beyond_its_room_a_table_keeps_the_same_keys_everywhere(most: int, seed: int) -> None:
    log: Log = [(at, (at * 7919 + seed) % 97, 1) for at in range(200)]
    small, whole = table(log, most=most), table(log)
    assert len(small.records) <= most
    assert 1 <= small.permille <= whole.permille == 1000
    kept = whole.records["key_digest"] < np.uint64(min(small.limit, EVERY_KEY - 1))
    assert small.records["offset"].tolist() == whole.records[kept]["offset"].tolist()
    assert key_count(whole) == 97
    assert difference(small, whole, start_offset=0, end_offset=200).first_offset is None
