"""The first judge, row by row: what the audit's own queries say of each row, on Postgres.

Each row is a run of its own, so `verdicts.count_query` and `verdicts.results`, which speak of runs, speak of rows.
Counted as stated, where that leaves 64 bits nowhere, is the same as counted without bounds.
"""

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from typing import Any

import sqlalchemy as sa
from psycopg2.errors import NumericValueOutOfRange

from tests.fact_tables import made_anew
from tests.judges.second_judge import Verdict
from tests.judges.sql_subset import Row
from tidegauge.expectations.model import Invariant
from tidegauge.expectations.verdicts import InvariantResult, breach_query, count_query, explain, results

_SCHEMA = "first_judge"


class FirstJudge:
    """Tables to judge rows in; nothing stays in them."""

    def __init__(self, connection: sa.Connection) -> None:
        self._connection = connection
        self._tables = made_anew(connection, _SCHEMA)

    def verdicts(self, relation: str, rows: Sequence[Row], members: Sequence[Invariant]) -> list[Mapping[str, Verdict]]:
        """For each row, by code, the verdict of each of the relation's invariants `members`."""
        runs = [f"{number:06d}" for number in range(len(rows))]
        with self._connection.begin_nested() as nothing_stays:
            table = self._tables[relation]
            self._connection.execute(
                table.insert(),
                [
                    {"run_id": run_id, **row, "cluster": "c", "snapshot_id": "s"}
                    for run_id, row in zip(runs, rows, strict=True)
                ],
            )
            bound = {"run_ids": runs}
            counts = self._counts(relation, members, bound, as_stated=False)
            with suppress(_OutOf64BitsError):
                stated = self._counts(relation, members, bound, as_stated=True)
                assert counts == stated, f"{relation}: what the bounds of a sum change"
            found = [{r.code: of_one_row(r) for r in results(members, counts[run_id])} for run_id in runs]
            for invariant in members:
                query = sa.text(breach_query(invariant, schema=_SCHEMA))
                argued = [
                    (row["run_id"], explain(invariant, row))
                    for row in self._connection.execute(query, bound).mappings()
                ]
                told = [(run_id, breach.severity) for run_id, breach in argued]
                json.dumps([asdict(breach) for _, breach in argued])
                counted = [
                    (run_id, one[invariant.code].severity)
                    for run_id, one in zip(runs, found, strict=True)
                    if one[invariant.code].kind == "breached"
                ]
                assert sorted(told) == counted, f"{invariant.code}: what is counted is not what is told"
            nothing_stays.rollback()
        return found

    def _counts(
        self, relation: str, members: Sequence[Invariant], bound: Mapping[str, object], *, as_stated: bool
    ) -> Mapping[str, Mapping[str, Any]]:
        query = sa.text(count_query(relation, members, schema=_SCHEMA, as_stated=as_stated))
        try:
            with self._connection.begin_nested():
                return {row["run_id"]: dict(row) for row in self._connection.execute(query, bound).mappings()}
        except sa.exc.DataError as error:
            if isinstance(error.orig, NumericValueOutOfRange):
                raise _OutOf64BitsError from error
            raise


class _OutOf64BitsError(Exception):
    """A sum in the columns' own type was too large for it."""


def of_one_row(result: InvariantResult) -> Verdict:
    assert result.checked + result.unknown <= 1, result
    if result.breached:
        return Verdict(kind="breached", severity=result.severity)
    if result.unknown:
        (reason,) = result.reasons
        return Verdict(kind="unknown", reason=reason)
    return Verdict(kind="holds" if result.checked else "not applicable")
