"""Facts judged on Spark, and the same facts in the store: one verdict, one report, and only what is looked at travels.

Three captures, one of them compared with an earlier one and one with damaged logs, derived once. They are judged in the
store, and then with a bound of no rows, so that Spark judges whatever it may.
"""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.conftest import Golden
from tests.resources import starts
from tests.store.helpers import rows
from tidegauge.audit.evaluate import evaluate
from tidegauge.audit.publication import discard
from tidegauge.derivation.fact_files import rows_in
from tidegauge.derivation.in_process import derive_run
from tidegauge.derivation.judged_files import forget_judged, judged_of, keep_judged, rows_to_look_at
from tidegauge.expectations.registry import CATALOGUE
from tidegauge.relations import RELATIONS
from tidegauge.runs import report_file
from tidegauge.runs.errors import EvaluationError
from tidegauge.runs.run import Run, new_run

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.slow

MAY_STAY = [name for name, relation in RELATIONS.items() if not relation.shown]


@dataclass(frozen=True, kw_only=True)
class Way:
    """What came of judging: the report of each snapshot, and how many rows of each relation the store had."""

    reports: Mapping[str, Any]
    stored: Mapping[str, Mapping[str, int]]


@pytest.fixture(scope="module")
@starts("jvm")
def spark() -> Iterator["SparkSession"]:
    from tidegauge.spark_jobs import session

    started = session.start("local[2]")
    yield started
    session.stop(started)


@pytest.fixture(scope="module")
def derived(golden: Golden, tmp_path_factory: pytest.TempPathFactory) -> Run:
    damaged = shutil.copytree(golden("unclean-before"), tmp_path_factory.mktemp("damaged") / "capture")
    for log in damaged.glob("broker-1/orders-*/*.log"):
        log.write_bytes(log.read_bytes()[:-1] + b"!")
    captures = (damaged, golden("tiered"), golden("pair-clean-b2"))
    run = new_run(
        tmp_path_factory.mktemp("run"),
        tuple(map(str, captures)),
        store_url=None,
        fail_on="never",
        started_at_ms=1_795_000_000_000,
        previous={str(golden("pair-clean-b2")): str(golden("pair-clean-b1"))},
        data_docs=False,
        many_rows=0,
    )
    derive_run(run)
    assert not run.failures.all()
    return run


def judged(run: Run, url: str) -> Way:
    evaluate(run, url)
    assert not run.failures.all()
    run_ids = {s.key: json.loads((s.target / "staged.json").read_text())["run_id"] for s in run.snapshots}
    stored = {
        key: {
            name: rows(url, f"SELECT count(*) FROM tidegauge.{name} WHERE run_id = %s", run_id)[0][0]
            for name in RELATIONS
        }
        for key, run_id in run_ids.items()
    }
    reports = {s.key: report_file.read(report_file.at(s.target)) for s in run.snapshots}
    discard(run, url)
    return Way(reports=reports, stored=stored)


@pytest.fixture(scope="module")
def in_the_store(derived: Run, empty_store: str) -> Way:
    return judged(derived, empty_store)


@pytest.fixture(scope="module")
def on_spark(derived: Run, empty_store: str, in_the_store: Way, spark: "SparkSession") -> Iterator[Way]:
    from tidegauge.spark_jobs.judging import judge_many

    judge_many(spark, derived)
    yield judged(derived, empty_store)
    forget_judged(derived)


def without_run(report: Mapping[str, Any]) -> Mapping[str, Any]:
    """A report without what every audit has of its own."""
    its_own = ("run_id", "started_at", "finished_at")
    return {**report, "run": {name: value for name, value in report["run"].items() if name not in its_own}}


def test_the_reports_are_the_same(in_the_store: Way, on_spark: Way) -> None:
    assert {k: without_run(r) for k, r in on_spark.reports.items()} == {
        k: without_run(r) for k, r in in_the_store.reports.items()
    }
    assert sum(len(report["breaches"]) for report in on_spark.reports.values()) > 10


def test_spark_judged_every_relation_that_is_not_shown(derived: Run, on_spark: Way) -> None:
    for snapshot in derived.snapshots:
        there = judged_of(derived, snapshot.key)
        facts = snapshot.target / "facts"
        assert {name: one.rows for name, one in there.items()} == {
            i.relation: count
            for i in CATALOGUE.values()
            if i.relation in MAY_STAY and (count := rows_in(facts, i.relation))
        }
        codes = {i.code for i in CATALOGUE.values() if i.relation in there}
        assert {code for one in there.values() for code in one.validations} == codes


def test_the_store_has_shown_relations_whole_and_of_the_others_what_was_found(
    derived: Run, in_the_store: Way, on_spark: Way
) -> None:
    found = 0
    for snapshot in derived.snapshots:
        there = judged_of(derived, snapshot.key)
        expected = {
            # No row is unknown in numbers that are too many: the bound is none.
            name: there[name].breached_rows if name in there else count
            for name, count in in_the_store.stored[snapshot.key].items()
        }
        assert on_spark.stored[snapshot.key] == expected
        found += sum(one.breached_rows for one in there.values())
    assert found > 0


def test_rows_that_are_not_known_travel_unless_they_are_too_many(derived: Run, on_spark: Way) -> None:
    unknown = 0
    for snapshot in derived.snapshots:
        for name, there in judged_of(derived, snapshot.key).items():
            few = replace(derived, many_rows=there.unknown_rows)
            travels = [batch.num_rows for batch in rows_to_look_at(few, snapshot.key, name, there)]
            assert sum(travels) == there.breached_rows + there.unknown_rows
            unknown += there.unknown_rows
    assert unknown > 0


def test_great_expectations_that_counts_otherwise_leaves_no_verdict(
    derived: Run, empty_store: str, on_spark: Way, monkeypatch: pytest.MonkeyPatch
) -> None:
    snapshot = derived.snapshots[0]
    there = judged_of(derived, snapshot.key)
    name, code = next((n, c) for n, one in there.items() for c in one.validations)
    validations = dict(there[name].validations)
    validations[code] = replace(validations[code], unexpected_count=validations[code].unexpected_count + 1)
    keep_judged(derived, snapshot.key, name, replace(there[name], validations=validations))
    alone = replace(derived, snapshots=(snapshot,))
    with pytest.raises(EvaluationError, match=rf"{code} .*Great Expectations found"):
        evaluate(alone, empty_store)
    derived.failures.begin("evaluate")
    keep_judged(derived, snapshot.key, name, there[name])


def test_a_breached_row_that_did_not_arrive_leaves_no_verdict(derived: Run, empty_store: str, on_spark: Way) -> None:
    snapshot = next(s for s in derived.snapshots if any(t.breached_rows for t in judged_of(derived, s.key).values()))
    there = judged_of(derived, snapshot.key)
    name = next(n for n, one in there.items() if one.breached_rows)
    keep_judged(derived, snapshot.key, name, replace(there[name], breached_rows=0))
    with pytest.raises(EvaluationError, match=r"Great Expectations found 0 breached rows"):
        evaluate(replace(derived, snapshots=(snapshot,)), empty_store)
    derived.failures.begin("evaluate")
    keep_judged(derived, snapshot.key, name, there[name])


def test_an_audit_on_spark_judges_there_what_is_more_than_the_setting_says(
    golden: Golden, tmp_path: Path, empty_store: str
) -> None:
    environment = {**os.environ, "TIDEGAUGE_MANY_ROWS": "30", "TIDEGAUGE_HOME": str(tmp_path / "home")}
    command = [
        *(sys.executable, "-m", "tidegauge", "audit", str(golden("unclean-before")), "--out", str(tmp_path / "out")),
        *("--cluster", "many", "--master", "local[2]", "--store", empty_store),
    ]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 1, done.stderr
    facts = tmp_path / "out" / "facts"
    many = [name for name in MAY_STAY if rows_in(facts, name) > 30]
    assert "index_files" in many
    for name in RELATIONS:
        (stored,) = rows(empty_store, f"SELECT count(*) FROM tidegauge.{name} WHERE cluster = 'many'")
        assert stored[0] == (0 if name in many else rows_in(facts, name)), name
