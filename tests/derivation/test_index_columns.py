"""What the index step hands on comes back as it was, through Arrow and through a Parquet file."""

import io
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegauge.derivation.index_columns import INDEX_SCHEMA, batch_of, rows_of
from tidegauge.derivation.value_columns import column_of
from tidegauge.facts.segments.record_check import RecordCheck
from tidegauge.kafka_log.corruption import Corruption, Damage


class Colour(Enum):
    RED = "red"


@dataclass(frozen=True)
class Leaf:
    number: int
    colour: Colour | None = None


@dataclass
class Tree:
    leaves: dict[tuple[str, int] | str, list[Leaf]] = field(default_factory=dict)
    either: Leaf | Corruption | None = None
    seen: set[bytes] = field(default_factory=set)
    span: tuple[int, int | None] = (0, None)
    named: Mapping[int, bool] = field(default_factory=dict)


leaf = st.builds(Leaf, st.integers(-(1 << 63), (1 << 63) - 1), st.sampled_from([None, Colour.RED]))
text = st.text(st.characters(exclude_categories=["Cs"]))
damage = st.builds(
    Corruption, kind=st.sampled_from(Damage), position=st.integers(0, 9), end_position=st.just(9), detail=text
)
trees = st.builds(
    Tree,
    st.dictionaries(text | st.tuples(text, st.integers(0, 9)), st.lists(leaf, max_size=3), max_size=3),
    st.none() | leaf | damage,
    st.frozensets(st.binary(), max_size=3).map(set),
    st.tuples(st.integers(0, 9), st.none() | st.integers(0, 9)),
    st.dictionaries(st.integers(0, 9), st.booleans(), max_size=3),
)


@pytest.mark.slow
@given(given_trees=st.lists(st.none() | trees, max_size=4), start=st.integers(0, 4))
def test_values_come_back_as_they_were(given_trees: list[Tree | None], start: int) -> None:
    column = column_of(Tree)
    array = column.array(given_trees)
    array.validate(full=True)
    assert array.type == column.type
    assert column.values(array) == given_trees
    assert column.values(array.slice(start)) == given_trees[start:]
    assert column.values(pa.array(array.to_pylist(), type=column.type)) == given_trees


def test_a_value_of_none_of_the_types_is_refused() -> None:
    with pytest.raises(TypeError, match="are none of"):
        column_of(int | str).array([1.5])


@pytest.mark.parametrize("kind", [Any, dict[str, Any], object, list[int] | list[str]])
def test_a_type_that_does_not_say_what_its_values_are_has_no_column(kind: Any) -> None:
    with pytest.raises(TypeError, match="no column"):
        column_of(kind)


def test_rows_survive_a_file() -> None:
    damages = (Corruption(kind=Damage.CRC, position=0, end_position=70, detail="it is wrong", records=3),)
    rows = [
        {"path": "a", "corruptions": damages, "records": RecordCheck(batches_read=1), "range_offsets": [0]},
        {"path": "b", "error": "cannot be read"},
    ]
    file = io.BytesIO()
    pq.write_table(pa.Table.from_batches([batch_of(rows)]), file)
    table = pq.read_table(file)
    assert table.schema.equals(INDEX_SCHEMA)
    first, second = rows_of(table)
    assert (first["path"], first["error"], second["error"]) == ("a", None, "cannot be read")
    assert (first["corruptions"], first["records"]) == (damages, RecordCheck(batches_read=1))
    assert (second["corruptions"], second["records"], second["summaries"]) == (None, None, None)
