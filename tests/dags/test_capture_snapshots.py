"""The capturing DAG as Airflow sees it."""

import shlex
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace

import pytest

DAGS = Path(__file__).parents[2] / "dags"
CLUSTERS = """
schedule: "0 3 * * *"
clusters:
  prod.eu:
    bootstrap: kafka-1:9092
    pool: kafka
    brokers:
      1: [/data/a, /data/b]
      2: {log_dirs: [/data], queue: kafka-2}
      3: [/data]
  small: {out: /snapshots, brokers: {0: [/data]}}
"""


def dag_bag():
    from airflow.dag_processing.dagbag import DagBag

    return DagBag(dag_folder=str(DAGS))


@pytest.fixture(scope="module")
def dags(tmp_path_factory):
    file = tmp_path_factory.mktemp("configuration") / "clusters.yaml"
    file.write_text(CLUSTERS)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TIDEGAUGE_CLUSTERS", str(file))
        patch.setenv("TIDEGAUGE_SNAPSHOTS", "s3://backup/kafka")
        patch.delenv("TIDEGAUGE_SCHEDULE", raising=False)
        bag = dag_bag()
    assert bag.import_errors == {}
    return bag.dags


@pytest.fixture(scope="module")
def dag(dags):
    return dags["capture_snapshots"]


def run_of(*, logical_date=None):
    return SimpleNamespace(logical_date=logical_date, run_after=datetime(2026, 11, 21, 9, 15, 7, 250, tzinfo=UTC))


def test_it_says_what_it_is(dag):
    assert {"kafka", "tidegauge"} <= set(dag.tags)
    assert all(f"`{name}`" in dag.doc_md for name in ("capture_broker", "finish", "tidegauge_snapshot"))
    assert {task.owner for task in dag.tasks} == {"tidegauge"}
    assert dag.schedule == "0 3 * * *"
    assert (dag.catchup, dag.max_active_runs) == (False, 1)


def test_each_cluster_is_a_group_that_ends_with_its_snapshot(dag):
    assert {task.task_id: set(task.upstream_task_ids) for task in dag.tasks} == {
        "prod__eu.capture_broker": set(),
        "prod__eu.capture_broker_2": set(),
        "prod__eu.finish": {"prod__eu.capture_broker", "prod__eu.capture_broker_2"},
        "small.capture_broker": set(),
        "small.finish": {"small.capture_broker"},
    }


def test_brokers_are_mapped_with_one_task_a_queue(dag):
    first, second = (dag.get_task(f"prod__eu.{name}") for name in ("capture_broker", "capture_broker_2"))
    assert first.is_mapped
    assert second.is_mapped
    assert (first.queue, second.queue) == ("default", "kafka-2")
    assert {task.pool for task in (first, second, dag.get_task("prod__eu.finish"))} == {"kafka"}
    assert dag.get_task("small.capture_broker").pool == "default_pool"


def test_each_instance_is_one_brokers_command(dag):
    shares = dag.get_task("prod__eu.capture_broker").expand_input.value
    assert [share["subject"] for share in shares] == ["broker 1", "broker 3"]
    line = shares[0]["arguments"]
    assert line[line.index("--id") + 1] == "{{ snapshot_id(dag_run) }}"
    assert line[line.index("--out") + 1] == "s3://backup/kafka"
    assert line[line.index("--broker") + 1] == "1=/data/a,/data/b"
    assert shares[0]["command"] is None


def test_a_snapshot_is_named_after_the_instant_of_its_run(dag):
    name = dag.user_defined_macros["snapshot_id"]
    assert name(run_of()) == name(run_of()) == "20261121T091507Z"
    eastern = datetime(2026, 11, 21, 3, tzinfo=UTC).astimezone(tz=None)
    assert name(run_of(logical_date=eastern)) == "20261121T030000Z"


def test_the_end_asks_the_cluster_and_tells_of_the_snapshot(job, dag):
    finish = dag.get_task("prod__eu.finish")
    assert finish.outlets == [job.SNAPSHOT]
    assert finish.arguments[-3:] == ["--finish", "--bootstrap", "kafka-1:9092"]
    assert finish.snapshot == "s3://backup/kafka/prod.eu/{{ snapshot_id(dag_run) }}"
    assert {"arguments", "snapshot", "snapshot_id"} <= set(finish.template_fields)


def test_every_task_is_retried_with_growing_delays(dag):
    for task in dag.tasks:
        assert task.retries == 3
        assert task.retry_delay == timedelta(minutes=1)
        assert task.execution_timeout is not None


def test_what_is_captured_triggers_the_audit(job, dags):
    assert dags["replication_audit"].schedule.asset_condition.objects == (job.SNAPSHOT,)


def test_without_clusters_it_says_what_to_set(job, monkeypatch):
    monkeypatch.delenv("TIDEGAUGE_CLUSTERS", raising=False)
    dag = dag_bag().dags["capture_snapshots"]
    assert [task.task_id for task in dag.tasks] == ["no_clusters"]
    assert dag.schedule is None
    with pytest.raises(job.AirflowFailException, match="TIDEGAUGE_CLUSTERS is not set"):
        dag.get_task("no_clusters").python_callable()


def test_a_mistake_in_the_file_is_an_import_error_and_the_audit_goes_on(monkeypatch, tmp_path):
    file = tmp_path / "clusters.yaml"
    file.write_text("clusters: {a: {brokres: {1: [/d]}}}")
    monkeypatch.setenv("TIDEGAUGE_CLUSTERS", str(file))
    bag = dag_bag()
    assert "replication_audit" in bag.dags
    assert "capture_snapshots" not in bag.dags
    (error,) = bag.import_errors.values()
    assert f"{file}: clusters.a: 'brokres' means nothing here. Is brokers meant?" in error


def python(script: str) -> str:
    return shlex.join([sys.executable, "-c", script])


def test_a_share_runs_where_its_command_says(job, monkeypatch):
    monkeypatch.setenv("TIDEGAUGE_COMMAND", python("import sys; sys.exit(0 if sys.argv[1:] == ['capture'] else 3)"))
    assert job.ShareOperator(task_id="a", arguments=["capture"]).execute({}) == "done"
    elsewhere = python("import sys; sys.exit(2)")
    with pytest.raises(job.AirflowFailException):
        job.ShareOperator(task_id="b", arguments=["capture"], command=elsewhere).execute({})


def test_a_shell_at_the_other_end_gets_quoted_words(job):
    arguments = ["capture", "--broker", "1=/data/my disk"]
    assert job.remote_command("ssh -p 22 kafka-1 tidegauge", arguments)[-1] == "'1=/data/my disk'"
    assert job.remote_command("kubectl exec kafka-1 -- tidegauge", arguments)[-1] == "1=/data/my disk"


def test_a_finished_snapshot_is_told_of_and_an_unfinished_one_is_not(job, monkeypatch):
    events = {job.SNAPSHOT: SimpleNamespace(extra={})}
    finish = job.SnapshotOperator(
        task_id="finish", arguments=["capture"], cluster="prod", snapshot="s3://b/prod/x", snapshot_id="x"
    )
    monkeypatch.setenv("TIDEGAUGE_COMMAND", python("import sys; sys.exit(3)"))
    with pytest.raises(job.AirflowException):
        finish.execute({"outlet_events": events})
    assert events[job.SNAPSHOT].extra == {}
    monkeypatch.setenv("TIDEGAUGE_COMMAND", python("pass"))
    finish.execute({"outlet_events": events})
    assert events[job.SNAPSHOT].extra == {"cluster": "prod", "snapshot": "s3://b/prod/x", "snapshot_id": "x"}
