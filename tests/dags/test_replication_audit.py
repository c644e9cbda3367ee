"""The DAG as Airflow sees it."""

import shlex
import sys
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace

import pytest

import job

DAGS = Path(__file__).parents[2] / "dags"


@pytest.fixture(scope="module")
def dag_bag():
    from airflow.dag_processing.dagbag import DagBag

    with pytest.MonkeyPatch.context() as patch:
        for name in ("TIDEGAUGE_CLUSTERS", "TIDEGAUGE_SCHEDULE"):
            patch.delenv(name, raising=False)
        return DagBag(dag_folder=str(DAGS))


@pytest.fixture(scope="module")
def dag(dag_bag):
    return dag_bag.dags["replication_audit"]


def test_every_dag_file_imports(dag_bag):
    assert dag_bag.import_errors == {}
    assert {"capture_snapshots", "replication_audit", "simulate_nightly"} <= set(dag_bag.dags)


def test_it_says_what_it_is(dag):
    assert {"kafka", "tidegauge"} <= set(dag.tags)
    assert dag.doc_md
    assert all(f"`{task_id}`" in dag.doc_md for task_id in dag.task_ids)
    assert {task.owner for task in dag.tasks} == {"tidegauge"}


def test_its_steps_follow_each_other(dag):
    order = [task.task_id for task in dag.topological_sort()]
    assert order == ["snapshot", "index_and_derive", "evaluate", "publish"]
    assert [sorted(dag.get_task(task).downstream_task_ids) for task in order] == [[name] for name in order[1:]] + [[]]


def test_it_runs_on_every_snapshot_and_daily_one_at_a_time_and_never_catches_up(dag):
    assert [asset.name for asset in dag.schedule.asset_condition.objects] == ["tidegauge_snapshot"]
    assert dag.schedule.timetable.expression == "0 0 * * *"
    assert dag.catchup is False
    assert dag.max_active_runs == 1


@pytest.mark.parametrize(
    ("environ", "clock"),
    [
        ({"TIDEGAUGE_SCHEDULE": "none"}, None),
        ({"TIDEGAUGE_SCHEDULE": "30 4 * * 1"}, "30 4 * * 1"),
        ({"TIDEGAUGE_CLUSTERS": "clusters.yaml"}, None),
        ({"TIDEGAUGE_CLUSTERS": "clusters.yaml", "TIDEGAUGE_SCHEDULE": "@hourly"}, "0 * * * *"),
    ],
)
def test_the_clock_is_a_setting_and_the_asset_always_counts(monkeypatch, environ, clock):
    from airflow.dag_processing.dagbag import DagBag

    for name in ("TIDEGAUGE_CLUSTERS", "TIDEGAUGE_SCHEDULE"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    schedule = DagBag(dag_folder=str(DAGS / "replication_audit.py")).dags["replication_audit"].schedule
    assert getattr(getattr(schedule, "timetable", None), "expression", None) == clock
    assets = schedule if clock is None else schedule.asset_condition.objects
    assert [asset.name for asset in assets] == ["tidegauge_snapshot"]


def event(**extra):
    return SimpleNamespace(extra=extra)


@pytest.mark.parametrize(
    ("events", "audited"),
    [
        ([], ["latest"]),
        ([event(snapshot="s3://b/prod/x", cluster="prod")], ["s3://b/prod/x"]),
        ([event(snapshot="/a"), event(snapshot="/b"), event(snapshot="/a")], ["/a", "/b"]),
    ],
)
def test_the_snapshots_of_the_events_are_audited_else_the_one_that_is_named(monkeypatch, dag, events, audited):
    monkeypatch.setenv("TIDEGAUGE_COMMAND", shlex.join([sys.executable, "-c", "import sys; print(sys.argv[1:])"]))
    said = []
    task = dag.get_task("snapshot")
    monkeypatch.setattr(job.ProcessOperator, "_run", lambda self, command, **_: said.append(command) or 0)
    task.execute(
        {"triggering_asset_events": {job.SNAPSHOT: events} if events else {}, "params": {"snapshot": "latest"}}
    )
    assert said[0][said[0].index("--") + 1 :] == audited


@pytest.mark.parametrize("extra", [{}, {"snapshot": ""}, {"snapshot": 7}])
def test_an_event_that_names_no_snapshot_fails_at_once(dag, extra):
    from airflow.sdk.exceptions import AirflowFailException

    with pytest.raises(AirflowFailException, match="names no snapshot"):
        dag.get_task("snapshot").execute(
            {"triggering_asset_events": {job.SNAPSHOT: [event(**extra)]}, "params": {"snapshot": "latest"}}
        )


def test_each_snapshot_is_compared_with_the_one_audited_before_it_and_a_backfill_takes_its_own_day_s(dag):
    arguments = dag.get_task("snapshot").arguments
    assert arguments[arguments.index("--previous") + 1] == "auto"
    as_of = arguments[arguments.index("--as-of") + 1]
    assert "dag_run.run_after" in as_of
    assert "backfill" in as_of


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
