"""Everyday use in a real Airflow: a backfill over days, a look by hand, retention, and the console behind its login."""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import pytest
import yaml
from sqlalchemy import create_engine, text

from tests.conftest import Golden
from tests.tidegauge.airflow_home import prepared
from tidegauge import store
from tidegauge.console import server as console
from tidegauge.console.callers import Trust
from tidegauge.embedded import airflow, postgres
from tidegauge.snapshots.adopt import adopt
from tidegauge.snapshots.manifest import Consistency

pytestmark = [pytest.mark.slow, pytest.mark.jvm, pytest.mark.postgres, pytest.mark.airflow]

SECRET = "s" * 40
PATIENCE_S = 600
RUNS = "/api/v2/dags/replication_audit/dagRuns"
BY_HAND = "by_hand"


@dataclass
class Used:
    """What the days left behind."""

    backfill: dict[str, dict[str, Any]]
    instances: dict[str, list[dict[str, Any]]]
    logs: Path
    first: list[tuple[Any, ...]]
    again: list[tuple[Any, ...]]
    twice: dict[str, list[dict[str, Any]]]
    published: list[tuple[Any, ...]]
    look: airflow.RunResult
    url: str
    state: Path
    pages: dict[str, httpx.Response]
    retained: str
    plugins: list[dict[str, Any]]


def snapshot(source: Path, root: Path, cluster: str, name: str, day: int) -> None:
    """A copy of a capture that says it was made on a day of this November."""
    place = root / cluster / name
    shutil.copytree(source, place)
    (place / "MANIFEST.json").unlink(missing_ok=True)
    adopt(place, cluster=cluster, consistency=Consistency.QUIESCED, snapshot_id=name)
    manifest = json.loads((place / "MANIFEST.json").read_text())
    for broker in manifest["brokers"]:
        at = int(datetime(2026, 11, day, 3, tzinfo=UTC).timestamp() * 1000)
        broker["read_started_at_ms"] = broker["read_finished_at_ms"] = at
    (place / "MANIFEST.json").write_text(json.dumps(manifest))


def until(what: str, done: Any) -> Any:
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        if found := done():
            return found
        time.sleep(1)
    raise AssertionError(f"{what} did not happen within {PATIENCE_S} s")


def ended(scheduler: airflow.Airflow, run_type: str, count: int) -> Any:
    runs = scheduler._call("GET", f"{RUNS}?run_type={run_type}&limit=100")["dag_runs"]
    over = [run for run in runs if run["state"] in ("success", "failed")]
    return {run["logical_date"][:10]: run for run in over} if len(over) == len(runs) >= count else None


def instances_of(scheduler: airflow.Airflow, dag_id: str, run_id: str) -> list[dict[str, Any]]:
    path = f"/api/v2/dags/{dag_id}/dagRuns/{quote(run_id)}/taskInstances?limit=100"
    return list(scheduler._call("GET", path)["task_instances"])


def two_at_once(scheduler: airflow.Airflow, environ: dict[str, str]) -> dict[str, list[dict[str, Any]]]:
    """One day audited by a backfill and by hand, both at the same time: their tasks' instances, by DAG."""
    backfill(environ, 6, 6)
    asked = {"dag_run_id": BY_HAND, "logical_date": None, "conf": {"cluster": "prod", "snapshot": "latest"}}
    by_hand = "/api/v2/dags/replication_audit_adhoc/dagRuns"
    scheduler._call("POST", by_hand, asked)
    runs = until("the day's backfill", lambda: ended(scheduler, "backfill", 4))
    until("the run by hand", lambda: scheduler._call("GET", f"{by_hand}/{BY_HAND}")["state"] in ("success", "failed"))
    day = runs["2026-11-06"]["dag_run_id"]
    return {
        "replication_audit": instances_of(scheduler, "replication_audit", day),
        "replication_audit_adhoc": instances_of(scheduler, "replication_audit_adhoc", BY_HAND),
    }


def backfill(environ: dict[str, str], first: int, last: int, *more: str) -> None:
    command = [str(Path(sys.executable).with_name("airflow")), "backfill", "create", "--dag-id", "replication_audit"]
    dates = ["--from-date", f"2026-11-{first:02}", "--to-date", f"2026-11-{last:02}", "--max-active-runs", "3"]
    deadline = time.monotonic() + PATIENCE_S
    while True:
        done = subprocess.run([*command, *dates, *more], env=environ, capture_output=True, text=True)
        # The scheduler takes a moment to see that the one before has ended.
        if "AlreadyRunningBackfill" not in done.stderr or time.monotonic() > deadline:
            break
        time.sleep(5)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]


def published(url: str) -> list[tuple[Any, ...]]:
    with create_engine(url).connect() as connection:
        query = "SELECT cluster, snapshot_id, previous_snapshot_id, ruleset_version, run_id FROM tidegauge.v_run"
        return sorted(tuple(row) for row in connection.execute(text(query)))


def pages(base: str, token: str, report: str, reports: dict[str, str]) -> dict[str, httpx.Response]:
    """What a browser gets, with a login and without."""
    viewer = httpx.Client(base_url=base, trust_env=False, cookies={"_token": token}, timeout=60)
    nobody = httpx.Client(base_url=base, trust_env=False, timeout=60)
    found = {
        "nobody": nobody.get("/tidegauge/"),
        "nobody's form": nobody.post("/tidegauge/clusters/prod/breaches/x", data={"who": "x"}),
        "forged": httpx.get(f"{base}/tidegauge/", cookies={"_token": f"{token}x"}, trust_env=False),
        "fleet": viewer.get("/tidegauge/"),
        "static": viewer.get("/tidegauge/static/console.css"),
        "docs": viewer.get("/tidegauge/data-docs"),
        "report": viewer.get(report, follow_redirects=True),
        **{f"report of {dag}": viewer.get(path, follow_redirects=True) for dag, path in reports.items()},
        "no report": viewer.get("/tidegauge/of-run/replication_audit/manual__never", follow_redirects=True),
        "other form": viewer.post("/tidegauge/runs/x", data={}),
    }
    for name, path in {
        "up": "/tidegauge/..%2f..%2fapi",
        "encoded": "/tidegauge/%2e%2e/x",
        "host": "/tidegauge//e.com",
    }.items():
        found[name] = viewer.get(path)
    listing = viewer.get("/tidegauge/breaches").text
    place = re.findall(r'href="(/tidegauge/clusters/prod/breaches/[^"?#]+)"', listing)[0]
    page = viewer.get(place)
    form_token = page.text.split('name="form_token" value="')[1].split('"')[0]
    form = {"form_token": form_token, "who": "eve", "until": "1 day", "note": "on it", "action": "acknowledge"}
    found["breach"] = page
    found["acknowledged"] = viewer.post(place, data=form, headers={"origin": base, "sec-fetch-site": "same-origin"})
    found["trail"] = viewer.get("/tidegauge/acknowledgements/figures/acknowledgements.json")
    found["forged form"] = viewer.post(place, data=form, headers={"origin": "https://evil.example"})
    return found


@pytest.fixture(scope="module")
def used(golden: Golden, postgres_server: postgres.EmbeddedPostgres) -> Iterator[Used]:
    state = Path(tempfile.mkdtemp(prefix="tidegauge-everyday-"))
    root = state / "snapshots"
    snapshot(golden("unclean-before"), root, "prod", "one", 2)
    snapshot(golden("unclean-before"), root, "prod", "two", 4)
    (root / "wrong" / "broken").mkdir(parents=True)
    (root / "wrong" / "broken" / "MANIFEST.json").write_text("{")
    at = datetime(2026, 11, 2, 4, tzinfo=UTC).timestamp()
    os.utime(root / "wrong" / "broken" / "MANIFEST.json", (at, at))
    brokers = {1: [str(state)]}
    (state / "clusters.yaml").write_text(
        yaml.safe_dump({"clusters": {"prod": {"brokers": brokers}, "wrong": {"brokers": brokers}}})
    )
    url = postgres_server.fresh_database("everyday")
    store.migrate(url)
    database = postgres_server.fresh_database("airflow_of_every_day")
    try:
        with console.running(
            url, host="127.0.0.1", port=0, docs=(state / "runs",), trust=Trust(airflow_token=SECRET)
        ) as address:
            settings = {
                "TIDEGAUGE_CLUSTERS": str(state / "clusters.yaml"),
                "TIDEGAUGE_SNAPSHOTS": str(root),
                "TIDEGAUGE_STORE_URL": url,
                "TIDEGAUGE_SCHEDULE": "",
                "TIDEGAUGE_RETENTION": "none",
                "TIDEGAUGE_CONSOLE_URL": address,
                "TIDEGAUGE_CONSOLE_AIRFLOW_TOKEN": SECRET,
            }
            environ = prepared(state, database, settings)
            environ["AIRFLOW__CORE__PARALLELISM"] = "4"
            with airflow.running(state / "airflow", environ) as scheduler:
                scheduler._wait_for("replication_audit")
                until("the scheduled run", lambda: ended(scheduler, "scheduled", 1))
                backfill(environ, 2, 4)
                runs = until("the backfill", lambda: ended(scheduler, "backfill", 3))
                first = published(url)
                instances = {
                    day: instances_of(scheduler, "replication_audit", run["dag_run_id"]) for day, run in runs.items()
                }
                backfill(environ, 4, 4, "--reprocess-behavior", "completed")
                time.sleep(5)
                until("the second backfill", lambda: ended(scheduler, "backfill", 3))
                again = published(url)
                snapshot(golden("unclean-before"), root, "prod", "three", 6)
                twice = two_at_once(scheduler, environ)
                conf = {"cluster": "prod", "snapshot": "latest", "partitions": ["orders-0"], "invariants": ["D06"]}
                look = scheduler.run("replication_audit_adhoc", conf, lambda _: None)
                retained = scheduler.run(
                    "tidegauge_retention", {"keep": "--keep-days 1 --facts-days 0", "dry_run": True}, lambda _: None
                )
                assert retained.state == "success", scheduler.log_of("tidegauge_retention", "retain")
                yield Used(
                    backfill=runs,
                    instances=instances,
                    logs=scheduler.home / "logs",
                    first=first,
                    again=again,
                    twice=twice,
                    published=published(url),
                    look=look,
                    url=url,
                    state=state,
                    pages=pages(
                        scheduler.url,
                        scheduler._token,
                        f"/tidegauge/of-run/replication_audit_adhoc/{quote(look.run_id)}",
                        {
                            dag: f"/tidegauge/of-run/{dag}/{quote(found[0]['dag_run_id'])}"
                            for dag, found in twice.items()
                        },
                    ),
                    retained=scheduler.log_of("tidegauge_retention", "retain"),
                    plugins=scheduler._call("GET", "/api/v2/plugins")["plugins"],
                )
    finally:
        shutil.rmtree(state, ignore_errors=True)


def test_each_day_audits_its_own_snapshot_and_compares_it_with_the_last_one_before(used: Used) -> None:
    assert [row[:3] for row in used.first] == [("prod", "one", None), ("prod", "two", "one")]
    assert all(row[3] for row in used.first)


def test_a_day_without_a_snapshot_fails_at_once_and_says_so(used: Used) -> None:
    assert used.backfill["2026-11-03"]["state"] == "failed"
    of_run = used.logs / "dag_id=replication_audit" / f"run_id={used.backfill['2026-11-03']['dag_run_id']}"
    logs = [path.read_text() for path in (of_run / "task_id=snapshot").rglob("*.log")]
    reason = "captured since 2026-11-03T00:00:00+00:00 before 2026-11-04T00:00:00+00:00"
    assert [reason in log for log in logs] == [True, True], "of two clusters, each tried once"


def test_one_cluster_s_broken_snapshot_fails_only_its_own_tasks(used: Used) -> None:
    states = sorted(
        (i["task_id"], i["state"]) for i in used.instances["2026-11-02"] if i["task_id"] in ("snapshot", "publish")
    )
    assert states == [
        ("publish", "success"),
        ("publish", "upstream_failed"),
        ("snapshot", "failed"),
        ("snapshot", "success"),
    ]


def test_doing_a_day_again_changes_nothing(used: Used) -> None:
    assert used.again == used.first


def of_prod(instances: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """The tasks of the cluster that has a snapshot: it is the first."""
    return {i["task_id"]: i for i in instances if i["map_index"] <= 0}


def test_one_date_audited_twice_at_once_is_one_published_run(used: Used) -> None:
    days = [of_prod(instances) for instances in used.twice.values()]
    began, done = (max(d["subjects"]["start_date"] for d in days), min(d["publish"]["end_date"] for d in days))
    assert began < done, "they ran at the same time"
    for tasks in days:
        assert list(tasks) == ["subjects", "snapshot", "index_and_derive", "evaluate", "publish"]
        assert {(t["state"], t["try_number"]) for t in tasks.values()} == {("success", 1)}
    assert [row for row in used.published if row[1] != "three"] == used.again
    ((*key, run_id),) = (row for row in used.published if row[1] == "three")
    assert key[:3] == ["prod", "three", "two"]
    told = [report_of(used, dag) for dag in used.twice]
    assert [t["run"]["run_id"] for t in told] == [run_id, run_id]
    assert told[0]["breaches"] == told[1]["breaches"] != []


def report_of(used: Used, dag: str) -> dict[str, Any]:
    run_id = used.twice[dag][0]["dag_run_id"]
    folder = re.sub("[:+]", "-", run_id) if dag == "replication_audit" else f"adhoc-{run_id}"
    told: dict[str, Any] = json.loads((used.state / "runs" / folder / "prod" / "report.json").read_text())
    return told


def test_of_two_audits_at_once_nothing_is_left_twice_in_the_store(used: Used) -> None:
    found = report_of(used, "replication_audit")["breaches"]
    with create_engine(used.url).connect() as connection:

        def asked(query: str) -> list[Any]:
            return [tuple(row) for row in connection.execute(text(query))]

        assert asked("SELECT count(*), count(DISTINCT breach_id) FROM tidegauge.v_breach_open") == [(len(found),) * 2]
        assert asked("SELECT max(times_opened) FROM tidegauge.v_breach") == [(1,)]
        assert asked("SELECT count(*) FROM tidegauge.audit_run WHERE status = 'staging'") == [(0,)]
        facts = "SELECT count(DISTINCT run_id) FROM tidegauge.replicas WHERE snapshot_id = 'three'"
        assert asked(facts) == [(1,)], "the facts of the one that did not stay are gone"


def test_both_of_two_audits_at_once_lead_to_their_reports_and_log_no_error(used: Used) -> None:
    for dag, instances in used.twice.items():
        page = used.pages[f"report of {dag}"]
        assert page.status_code == 200
        assert "three" in page.text
        of_run = used.logs / f"dag_id={dag}" / f"run_id={instances[0]['dag_run_id']}"
        logs = [path.read_text() for path in of_run.rglob("*.log") if "map_index=1" not in path.as_posix()]
        assert len(logs) >= 5
        assert not [log for log in logs if "Traceback" in log or '"level":"error"' in log]


def test_a_look_is_reported_and_not_published(used: Used) -> None:
    assert used.look.state == "success"
    (report,) = (used.state / "runs" / f"adhoc-{used.look.run_id}").glob("*/report.json")
    told = json.loads(report.read_text())
    assert told["run"]["restricted_to"] == {"partitions": ["orders-0"], "invariants": ["D06"]}
    assert [i["code"] for i in told["invariants"]] == ["D06"]
    assert {(b["subject"]["topic"], b["subject"]["partition"]) for b in told["breaches"]} <= {("orders", 0)}


def test_retention_tells_what_would_go(used: Used) -> None:
    assert "prod: 0 runs would be removed" in used.retained


def test_nobody_sees_the_console_without_airflow_s_login(used: Used) -> None:
    assert {used.pages[name].status_code for name in ("nobody", "nobody's form", "forged")} <= {401, 403}
    assert "Tidegauge" not in used.pages["nobody"].text


def test_who_is_logged_in_sees_it_below_airflow_s_address(used: Used) -> None:
    fleet = used.pages["fleet"]
    assert fleet.status_code == 200
    assert 'href="/tidegauge/clusters/prod"' in fleet.text
    assert 'href="/clusters' not in fleet.text
    assert "frame-ancestors 'self'" in fleet.headers["content-security-policy"]
    assert used.pages["docs"].status_code == 200
    assert "_token" not in str(used.pages["fleet"].headers)


def test_a_dag_run_leads_to_its_report(used: Used) -> None:
    page = used.pages["report"]
    assert page.status_code == 200
    assert "no verdict on the cluster" in page.text
    assert used.pages["no report"].status_code == 404


def test_only_the_console_s_own_addresses_and_its_one_form_are_passed_on(used: Used) -> None:
    assert {used.pages[name].status_code for name in ("other form", "up", "encoded", "host")} == {404}


def test_a_breach_is_acknowledged_through_airflow_and_a_forged_form_is_not(used: Used) -> None:
    assert used.pages["acknowledged"].status_code == 303, used.pages["acknowledged"].text
    assert used.pages["acknowledged"].headers["location"].startswith("/tidegauge/clusters/prod/breaches/")
    assert used.pages["forged form"].status_code == 403


def test_who_acknowledged_is_who_is_logged_in_to_airflow_whatever_the_form_said(used: Used) -> None:
    (said,) = used.pages["trail"].json()["rows"]
    assert (said["action"], said["said_by"], said["verification"]) == ("acknowledged", "admin", "airflow")
    assert said["from_address"] == "127.0.0.1"


def test_airflow_s_navigation_leads_there(used: Used) -> None:
    (plugin,) = [p for p in used.plugins if p["name"] == "tidegauge"]
    assert {(v["name"], v["destination"]) for v in plugin["external_views"]} == {
        ("Tidegauge", "nav"),
        ("Tidegauge data docs", "nav"),
        ("Report", "dag_run"),
    }
