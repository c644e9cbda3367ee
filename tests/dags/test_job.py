"""How a job is run, and what its exit code makes of the task."""

import json
import shlex
import signal
import sys
import tempfile
from datetime import timedelta
from types import SimpleNamespace

import pytest

from tidegauge.spark_jobs.java import find_java
from tidegauge.spark_jobs.session import submit_environment

ENVIRON = {"SPARK_HOME": "/spark", "TIDEGAUGE_JOB": "/jobs/job.py"}
CONTEXT = {"ti": SimpleNamespace(dag_id="replication_audit", run_id="manual__2026-11-21T05:00:00+00:00", try_number=2)}


def exits_with(code: int) -> str:
    return shlex.join([sys.executable, "-c", f"import sys; print('said'); sys.exit({code})"])


@pytest.mark.parametrize(
    ("code", "may_breach", "answer"),
    [(0, False, "done"), (0, True, "done"), (1, True, "breached")],
)
def test_a_breach_is_a_result(job, code, may_breach, answer):
    assert job.outcome(code, may_breach=may_breach) == answer


@pytest.mark.parametrize("code", [1, 3, 70, 137, -signal.SIGKILL])
def test_what_the_environment_did_is_retried(job, code):
    with pytest.raises(job.AirflowException) as raised:
        job.outcome(code, may_breach=False)
    assert not isinstance(raised.value, job.AirflowFailException)


@pytest.mark.parametrize("may_breach", [False, True])
def test_a_snapshot_that_cannot_be_used_is_never_retried(job, may_breach):
    with pytest.raises(job.AirflowFailException):
        job.outcome(2, may_breach=may_breach)


def test_a_task_runs_the_command_and_answers(job, monkeypatch):
    monkeypatch.setenv("TIDEGAUGE_COMMAND", exits_with(1))
    task = job.command_step("publish", "--run", "somewhere", may_breach=True)
    assert task.execute(CONTEXT) == "breached"


def test_a_task_fails_as_the_command_does(job, monkeypatch):
    monkeypatch.setenv("TIDEGAUGE_COMMAND", exits_with(2))
    with pytest.raises(job.AirflowFailException):
        job.command_step("snapshot").execute(CONTEXT)


def test_a_command_that_is_not_there_is_the_environments_fault(job, monkeypatch):
    monkeypatch.setenv("TIDEGAUGE_COMMAND", "/nowhere/tidegauge")
    with pytest.raises(job.AirflowException, match="Cannot run /nowhere/tidegauge"):
        job.command_step("snapshot").execute(CONTEXT)


@pytest.mark.parametrize("given", ["a\0b", "half of a pair: \ud800"])
def test_what_no_command_can_be_given_is_never_retried(job, monkeypatch, given):
    monkeypatch.setenv("TIDEGAUGE_COMMAND", exits_with(0))
    with pytest.raises(job.AirflowFailException, match="none that a command can be given"):
        job.command_step("snapshot", "--", given).execute(CONTEXT)


def test_killing_a_task_ends_what_it_started(job, monkeypatch):
    monkeypatch.setenv("TIDEGAUGE_COMMAND", shlex.join([sys.executable, "-c", "print('up', flush=True); input()"]))
    monkeypatch.setattr(job.subprocess, "DEVNULL", job.subprocess.PIPE)  # so that it waits
    task = job.command_step("evaluate")
    monkeypatch.setattr(job, "_through", lambda lines, write: _kill_at_first_line(lines, task))
    with pytest.raises(job.AirflowException, match="signal 15"):
        task.execute(CONTEXT)


def _kill_at_first_line(lines, task):
    for line in lines:
        task.on_kill()
        yield line


def test_on_this_machine_spark_submit_runs_the_driver_here(job):
    command = job.spark_submit("local[2]", ["index", "--run", "r"], ENVIRON, name="index")
    assert command == [
        *("/spark/bin/spark-submit", "--master", "local[2]", "--deploy-mode", "client", "--name", "tidegauge-index"),
        *("--conf", "spark.ui.enabled=false", "--conf", "spark.driver.host=127.0.0.1"),
        *("--conf", "spark.driver.bindAddress=127.0.0.1"),
        *("/jobs/job.py", "index", "--run", "r"),
    ]


@pytest.mark.parametrize("master", ["yarn", "k8s://https://api:6443"])
def test_on_a_cluster_that_makes_secrets_nobody_is_let_in_without(job, master):
    command = job.spark_submit(master, ["index"], ENVIRON, name="index")
    for setting in ("spark.authenticate=true", "spark.network.crypto.enabled=true", "spark.ui.enabled=false"):
        assert setting in command


def test_what_was_set_is_not_set_otherwise(job):
    environ = ENVIRON | {"TIDEGAUGE_SPARK_CONF": "spark.ui.enabled=true spark.authenticate=false"}
    command = job.spark_submit("yarn", ["index"], environ, name="index")
    assert [word for word in command if word.startswith(("spark.ui", "spark.auth"))] == []
    with job.settings_file(environ) as given:
        assert given.read_text() == "spark\\u002eui\\u002eenabled=true\nspark\\u002eauthenticate=false\n"
        assert given.stat().st_mode & 0o777 == 0o600
        command = job.spark_submit("yarn", ["index"], environ, name="index", given=given)
    assert command[command.index("--properties-file") + 1] == str(given)
    assert not given.exists()


READS_ITS_SETTINGS = """
import json, os, subprocess
from pyspark.sql import SparkSession
pids = f"{os.getpid()},{os.getppid()}"
line = subprocess.run(["ps", "-ww", "-o", "args=", "-p", pids], capture_output=True, text=True).stdout
assert "SparkSubmit" in line, line
conf = SparkSession.builder.getOrCreate().sparkContext.getConf()
told = {key: conf.get(f"spark.hadoop.fs.{key}") for key in ("s3a.secret.key", "s3a.endpoint", "azure.account.key.me")}
print("TOLD " + json.dumps([told, "s3cr" in line]), flush=True)
"""


@pytest.mark.slow
@pytest.mark.jvm
def test_no_setting_is_on_a_command_line_and_in_no_log(job, tmp_path, monkeypatch, caplog):
    (tmp_path / "job.py").write_text(READS_ITS_SETTINGS)
    secret = "s3cr\\e t=#!:é€\U0001f600"
    monkeypatch.setenv("TIDEGAUGE_JOB", str(tmp_path / "job.py"))
    monkeypatch.setenv("TIDEGAUGE_SPARK_MASTER", "local[1]")
    for name, value in submit_environment().items():
        monkeypatch.setenv(name, value)
    settings = [f"spark.hadoop.fs.s3a.secret.key={secret}", "spark.hadoop.fs.s3a.endpoint=http://u:s3cr@here"]
    settings.append("spark.hadoop.fs.azure.account.key.me=s3cr==")
    monkeypatch.setenv("TIDEGAUGE_SPARK_CONF", shlex.join(settings))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    lines: list[str] = []
    monkeypatch.setattr(job, "_through", lambda output, write: [lines.append(line) or line for line in output])
    task = job.spark_step("index", arguments=["--run", "r"])
    with caplog.at_level("INFO"):
        assert task.execute(CONTEXT) == "done", lines
    (told,) = [json.loads(line.removeprefix("TOLD ")) for line in lines if line.startswith("TOLD ")]
    kept = {"s3a.secret.key": secret, "s3a.endpoint": "http://u:s3cr@here", "azure.account.key.me": "s3cr=="}
    assert told == [kept, False]
    assert "s3cr" not in caplog.text
    assert list(tmp_path.rglob("spark.properties")) == []


def test_on_a_cluster_settings_go_along(job):
    environ = {
        **ENVIRON,
        "TIDEGAUGE_SPARK_CONF": "spark.executor.memory=4g 'spark.executor.extraJavaOptions=-Da=b -Dc=d'",
    }
    with job.settings_file(environ) as given:
        command = job.spark_submit("spark://master:7077", ["derive"], environ, name="derive", given=given)
        lines = given.read_text().encode().decode("unicode_escape").splitlines()
    assert command[1:5] == ["--master", "spark://master:7077", "--deploy-mode", "client"]
    assert command[7:10] == ["--properties-file", str(given), "--load-spark-defaults"]
    assert lines == ["spark.executor.memory=4g", "spark.executor.extraJavaOptions=-Da=b -Dc=d"]


def test_on_kubernetes_the_driver_is_a_pod_with_a_name_of_its_own(job):
    environ = {"SPARK_HOME": "/spark"}
    pod = job.pod_name("index_and_derive", CONTEXT["ti"].run_id, 2)
    command = job.spark_submit("k8s://https://api:6443", ["index"], environ, name="index", pod=pod)
    assert command[3:5] == ["--deploy-mode", "cluster"]
    assert f"spark.kubernetes.driver.pod.name={pod}" in command
    assert command[-2:] == ["local:///opt/tidegauge/spark_jobs/job.py", "index"]


def test_runs_of_two_dags_that_have_one_id_have_pods_of_their_own(job, monkeypatch):
    monkeypatch.setenv("TIDEGAUGE_SPARK_MASTER", "k8s://https://api:6443")
    asked = []
    monkeypatch.setattr(job.ProcessOperator, "_run", lambda self, command, **_: asked.append(command) or 0)
    task = job.spark_step("index", "derive", arguments=[], subject="prod")
    for dag_id in ("replication_audit", "replication_audit_adhoc"):
        task.execute({"ti": SimpleNamespace(**vars(CONTEXT["ti"]) | {"dag_id": dag_id})})
    pods = {word for command in asked for word in command if "driver.pod.name=" in word}
    assert len(pods) == 2


@pytest.mark.parametrize("run_id", ["manual__2026-11-21T05:00:00+00:00", "a" * 200, "Scheduled/ü.x"])
def test_a_pods_name_is_one_that_kubernetes_accepts(job, run_id):
    names = [job.pod_name("index_and_derive", run_id, number) for number in (1, 1, 2)]
    assert names[0] == names[1] != names[2]
    for name in names:
        assert len(name) <= 63
        assert name.strip("-") == name.lower() == name
        assert name.replace("-", "").isascii()
        assert name.replace("-", "").isalnum()


def test_on_kubernetes_the_drivers_exit_code_is_in_the_log(job):
    lines = ["state: running", "\t exit code: 0", "Container final statuses:", "\t exit code: 3", "bye"]
    assert job.last_pod_exit_code(lines) == 3
    assert job.last_pod_exit_code(["nothing"]) is None


def test_without_a_setting_the_installed_job_is_run(job):
    assert job.job_file("local[*]", {}).endswith("spark_jobs/job.py")


@pytest.mark.slow
@pytest.mark.jvm
def test_a_spark_step_runs_in_this_python_whatever_the_path_says(job, tmp_path, monkeypatch):
    """As under an Airflow whose environment nobody activated, on a machine whose `python3` knows nothing of Spark."""
    (tmp_path / "python3").symlink_to("/bin/false")
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setenv("JAVA_HOME", str(find_java().home))
    for name in ("SPARK_HOME", "PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON", "TIDEGAUGE_JOB"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "job.py").write_text("import sys; print('IN', sys.executable, flush=True)")
    monkeypatch.setattr(job, "job_file", lambda *_: str(tmp_path / "job.py"))
    monkeypatch.setenv("TIDEGAUGE_SPARK_MASTER", "local[1]")
    lines: list[str] = []
    monkeypatch.setattr(job, "_through", lambda output, write: [lines.append(line.rstrip()) or line for line in output])
    assert job.spark_step("index", arguments=[]).execute(CONTEXT) == "done", lines
    assert f"IN {sys.executable}" in lines


def test_the_python_of_a_job_is_who_brings_it_to_say(job):
    assert job.python_of_jobs("spark://h:7077", {}) == {"PYSPARK_PYTHON": sys.executable}
    assert job.python_of_jobs("k8s://https://api:6443", {}) == job.python_of_jobs("yarn", {}) == {}
    for name in ("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON", "TIDEGAUGE_JOB"):
        assert job.python_of_jobs("local[2]", {name: "/there"}) == {}


def test_a_spark_step_is_retried_like_any_task(job):
    task = job.spark_step("index", "derive", arguments=["--run", "r"], retries=3, retry_delay=timedelta(seconds=1))
    assert (task.task_id, task.steps, task.retries) == ("index_and_derive", ["index", "derive"], 3)


def test_what_a_task_starts_sees_none_of_airflow_s_secrets_and_spark_none_of_the_store_s(job, monkeypatch):
    secrets = {"AIRFLOW__API_AUTH__JWT_SECRET", "AIRFLOW_CONN_X", "TIDEGAUGE_STORE_URL", "TIDEGAUGE_CONSOLE_TOKENS"}
    for name in secrets:
        monkeypatch.setenv(name, "hunter2")
    said = []
    monkeypatch.setattr(job, "_through", lambda lines, _: said.append({line.rstrip() for line in lines}) or ())
    prints = [sys.executable, "-c", "import os; print(*os.environ, sep='\\n')"]
    monkeypatch.setenv("TIDEGAUGE_COMMAND", shlex.join(prints))
    monkeypatch.setattr(job, "spark_submit", lambda *_, **__: prints)
    for task in (job.command_step("publish"), job.spark_step("index", arguments=())):
        task.execute(CONTEXT)
    assert said[0] & secrets == {"TIDEGAUGE_STORE_URL", "TIDEGAUGE_CONSOLE_TOKENS"}
    assert said[1] & secrets == set()


def test_a_line_that_is_an_object_is_heard_as_its_message(job):
    told = (
        '{"at": "2026-11-26T05:19:22.310Z", "level": "error", "message": "tidegauge: no such file", "command": "job"}\n'
    )
    assert job.message_of(told) == "tidegauge: no such file"
    assert job.message_of(' verdict: "a" \n') == 'verdict: "a"'
    for torn in ('{"at": "2026', '{"at": "2026"}'):
        assert job.message_of(torn) == torn
