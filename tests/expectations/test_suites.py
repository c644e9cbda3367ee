"""Great Expectations as the judge: what it counts, what it must not swallow."""

import pickle
import time
from collections.abc import Iterator
from dataclasses import replace

import pytest
import sqlalchemy as sa

from expectations.errors import EvaluationError
from expectations.model import Invariant, Severity
from expectations.registry import CATALOGUE
from expectations.suites import Validation, by_relation, confirm, suites, validate
from expectations.verdicts import InvariantResult

INVARIANT = Invariant(
    code="X01",
    key="EXAMPLE",
    name="Example",
    severity=Severity.WARNING,
    relation="things",
    statement="Nothing is rotten.",
    because="It smells.",
    breach_when="rotten > 0",
    evidence=("rotten",),
    explanation=("It is.",),
    next="air",
    points_to="lost_flush",
    reference="none",
    subject=("name",),
)


@pytest.fixture(scope="module")
def things(store_url: str) -> Iterator[str]:
    """250 rotten things in run a, one in run b, an undecidable one in run c."""
    engine = sa.create_engine(store_url)
    with engine.begin() as connection:
        connection.execute(sa.text("DROP SCHEMA IF EXISTS suites CASCADE"))
        connection.execute(sa.text("CREATE SCHEMA suites"))
        connection.execute(sa.text("CREATE TABLE suites.things (run_id text, name text, rotten int)"))
        connection.execute(sa.text("INSERT INTO suites.things SELECT 'a', n::text, 1 FROM generate_series(1, 250) n"))
        connection.execute(sa.text("INSERT INTO suites.things VALUES ('b', 'x', 1), ('b', 'y', 0), ('c', 'z', NULL)"))
    engine.dispose()
    return store_url


def judged(url: str, run_id: str, invariant: Invariant = INVARIANT) -> Validation:
    return validate(url, [run_id], invariants=[invariant], schema="suites")[run_id]["X01"]


def result(breached: int) -> InvariantResult:
    return InvariantResult(
        code="X01",
        name="Example",
        severity="warning",
        verdict="breached" if breached else "holds",
        checked=1,
        breached=breached,
        unknown=0,
        reasons={},
    )


def test_a_run_is_judged_on_its_own_rows_only(things: str) -> None:
    assert judged(things, "b").unexpected_count == 1
    assert not judged(things, "b").success


def test_it_counts_all_breached_rows_beyond_the_library_s_limit_of_rows(things: str) -> None:
    assert judged(things, "a").unexpected_count == 250


def test_many_runs_are_judged_at_once_and_each_on_its_own_rows(things: str) -> None:
    found = validate(things, ["c", "a", "b", "none"], invariants=[INVARIANT], schema="suites")
    assert {run_id: (v["X01"].unexpected_count, v["X01"].success) for run_id, v in found.items()} == {
        "a": (250, False), "b": (1, False), "c": (0, True), "none": (0, True),
    }  # fmt: skip


def test_what_is_unknown_is_no_breach(things: str) -> None:
    assert judged(things, "c").success


def test_braces_and_percent_signs_in_a_predicate_are_text(things: str) -> None:
    assert judged(things, "b", replace(INVARIANT, breach_when="name = '{batch}%' OR rotten > 0")).unexpected_count == 1


def test_a_predicate_that_fails_is_our_error_and_no_success(things: str) -> None:
    with pytest.raises(EvaluationError, match=r"could not evaluate X01 Example.*no_such_column"):
        judged(things, "b", replace(INVARIANT, breach_when="no_such_column > 0"))


def test_a_missing_table_is_our_error_and_no_success(things: str) -> None:
    with pytest.raises(EvaluationError, match=r"nothings"):
        judged(things, "b", replace(INVARIANT, relation="nothings"))


def test_a_store_that_is_down_is_no_verdict(tmp_path: object) -> None:
    with pytest.raises(ConnectionError, match="cannot reach the store"):
        judged(f"postgresql+psycopg2://postgres@/nothing?host={tmp_path}", "b")


def test_it_leaves_no_connection_behind(things: str) -> None:
    engine = sa.create_engine(things)
    count = sa.text(
        "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND backend_type = 'client backend'"
    )
    with engine.connect() as connection:
        before = connection.execute(count).scalar_one()
        judged(things, "b")
        with pytest.raises(EvaluationError):
            judged(things, "b", replace(INVARIANT, breach_when="no_such_column > 0"))
        # A server notices a little later that a client has gone.
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline:
            connection.rollback()
            after = connection.execute(count).scalar_one()
            if after <= before:
                break
            time.sleep(0.05)
        assert after <= before
    engine.dispose()


def test_a_run_id_cannot_carry_sql(things: str) -> None:
    with pytest.raises(EvaluationError, match="run id"):
        judged(things, "b' OR '1' = '1")


def test_a_count_that_differs_from_ours_stops_the_run() -> None:
    found = {"X01": Validation(code="X01", suite="s", expectation="e", success=False, unexpected_count=3)}
    confirm([result(3)], found)
    with pytest.raises(EvaluationError, match="found 3 breached rows, the counting query 2"):
        confirm([result(2)], found)
    with pytest.raises(EvaluationError, match="did not evaluate X01"):
        confirm([result(0)], {})


def test_the_error_comes_through_pickle() -> None:
    assert str(pickle.loads(pickle.dumps(EvaluationError("what and where")))) == "what and where"


def test_each_relation_has_a_suite_and_each_invariant_an_expectation() -> None:
    rendered = suites()
    assert rendered.keys() == {i.relation for i in CATALOGUE.values()}
    for relation, members in by_relation(CATALOGUE.values()).items():
        found = {e.meta["code"]: e for e in rendered[relation].expectations}
        assert found.keys() == {i.code for i in members}
        for invariant in members:
            assert found[invariant.code].severity == invariant.severity.value
            assert found[invariant.code].description == invariant.statement
