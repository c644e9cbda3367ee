"""Audits on a real cluster of Spark, of a snapshot in a real object store: what is told is what one machine tells, also
when a worker or the driver is killed in the middle.

No directory is shared: the snapshot and the run lie in S3, and each worker has its own directory for temporary files.
"""

import json
import shutil
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from sqlalchemy import create_engine, text

from tests.conftest import Golden
from tests.object_store.s3_server import BUCKET, S3Server
from tests.processes import ended
from tests.spark_jobs.standalone import SECONDS, Cluster, Daemon, begun, standalone, wait_until
from tidegauge.derivation.fact_files import read_relation
from tidegauge.relations import LOSSES, RELATIONS
from tidegauge.snapshots.adopt import adopt
from tidegauge.snapshots.location import location
from tidegauge.snapshots.manifest import Consistency

pytestmark = [pytest.mark.slow, pytest.mark.jvm, pytest.mark.postgres]

CAPTURES = ("unclean-before", "soak-01", "tiered")
OWN_WORDS = ("run_id", "started_at", "finished_at")


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


@pytest.fixture(scope="module")
def shared(s3_server: S3Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """One of two workers, whose environment reaches the store. The last test kills one of them."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in s3_server.environ.items():
            patch.setenv(name, value)
        with standalone(tmp_path_factory.mktemp("cluster"), {}) as found:
            found.worker("second", {}).wait_for("Successfully registered with master")
            yield found


@pytest.fixture
def cluster(shared: Cluster, s3: S3Server) -> Cluster:
    """The same, whole and with nothing to do, for a driver that reaches the store, too."""
    wait_until(lambda: not shared.state()["activeapps"], "what ran before to be over")
    assert [w["state"] for w in shared.state()["workers"]] == ["ALIVE", "ALIVE"]
    return shared


@pytest.fixture
def before(cluster: Cluster) -> frozenset[str]:
    """The applications that the cluster had before this test."""
    return frozenset(path.name for path in cluster.place.glob("work-of-*/app-*"))


def audited(url: str, master: str, out: str | Path, home: Path, store: str = "none") -> dict[str, Any]:
    process = begun(url, master, out, home, store=store, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        _, warned = process.communicate(timeout=2 * SECONDS)
    finally:
        ended(process)
    assert process.returncode == 0, warned
    return report(out)


def report(out: str | Path) -> dict[str, Any]:
    """All that is told, but when it was."""
    told: dict[str, Any] = json.loads((location(str(out)) / "report.json").read_text(encoding="utf-8"))
    for name in OWN_WORDS:
        del told["run"][name]
    return told


def facts(out: str | Path) -> dict[str, list[dict[str, Any]]]:
    """Every row of every relation; nothing else is left of how it was derived."""
    place = location(str(out))
    assert not (place / "work").exists()
    told = {name: read_relation(place / "facts", name).to_pylist() for name in (*RELATIONS, LOSSES.name)}
    return {name: sorted(rows, key=repr) for name, rows in told.items()}


def at_work(cluster: Cluster, worker: str, before: frozenset[str]) -> bool:
    """Whether an executor of this worker has a task of an application that was not there before."""
    logs = (cluster.place / f"work-of-{worker}").glob("app-*/*/stderr")
    own = (log for log in logs if log.parents[1].name not in before)
    return any("Running task " in log.read_text(errors="replace") for log in own)


def killed(worker: Daemon) -> None:
    """The worker with its executors and their Python workers, as when its machine goes."""
    own = psutil.Process(worker.process.pid)
    for process in (own, *own.children(recursive=True)):
        process.send_signal(signal.SIGKILL)


def test_a_cluster_tells_what_one_machine_tells(
    cluster: Cluster, before: frozenset[str], urls: dict[str, str], tmp_path: Path
) -> None:
    url, out = urls["tiered"], f"s3://{BUCKET}/runs/tiered"
    there = audited(url, cluster.url, out, tmp_path / "home")
    assert at_work(cluster, "worker", before) or at_work(cluster, "second", before)
    assert there == audited(url, "local[2]", tmp_path / "here", tmp_path / "home")
    assert facts(out) == facts(tmp_path / "here")
    assert (location(out) / "data_docs" / "index.html").read_bytes().startswith(b"<!doctype html>")


def test_a_driver_that_is_killed_in_the_middle_is_started_again_and_tells_it_once(
    cluster: Cluster, before: frozenset[str], urls: dict[str, str], tmp_path: Path, empty_store: str
) -> None:
    url, out, home = urls["unclean-before"], f"s3://{BUCKET}/runs/unclean-before", tmp_path / "home"
    process = begun(
        url, cluster.url, out, home, store=empty_store, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    cluster.running.callback(ended, process)
    wait_until(lambda: at_work(cluster, "worker", before) or at_work(cluster, "second", before), "a task")
    for own in (*psutil.Process(process.pid).children(recursive=True), psutil.Process(process.pid)):
        own.send_signal(signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL
    assert not (location(out) / "report.json").exists()
    again = audited(url, cluster.url, out, home, empty_store)
    here = audited(url, "local[2]", tmp_path / "here", home, empty_store)
    assert len(again["losses"]) == 3
    assert {**again, "run": None} == {**here, "run": None}
    assert facts(out) == facts(tmp_path / "here")
    with create_engine(empty_store).connect() as connection:
        assert connection.execute(text("SELECT count(*) FROM tidegauge.v_run")).scalar_one() == 1


def test_a_worker_that_is_killed_in_the_middle_changes_nothing(
    cluster: Cluster, before: frozenset[str], urls: dict[str, str], tmp_path: Path
) -> None:
    url, out = urls["soak-01"], f"s3://{BUCKET}/runs/soak-01"
    process = begun(url, cluster.url, out, tmp_path / "home", stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    cluster.running.callback(ended, process)
    wait_until(lambda: at_work(cluster, "worker", before) and at_work(cluster, "second", before), "both to be at work")
    killed(cluster.workers["worker"])
    assert process.poll() is None, "it was over before anybody was killed"
    _, warned = process.communicate(timeout=2 * SECONDS)
    assert process.returncode == 0, warned
    assert [w["state"] for w in cluster.state()["workers"] if w["state"] == "ALIVE"] == ["ALIVE"]
    assert report(out) == audited(url, "local[2]", tmp_path / "here", tmp_path / "home")
    assert facts(out) == facts(tmp_path / "here")
