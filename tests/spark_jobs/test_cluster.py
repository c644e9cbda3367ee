"""Audits on a real cluster of Spark, of a snapshot in a real object store: what is told is what one machine tells, also
when a worker or the driver is killed in the middle.

The run directory is one that all see; the snapshot is seen by nobody but through S3.
"""

import json
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pytest
from sqlalchemy import create_engine, text

from tests.conftest import Golden
from tests.object_store.s3_server import BUCKET, S3Server
from tests.security.command import started
from tests.spark_jobs.standalone import REPOSITORY, SECONDS, Cluster, Daemon, ended, standalone
from tidegauge.snapshots.adopt import adopt
from tidegauge.snapshots.manifest import Consistency

pytestmark = [pytest.mark.slow, pytest.mark.jvm, pytest.mark.postgres]

CAPTURES = ("unclean-before", "soak-01", "tiered")
OWN_WORDS = ("run_id", "started_at", "finished_at")


@dataclass(frozen=True)
class Workers:
    """A cluster of two workers, the first of them, and where a snapshot of each capture lies in the store."""

    cluster: Cluster
    first: Daemon
    urls: dict[str, str]


@pytest.fixture(scope="module")
def urls(golden: Golden, s3_server: S3Server, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    found = {}
    for name in CAPTURES:
        copy = tmp_path_factory.mktemp("snapshots") / name
        shutil.copytree(golden(name), copy)
        if not (copy / "MANIFEST.json").exists():
            adopt(copy, cluster="golden", consistency=Consistency.FUZZY, snapshot_id=name)
        s3_server.file_system().put(f"{copy}/", f"{BUCKET}/on-a-cluster/{name}/", recursive=True)
        shutil.rmtree(copy)
        found[name] = f"s3://{BUCKET}/on-a-cluster/{name}"
    return found


@pytest.fixture
def workers(s3: S3Server, urls: dict[str, str], tmp_path: Path) -> Iterator[Workers]:
    place = tmp_path / "cluster"
    place.mkdir()
    with standalone(place, {}) as cluster:
        second = cluster.worker("second", {})
        second.wait_for("Successfully registered with master")
        assert len(cluster.state()["workers"]) == 2
        assert cluster.first is not None
        yield Workers(cluster, cluster.first, urls)


def begun(url: str, master: str, out: Path, store: str = "none") -> "subprocess.Popen[str]":
    given = {
        "spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1", "spark.executor.memory": "512m",
    }  # fmt: skip
    environ = {"PYSPARK_PYTHON": sys.executable, "PYTHONPATH": str(REPOSITORY)}
    if master.startswith("spark://"):
        environ["TIDEGAUGE_SPARK_CONF"] = shlex.join(f"{key}={value}" for key, value in given.items())
    with pytest.MonkeyPatch.context() as patch:
        for name, value in environ.items():
            patch.setenv(name, value)
        return started(
            "audit", url, "--master", master, "--out", out, "--store", store, "--fail-on", "never",
            home=out.parent / "home", stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip


def audited(url: str, master: str, out: Path, store: str = "none") -> dict[str, Any]:
    process = begun(url, master, out, store)
    try:
        _, warned = process.communicate(timeout=2 * SECONDS)
    finally:
        ended(process)
    assert process.returncode == 0, warned
    return report(out)


def report(out: Path) -> dict[str, Any]:
    """All that is told, but when it was."""
    told: dict[str, Any] = json.loads((out / "report.json").read_text(encoding="utf-8"))
    for name in OWN_WORDS:
        del told["run"][name]
    return told


def wait_until(holds: Callable[[], bool], what: str) -> None:
    until = time.monotonic() + SECONDS
    while not holds():
        assert time.monotonic() < until, f"waited for {what}"
        time.sleep(0.02)


def at_work(cluster: Cluster, worker: str) -> bool:
    """Whether an executor of this worker has a task."""
    logs = (cluster.place / f"work-of-{worker}").glob("app-*/*/stderr")
    return any("Running task " in log.read_text(errors="replace") for log in logs)


def killed(worker: Daemon) -> None:
    """The worker with its executors and their Python workers, as when its machine goes."""
    own = psutil.Process(worker.process.pid)
    for process in (own, *own.children(recursive=True)):
        process.send_signal(signal.SIGKILL)


def test_a_cluster_tells_what_one_machine_tells(workers: Workers, tmp_path: Path) -> None:
    url = workers.urls["tiered"]
    there = audited(url, workers.cluster.url, tmp_path / "there")
    assert at_work(workers.cluster, "worker") or at_work(workers.cluster, "second")
    assert there == audited(url, "local[2]", tmp_path / "here")


def test_a_worker_that_is_killed_in_the_middle_changes_nothing(workers: Workers, tmp_path: Path) -> None:
    url = workers.urls["soak-01"]
    process = begun(url, workers.cluster.url, tmp_path / "there")
    workers.cluster.running.callback(ended, process)
    wait_until(lambda: at_work(workers.cluster, "worker") and at_work(workers.cluster, "second"), "both to be at work")
    killed(workers.first)
    assert process.poll() is None, "it was over before anybody was killed"
    _, warned = process.communicate(timeout=2 * SECONDS)
    assert process.returncode == 0, warned
    assert [w["state"] for w in workers.cluster.state()["workers"] if w["state"] == "ALIVE"] == ["ALIVE"]
    assert report(tmp_path / "there") == audited(url, "local[2]", tmp_path / "here")


def test_a_driver_that_is_killed_in_the_middle_is_started_again_and_tells_it_once(
    workers: Workers, tmp_path: Path, empty_store: str
) -> None:
    url, out = workers.urls["unclean-before"], tmp_path / "there"
    process = begun(url, workers.cluster.url, out, empty_store)
    workers.cluster.running.callback(ended, process)
    wait_until(lambda: at_work(workers.cluster, "worker") or at_work(workers.cluster, "second"), "a task")
    for own in (*psutil.Process(process.pid).children(recursive=True), psutil.Process(process.pid)):
        own.send_signal(signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL
    assert not (out / "report.json").exists()
    again, here = audited(url, workers.cluster.url, out, empty_store), audited(url, "local[2]", tmp_path / "here")
    assert len(again["losses"]) == 3
    assert {**again, "run": None} == {**here, "run": None}
    with create_engine(empty_store).connect() as connection:
        assert connection.execute(text("SELECT count(*) FROM tidegauge.v_run")).scalar_one() == 1
