"""Rows of facts as tables: numbers that a column has no room for."""

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegauge.derivation.fact_files import relation_table
from tidegauge.facts.bounds import LARGEST, within

SMALLEST = -LARGEST - 1

FAR = st.integers(-(2**66), 2**66) | st.integers(LARGEST - 2, LARGEST + 2) | st.integers(SMALLEST - 2, SMALLEST + 2)


@given(FAR, FAR)
def test_the_nearest_number_keeps_the_order_of_any_two(one: int, other: int) -> None:
    assert SMALLEST <= within(one) <= LARGEST
    assert (within(one) == one) == (SMALLEST <= one <= LARGEST)
    assert one > other or within(one) <= within(other)


def test_a_number_that_has_no_room_is_the_nearest_one_and_the_rows_beside_it_are_as_they_were() -> None:
    rows = [
        {"broker_id": 1, "topic": "a", "partition": 0, "missing_offsets": 2**63, "base_offset": -(2**64)},
        {"broker_id": 1, "topic": "b", "partition": 0, "missing_offsets": 7, "last_leader_epoch": 2**31},
    ]
    found = relation_table("segments", rows, cluster="c", snapshot_id="s").to_pylist()
    assert [(row["topic"], row["missing_offsets"]) for row in found] == [("a", LARGEST), ("b", 7)]
    assert (found[0]["base_offset"], found[0]["last_leader_epoch"]) == (SMALLEST, None)
    assert found[1]["last_leader_epoch"] == 2**31 - 1


def test_what_is_no_number_is_still_an_error() -> None:
    with pytest.raises((pa.ArrowInvalid, pa.ArrowTypeError, TypeError)):
        relation_table("segments", [{"base_offset": "seven"}], cluster="c", snapshot_id="s")
