"""What programs that we start see of our environment: what they need, and nobody's secret besides."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.processes import environment_of
from tidegauge.audit import validate_apart
from tidegauge.cli import demo
from tidegauge.embedded import airflow
from tidegauge.snapshots import ask_apart
from tidegauge.snapshots.child_environment import LIBPQ, OBJECT_STORES, SPARK, only
from tidegauge.snapshots.client_config import ClientConfig
from tidegauge.snapshots.errors import ClusterError
from tidegauge.spark_jobs.java import feature_version

OF_THE_STORE = {"TIDEGAUGE_STORE_URL": "postgresql://sre:hunter2@store/audits", "PGPASSWORD": "hunter2"}
OF_OBJECT_STORES = {
    "AWS_SECRET_ACCESS_KEY": "hunter2",
    "AZURE_STORAGE_KEY": "hunter2",
    "HTTPS_PROXY": "http://u:hunter2@p",
}
OF_OTHERS = {
    "SMTP_PASSWORD": "hunter2", "SLACK_URL": "hunter2", "TIDEGAUGE_CONSOLE_TOKENS": "ada=hunter2",
    "AIRFLOW__API_AUTH__JWT_SECRET": "hunter2", "GITHUB_TOKEN": "hunter2",
}  # fmt: skip
SECRETS = {**OF_THE_STORE, **OF_OBJECT_STORES, **OF_OTHERS}


@pytest.fixture(autouse=True)
def secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in SECRETS.items():
        monkeypatch.setenv(name, value)


def told(environ: Mapping[str, str]) -> set[str]:
    """The secrets that a child sees."""
    return {name for name in environ if name in SECRETS}


def test_nothing_comes_through_unless_it_is_named() -> None:
    assert told(only()) == set()
    assert told(only(*LIBPQ)) == {"PGPASSWORD"}
    assert told(only(*OBJECT_STORES)) == set(OF_OBJECT_STORES)
    assert told(only(*SPARK)) == set()


def test_who_asks_a_cluster_sees_no_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Mapping[str, str]] = []

    def run(command: list[str], *, env: Mapping[str, str], **_: Any) -> subprocess.CompletedProcess[str]:
        seen.append(env)
        return subprocess.CompletedProcess(command, 3, "nobody answers", "")

    monkeypatch.setattr(subprocess, "run", run)
    with pytest.raises(ClusterError, match="nobody answers"):
        ask_apart.ask_apart("127.0.0.1:1", ClientConfig())
    assert told(seen[0]) == {"HTTPS_PROXY"}, "OAuth's servers may be behind it"
    assert seen[0]["PYTHONSAFEPATH"] == "1"


@pytest.mark.slow
def test_great_expectations_sees_what_reaches_the_store_alone() -> None:
    process = validate_apart._started()
    try:
        assert told(environment_of(process.pid)) == {"PGPASSWORD"}
    finally:
        process.kill()
        process.communicate()


@pytest.mark.slow
@pytest.mark.jvm
@pytest.mark.parametrize(("asks", "seen"), [(False, set()), (True, set(OF_OBJECT_STORES))])
def test_java_and_spark_s_workers_see_object_stores_credentials_where_a_run_asks_one(
    asks: bool, seen: set[str]
) -> None:
    program = f"""
import json, os
from pathlib import Path
from pyspark import SparkContext
from tidegauge.spark_jobs import session

spark = session.start("local[1]", asks_object_stores={asks})
jvm = Path(f"/proc/{{SparkContext._gateway.proc.pid}}/environ").read_bytes().decode().split("\\0")
worker = spark.sparkContext.parallelize([1], 1).map(lambda _: list(os.environ)).collect()[0]
print(json.dumps([[word.partition("=")[0] for word in jvm], worker]))
session.stop(spark)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    for names in json.loads(done.stdout.splitlines()[-1]):
        assert told(dict.fromkeys(names, "")) == seen


def test_a_java_that_is_asked_for_its_version_sees_no_secret(tmp_path: Path) -> None:
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text(f"#!/bin/sh\n/usr/bin/env > {tmp_path}/seen\necho 'openjdk version \"21.0.1\"' >&2\n")
    java.chmod(0o755)
    assert feature_version(tmp_path) == 21
    assert told(dict(line.split("=", 1) for line in (tmp_path / "seen").read_text().splitlines())) == set()


def test_airflow_s_tasks_see_what_they_need_and_its_pages_less(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    file = tmp_path / "alerts.yaml"
    file.write_text("channels: {us: {url: '${SLACK_URL}'}}")
    monkeypatch.setenv("TIDEGAUGE_ALERTS", str(file))
    environ = airflow.environment(
        home=tmp_path, dags=tmp_path, database_url="postgresql://h/db", environ=os.environ, also=demo._named_by_alerts()
    )
    ours = {"AIRFLOW__API_AUTH__JWT_SECRET"}
    assert environ["AIRFLOW__API_AUTH__JWT_SECRET"] != "hunter2"
    assert told(airflow._told("scheduler", environ)) == {*OF_THE_STORE, *OF_OBJECT_STORES, "SLACK_URL"} | ours
    for component in ("api-server", "dag-processor"):
        assert told(airflow._told(component, environ)) == ours
