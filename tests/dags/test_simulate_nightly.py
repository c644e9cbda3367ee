"""The scoring DAG as Airflow sees it."""

import shlex
import sys
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace

import pytest

DAGS = Path(__file__).parents[2] / "dags"


def loaded(monkeypatch, **environ):
    from airflow.dag_processing.dagbag import DagBag

    monkeypatch.delenv("TIDEGAUGE_SCORE_SCHEDULE", raising=False)
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    bag = DagBag(dag_folder=str(DAGS / "simulate_nightly.py"))
    assert bag.import_errors == {}
    return bag.dags["simulate_nightly"]


@pytest.fixture(scope="module")
def dag():
    with pytest.MonkeyPatch.context() as patch:
        yield loaded(patch)


def test_it_says_what_it_is(dag):
    assert {"simulation", "tidegauge"} <= set(dag.tags)
    assert all(f"`{task.task_id}`" in dag.doc_md for task in dag.tasks)
    assert (dag.catchup, dag.max_active_runs) == (False, 1)


def test_worlds_are_simulated_then_audited_together_then_the_score_is_published(dag):
    assert {task.task_id: set(task.upstream_task_ids) for task in dag.tasks} == {
        "simulate": set(),
        "audit": {"simulate"},
        "publish": {"audit"},
    }
    assert len({task.arguments[task.arguments.index("--out") + 1] for task in dag.tasks}) == 1
    assert {task.task_id for task in dag.tasks if task.may_breach} == {"audit", "publish"}
    assert all(task.retries == 3 and task.execution_timeout is not None for task in dag.tasks)


@pytest.mark.parametrize(
    ("environ", "expression"),
    [({}, "0 2 * * *"), ({"TIDEGAUGE_SCORE_SCHEDULE": "0 4 * * 0"}, "0 4 * * 0")],
)
def test_it_runs_every_night_unless_told_otherwise(monkeypatch, environ, expression):
    assert loaded(monkeypatch, **environ).schedule.expression == expression


def test_it_can_wait_to_be_called(monkeypatch):
    assert loaded(monkeypatch, TIDEGAUGE_SCORE_SCHEDULE="none").schedule is None


def night(day, **params):
    run = SimpleNamespace(logical_date=None, run_after=datetime(2026, 1, day, 2, tzinfo=UTC))
    return run, {"worlds": 200, "fault_free": 100, "first_seed": None, **params}


def test_each_night_has_seeds_of_its_own(dag):
    macros = dag.user_defined_macros
    found = [(macros["seeds"](*night(day)), macros["fault_free_seeds"](*night(day))) for day in (1, 2, 31)]
    assert found == [("0..199", "200..299"), ("300..499", "500..599"), ("9000..9199", "9200..9299")]


def test_its_seeds_can_be_named(dag):
    macros = dag.user_defined_macros
    named = night(9, worlds=5, fault_free=3, first_seed=70)
    assert (macros["seeds"](*named), macros["fault_free_seeds"](*named)) == ("70..74", "75..77")


@pytest.mark.parametrize(("name", "value"), [("worlds", 0), ("fault_free", "many"), ("first_seed", -1)])
def test_a_wrong_parameter_is_refused(dag, name, value):
    from airflow.sdk.exceptions import ParamValidationError

    with pytest.raises(ParamValidationError):
        dag.params.get_param(name).resolve(value)


def test_a_score_that_is_not_perfect_is_a_result(job, monkeypatch, dag):
    monkeypatch.setenv("TIDEGAUGE_COMMAND", shlex.join([sys.executable, "-c", "import sys; sys.exit(1)"]))
    assert dag.get_task("audit").execute({}) == "breached"
    with pytest.raises(job.AirflowException):
        dag.get_task("simulate").execute({})
