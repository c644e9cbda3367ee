"""What the catalogue says of facts that were derived in this process: its own queries on a real Postgres.

In: `Derived` facts. Out: `InvariantResult` by code, and breaches. It is the evaluation without a run, a report and
Great Expectations, which have tests of their own.
"""

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from tests.derivation.pipeline import Derived, derived
from tests.fact_tables import made_anew
from tidegauge.expectations.registry import CATALOGUE, by_relation
from tidegauge.expectations.verdicts import Breach, InvariantResult, breach_query, count_query, explain, fold, results
from tidegauge.relations import RELATIONS
from tidegauge.runs.missing_evidence import kept, missing_in

_SCHEMA = "judging"
_OF_A_PART = {"D17", "D20"}
"""What a copy of some partitions breaches by itself: replicas are missing."""


class Judge:
    """A schema of tables to judge facts in, one set of facts after the other."""

    def __init__(self, connection: sa.Connection) -> None:
        self._connection = connection
        self._tables = made_anew(connection, _SCHEMA)
        self._runs = 0

    def verdicts(self, facts: Derived, families: Iterable[str]) -> tuple[dict[str, InvariantResult], list[Breach]]:
        """The results of every invariant of these families, and their breaches."""
        self._runs += 1
        run = {"run_id": f"run {self._runs}"}
        bound = {"run_ids": [run["run_id"]]}
        missing = missing_in({"missing": kept(facts.missing())})
        chosen = [i for i in CATALOGUE.values() if i.code[0] in families]
        found: dict[str, InvariantResult] = {}
        breaches: list[Breach] = []
        for relation, members in by_relation(chosen).items():
            types = {c.name: c.type for c in RELATIONS[relation].columns}
            rows = [
                {n: json.loads(v) if types.get(n) == "json" and v is not None else v for n, v in row.items()} | run
                for row in facts.rows.get(relation, [])
            ]
            if rows:
                self._connection.execute(self._tables[relation].insert(), rows)
            counted = self._connection.execute(sa.text(count_query(relation, members, schema=_SCHEMA)), bound)
            judged = results(members, counted.mappings().one_or_none(), missing)
            found |= {r.code: r for r in judged}
            # As the pipeline does: most invariants hold, and to ask each for its breaches costs more than all the rest.
            for invariant in (CATALOGUE[r.code] for r in judged if r.breached):
                asked = self._connection.execute(sa.text(breach_query(invariant, schema=_SCHEMA)), bound)
                breaches += [explain(invariant, row) for row in asked.mappings()]
        return found, breaches

    @property
    def last_run(self) -> str:
        """The run in which facts were judged last, to `ask` it."""
        return f"run {self._runs}"

    def ask(self, query: str, run_id: str) -> Sequence[Any]:
        """Rows of a query over the facts of a run, in which each relation stands by its bare name."""
        facts = ",\n".join(f"{n} AS (SELECT * FROM {_SCHEMA}.{n} WHERE run_id = :run_id)" for n in self._tables)
        return self._connection.execute(sa.text(f"WITH {facts}\n{query}"), {"run_id": run_id}).all()


def roots(judge: Judge, directory: Path, previous: Path | None = None, *, a_part: bool = False) -> list[Breach]:
    """A directory's breaches that follow from no other. `a_part`: it is a copy of some partitions only."""
    _, breaches = judge.verdicts(derived(directory, previous=previous), {c[0] for c in CATALOGUE})
    mere_absence = _OF_A_PART if a_part else set()
    return [b for b in fold(breaches, CATALOGUE) if b.implied_by is None and b.code not in mere_absence]
