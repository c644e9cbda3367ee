"""Bounds of the high watermark, and the last stable offset below it."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegauge.facts.replicas.watermarks import (
    HighWatermarkBounds,
    ReplicaOffsets,
    high_watermark_bounds,
    last_stable_offset,
)


def offsets(broker_id: int, checkpointed: int | None, end: int, *, shared: int | None = None) -> ReplicaOffsets:
    return ReplicaOffsets(
        broker_id=broker_id,
        checkpointed_high_watermark=checkpointed,
        shared_end_offset=end if shared is None else shared,
        log_end_offset=end,
    )


def bounds(*replicas: ReplicaOffsets, must_hold: set[int], leader_id: int = 1) -> tuple[int | None, int | None]:
    found: HighWatermarkBounds = high_watermark_bounds(replicas, leader_id=leader_id, must_hold=frozenset(must_hold))
    return found.lower, found.upper


ONE, TWO, THREE = offsets(1, 90, 100), offsets(2, 80, 97), offsets(3, 95, 96)


@pytest.mark.parametrize(
    ("must_hold", "expected"),
    [
        ({1, 2, 3}, (95, 96)),
        ({1, 2}, (95, 97)),  # one that fell behind bounds nothing from above, its checkpoint still does from below
        ({1}, (95, 100)),
        ({1, 2, 4}, (95, 100)),  # a member whose log was not captured: only the leader's end is left
        ({2, 4}, (95, None)),  # the leader is no member: nothing bounds it
        (set(), (95, 100)),
    ],
)
def test_checkpoints_bound_from_below_and_members_ends_from_above(
    must_hold: set[int], expected: tuple[int, int | None]
) -> None:
    assert bounds(ONE, TWO, THREE, must_hold=must_hold) == expected


@pytest.mark.parametrize(("leader_id", "known_by"), [(1, 1), (2, 4), (4, 4)])
def test_of_checkpoints_that_say_the_same_the_leader_s_is_named(leader_id: int, known_by: int) -> None:
    replicas = [ONE, TWO, offsets(4, 95, 90), offsets(5, None, 100)]
    found = high_watermark_bounds(replicas, leader_id=leader_id, must_hold=frozenset())
    assert (found.lower, found.known_by) == (90, known_by)
    nothing = high_watermark_bounds([replicas[-1]], leader_id=5, must_hold=frozenset({5}))
    assert (nothing.lower, nothing.known_by) == (None, None)


def test_nothing_is_known_without_evidence() -> None:
    assert bounds(must_hold={1}) == (None, None)
    assert bounds(offsets(1, None, 10), must_hold={1}) == (None, 10)


def test_a_checkpoint_of_a_lineage_that_was_left_counts_up_to_where_it_parted() -> None:
    assert bounds(offsets(1, 80, 110), offsets(3, 150, 150, shared=100), must_hold={1}) == (100, 110)


def test_a_member_that_ends_below_what_is_known_to_be_committed_bounds_nothing() -> None:
    short, leader = offsets(2, 40, 50), offsets(1, 90, 100)
    assert bounds(leader, short, must_hold={1, 2}) == (90, 100)
    assert bounds(offsets(1, 10, 20), offsets(2, 90, 95), must_hold={1, 2}) == (90, None)
    damaged = replace(offsets(2, 40, 95), whole=False)
    assert bounds(leader, damaged, must_hold={1, 2}) == (90, 100)


@given(
    st.lists(st.tuples(st.none() | st.integers(0, 50), st.integers(0, 50), st.booleans()), min_size=1, max_size=4),
    st.frozensets(st.integers(1, 5)),
    st.integers(1, 5),
)
def test_the_lower_bound_is_never_above_the_upper_one(
    replicas: list[tuple[int | None, int, bool]], must_hold: frozenset[int], leader_id: int
) -> None:
    given_offsets = [
        replace(offsets(number, mark, end), whole=whole) for number, (mark, end, whole) in enumerate(replicas, 1)
    ]
    found = high_watermark_bounds(given_offsets, leader_id=leader_id, must_hold=must_hold)
    assert found.lower is None or found.upper is None or found.lower <= found.upper


@pytest.mark.parametrize(
    ("high_watermark", "unstable", "log_start", "expected"),
    [(None, 5, 0, None), (50, None, 0, 50), (50, 20, 0, 20), (50, 60, 0, 50), (50, 20, 30, 30), (50, 50, 0, 50)],
)
def test_last_stable_offset(
    high_watermark: int | None, unstable: int | None, log_start: int, expected: int | None
) -> None:
    found = last_stable_offset(
        high_watermark=high_watermark, first_unstable_offset=unstable, log_start_offset=log_start
    )
    assert found == expected
