"""The catalogue's cases, each judged by both who judge: our queries and Great Expectations, on a real Postgres."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
import yaml

from tests.fact_tables import made_anew
from tidegauge.expectations import invariants
from tidegauge.expectations.agreement import Validation, confirm
from tidegauge.expectations.registry import CATALOGUE, by_relation, folder_name
from tidegauge.expectations.verdicts import (
    NOTHING_TO_CHECK,
    Breach,
    InvariantResult,
    breach_query,
    count_query,
    explain,
    results,
)

FOLDERS = Path(invariants.__path__[0])
SOUND_ROWS = yaml.safe_load((FOLDERS / "sound_rows.yaml").read_text(encoding="utf-8"))


def folder_of(code: str) -> Path:
    """Where all that belongs to an invariant is."""
    return FOLDERS / folder_name(code, CATALOGUE[code].name)


@cache
def cases_of(code: str) -> Mapping[str, Mapping[str, Any]]:
    """Each file is read once, by libyaml's parser: there are many, and the one in Python takes seconds for them."""
    return yaml.load((folder_of(code) / "cases.yaml").read_text(encoding="utf-8"), Loader=yaml.CSafeLoader)


def runs_of(code: str) -> Mapping[str, str]:
    """The name of each case of a code -> the run that its row is in."""
    return {name: f"{code}/{name}" for name in cases_of(code)}


@dataclass(frozen=True)
class Judged:
    """The cases in Postgres, each in a run of its own and all of a code together in a run named by it."""

    connection: sa.Connection
    validations: Mapping[str, Validation]

    def result(self, code: str, run_id: str) -> InvariantResult:
        return self.results(code, [run_id])[run_id]

    def results(self, code: str, run_ids: Collection[str]) -> Mapping[str, InvariantResult]:
        """Of each run, by one query, as an audit of several snapshots asks it."""
        invariant = CATALOGUE[code]
        query = sa.text(count_query(invariant.relation, [invariant], schema="cases"))
        rows = self.connection.execute(query, {"run_ids": list(run_ids)}).mappings()
        return {row["run_id"]: results([invariant], row)[0] for row in rows}

    def breaches(self, code: str, run_ids: Collection[str]) -> Mapping[str, list[Breach]]:
        """The breaches of each run that has one."""
        query = sa.text(breach_query(CATALOGUE[code], schema="cases"))
        breaches: dict[str, list[Breach]] = {}
        for row in self.connection.execute(query, {"run_ids": list(run_ids)}).mappings():
            breaches.setdefault(row["run_id"], []).append(explain(CATALOGUE[code], row))
        return breaches


@pytest.fixture(scope="module")
def judged(store_url: str) -> Iterator[Judged]:
    # Great Expectations takes seconds to import, and who only collects or reads cases does not need it.
    from tidegauge.expectations.gx.validation import validate

    engine = sa.create_engine(store_url)
    with engine.begin() as connection:
        tables = made_anew(connection, "cases")
        for code, invariant in CATALOGUE.items():
            for name, run in runs_of(code).items():
                given = cases_of(code)[name]["row"]
                row = {"cluster": "c", "snapshot_id": "s"} | SOUND_ROWS[invariant.relation] | given
                of_runs = [{"run_id": run_id, **row} for run_id in (run, code)]
                connection.execute(tables[invariant.relation].insert(), of_runs)
    validated = validate(store_url, list(CATALOGUE), schema="cases")
    validations = {code: validated[code][code] for code in CATALOGUE}
    with engine.connect() as connection:
        yield Judged(connection=connection, validations=validations)
    engine.dispose()


@pytest.mark.parametrize("code", CATALOGUE)
def test_each_case_is_judged_as_its_name_says(judged: Judged, code: str, subtests: pytest.Subtests) -> None:
    runs = runs_of(code)
    counted = judged.results(code, runs.values())
    breached = judged.breaches(code, runs.values())
    assert set(counted) == set(runs.values())
    for name, run in runs.items():
        with subtests.test(name):
            is_judged_as_its_name_says(code, name, counted[run], breached.get(run, []))
    with subtests.test("by Great Expectations"):
        great_expectations_finds_the_breached_cases_and_no_others(judged, code)


def is_judged_as_its_name_says(code: str, name: str, result: InvariantResult, breaches: list[Breach]) -> None:
    case = cases_of(code)[name]
    expected = name.split("_", 1)[0]
    if expected == "ignored":
        assert (result.checked, result.unknown) == (0, 0)
        assert result.reasons == {NOTHING_TO_CHECK: 0}
        return
    assert result.verdict == expected, result
    assert (result.checked, result.unknown) == ((0, 1) if expected == "unknown" else (1, 0))
    assert set(result.reasons) == ({case["reason"]} if expected == "unknown" else set())
    assert len(breaches) == (1 if expected == "breached" else 0)
    for breach in breaches:
        assert case["says"] in breach.explanation
        assert breach.severity == case.get("severity", CATALOGUE[code].severity) == result.severity
        for field in ("start_offset", "end_offset", "records", "next"):
            if field in case:
                assert getattr(breach, field) == case[field], field
        assert "None" not in breach.explanation
        assert "{" not in breach.explanation + breach.next


def great_expectations_finds_the_breached_cases_and_no_others(judged: Judged, code: str) -> None:
    validation = judged.validations[code]
    breached = [name for name in cases_of(code) if name.startswith("breached_")]
    assert validation.unexpected_count == len(breached)
    assert not validation.success
    confirm([judged.result(code, code)], judged.validations)


def test_one_query_counts_all_invariants_of_a_relation(judged: Judged) -> None:
    for relation, members in by_relation(CATALOGUE.values()).items():
        for code in (i.code for i in members):
            query = sa.text(count_query(relation, members, schema="cases"))
            together = results(members, judged.connection.execute(query, {"run_ids": [code]}).mappings().one())
            alone = judged.result(code, code)
            assert alone in together


def test_the_same_subject_has_the_same_breach_id_in_every_run(judged: Judged) -> None:
    for code in CATALOGUE:
        together = {b.breach_id for breaches in judged.breaches(code, [code]).values() for b in breaches}
        each = judged.breaches(code, runs_of(code).values())
        apart = {b.breach_id for breaches in each.values() for b in breaches}
        assert together == apart
