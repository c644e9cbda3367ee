"""The DAG as Airflow sees it."""

import json
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace

import pytest

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
    assert {
        "capture_snapshots", "replication_audit", "replication_audit_adhoc", "simulate_nightly", "tidegauge_alerts",
        "tidegauge_retention",
    } == set(dag_bag.dags)  # fmt: skip


def test_every_name_in_an_airflow_that_others_use_too_says_whose_it_is(dag_bag):
    """A DAG folder is one place on Python's path, and ids of DAGs are one list, for all who share an Airflow."""
    files = {path.stem for path in DAGS.glob("*.py")}
    assert {name for name in files if name not in dag_bag.dags and not name.startswith("tidegauge_")} == set()
    assert {dag_id for dag_id in dag_bag.dags if "_" not in dag_id or dag_id not in files} == set()


def test_every_dag_says_what_it_is_whose_it_is_and_how_it_is_tried_again(dag_bag):
    for dag_id, dag in dag_bag.dags.items():
        assert {"kafka", "tidegauge"} <= set(dag.tags), dag_id
        assert dag.description, dag_id
        assert dag.doc_md, dag_id
        assert (dag.catchup, dag.max_active_runs > 0) == (False, True), dag_id
        for task in dag.tasks:
            if task.task_id != "no_clusters":
                assert task.owner == "tidegauge", (dag_id, task.task_id)
                assert task.retries >= 1, (dag_id, task.task_id)
                assert task.execution_timeout is not None, (dag_id, task.task_id)


def test_it_says_what_it_is(dag):
    assert {"kafka", "tidegauge"} <= set(dag.tags)
    assert dag.doc_md
    assert all(f"`{task_id}`" in dag.doc_md for task_id in dag.task_ids)
    assert {task.owner for task in dag.tasks} == {"tidegauge"}


def test_its_steps_follow_each_other_for_each_cluster(dag):
    order = [task.task_id for task in dag.topological_sort()]
    assert order == ["subjects", "snapshot", "index_and_derive", "evaluate", "publish"]
    steps = order[1:]
    assert [sorted(dag.get_task(task).downstream_task_ids) for task in steps] == [[name] for name in steps[1:]] + [[]]
    groups = [next(iter(dag.get_task(task).iter_mapped_task_groups()), None) for task in steps]
    assert {group.group_id for group in groups if group} == {"audit"}
    assert all(groups)


def test_it_runs_on_every_snapshot_and_daily_and_never_catches_up(dag):
    assert [asset.name for asset in dag.schedule.asset_condition.objects] == ["tidegauge_snapshot"]
    assert dag.schedule.timetable.expression == "0 0 * * *"
    assert dag.catchup is False
    assert dag.max_active_runs > 1


@pytest.mark.parametrize(
    ("environ", "clock"),
    [
        ({"TIDEGAUGE_SCHEDULE": "none"}, None),
        ({"TIDEGAUGE_SCHEDULE": "30 4 * * 1"}, "30 4 * * 1"),
        ({"TIDEGAUGE_CLUSTERS": "clusters.yaml"}, "0 0 * * *"),
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


def run_of(kind="manual"):
    return SimpleNamespace(
        run_id=f"{kind}__2026-11-02T00:00:00+00:00",
        run_type=kind,
        data_interval_start=datetime(2026, 11, 2, tzinfo=UTC),
        data_interval_end=datetime(2026, 11, 3, tzinfo=UTC),
    )


def subjects(dag, kind="manual", events=(), **params):
    """What the run is about: subject -> its words, without the directory."""
    module = sys.modules[dag.get_task("subjects").python_callable.__module__]
    context = {
        "dag_run": run_of(kind),
        "params": {"cluster": "kafka", "snapshot": "latest", **params},
        "triggering_asset_events": {module.SNAPSHOT: list(events)} if events else {},
    }
    return {of["subject"]: of for of in module.subjects_of(context)}


def words(of):
    return " ".join(of["look"])


def test_by_hand_it_is_what_the_parameters_name(dag):
    (found,) = subjects(dag, cluster="prod", snapshot="/a/b").values()
    assert words(found) == "--cluster prod --previous auto -- /a/b"


def test_the_snapshots_of_the_events_are_audited_each_once_by_cluster(dag):
    events = [
        event(snapshot="/a", cluster="one"), event(snapshot="s3://b/x", cluster="two"),
        event(snapshot="/a", cluster="one"), event(snapshot="/c", cluster="one"), event(snapshot="/d"),
    ]  # fmt: skip
    found = subjects(dag, "asset_triggered", events)
    assert {name: words(of).split(" -- ")[1] for name, of in found.items()} == {
        "one": "/a /c", "two": "s3://b/x", "kafka": "/d",
    }  # fmt: skip
    assert len({of["directory"] for of in found.values()}) == 3


@pytest.mark.parametrize("extra", [{}, {"snapshot": ""}, {"snapshot": 7}])
def test_an_event_that_names_no_snapshot_fails_at_once(job, dag, extra):
    with pytest.raises(job.AirflowFailException, match="names no snapshot"):
        subjects(dag, "asset_triggered", [event(**extra)])


def test_by_the_clock_every_cluster_s_newest_is_audited_unless_it_was(monkeypatch, tmp_path, dag):
    file = tmp_path / "clusters.yaml"
    file.write_text("clusters: {a: {out: s3://b/k, brokers: {1: [/d]}}, b: {out: /s, brokers: {1: [/d]}}}")
    monkeypatch.setenv("TIDEGAUGE_CLUSTERS", str(file))
    found = subjects(dag, "scheduled")
    assert words(found["a"]) == (
        "--cluster a --snapshots s3://b/k --before 2026-11-03T00:00:00+00:00 --previous auto --unless-published "
        "-- latest"
    )
    assert list(found) == ["a", "b"]


def test_a_backfill_of_a_day_audits_that_day_s_own_and_compares_it_with_what_was_before_that_day(monkeypatch, dag):
    monkeypatch.delenv("TIDEGAUGE_CLUSTERS", raising=False)
    (found,) = subjects(dag, "backfill").values()
    assert words(found) == (
        "--cluster kafka --since 2026-11-02T00:00:00+00:00 --before 2026-11-03T00:00:00+00:00 --previous before "
        "-- latest"
    )
    assert found["directory"].endswith("/runs/backfill__2026-11-02T00-00-00-00-00/kafka")


def test_the_forms_offer_what_is_there_and_the_clock_audits_it(job, monkeypatch, tmp_path, dag):
    from airflow.dag_processing.dagbag import DagBag

    monkeypatch.delenv("TIDEGAUGE_CLUSTERS", raising=False)
    monkeypatch.setenv("TIDEGAUGE_SNAPSHOTS", str(tmp_path))

    def params():
        bag = DagBag(dag_folder=str(DAGS / "replication_audit.py"))
        assert bag.import_errors == {}
        return bag.dags["replication_audit"].params

    (tmp_path / "unfinished" / "s1").mkdir(parents=True)
    assert params()["cluster"] is None
    with pytest.raises(job.AirflowFailException, match="Name a cluster"):
        subjects(dag, cluster=None)
    with pytest.raises(job.AirflowSkipException, match="nothing to do"):
        subjects(dag, "scheduled", cluster=None)
    for cluster in ("two", "one"):
        (tmp_path / cluster / "s1").mkdir(parents=True)
        (tmp_path / cluster / "s1" / "MANIFEST.json").write_text("{}")
    found = params()
    assert found["cluster"] == "one"
    assert found.get_param("cluster").schema["examples"] == ["one", "two"]
    offered = found.get_param("snapshot").schema["examples"]
    assert (offered[0], set(offered[1:])) == ("latest", {str(tmp_path / c / "s1") for c in ("one", "two")})
    assert list(subjects(dag, "scheduled", cluster=None)) == ["one", "two"]


@pytest.mark.parametrize("name", ["../../etc", "..", "a/b", "", "x" * 300])
def test_no_name_leads_out_of_the_run_s_directory(dag, name):
    (found,) = subjects(dag, "asset_triggered", [event(snapshot="/a", cluster=name)]).values()
    run, folder = found["directory"].rsplit("/", 1)
    assert run.endswith("/runs/asset_triggered__2026-11-02T00-00-00-00-00")
    assert folder.strip(".")
    assert len(folder) <= 120


@pytest.mark.parametrize("run_id", [".", "..", "../..", "a/../.."])
def test_no_run_s_id_leads_out_of_the_runs(dag, run_id):
    module = sys.modules[dag.get_task("subjects").python_callable.__module__]
    place = Path(module.subject(run_id, "kafka", snapshots=["x"])["directory"])
    assert place.name == "kafka"
    assert place.parent.parent.name == "runs"
    assert place.parent.name.strip(".")


def test_the_words_are_those_that_the_command_takes(monkeypatch, dag):
    from tidegauge.cli.main import main

    monkeypatch.setenv("TIDEGAUGE_SNAPSHOTS", "s3://bucket/snapshots")

    known = {option for parameter in main.commands["job"].params for option in parameter.opts}
    asked = {
        w for kind in ("manual", "scheduled", "backfill") for of in subjects(dag, kind).values() for w in of["look"]
    }
    assert {word for word in asked if word.startswith("--") and word != "--"} <= known


def test_every_task_is_retried_with_growing_delays(dag):
    for task in dag.tasks:
        assert task.retries == 3
        assert task.retry_delay == timedelta(minutes=1)
        assert task.retry_exponential_backoff
        assert task.execution_timeout is not None


def test_its_parameters_are_typed(dag):
    schemas = {name: dag.params.get_param(name).schema for name in dag.params}
    assert {name: schema["type"] for name, schema in schemas.items()} == {
        "cluster": ["null", "string"], "snapshot": "string", "fail_on": "string", "breach_fails": "boolean",
    }  # fmt: skip
    assert schemas["fail_on"]["enum"] == ["critical", "warning", "info", "never"]


@pytest.mark.parametrize(
    ("name", "value"), [("fail_on", "fatal"), ("cluster", ""), ("cluster", "../x"), ("snapshot", "")]
)
def test_a_wrong_parameter_is_refused(dag, name, value):
    from airflow.sdk.exceptions import ParamValidationError

    with pytest.raises(ParamValidationError):
        dag.params.get_param(name).resolve(value)


def test_only_the_steps_that_judge_may_answer_breached_and_only_the_last_fails_if_asked_to(dag):
    steps = [task for task in dag.tasks if task.task_id != "subjects"]
    assert {task.task_id for task in steps if task.may_breach} == {"evaluate", "publish"}
    assert {task.task_id for task in steps if task.breach_fails} == {"publish"}


def test_spark_waits_in_a_pool_if_one_is_named(monkeypatch):
    from airflow.dag_processing.dagbag import DagBag

    def spark():
        return (
            DagBag(dag_folder=str(DAGS / "replication_audit.py")).dags["replication_audit"].get_task("index_and_derive")
        )

    monkeypatch.delitem(sys.modules, "tidegauge_audit_steps", raising=False)
    monkeypatch.setenv("TIDEGAUGE_SPARK_POOL", "tidegauge_spark")
    assert spark().pool == "tidegauge_spark"
    assert "tidegauge_spark" in json.loads((DAGS / "pools.json").read_text())
    monkeypatch.delenv("TIDEGAUGE_SPARK_POOL")
    monkeypatch.delitem(sys.modules, "tidegauge_audit_steps", raising=False)
    assert (spark().pool, spark().max_active_tis_per_dag) == ("default_pool", 2)
