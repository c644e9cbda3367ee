"""From brokers' log dirs to a published audit, by a real Airflow: one DAG captures, the asset triggers the other."""

import json
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
import yaml
from sqlalchemy import create_engine, text

from tests.conftest import Golden
from tests.tidegauge.airflow_home import prepared
from tidegauge.embedded import airflow, postgres

pytestmark = [pytest.mark.slow, pytest.mark.jvm, pytest.mark.postgres, pytest.mark.airflow]

PATIENCE_S = 240


@dataclass(frozen=True)
class Ran:
    """What one run of the capturing DAG, and the audit that it triggered, left behind."""

    capture: airflow.RunResult
    audits: list[dict[str, Any]]
    tries: dict[str, int]
    failed_log: str
    events: list[dict[str, Any]]
    reports: dict[str, dict[str, Any]]
    published: list[tuple[str, str]]
    snapshots: Path


@pytest.fixture(scope="module")
def ran(golden: Golden, postgres_server: postgres.EmbeddedPostgres) -> Iterator[Ran]:
    state = Path(tempfile.mkdtemp(prefix="tidegauge-capture-"))
    brokers = {broker: [str(golden("unclean-before") / f"broker-{broker}")] for broker in (1, 2, 3)}
    wrong = {1: [str(state / "nowhere")]}
    (state / "clusters.yaml").write_text(
        yaml.safe_dump({"clusters": {"prod": {"brokers": brokers}, "wrong": {"brokers": wrong}}})
    )
    store = postgres_server.fresh_database("captured")
    database = postgres_server.fresh_database("airflow_of_captures")
    settings = {
        "TIDEGAUGE_CLUSTERS": str(state / "clusters.yaml"),
        "TIDEGAUGE_SNAPSHOTS": str(state / "snapshots"),
        "TIDEGAUGE_STORE_URL": store,
        "TIDEGAUGE_SCHEDULE": "none",
    }
    environ = prepared(state, database, settings)
    try:
        with airflow.running(state / "airflow", environ) as scheduler:
            scheduler._wait_for("replication_audit")
            capture = scheduler.run("capture_snapshots", {}, lambda _: None)
            assert capture.tasks.get("prod.finish") == "success", scheduler.log_of("capture_snapshots", "*")
            audits = audited(scheduler)
            instances = scheduler._call(
                "GET", f"/api/v2/dags/capture_snapshots/dagRuns/{capture.run_id}/taskInstances"
            )["task_instances"]
            log = scheduler.home / "logs" / "dag_id=capture_snapshots"
            events = scheduler._call("GET", "/api/v2/assets/events")["asset_events"]
            failed = [p.read_text() for p in log.rglob("*.log") if "task_id=wrong.capture_broker" in str(p)]
        with create_engine(store).connect() as connection:
            rows = connection.execute(text("SELECT cluster, snapshot_id FROM tidegauge.v_run")).fetchall()
        yield Ran(
            capture=capture,
            audits=audits,
            tries={instance["task_id"]: instance["try_number"] for instance in instances},
            failed_log="".join(failed),
            events=events,
            reports={p.parent.name: json.loads(p.read_text()) for p in (state / "runs").glob("*/*/report.json")},
            published=[tuple(row) for row in rows],
            snapshots=state / "snapshots",
        )
        listing = subprocess.run(["ps", "-Ao", "args="], capture_output=True, text=True, check=True).stdout
        assert [line for line in listing.splitlines() if str(state) in line] == []
    finally:
        shutil.rmtree(state, ignore_errors=True)


def audited(scheduler: airflow.Airflow) -> list[dict[str, Any]]:
    """The audit's runs, once there is one and all have ended."""
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        runs = scheduler._call("GET", "/api/v2/dags/replication_audit/dagRuns")["dag_runs"]
        if runs and all(run["state"] in ("success", "failed") for run in runs):
            return list(runs)
        for run in runs:
            states = scheduler._tasks(f"/api/v2/dags/replication_audit/dagRuns/{quote(run['dag_run_id'])}")
            # A failed step would be tried again in a minute; the reason is known now.
            broken = [task for task, state in states.items() if state in ("failed", "up_for_retry")]
            assert not broken, scheduler.log_of("replication_audit", broken[0])[-3000:]
        time.sleep(0.5)
    raise AssertionError("No snapshot was audited.")


def test_every_broker_is_captured_into_one_snapshot(ran):
    states = ran.capture.tasks
    assert (states["prod.capture_broker"], states["prod.finish"]) == ("success", "success")
    (manifest,) = ran.snapshots.glob("prod/*/MANIFEST.json")
    assert {b["broker_id"] for b in json.loads(manifest.read_text())["brokers"]} == {1, 2, 3}
    assert manifest.parent.name.endswith("Z")


def test_a_log_dir_that_is_none_fails_its_own_cluster_at_once_and_says_so(ran):
    assert ran.capture.state == "failed"
    assert ran.capture.tasks["wrong.capture_broker"] == "failed"
    assert ran.capture.tasks["wrong.finish"] == "upstream_failed"
    assert ran.tries["wrong.capture_broker"] == 1
    assert "/nowhere" in ran.failed_log
    assert "exit code 2" in ran.failed_log
    assert not list(ran.snapshots.glob("wrong/*/MANIFEST.json"))


def test_the_snapshot_that_landed_is_told_of_once(ran):
    (event,) = ran.events
    (manifest,) = ran.snapshots.glob("prod/*/MANIFEST.json")
    assert event["source_task_id"] == "prod.finish"
    assert event["extra"] == {
        "cluster": "prod", "snapshot": str(manifest.parent), "snapshot_id": manifest.parent.name,
    }  # fmt: skip


def test_it_is_audited_by_the_asset_and_published(ran):
    (run,) = ran.audits
    assert (run["run_type"], run["state"]) == ("asset_triggered", "success")
    (report,) = ran.reports.values()
    (manifest,) = ran.snapshots.glob("prod/*/MANIFEST.json")
    assert (report["run"]["cluster"], report["run"]["snapshot_id"]) == ("prod", manifest.parent.name)
    assert ran.published == [("prod", manifest.parent.name)]
    assert sorted((x["topic"], x["partition"], x["start_offset"], x["end_offset"]) for x in report["losses"]) == [
        ("orders", 0, 800, 1500),
        ("payments", 0, 463, 713),
        ("payments", 1, 463, 713),
    ]
