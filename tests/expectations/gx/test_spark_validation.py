"""Great Expectations as the judge on Spark: what it counts, in how many jobs, what it must not swallow."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.resources import starts
from tidegauge.expectations.errors import EvaluationError
from tidegauge.expectations.model import Invariant
from tidegauge.expectations.registry import CATALOGUE, by_relation
from tidegauge.expectations.states import state_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.slow

MEMBERS = by_relation(CATALOGUE.values())["segments"]
STATES = ["holds", "critical", "warning", "info", "missing", "unknown_0", None]


@pytest.fixture(scope="module")
@starts("jvm")
def spark() -> Iterator["SparkSession"]:
    from tidegauge.spark_jobs import session

    started = session.start("local[2]")
    yield started
    session.stop(started)


@pytest.fixture
def states(spark: "SparkSession", tmp_path: Path) -> "DataFrame":
    """Of each invariant one row a state, and the first one has one breached row more."""
    columns: dict[str, Sequence[str | None]] = {state_of(i): [*STATES, "holds"] for i in MEMBERS}
    columns[state_of(MEMBERS[0])] = [*STATES, "critical"]
    pq.write_table(pa.table(columns), tmp_path / "states.parquet")
    return spark.read.parquet(str(tmp_path / "states.parquet"))


def counted(frame: "DataFrame", invariants: Sequence[Invariant]) -> dict[str, int]:
    from tidegauge.expectations.gx.spark_validation import validating_states

    with validating_states() as validate:
        found = validate("segments", frame, invariants)
    assert all(one.success == (one.unexpected_count == 0) for one in found.values())
    return {code: one.unexpected_count for code, one in found.items()}


def test_it_counts_what_is_breached_and_nothing_else(states: "DataFrame") -> None:
    expected = {i.code: 3 for i in MEMBERS} | {MEMBERS[0].code: 4}
    assert counted(states, MEMBERS) == expected
    assert counted(states.where(f"{state_of(MEMBERS[1])} = 'holds'"), MEMBERS[1:2]) == {MEMBERS[1].code: 0}


def test_its_jobs_are_as_many_for_all_invariants_as_for_one(spark: "SparkSession", states: "DataFrame") -> None:
    def jobs(invariants: Sequence[Invariant]) -> int:
        spark.sparkContext.setJobGroup(str(len(invariants)), "counted")
        counted(states, invariants)
        return len(spark.sparkContext.statusTracker().getJobIdsForGroup(str(len(invariants))))

    assert 0 < jobs(MEMBERS) == jobs(MEMBERS[:1])


def test_states_that_are_not_there_are_our_error_and_no_success(states: "DataFrame") -> None:
    with pytest.raises(EvaluationError, match=MEMBERS[0].code):
        counted(states.drop(state_of(MEMBERS[0])), MEMBERS)


def test_states_that_cannot_be_worked_out_are_our_error_and_no_success(states: "DataFrame") -> None:
    name = state_of(MEMBERS[0])
    with pytest.raises(EvaluationError, match=MEMBERS[0].code):
        counted(states.withColumn(name, states[name].cast("int").cast("string")), MEMBERS)


def test_an_invariant_without_a_result_is_our_error(states: "DataFrame", monkeypatch: pytest.MonkeyPatch) -> None:
    from tidegauge.expectations.gx import spark_validation

    # The library keeps one of two expectations that are alike.
    inner = spark_validation._expectation
    monkeypatch.setattr(spark_validation, "_expectation", lambda _: inner(MEMBERS[0]))
    with pytest.raises(EvaluationError, match=f"no result for {MEMBERS[1].code}"):
        counted(states, MEMBERS[:2])


def test_a_suite_of_it_cannot_be_stored(tmp_path: Path) -> None:
    import great_expectations as gx

    from tidegauge.expectations.gx.spark_validation import _expectation

    context = gx.get_context(mode="file", project_root_dir=tmp_path)
    with pytest.raises(EvaluationError, match=r"ExpectStatesToHold is not stored.*tidegauge gx export"):
        context.suites.add(gx.ExpectationSuite(name="s", expectations=[_expectation(replace(MEMBERS[0]))]))
