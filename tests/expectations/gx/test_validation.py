"""Great Expectations as the judge: what it counts, what it must not swallow."""

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
import sqlalchemy as sa

from tidegauge.expectations.agreement import Validation
from tidegauge.expectations.errors import EvaluationError
from tidegauge.expectations.model import Invariant, Severity

if TYPE_CHECKING:
    from great_expectations.core import ExpectationSuite

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


def judged_together(
    url: str, run_ids: Sequence[str], invariants: Sequence[Invariant] = (INVARIANT,)
) -> Mapping[str, Mapping[str, Validation]]:
    from tidegauge.expectations.gx.validation import validate

    return validate(url, run_ids, invariants=invariants, schema="suites")


def judged(url: str, run_id: str, invariant: Invariant = INVARIANT) -> Validation:
    return judged_together(url, [run_id], [invariant])[run_id]["X01"]


def test_a_run_is_judged_on_its_own_rows_only(things: str) -> None:
    assert judged(things, "b").unexpected_count == 1
    assert not judged(things, "b").success


def test_it_counts_all_breached_rows_beyond_the_library_s_limit_of_rows(things: str) -> None:
    assert judged(things, "a").unexpected_count == 250


def test_many_runs_are_judged_at_once_and_each_on_its_own_rows(things: str) -> None:
    found = judged_together(things, ["c", "a", "b", "none"])
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


def test_an_address_without_a_user_means_the_one_that_libpq_takes(things: str, monkeypatch: pytest.MonkeyPatch) -> None:
    url = sa.make_url(things)
    assert url.username is not None
    monkeypatch.setenv("PGUSER", url.username)
    bare = url.set(username=None).render_as_string(hide_password=False)
    assert judged(bare, "b").unexpected_count == 1


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


def test_nothing_to_judge_is_our_error_and_no_success(things: str) -> None:
    with pytest.raises(EvaluationError, match="No invariant was to be judged"):
        judged_together(things, ["b"], [])


def test_a_suite_without_expectations_is_our_error_and_no_success(things: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the library makes of a suite of which it knows no expectation."""
    import great_expectations as gx

    from tidegauge.expectations.gx import validation

    empty = {"things": gx.ExpectationSuite(name="tidegauge_things")}
    assert gx_validates(things, empty["things"]), "the library calls it a success: that is why we look"
    monkeypatch.setattr(validation, "suites", lambda _: empty)
    with pytest.raises(EvaluationError, match="no result for X01 of suite tidegauge_things"):
        judged(things, "b")


def gx_validates(url: str, suite: "ExpectationSuite") -> bool:
    import great_expectations as gx

    context = gx.get_context(mode="ephemeral")
    source = context.data_sources.add_postgres(name="store", connection_string=url.replace("@/", "@localhost/"))
    batch = source.add_query_asset(name="things", query="SELECT * FROM suites.things").add_batch_definition("all")
    success = bool(batch.get_batch().validate(suite).success)
    source.get_execution_engine().close()
    source.get_engine().dispose()
    return success
