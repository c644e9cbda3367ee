"""Grafana's dashboards and alert rules: every query runs on a real Postgres, over an audit of a real capture."""

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.console.filling import publish_capture
from tidegauge import store

GRAFANA = Path(__file__).parents[2] / "grafana"
DASHBOARDS = {path.stem: json.loads(path.read_text()) for path in sorted((GRAFANA / "dashboards").glob("*.json"))}
ALERTS = yaml.safe_load((GRAFANA / "provisioning" / "alerting" / "tidegauge.yaml").read_text())
HOSTILE = "it's; DROP TABLE tidegauge.breach; --"
CHOSEN = {"cluster": "payments", "topic": "orders", "partition": "0"}
EMPTY_HERE = {
    "Open transactions", "Groups that had read what is lost, or point outside the log", "Groups", "Left unread",
}  # fmt: skip
"""Panels that say something of clusters with open transactions or groups, which the audited one has not."""

PANELS = [(uid, panel["title"]) for uid, dashboard in DASHBOARDS.items() for panel in dashboard["panels"]]


def asked(sql: str, chosen: dict[str, str]) -> str:
    """What Grafana's macros and variables make of a query."""
    sql = re.sub(r"\$__timeFilter\((.*?)\)", r"\1 BETWEEN '2020-01-01' AND '2030-01-01'", sql)
    return re.sub(r"\$\{(\w+):sqlstring\}", lambda m: "'" + chosen[m[1]].replace("'", "''") + "'", sql)


def panel_of(uid: str, title: str) -> dict[str, Any]:
    return next(panel for panel in DASHBOARDS[uid]["panels"] if panel["title"] == title)


@pytest.fixture(scope="module")
def url(empty_store: str, golden) -> str:
    captured_at = datetime(2026, 11, 20, tzinfo=UTC)
    publish_capture(
        empty_store, golden("unclean-before"), cluster="payments", snapshot_id="s1", captured_at=captured_at
    )
    return empty_store


@pytest.fixture(scope="module")
def reader(url: str, worker_id: str) -> Iterator[Any]:
    """A cursor of somebody who may read the views and nothing else."""
    role = f"grafana_{worker_id}"
    with store.connect(url, "make the role") as connection, connection.cursor() as cursor:
        cursor.execute(f"CREATE ROLE {role}")
        cursor.execute("SELECT tidegauge.grant_reading(%s)", (role,))
    with store.connect(url, "look") as connection, connection.cursor() as cursor:
        cursor.execute(f"SET ROLE {role}")
        yield cursor
    with store.connect(url, "remove the role") as connection, connection.cursor() as cursor:
        cursor.execute(f"DROP OWNED BY {role}")
        cursor.execute(f"DROP ROLE {role}")


def rows(cursor: Any, sql: str) -> list[dict[str, Any]]:
    cursor.execute(sql.replace("%", "%%"))
    return list(store.by_column(cursor))


def test_the_folder_holds_what_the_generator_makes() -> None:
    done = subprocess.run(
        [sys.executable, str(GRAFANA / "generate.py"), "--check"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert set(DASHBOARDS) == {f"tidegauge-{name}" for name in ("fleet", "cluster", "partition", "operations")}


@pytest.mark.parametrize(("uid", "title"), PANELS)
def test_a_panel_s_query_runs_and_shows_something(reader: Any, uid: str, title: str) -> None:
    panel = panel_of(uid, title)
    (target,) = panel["targets"]
    found = rows(reader, asked(target["rawSql"], CHOSEN))
    assert found or title in EMPTY_HERE
    shown = {link["matcher"]["options"] for link in panel["fieldConfig"]["overrides"] if "links" in str(link)}
    assert shown <= (set(found[0]) if found else shown), "a link stands on a column that is not there"
    if target["format"] == "time_series":
        assert "time" in found[0]


@pytest.mark.parametrize(("uid", "title"), PANELS)
def test_a_hostile_name_is_a_string(reader: Any, uid: str, title: str) -> None:
    (target,) = panel_of(uid, title)["targets"]
    assert "${" not in asked(target["rawSql"], dict.fromkeys(CHOSEN, HOSTILE))
    rows(reader, asked(target["rawSql"], dict.fromkeys(CHOSEN, HOSTILE)))


ANNOTATIONS = [(uid, at["name"]) for uid, dashboard in DASHBOARDS.items() for at in dashboard["annotations"]["list"]]


@pytest.mark.parametrize(("uid", "name"), ANNOTATIONS)
def test_what_happened_stands_on_the_axis_of_time(reader: Any, uid: str, name: str) -> None:
    (annotation,) = [at for at in DASHBOARDS[uid]["annotations"]["list"] if at["name"] == name]
    found = rows(reader, asked(annotation["target"]["rawSql"], CHOSEN))
    assert {"time", "text", "tags"} <= found[0].keys()
    assert all(row["time"] is not None and row["text"] for row in found)
    assert rows(reader, asked(annotation["target"]["rawSql"], dict.fromkeys(CHOSEN, HOSTILE))) == [] or "fleet" in uid


def test_an_incident_s_figures_are_the_store_s(reader: Any) -> None:
    for uid, title in (("tidegauge-fleet", "Incidents, the worst first"), ("tidegauge-cluster", "Incidents")):
        (first, *_) = rows(reader, asked(panel_of(uid, title)["targets"][0]["rawSql"], CHOSEN))
        assert (first["cluster"], first["severity"], first["records_at_risk"]) == ("payments", "critical", 1200)
        assert "nclean election" in first["what"]


def test_links_to_the_console_are_pages_of_it() -> None:
    from tidegauge.console.app import create_app

    app = create_app("postgresql+psycopg2://u@127.0.0.1:1/x")
    told = json.dumps(DASHBOARDS)
    links = {link.replace("\\", "") for link in re.findall(r"\$\{console\}(/[^\"]*)", told)}
    assert len(links) == 2
    for link in links:
        path = re.sub(r"\$\{__data\.fields\.\w+\}", "x", link)
        scope = {"type": "http", "method": "GET", "path": path, "headers": [], "root_path": ""}
        assert any(route.matches(scope)[0].value == 2 for route in app.router.routes), path


def test_the_choices_at_the_top_are_those_of_the_store(reader: Any) -> None:
    for dashboard in DASHBOARDS.values():
        for variable in dashboard["templating"]["list"]:
            if variable["type"] == "query":
                found = rows(reader, asked(variable["query"], CHOSEN))
                assert CHOSEN[variable["name"]] in {str(value) for row in found for value in row.values()}


def test_figures_are_those_of_the_capture(reader: Any) -> None:
    def figure(uid: str, title: str) -> Any:
        (row,) = rows(reader, asked(panel_of(uid, title)["targets"][0]["rawSql"], CHOSEN))
        return next(iter(row.values()))

    assert figure("tidegauge-fleet", "Clusters") == 1
    assert figure("tidegauge-fleet", "Records lost or at risk, undecided") == 1200
    assert figure("tidegauge-fleet", "Not audited for a day") == (
        datetime.now(UTC) > datetime(2026, 11, 21, 2, tzinfo=UTC)
    )
    assert figure("tidegauge-operations", "Published runs in this time") == 1


def test_risks_are_shown_by_what_has_to_fail_the_dearest_first(reader: Any) -> None:
    found = rows(reader, asked(panel_of("tidegauge-cluster", "Risks")["targets"][0]["rawSql"], CHOSEN))
    told = [(r["failures"], r["topic"], r["brokers"], r["losing"], r["refusing"], r["records_at_risk"]) for r in found]
    assert told == [
        ("single", "__transaction_state", [2], 0, 3, 0),
        ("single", "__transaction_state", [3], 0, 3, 0),
        ("single", "safe", [2], 0, 1, 0),
        ("single", "safe", [3], 0, 1, 0),
        ("double", "payments", [2, 3], 2, 0, 300),
        ("double", "__transaction_state", [2, 3], 1, 0, 0),
        ("double", "orders", [2, 3], 1, 0, 300),
        ("double", "safe", [2, 3], 1, 0, 200),
    ]


def test_panels_do_not_overlap_and_links_lead_to_dashboards() -> None:
    for dashboard in DASHBOARDS.values():
        taken: set[tuple[int, int]] = set()
        for panel in dashboard["panels"]:
            place = panel["gridPos"]
            cells = {
                (x, y)
                for x in range(place["x"], place["x"] + place["w"])
                for y in range(place["y"], place["y"] + place["h"])
            }
            assert not cells & taken
            assert place["x"] + place["w"] <= 24
            taken |= cells
        linked = set(re.findall(r"/d/([a-z-]+)", json.dumps(dashboard)))
        assert linked <= set(DASHBOARDS)


def test_alert_rules_ask_the_store_and_name_dashboards(reader: Any) -> None:
    datasource = yaml.safe_load((GRAFANA / "provisioning" / "datasources" / "tidegauge.yaml").read_text())
    uids = {each["uid"] for each in datasource["datasources"]} | {"__expr__"}
    rules = ALERTS["groups"][0]["rules"]
    fires = {}
    for rule in rules:
        query, condition = rule["data"]
        assert {query["datasourceUid"], condition["datasourceUid"]} <= uids
        assert rule["condition"] == condition["refId"]
        assert condition["model"]["expression"] == query["refId"]
        assert rule["annotations"]["__dashboardUid__"] in DASHBOARDS
        found = rows(reader, query["model"]["rawSql"])
        labels = set(re.findall(r"\$labels\.(\w+)", rule["annotations"]["summary"]))
        assert labels <= set(found[0])
        # Of a table Grafana makes one alert a row: its text columns are labels, its one number is the value.
        (value,) = [name for name, each in found[0].items() if isinstance(each, int | float) or "Decimal" in repr(each)]
        threshold = condition["model"]["conditions"][0]["evaluator"]["params"][0]
        fires[rule["uid"]] = sum(float(row[value]) > threshold for row in found)
    assert fires["tidegauge-critical-breach"] > 0
    assert fires["tidegauge-records-lost"] == 2, "orders and payments have records at risk"
