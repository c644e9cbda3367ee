"""The demonstration as it ships, and with a step that fails: Airflow, Postgres and Spark are real."""

import json
import os
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from tests.store.helpers import rows
from tidegauge.cli import demo
from tidegauge.embedded import airflow, postgres
from tidegauge.runs.errors import UnavailableError

COMMAND = """
import sys

print("said by", sys.argv[2])
print("tidegauge: nothing can be read there. Do this.")
sys.exit(2)
"""


@pytest.fixture
def state():
    with tempfile.TemporaryDirectory(prefix="tidegauge-demo-") as directory:
        yield Path(directory)


@pytest.mark.slow
@pytest.mark.postgres
@pytest.mark.airflow
def test_a_step_that_fails_is_named_with_its_last_words_and_nothing_is_left_running(monkeypatch, state):
    (state / "command.py").write_text(COMMAND)
    monkeypatch.setenv("TIDEGAUGE_COMMAND", shlex.join([sys.executable, str(state / "command.py")]))
    with pytest.raises(UnavailableError, match=r"failed in snapshot: .*nothing can be read there\. Do this\.") as told:
        demo.run_dag(state, lambda line: None)
    *_, reason, end = str(told.value).split(" / ")
    assert "::endgroup::" in end
    assert "nothing can be read there" in reason, "the reason is the last line of the log"
    assert processes_of(state) == []


def processes_of(state: Path) -> list[str]:
    listing = subprocess.run(["ps", "-Ao", "args="], capture_output=True, text=True, check=True).stdout
    return [line for line in listing.splitlines() if str(state) in line]


def test_what_ships_is_there():
    assert demo.shipped("unclean-before.tar.gz").is_file()
    assert (demo.shipped("dags") / "replication_audit.py").is_file()


def test_airflows_environment_holds_nothing_of_the_callers_airflow(tmp_path):
    environ = airflow.environment(
        home=tmp_path,
        dags=tmp_path,
        database_url="postgresql+psycopg2://h/db",
        environ={"AIRFLOW__CORE__EXECUTOR": "CeleryExecutor", "AIRFLOW_CONN_X": "y", "PATH": os.environ["PATH"]},
    )
    assert environ["AIRFLOW__CORE__EXECUTOR"] == "LocalExecutor"
    assert "AIRFLOW_CONN_X" not in environ
    assert environ["AIRFLOW__API__HOST"] == "127.0.0.1"
    assert environ["PATH"] == os.environ["PATH"]


@pytest.mark.slow
@pytest.mark.postgres
@pytest.mark.airflow
@pytest.mark.jvm
def test_the_demonstration_as_it_ships_finds_the_losses_and_a_second_run_changes_nothing(monkeypatch, state):
    monkeypatch.setenv("TIDEGAUGE_SPARK_MASTER", "local[2]")
    said: list[str] = []
    first = json.loads((demo.run_dag(state, said.append) / "report.json").read_text())
    assert [line for line in said if line.endswith("success")] == [
        f"airflow    {task} success" for task in ("snapshot", "index_and_derive", "evaluate", "publish")
    ]
    (log,) = (state / "airflow" / "logs").glob("dag_id=replication_audit/run_id=*/task_id=index_and_derive/**/*.log")
    (started,) = (line for line in log.read_text().splitlines() if "spark-submit --master" in line)
    assert "--master 'local[2]'" in started
    assert " index derive --run " in started, "one application for both"
    assert processes_of(state) == []
    with postgres.running(state / "postgres") as server:
        ((note,),) = rows(server.url("airflow"), "SELECT content FROM dag_run_note")
    assert note.startswith("demo/")
    assert "1,200 records at risk" in note
    second = json.loads((demo.run_dag(state, lambda _: None) / "report.json").read_text())
    assert sorted((x["topic"], x["partition"], x["start_offset"], x["end_offset"]) for x in first["losses"]) == [
        ("orders", 0, 800, 1500),
        ("payments", 0, 463, 713),
        ("payments", 1, 463, 713),
    ]
    assert first["run"]["cluster"] == "demo"
    assert second["run"]["run_id"] == first["run"]["run_id"]
    for part in ("invariants", "breaches", "losses"):
        assert second[part] == first[part]


def test_the_demonstration_says_where_everything_is(tmp_path, monkeypatch, capsys):
    told = []
    monkeypatch.setattr(demo, "run_dag", lambda state, say: tmp_path)
    monkeypatch.setattr("tidegauge.cli.present.print_report", lambda *a, command: told.extend([*a, command]))
    assert demo.demo() == 0
    command, action = capsys.readouterr().out.removeprefix("Console").split()
    assert told == [tmp_path / "report.json", tmp_path / "data_docs" / "index.html", command]
    assert Path(command).is_file()
    assert action == "up"
