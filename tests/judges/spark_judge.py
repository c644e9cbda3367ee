"""The first judge once more, row by row: what the audit's own SQL says of each row where Spark reads it."""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from tests.judges.first_judge import of_one_row
from tests.judges.second_judge import Verdict
from tests.judges.sql_subset import Row
from tidegauge.expectations.dialects import Dialect
from tidegauge.expectations.model import Invariant
from tidegauge.expectations.states import counts_of, state_of, states_of
from tidegauge.expectations.verdicts import results
from tidegauge.relations import RELATIONS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

States = list[dict[str, Any]]


class SparkJudge:
    """A session to judge rows in, and a folder for their files: rows in a file are judged as an audit judges them."""

    def __init__(self, spark: "SparkSession", folder: Path) -> None:
        self._spark = spark
        self._folder = folder

    def verdicts(self, relation: str, rows: Sequence[Row], members: Sequence[Invariant]) -> list[Mapping[str, Verdict]]:
        """For each row, by code, the verdict of each of the relation's invariants `members`."""
        found = self._states(relation, rows, members, as_stated=False)
        with suppress(_OutOf64BitsError):
            stated = self._states(relation, rows, members, as_stated=True)
            assert found == stated, f"{relation}: what the bounds of a sum change"
        return [{r.code: of_one_row(r) for r in results(members, _counted(members, states))} for states in found]

    def _states(self, relation: str, rows: Sequence[Row], members: Sequence[Invariant], *, as_stated: bool) -> States:
        from pyspark.errors import ArithmeticException

        path = self._folder / f"{relation}.parquet"
        kept = [{name: _kept(relation, name, value) for name, value in row.items()} for row in rows]
        pq.write_table(pa.Table.from_pylist(kept, schema=RELATIONS[relation].arrow_schema), path)
        states = states_of(members, dialect=Dialect.SPARK, as_stated=as_stated)
        frame = self._spark.read.parquet(str(path)).selectExpr(*(f"{sql} AS {name}" for name, sql in states.items()))
        try:
            found: States = frame.toArrow().to_pylist()
        except ArithmeticException as error:
            raise _OutOf64BitsError from error
        return found


class _OutOf64BitsError(Exception):
    """A sum in the columns' own type was too large for it."""


def _kept(relation: str, name: str, value: Any) -> Any:
    """A value as Parquet has it, where what is nested is text."""
    nested = value is not None and any(c.name == name and c.type == "json" for c in RELATIONS[relation].columns)
    return json.dumps(value) if nested else value


def _counted(members: Sequence[Invariant], states: Mapping[str, str | None]) -> Mapping[str, int]:
    found = Counter(f"{i.code}_{states[state_of(i)]}" for i in members)
    return {name: found[name] for name in counts_of(members)}
