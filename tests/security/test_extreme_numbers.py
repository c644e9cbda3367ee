"""Numbers at the ends of 64 bits: facts that hold them in every column, and whole audits of files that hold them.

What a page, a panel, an alert or a view makes of one such row must not hide the rows beside it, and what an audit makes
of one such snapshot not the snapshots beside it.
"""

import json
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from html import unescape
from pathlib import Path
from re import findall
from typing import Any, cast

import pytest
from fastapi.testclient import TestClient

from tests.derivation.damage import with_holes
from tests.derivation.small_cluster import small_world, taken, written
from tests.expectations.test_cases import SOUND_ROWS, cases_of
from tests.extreme_rows import at_the_ends, ends_of
from tests.grafana.test_dashboards import PANELS, asked, panel_of
from tests.security.command import tidegauge
from tests.security.hostile import EXTREME
from tidegauge import sql, store
from tidegauge.alerts import book, message
from tidegauge.alerts.config import Alerting
from tidegauge.alerts.model import INCIDENT
from tidegauge.audit.evaluate import judge
from tidegauge.audit.explained import from_store
from tidegauge.cli import present
from tidegauge.cli.explain import lines
from tidegauge.console.app import create_app
from tidegauge.derivation.fact_files import relation_table
from tidegauge.embedded.postgres import EmbeddedPostgres
from tidegauge.expectations.agreement import Validation
from tidegauge.expectations.data_docs import pages_of
from tidegauge.expectations.incidents.grouping import incidents_of
from tidegauge.expectations.incidents.model import Found
from tidegauge.expectations.incidents.plan import Scene, planned
from tidegauge.expectations.registry import CATALOGUE, RULESET_VERSION
from tidegauge.relations import LOSSES, RELATIONS, LossRow
from tidegauge.sim_engine.actions import AlterConfig
from tidegauge.sim_engine.engine import run_for, step
from tidegauge.store.incident_word import Speaker, note_step

pytestmark = pytest.mark.slow

CLUSTER = "damaged"
PARTITION = {"topic": "orders", "partition": 0}
VIEWS = [path.stem.split("_", 1)[1] for path in sorted((Path(sql.__file__).parent / "views").glob("*.sql"))]
SOUND = ("sound", "patient")
KINDS = {*SOUND, *EXTREME}
OF_LOSS = {"state": "possible", "held_by": [1], "groups_affected": ["g"], "cause": "x"}
EVERY_OFFSET = {"start_offset": -(2**63), "end_offset": 2**63 - 1, "records": 2**63 - 1}
LOST = {**OF_LOSS, **ends_of(LOSSES.name)[0], **EVERY_OFFSET, **PARTITION, "state": "lost"}


@dataclass(frozen=True)
class Published:
    """A store with the run in it, and what its report says."""

    url: str
    report: Mapping[str, Any]
    validations: Mapping[str, Validation]

    def asked(self, query: str) -> Sequence[tuple[Any, ...]]:
        with store.connect(self.url, "look") as connection, connection.cursor() as cursor:
            cursor.execute(query.replace("%", "%%"))
            found: Sequence[tuple[Any, ...]] = cursor.fetchall()
            return found


@dataclass(frozen=True)
class Audited:
    """What a command left, and the reports by the names of their snapshots."""

    url: str
    code: int
    said: str
    reports: Mapping[str, Any]


def rows_of(relation: str) -> list[Mapping[str, Any]]:
    """A breached case of each of the relation's invariants, its numbers at the ends, and all of one partition, so that
    its page has them.
    """
    types = {column.name: column.type for column in RELATIONS[relation].columns}
    lists = {name: [] for name, kind in types.items() if kind.endswith("[]")}
    sound = lists | SOUND_ROWS.get(relation, {"failure": "now"})
    extreme = [
        {**row, **PARTITION} for case in breached_of(relation) or [{}] for row in at_the_ends(relation, sound | case)
    ]
    return [
        {n: json.dumps(v) if types[n] == "json" and v is not None else v for n, v in row.items() if n in types}
        for row in extreme
    ]


def breached_of(relation: str) -> list[Mapping[str, Any]]:
    cases = (cases_of(i.code) for i in CATALOGUE.values() if i.relation == relation)
    return [next(case["row"] for name, case in of.items() if name.startswith("breached_")) for of in cases]


@pytest.fixture(scope="module")
def published(empty_store: str) -> Published:
    key = store.RunKey(cluster=CLUSTER, snapshot_id="s", ruleset_version=RULESET_VERSION)
    now = datetime.now(UTC)
    run_id = store.open_run(empty_store, key, consistency="fuzzy", source="captured", started_at=now, captured_at=now)
    tables = {r: relation_table(r, rows_of(r), cluster=CLUSTER, snapshot_id="s") for r in RELATIONS}
    for relation, table in tables.items():
        store.stage(empty_store, run_id, relation, table)
    judged = judge(empty_store, [run_id])[run_id]
    report = {
        "run": {
            "run_id": run_id, "cluster": CLUSTER, "snapshot_id": "s", "ruleset_version": RULESET_VERSION,
            "consistency": "fuzzy", "source": "captured", "previous_snapshot_id": None,
            "started_at": now.isoformat(), "finished_at": now.isoformat(),
        },
        "invariants": [asdict(verdict) for verdict in judged.verdicts],
        "breaches": [asdict(breach) for breach in judged.breaches],
        "losses": [{**OF_LOSS, **ends, **PARTITION} for ends in (*ends_of(LOSSES.name), *ends_of(LOSSES.name)[:1] * 3)]
        + [LOST],
        "coverage": dict.fromkeys(("brokers", "replicas", "segments", "segments_reused", "batches", "bytes"), 0)
        | {"unread": []},
        "risks": tables["risks"].to_pylist(),
        "postures": tables["postures"].to_pylist(),
        "open_transactions": [row for row in tables["transactions"].to_pylist() if row["outcome"] == "open"],
    }  # fmt: skip
    found = Found(
        cluster=CLUSTER, breaches=judged.breaches,
        losses=[cast(LossRow, {"leader_epoch": None, **x}) for x in report["losses"]], risks=report["risks"],
    )  # fmt: skip
    scene = Scene(snapshot="s", previous="earlier")
    report["incidents"] = [asdict(planned(incident, found, scene)) for incident in incidents_of(found)]
    told = {name: report[name] for name in ("invariants", "breaches", "losses", "incidents", "coverage")}
    store.publish(empty_store, run_id, store.Report(finished_at=now, **told))
    with store.connect(empty_store, "look") as connection, connection.cursor() as cursor:
        cursor.execute("SELECT loss_id FROM tidegauge.v_breach_loss LIMIT 1")
        ((loss_id,),) = cursor.fetchall()
        cursor.execute("SELECT incident_id FROM tidegauge.v_incident LIMIT 1")
        ((incident_id,),) = cursor.fetchall()
    store.decide(empty_store, loss_id, "accepted", by="sre", note="x")
    note_step(empty_store, incident_id, "avoid", is_done=True, speaker=Speaker(by="sre"))
    return Published(url=empty_store, report=json.loads(json.dumps(report)), validations=judged.validations)


def test_rows_of_every_relation_are_judged_by_true_arithmetic(published: Published) -> None:
    invariants = published.report["invariants"]
    judged = {CATALOGUE[line["code"]].relation for line in invariants if line["checked"] + line["unknown"]}
    assert judged == {i.relation for i in CATALOGUE.values()}
    beyond = {b["code"] for b in published.report["breaches"] if b["end_offset"] == 2**63}
    assert "A12" in beyond, "offset 2^63-1 is the last one of the segment before"
    assert any(b["records"] == 2**64 - 1 for b in published.report["breaches"]), "from -2^63 up to 2^63-1"


def test_the_store_has_a_breach_s_numbers_up_to_64_bits_and_none_that_is_another(published: Published) -> None:
    query = "SELECT breach_id, start_offset, end_offset, records FROM tidegauge.v_finding"
    found = {breach_id: numbers for breach_id, *numbers in published.asked(query)}
    by_id: dict[str, list[list[int | None]]] = {}
    for breach in published.report["breaches"]:
        exact = [breach[name] for name in ("start_offset", "end_offset", "records")]
        stored = [n if n is not None and -(2**63) <= n < 2**63 else None for n in exact]
        by_id.setdefault(breach["breach_id"], []).append(stored)
    assert found.keys() == by_id.keys()
    assert [b for b, numbers in found.items() if numbers not in by_id[b]] == []


@pytest.mark.parametrize("view", VIEWS)
def test_a_view_shows_them(published: Published, view: str) -> None:
    assert published.asked(f"SELECT * FROM tidegauge.{view}") or view in {
        "v_acknowledgement", "v_acknowledgement_event", "v_cluster_contradiction", "v_cluster_identity",
        "v_dated_ahead", "v_score",
    }  # fmt: skip


@pytest.mark.parametrize(("uid", "title"), PANELS)
def test_a_panel_shows_them(published: Published, uid: str, title: str) -> None:
    (target,) = panel_of(uid, title)["targets"]
    published.asked(asked(target["rawSql"], {"cluster": CLUSTER, "topic": "orders", "partition": "0"}))


def test_every_kind_of_page_shows_them(published: Published) -> None:
    place = f"/clusters/{CLUSTER}/topics/orders/partitions/0"
    waiting = ["/", "/breaches", "/runs", "/invariants", "/acknowledgements", "/metrics", "/search?q=orders", place]
    answers: dict[str, int] = {}
    with TestClient(create_app(published.url), base_url="http://127.0.0.1") as console:
        while waiting:
            address = waiting.pop()
            answer = console.get(address)
            answers[address] = answer.status_code
            if answer.headers["content-type"].startswith("text/html"):
                links = {unescape(link).split("#")[0] for link in findall(r'\bhref="(/[^"]*)"', answer.text)}
                waiting += [link for link in links - answers.keys() - {*waiting} if kind_of(link) not in kinds(answers)]
    assert {address: status for address, status in answers.items() if status != 200} == {}
    assert place in answers
    assert len(kinds(answers)) > 25


def kinds(addresses: Mapping[str, int]) -> set[str]:
    return {kind_of(address) for address in addresses}


def kind_of(link: str) -> str:
    """Pages of a kind differ by names; of breaches and invariants, those of one family are a kind."""
    parts = link.split("?")[0].split("/")
    return "/".join(
        part[:1] if before in ("breaches", "invariants") else part
        for before, part in zip(["", *parts], parts, strict=False)
    )


def test_what_is_told_of_each_breach(published: Published) -> None:
    told = list(present.lines(published.report))
    assert any("D02" in line for line in told)
    assert dict(pages_of(published.report, published.validations)).keys() > {"index.html", "risks.html", "D06.html"}
    one_each = {b["code"]: b["breach_id"] for b in published.report["breaches"]}
    for code, breach_id in one_each.items():
        assert f"[{breach_id}]" in next(lines(from_store(breach_id, published.url))), code


def test_alerts_tell_of_them(published: Published) -> None:
    alerting = Alerting(channels=(), fresh_within_hours=24, expected=frozenset(), console=None)
    with book.opened(published.url) as opened:
        alerts = opened.alerts(alerting, opened.told(), datetime.now(UTC))
    assert len(alerts) > len(published.report["incidents"]) // 2
    assert any(alert.name == INCIDENT for alert in alerts)
    for alert in alerts:
        assert message.text(alert, None)


# --------------------------------------------------------------------------------------------------------- whole audits


@pytest.fixture(scope="module")
def audited(postgres_server: EmbeddedPostgres, worker_id: str, tmp_path_factory: pytest.TempPathFactory) -> Audited:
    """A sound snapshot, one of a sound cluster that was told such a number, and one of each kind that has them in its
    files, in one run.
    """
    url = postgres_server.fresh_database(f"extreme_{worker_id}")
    root, home = tmp_path_factory.mktemp("snapshots"), tmp_path_factory.mktemp("home")
    sound = written(root / "sound", small_world())
    patient = AlterConfig(topic="orders", name="file.delete.delay.ms", value=str(2**63 - 1))
    directories = [sound, written(root / "patient", run_for(step(small_world(), patient), 200))]
    for name, damage in EXTREME.items():
        shutil.copytree(sound, root / name, copy_function=with_holes)
        damage(root / name)
        directories.append(root / name)
    for directory in directories:
        taken(directory)
    out = home / "out"
    done = tidegauge("audit", *directories, "--out", out, "--store", url, home=home)
    reports = {path.parent.name: json.loads(path.read_text()) for path in out.glob("**/report.json")}
    return Audited(url=url, code=done.returncode, said=done.stdout + done.stderr, reports=reports)


def test_a_run_with_such_snapshots_is_judged_and_published_whole(audited: Audited) -> None:
    assert audited.code == 1, audited.said[-2000:]
    assert audited.reports.keys() == KINDS
    with store.connect(audited.url, "look") as connection, connection.cursor() as cursor:
        cursor.execute("SELECT snapshot_id FROM tidegauge.v_run")
        assert {snapshot_id for (snapshot_id,) in cursor.fetchall()} == KINDS


@pytest.mark.parametrize("kind", SOUND)
def test_what_is_sound_is_told_to_be_sound(audited: Audited, kind: str) -> None:
    assert audited.reports[kind]["breaches"] == []
    assert audited.reports[kind]["losses"] == []


@pytest.mark.parametrize(
    "kind", sorted(EXTREME.keys() - {"coordinators_instants_at_the_ends"})
)  # by what clock, nobody judges
def test_such_a_snapshot_is_told_to_be_damaged(audited: Audited, kind: str) -> None:
    assert audited.reports[kind]["breaches"]
