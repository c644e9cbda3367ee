"""The DAG as Airflow sees it."""

from datetime import timedelta
from pathlib import Path

import pytest

DAGS = Path(__file__).parents[2] / "dags"


@pytest.fixture(scope="module")
def dag_bag():
    from airflow.dag_processing.dagbag import DagBag

    return DagBag(dag_folder=str(DAGS))


@pytest.fixture(scope="module")
def dag(dag_bag):
    return dag_bag.dags["replication_audit"]


def test_every_dag_file_imports(dag_bag):
    assert dag_bag.import_errors == {}
    assert set(dag_bag.dags) == {"replication_audit"}


def test_it_says_what_it_is(dag):
    assert {"kafka", "tidegauge"} <= set(dag.tags)
    assert dag.doc_md
    assert all(f"`{task_id}`" in dag.doc_md for task_id in dag.task_ids)
    assert {task.owner for task in dag.tasks} == {"tidegauge"}


def test_its_steps_follow_each_other(dag):
    order = [task.task_id for task in dag.topological_sort()]
    assert order == ["snapshot", "index_and_derive", "evaluate", "publish"]
    assert [sorted(dag.get_task(task).downstream_task_ids) for task in order] == [[name] for name in order[1:]] + [[]]


def test_it_runs_daily_one_at_a_time_and_never_catches_up(dag):
    assert dag.schedule == "@daily"
    assert dag.catchup is False
    assert dag.max_active_runs == 1


def test_every_task_is_retried_with_growing_delays(dag):
    for task in dag.tasks:
        assert task.retries == 3
        assert task.retry_delay == timedelta(minutes=1)
        assert task.retry_exponential_backoff
        assert task.execution_timeout is not None


def test_its_parameters_are_typed(dag):
    schemas = {name: dag.params.get_param(name).schema for name in dag.params}
    assert set(schemas) == {"cluster", "snapshot", "fail_on"}
    assert {schema["type"] for schema in schemas.values()} == {"string"}
    assert schemas["fail_on"]["enum"] == ["critical", "warning", "info", "never"]


@pytest.mark.parametrize(
    ("name", "value"), [("fail_on", "fatal"), ("cluster", ""), ("cluster", "../x"), ("snapshot", "")]
)
def test_a_wrong_parameter_is_refused(dag, name, value):
    from airflow.sdk.exceptions import ParamValidationError

    with pytest.raises(ParamValidationError):
        dag.params.get_param(name).resolve(value)


def test_steps_exchange_one_directory(dag):
    runs = {task.arguments[task.arguments.index("--run") + 1] for task in dag.tasks}
    assert len(runs) == 1
    assert "{{ run_id" in runs.pop()


def test_only_the_steps_that_judge_may_answer_breached(dag):
    assert {task.task_id for task in dag.tasks if task.may_breach} == {"evaluate", "publish"}
